"""Constraints inside vLLM: structured output, and logits processors for its two model runners.

:mod:`.plugin` is the entry point ``vllm.general_plugins``: in engines that ask for it, Tractile serves the structured output
of requests. :mod:`.logits_processor` and :mod:`.row_processor` are for constraints of any kind, and for P-GCD. All modules can
be imported without vLLM.
"""

from .logits_processor import VLLMLogitsProcessor
from .row_processor import VLLMRowProcessor

__all__ = ["VLLMLogitsProcessor", "VLLMRowProcessor"]
