"""Constraints as custom logits processors of vLLM's V1 engine.

Derive a class that sets the tokenizer and the HMM, and give it to the engine:

    class Constrained(VLLMLogitsProcessor):
        tokenizer = "path/to/model"
        hmm = "path/to/hmm"  # leave it out for GCD

    llm = vllm.LLM("path/to/model", logits_processors=[Constrained])
    llm.generate(prompt, SamplingParams(max_tokens=64, extra_args={"tractile": {"regex": r"[a-z]+"}}))

A request names one constraint: ``regex``, ``json_schema``, ``keywords``, ``choice``, ``grammar``, ``tools`` or
``structural_tag``. It may also give ``options`` (the keyword arguments of that constraint), its budget ``max_new_tokens``
(default: ``max_tokens``), ``strength``, ``mixture``, or ``"hmm": false``. The argument may be a JSON text, as HTTP requests
need. Requests without the argument are left alone. Logits change as in :mod:`..constrained_rows`.

The engine keeps its requests in slots and reports which were removed, added and moved, in that order. With each request it
hands over its list of output tokens, which grows with the text and is read when logits are asked for. A request that was
preempted comes back with the tokens that it had.

Follows ``vllm.v1.sample.logits_processor`` of vLLM 0.10 to 0.32, and is tested in vLLM 0.32 (``tests/in_vllm``). For the second
model runner, the default of later versions on a GPU, see :mod:`.row_processor`.
"""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from ..request import read_request
from .adapter import Adapter
from .batch import Member

try:
    from vllm.v1.sample.logits_processor import LogitsProcessor as _Base
except ImportError:  # not installed: adapters can be imported and tested without it
    _Base = object
UNLIMITED = 1 << 31  # tokens of the context if there is no engine configuration


class VLLMLogitsProcessor(Adapter, _Base):  # type: ignore[misc]
    """A logits processor that keeps requests inside their constraint and budget; see the module for its use.

    Subclasses set ``tokenizer``, a transformers tokenizer or its folder or name, and for P-GCD ``hmm``, an HMM or its folder.
    """

    def __init__(self, vllm_config: Any, device: torch.device, is_pin_memory: bool) -> None:
        most = UNLIMITED if vllm_config is None else vllm_config.model_config.max_model_len
        self._batch = self.serve(vllm_config, device, most)
        self._slots: dict[int, Member] = {}

    def is_argmax_invariant(self) -> bool:
        """Return False: the most probable token may change."""
        return False

    def needs_output_token_ids(self) -> bool:
        """Return True: the output tokens themselves are read."""
        return True

    def update_state(self, batch_update: Any) -> None:
        """Follow the engine's changes of its batch: removed, added, moved."""
        if batch_update is None:
            return
        for slot in batch_update.removed:
            self._slots.pop(slot, None)
        for slot, params, prompt, output in batch_update.added:
            asked = read_request(params)
            self._put(
                slot,
                None if asked is None else Member(self._batch.within(asked, len(prompt or ())), output),
            )
        for a, b, direction in batch_update.moved:
            moved, replaced = self._slots.pop(a, None), self._slots.pop(b, None)
            self._put(b, moved)
            if direction.name == "SWAP":
                self._put(a, replaced)

    def apply(self, logits: Float[Tensor, "requests vocab"]) -> Float[Tensor, "requests vocab"]:
        """Change the logits of constrained requests in place and return the logits."""
        self._batch.apply(logits, {request: [slot] for slot, request in self._slots.items()})
        return logits

    def _put(self, slot: int, request: Member | None) -> None:
        if request is None:
            self._slots.pop(slot, None)
        else:
            self._slots[slot] = request
