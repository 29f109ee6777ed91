"""Constraints as custom logits processors of vLLM's second model runner, which has a row of logits for each drafted token.

    class Constrained(VLLMRowProcessor):
        tokenizer = "path/to/model"
        hmm = "path/to/hmm"  # leave it out for GCD

    llm = vllm.LLM("path/to/model", logits_processors=[Constrained])

Requests name their constraint as in :mod:`.logits_processor`. The runner keeps the tokens of each slot on the device. The rows
of a request are consecutive: the first comes after its committed tokens, each further one after one more token of its draft.
Tokens are copied to the host once a step. Follows ``vllm.v1.worker.gpu.sample.logits_processor`` of vLLM 0.32.
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
    from vllm.v1.worker.gpu.sample.logits_processor.interface import LogitsProcessor as _Base
except ImportError:  # not installed: adapters can be imported and tested without it
    _Base = object


class VLLMRowProcessor(Adapter, _Base):  # type: ignore[misc]
    """A logits processor that keeps requests inside their constraint and budget; see the module for its use.

    Subclasses set ``tokenizer``, a transformers tokenizer or its folder or name, and for P-GCD ``hmm``, an HMM or its folder.
    """

    def __init__(self, vllm_config: Any, req_states: Any) -> None:
        self._states = req_states
        self._most = vllm_config.model_config.max_model_len
        self._batch = self.serve(vllm_config, req_states.device, self._most)
        self._waiting: dict[int, Any] = {}  # constraints of slots whose prompt lengths are not known yet
        self._requests: dict[int, Member] = {}

    def add_request(self, req_idx: int, sampling_params: Any) -> bool:
        """Read the constraint of a request in a slot; return whether it has one."""
        self._requests.pop(req_idx, None)
        self._waiting.pop(req_idx, None)
        asked = read_request(sampling_params)
        if asked is not None:
            self._waiting[req_idx] = asked
        return asked is not None

    def apply_staged_writes(self) -> None:
        """Begin the requests that were added: the lengths of their prompts are known now."""
        for slot, asked in self._waiting.items():
            asked = self._batch.within(asked, int(self._states.prompt_len.np[slot]))
            self._requests[slot] = Member(asked, [])
        self._waiting.clear()

    def apply(self, logits: Float[Tensor, "rows vocab"], ctx: Any) -> Float[Tensor, "rows vocab"]:
        """Change the logits of constrained requests in place and return the logits."""
        slots = [slot for slot in ctx.idx_mapping_np.tolist() if slot in self._requests]
        if not slots:
            return logits
        self._read(slots)
        # Slot, position and input token of each row: the inputs after a request's first row are its drafted tokens.
        layout = torch.stack(
            [ctx.expanded_idx_mapping.long(), ctx.expanded_local_pos.long(), ctx.input_ids.long()]
        )
        rows: dict[Member, list[int]] = {self._requests[slot]: [] for slot in slots}
        drafts: dict[Member, list[int]] = {request: [] for request in rows}
        for row, (slot, position, token) in enumerate(layout.T.tolist()):
            request = self._requests.get(slot)
            if request is not None:
                rows[request].append(row)
                if position:
                    drafts[request].append(token)
        self._batch.apply(logits, rows, drafts)
        return logits

    def _read(self, slots: list[int]) -> None:
        """Copy the tokens committed since the last step from the device into the requests' outputs."""
        states, index = self._states, torch.tensor(slots, device=self._states.device)
        begin = torch.tensor(
            [int(states.prompt_len.np[slot]) + len(self._requests[slot].output) for slot in slots],
            device=states.device,
        )
        total = states.total_len.gpu[index].long()
        width = int((total - begin).max().clamp(min=0))
        at = begin[:, None] + torch.arange(width, device=states.device)
        tokens = states.all_token_ids.gpu[index[:, None], at.clamp(max=self._most - 1)]
        tokens = tokens.masked_fill(at >= total[:, None], -1)
        for slot, new, end in zip(slots, tokens.tolist(), total.tolist(), strict=True):
            request = self._requests[slot]
            output = [*request.output, *(token for token in new if token >= 0)]
            request.output = output[: end - int(states.prompt_len.np[slot])]
