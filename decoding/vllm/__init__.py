"""Constraints inside vLLM: structured output, and logits processors of its two model runners.

:mod:`.plugin` is the entry point ``vllm.general_plugins``: it hands the structured output of requests to Tractile in engines
that ask for it. :mod:`.logits_processor` and :mod:`.row_processor` are for constraints of any kind, and for P-GCD. Nothing here
needs vLLM to be imported.
"""

from .logits_processor import VLLMLogitsProcessor
from .row_processor import VLLMRowProcessor

__all__ = ["VLLMLogitsProcessor", "VLLMRowProcessor"]
