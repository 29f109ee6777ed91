"""Constraints inside vLLM: an adapter for the custom logits processors of its V1 engine.

Make a class of your own that says where tokenizer and HMM are, and give it to the engine:

    class Constrained(VLLMLogitsProcessor):
        tokenizer = "path/to/model"
        hmm = "path/to/hmm"  # leave it out for GCD

    llm = vllm.LLM("path/to/model", logits_processors=[Constrained])
    llm.generate(prompt, SamplingParams(max_tokens=64, extra_args={"tractile": {"regex": r"[a-z]+"}}))

A request names one constraint: ``regex``, ``json_schema``, ``keywords``, ``choice``, ``grammar`` or ``tools``, and may say its
``options`` (the keyword arguments of that constraint), its budget ``max_new_tokens`` (default: ``max_tokens``), ``strength``,
``mixture``, or ``"hmm": false``. A JSON text of all that will do as well, as HTTP requests need. Requests without the
argument are left alone. Logits change as in :mod:`.constrained_rows`.

The engine keeps its requests in slots and says which were removed, added and moved, in that order; the lists of tokens that
it hands over with a request grow as the text does, and are read when logits are asked for. A request that was set aside comes
back with what it had. Requests of one constraint that are equally far are scored together.

Follows ``vllm.v1.sample.logits_processor`` of vLLM 0.10 to 0.32, and is tested in vLLM 0.32 (``tests/vllm``). For the second
model runner, the default of later versions on a GPU, see :mod:`.row_processor`.
"""

from __future__ import annotations

import importlib
import json
import logging
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from ...circuits import HMM, Automaton
from ...constraints import Vocabulary
from ...errors import EvidenceError, VocabularyMismatch
from ...fingerprints import check_same
from ...inference import gcd, pgcd
from ...inference.next_token.protocol import NextTokenQuery
from ..constrained_rows import ConstrainedRows, check_prefix
from ..request import ConstraintRequest, build_constraint, read_request
from .interface import budget_of, interface

_Base: Any = interface("vllm.v1.sample.logits_processor", "LogitsProcessor")
logger = logging.getLogger(__name__)
UNLIMITED = 1 << 31  # tokens of a context, where no engine says how many

MOST_COMPILED = 128  # automata kept
MOST_GROUPS = (
    8  # of requests that began at different times under one constraint, before they are put together
)


@dataclass(eq=False)
class Request:
    """A constrained request in the batch: ``output`` is the engine's own list, of which ``read`` tokens were followed."""

    asked: ConstraintRequest
    output: Sequence[int]
    read: int = 0


@dataclass(eq=False)
class Group:
    """Requests that are scored together."""

    rows: ConstrainedRows
    requests: list[Request] = field(default_factory=list)

    def follow(self) -> None:
        """Read what the engine has appended."""
        while True:
            tokens = [r.output[r.read] if r.read < len(r.output) else None for r in self.requests]
            if any(token is not None and token < 0 for token in tokens):
                raise EvidenceError(
                    "the engine has not filled in a token that it has drawn; turn asynchronous scheduling off"
                )
            if all(token is None for token in tokens):
                return
            self.rows.append(torch.tensor([-1 if token is None else token for token in tokens]))
            for request, token in zip(self.requests, tokens, strict=True):
                request.read += token is not None


class VLLMLogitsProcessor(_Base):  # type: ignore[misc]
    """Keeps the requests that ask for it inside a constraint and a budget; see the module for how.

    ``tokenizer`` is the folder or name of a transformers tokenizer, or a tokenizer; ``hmm`` the folder of an HMM, or one, for
    P-GCD.
    """

    tokenizer: ClassVar[Any] = None
    hmm: ClassVar[str | Path | HMM | None] = None
    _vocabulary: ClassVar[Vocabulary | None] = None
    _compiled: ClassVar[OrderedDict[str, Automaton]]

    def __init_subclass__(cls, **arguments: Any) -> None:
        super().__init_subclass__(**arguments)
        cls._vocabulary, cls._compiled = None, OrderedDict()

    @classmethod
    def validate_params(cls, sampling_params: Any) -> None:
        """Raises ``ValueError`` (all errors of the library are one) for what could not be served, before the engine sees it."""
        asked = read_request(sampling_params)
        if asked is not None:
            check_prefix(cls.automaton(asked.constraint), [], asked.budget)

    def __init__(self, vllm_config: Any, device: torch.device, is_pin_memory: bool) -> None:
        self._hmm = HMM.from_pretrained(self.hmm) if isinstance(self.hmm, str | Path) else self.hmm
        if self._hmm is not None:
            self._hmm = self._hmm.to(device)
            if self._hmm.vocab_size != len(self.vocabulary()):
                raise VocabularyMismatch(
                    f"the HMM has {self._hmm.vocab_size} tokens, the tokenizer {len(self.vocabulary())}"
                )
            check_same(
                "the HMM",
                self._hmm.vocabulary_fingerprint,
                "the tokenizer",
                self.vocabulary().fingerprint,
                "give an HMM distilled from this language model, or leave hmm out",
            )
        self._max_model_len = UNLIMITED if vllm_config is None else vllm_config.model_config.max_model_len
        self._slots: dict[int, Request] = {}
        self._groups: dict[tuple[Any, ...], list[Group]] = {}
        self._queries: OrderedDict[tuple[Any, ...], NextTokenQuery] = OrderedDict()

    def is_argmax_invariant(self) -> bool:
        """The most probable token may change."""
        return False

    def needs_output_token_ids(self) -> bool:
        """The tokens themselves are read, not only counted."""
        return True

    def update_state(self, batch_update: Any) -> None:
        """Follow the engine's changes of its batch: removed, added, moved."""
        if batch_update is None:
            return
        for slot in batch_update.removed:
            self._slots.pop(slot, None)
        for slot, params, prompt, output in batch_update.added:
            asked = read_request(params)
            self._put(slot, None if asked is None else Request(self._within(asked, prompt or ()), output))
        for a, b, direction in batch_update.moved:
            moved, replaced = self._slots.pop(a, None), self._slots.pop(b, None)
            self._put(b, moved)
            if direction.name == "SWAP":
                self._put(a, replaced)

    def apply(self, logits: Float[Tensor, "requests vocab"]) -> Float[Tensor, "requests vocab"]:
        """The logits of constrained requests, changed in place."""
        slot_of = {request: slot for slot, request in self._slots.items()}
        self._gather(slot_of)
        for groups in self._groups.values():
            for group in groups:
                group.follow()
                slots = torch.tensor([slot_of[request] for request in group.requests], device=logits.device)
                logits[slots] = group.rows.apply(logits[slots])
        return logits

    def _within(self, asked: ConstraintRequest, prompt: Sequence[int]) -> ConstraintRequest:
        """The request with the budget that is left of the model's context.

        Where nothing fits, the engine will cut the text, and its ``finish_reason`` is ``"length"``.
        """
        budget = budget_of(asked.budget, len(prompt), self._max_model_len)
        if budget == asked.budget:
            return asked
        needed = self.automaton(asked.constraint).fewest_after([])
        if budget < needed:
            logger.error(
                "the prompt leaves %d tokens for a constraint that needs %d: the text will be cut",
                budget,
                needed,
            )
        return replace(asked, budget=max(budget, needed))

    def _put(self, slot: int, request: Request | None) -> None:
        if request is None:
            self._slots.pop(slot, None)
        else:
            self._slots[slot] = request

    def _gather(self, present: Mapping[Request, int]) -> None:
        """Update the groups: requests that have left are removed, new ones form groups."""
        new = dict.fromkeys(present)
        for key, groups in list(self._groups.items()):
            for group in list(groups):
                keep = [
                    i for i, r in enumerate(group.requests) if r in present and r.read <= len(r.output)
                ]  # a text that has become shorter is read anew
                if len(keep) < len(group.requests):
                    group.requests = [group.requests[i] for i in keep]
                    group.rows.select(torch.tensor(keep, dtype=torch.long))
                for request in group.requests:
                    del new[request]
                if not group.requests:
                    groups.remove(group)
            if not groups:
                del self._groups[key]
        arrived: dict[tuple[Any, ...], list[Request]] = {}
        for request in new:
            arrived.setdefault(self._key(request.asked), []).append(request)
        for key, requests in arrived.items():
            groups = self._groups.setdefault(key, [])
            if len(groups) >= MOST_GROUPS:
                requests = [r for group in groups for r in group.requests] + requests
                groups.clear()
            groups.append(self._begin(key, requests))

    def _key(self, asked: ConstraintRequest) -> tuple[Any, ...]:
        horizon = 1 << (asked.budget - 1).bit_length()  # few different tables
        return asked.constraint, horizon, asked.hmm, asked.strength, asked.mixture

    def _begin(self, key: tuple[Any, ...], requests: list[Request]) -> Group:
        constraint, horizon, guided, strength, mixture = key
        query = self._queries.get(key[:3])
        if query is None:
            fa = self.automaton(constraint)
            query = gcd(fa, horizon) if self._hmm is None or not guided else pgcd(self._hmm, fa, horizon)
            self._queries[key[:3]] = query
            while len(self._queries) > MOST_GROUPS:
                self._queries.popitem(last=False)
        self._queries.move_to_end(key[:3])
        rows = ConstrainedRows(copy(query), strength=strength, mixture=mixture)  # tables are shared
        budgets = torch.tensor([request.asked.budget for request in requests])
        rows.begin(torch.empty(len(requests), 0, dtype=torch.long), budgets)
        for request in requests:
            request.read = 0
        return Group(rows, requests)

    @classmethod
    def vocabulary(cls) -> Vocabulary:
        """The vocabulary of the tokenizer, read once."""
        if cls._vocabulary is None:
            tokenizer = cls.tokenizer
            if tokenizer is None:
                raise EvidenceError(
                    f"{cls.__name__}: say tokenizer = … in the class, the folder of the model's tokenizer"
                )
            if isinstance(tokenizer, str | Path):
                tokenizer = importlib.import_module("transformers").AutoTokenizer.from_pretrained(tokenizer)
            cls._vocabulary = Vocabulary.from_tokenizer(tokenizer)
        return cls._vocabulary

    @classmethod
    def automaton(cls, constraint: str) -> Automaton:
        """The automaton of a constraint, compiled once in each process and kept on disk for the others."""
        if constraint not in cls._compiled:
            cls._compiled[constraint] = build_constraint(*json.loads(constraint)).compile(
                cls.vocabulary(), cache=True
            )
            while len(cls._compiled) > MOST_COMPILED:
                cls._compiled.popitem(last=False)
        cls._compiled.move_to_end(constraint)
        return cls._compiled[constraint]
