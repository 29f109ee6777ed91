"""Constraints in the continuous batching of transformers: a constraint and a token budget for each request.

    constraints = ContinuousConstraints(tokenizer)
    manager = model.init_continuous_batching(generation_config=config)
    constraints.attach(manager)
    manager.start()
    manager.add_request(ids, **constraints.request(regex(" (yes|no)"), max_new_tokens=8))

Requests with and without a constraint may share a batch. The masks are those of globally constrained decoding. A text that
another processor has led outside the constraint is offered end-of-sequence alone. Follows
``transformers.generation.continuous_batching`` of transformers 5.23.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from threading import Lock
from typing import Any, ClassVar, Self, final

import numpy as np
import torch
from jaxtyping import Float, Int32
from torch import Tensor

from ..constraints import Constraint, Limits
from ..constraints.vocabulary.reading import vocabulary_of, vocabulary_within
from ..errors import UnsupportedConstraint
from ..inference.next_token.query import gcd
from ..lm.architectures import outputs_of
from .grammar_rows import HORIZON, GrammarRow, SharedQuery

try:
    from transformers.generation.continuous_batching import cb_logits_processors

    _Processor: Any = cb_logits_processors.ContinuousBatchingLogitsProcessor
except ImportError:  # not installed: adapters can be imported and tested without it
    _Processor = object

KEYWORD = "tractile"
MOST_ROWS = 4096  # requests whose rows are kept; a dropped row is rebuilt by replaying its tokens


@final
class ContinuousRequest:
    """The constraint of one request: its masks, and its budget in tokens, end-of-sequence included."""

    def __init__(self, tables: SharedQuery, budget: int) -> None:
        self.tables, self.budget = tables, budget

    def __deepcopy__(self, memo: object) -> Self:
        return self


@final
class ContinuousConstraints(_Processor):  # type: ignore[misc]
    """A logits processor that keeps the requests of a transformers ``ContinuousBatchingManager`` to their constraints.

    Args:
        tokenizer: the model's tokenizer, or its :class:`Vocabulary`.
        limits: bounds on compiling each constraint.

    Raises :class:`UnsupportedConstraint` if the installed transformers has no continuous batching.
    """

    supported_kwargs: ClassVar[dict[str, type]] = {KEYWORD: ContinuousRequest}
    ignored_kwargs: ClassVar[tuple[str, ...]] = ()

    def __init__(self, tokenizer: Any, limits: Limits | None = None) -> None:
        if _Processor is object:
            raise UnsupportedConstraint(
                "this version of transformers has no continuous batching: install 5.0 or newer"
            )
        self.vocabulary = vocabulary_of(tokenizer)
        self.limits = limits or Limits()
        self._rows: OrderedDict[str, GrammarRow] = OrderedDict()
        self._masks = torch.empty(0, -(-len(self.vocabulary) // 32), dtype=torch.int32)

    def request(self, constraint: Constraint, max_new_tokens: int) -> dict[str, Any]:
        """Return the keyword arguments of ``manager.add_request`` for a request under a constraint.

        Compiles the constraint in the caller's thread, not in the engine's. Raises what compiling raises, and
        :class:`BudgetTooSmall` if no text of the constraint fits ``max_new_tokens``.
        """
        compiled = self.limits.run(lambda: constraint.compile(self.vocabulary))
        asked = ContinuousRequest(SharedQuery(gcd(compiled, HORIZON), Lock()), max_new_tokens)
        self.limits.run(lambda: GrammarRow(asked.tables, asked.budget).prepare())
        return {"max_new_tokens": max_new_tokens, "eos_token_id": compiled.eos_token_id, KEYWORD: asked}

    def attach(self, manager: Any) -> None:
        """Register with a manager, so that it applies the constraints of its requests; call it before ``manager.start()``.

        Raises :class:`UnsupportedConstraint` for a manager that starts a step before the last token is known on the host
        (``use_async_batching``), or whose steps are recorded (``use_cuda_graph``, a compile configuration).
        """
        config, processors = manager.continuous_batching_config, manager.logit_processor
        recorded = [
            name
            for name in ("use_async_batching", "varlen_compile_config", "decode_compile_config")
            if getattr(config, name, None)
        ]
        graphs = getattr(config, "use_cuda_graph", None)
        if any(graphs) if isinstance(graphs, tuple) else graphs:
            recorded.append("use_cuda_graph")
        if recorded:
            raise UnsupportedConstraint(
                f"constraints need each token on the host before the next step: switch off {', '.join(recorded)} in "
                "ContinuousBatchingConfig",
                path="attach",
            )
        self.vocabulary = vocabulary_within(self.vocabulary, outputs_of(manager.model))
        processors.logits_processor.insert(0, self)
        processors.tensors_required += 1
        processors.supported_keys.update(self.supported_kwargs)
        processors.do_processing = True

    def fill_defaults(self, int32_tensor: Int32[Tensor, " tokens"]) -> None:
        """Zero the row of tensor arguments that the engine hands over; this processor does not use them."""
        int32_tensor.zero_()

    def prepare_tensor_args(self, requests_with_new_token: Sequence[Any]) -> Int32[Tensor, " requests"]:
        """Follow the tokens of the requests in this step and compute their masks; return unused arguments (zeros)."""
        self._masks = torch.full((len(requests_with_new_token), self._masks.shape[1]), -1, dtype=torch.int32)
        for i, each in enumerate(requests_with_new_token):
            asked = each.state.logit_processor_kwargs.get(KEYWORD)
            if asked is not None and not self._fill(each.state, asked, i):
                eos = self.vocabulary.eos_token_id
                self._masks[i] = 0
                self._masks.numpy().view(np.uint32)[i, eos >> 5] = np.uint32(1) << np.uint32(eos & 31)
        while len(self._rows) > MOST_ROWS:
            self._rows.popitem(last=False)
        return torch.zeros(len(requests_with_new_token), dtype=torch.int32)

    def __call__(
        self, scores: Float[Tensor, "rows vocab"], tensor_arg: Int32[Tensor, " tokens"]
    ) -> Float[Tensor, "rows vocab"]:
        """Return a copy of the scores, −∞ where a request's constraint forbids the token; rows past the requests are padding."""
        count = len(self._masks)
        bits = self._masks[:, :, None] >> torch.arange(32) & 1
        allowed = bits.flatten(1)[:, : scores.shape[1]].bool().to(scores.device)
        free = (self._masks == -1).all(1).to(scores.device)[:, None]
        out = scores.clone()
        out[:count, allowed.shape[1] :].masked_fill_(~free, -torch.inf)  # columns past the vocabulary
        out[:count, : allowed.shape[1]].masked_fill_(~allowed, -torch.inf)
        return out

    def _fill(self, state: Any, asked: ContinuousRequest, i: int) -> bool:
        """Write the mask of a request into row ``i``; return False, and write nothing, if its text left the constraint."""
        before = state.initial_tokens[state._true_initial_tokens :] if state._true_initial_tokens else []
        tokens = [*before, *state.generated_tokens]
        row = self._rows.get(state.request_id)
        if row is None or row.tokens != tuple(tokens[: len(row.tokens)]):
            row = GrammarRow(asked.tables, asked.budget)
        self._rows[state.request_id] = row
        self._rows.move_to_end(state.request_id)
        allowed = row.accept(tokens[len(row.tokens) :])
        if allowed:
            row.fill(self._masks, i)
        return allowed
