"""Constraints inside vLLM: structured output, and logits processors of its V1 engine.

:mod:`.plugin` is the entry point ``vllm.general_plugins``: it hands the structured output of requests to Tractile in engines
that ask for it. :mod:`.logits_processor` is for constraints of any kind, and for P-GCD. Nothing here needs vLLM to be
imported.
"""

from .logits_processor import VLLMLogitsProcessor

__all__ = ["VLLMLogitsProcessor"]
