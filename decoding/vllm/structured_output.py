"""A back end for vLLM's structured output: masks of any request that say what still fits into its tokens.

vLLM asks a back end for a grammar of each request, and the grammar for a row of a bit mask before each token:

    grammar = backend.grammar(Asked("JSON", schema), stop_token_ids, left=lambda: 64)      in a thread beside the step
    grammar.fill_bitmask(bitmask, 3); grammar.accept_tokens("id", [17]); grammar.validate_tokens([4, 5]); grammar.rollback(1)

``left()`` is how many tokens the request may still have; it is asked when the text begins, which is after the reasoning of a
model that reasons first. Follows ``vllm.v1.structured_output.backend_types`` of vLLM 0.32.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

import torch
from jaxtyping import Int32
from torch import Tensor

from ...constraints import Vocabulary
from ...constraints.vocabulary.reading import vocabulary_of
from ...errors import BudgetTooSmall, UnsupportedConstraint
from ..grammar_rows import GrammarRow, Grammars
from .interface import interface

TYPES = "vllm.v1.structured_output.backend_types"
_Grammar: Any = interface(TYPES, "StructuredOutputGrammar")
_Backend: Any = interface(TYPES, "StructuredOutputBackend")
logger = logging.getLogger(__name__)

KINDS = {
    "JSON": "json_schema",
    "JSON_OBJECT": "json_schema",
    "REGEX": "regex",
    "CHOICE": "choice",
    "GRAMMAR": "grammar",
    "STRUCTURAL_TAG": "structural_tag",
}
"""The constraint of each ``StructuredOutputOptions``."""


class Asked(NamedTuple):
    """What a request asks for: the name of a ``StructuredOutputOptions``, its text, and options of ``json_schema``."""

    kind: str
    text: str
    options: Mapping[str, Any] = {}

    def constraint(self) -> str:
        """The constraint as JSON text, as :mod:`..request` has it. Raises :class:`UnsupportedConstraint` for no JSON."""
        if self.kind not in KINDS:
            raise UnsupportedConstraint(
                f"structured output of the kind {self.kind} is not supported", path=""
            )
        description: Any = '{"type": "object"}' if self.kind == "JSON_OBJECT" else self.text
        if self.kind in ("JSON", "JSON_OBJECT", "CHOICE"):
            try:
                description = json.loads(description)
            except ValueError as error:
                raise UnsupportedConstraint(
                    f"{self.text!r:.60} is not JSON: {error}", path=self.kind
                ) from None
        kind = KINDS[self.kind]
        return json.dumps([kind, description, dict(self.options) if kind == "json_schema" else {}])


class TractileGrammar(_Grammar):  # type: ignore[misc]
    """The text of one request: ``StructuredOutputGrammar`` of vLLM.

    Args:
        begin: makes its row for a budget of tokens.
        left: the tokens that the request may still have.

    Raises :class:`BudgetTooSmall` where nothing fits.
    """

    def __init__(self, begin: Callable[[int], GrammarRow], left: Callable[[], int]) -> None:
        self._begin, self._left, self._budget = begin, left, left()
        self._row, self._begun = begin(self._budget), False

    def accept_tokens(self, request_id: str, tokens: list[int]) -> bool:
        """Append tokens; those after the end of a text are ignored. ``False`` where one is not allowed."""
        row = self._text(len(tokens))
        return row.terminated or row.accept(tokens)

    def validate_tokens(self, tokens: list[int]) -> list[int]:
        """The longest beginning of ``tokens`` that could be appended."""
        return self._text().validate(tokens)

    def rollback(self, num_tokens: int) -> None:
        """Take back tokens."""
        self._row.rollback(num_tokens)

    def fill_bitmask(self, bitmask: Int32[Tensor, "rows words"], batch_index: int) -> None:
        """Write what may come next into a row."""
        self._text().fill(bitmask, batch_index)

    def is_terminated(self) -> bool:
        """Whether the text has ended."""
        return self._row.terminated

    def reset(self) -> None:
        """Take back all tokens."""
        self._row.reset()

    def _text(self, coming: int = 0) -> GrammarRow:
        """The row; ``coming``: tokens of the text that the request counts already."""
        if not self._begun:
            self._begun = True
            if (left := self._left() + coming) < self._budget:  # the rest went into reasoning
                self._row = self._within(left)
        return self._row

    def _within(self, left: int) -> GrammarRow:
        try:
            return self._begin(left)
        except BudgetTooSmall as error:
            logger.error("a request has too few tokens left for its structured output: %s", error)
            return self._begin(self._budget)  # it will be cut, and its finish_reason is "length"


class TractileBackend(_Backend):  # type: ignore[misc]
    """The grammars of an engine: ``StructuredOutputBackend`` of vLLM.

    Args:
        vllm_config: the engine's configuration, or ``None``.
        tokenizer: the model's.
        vocab_size: the columns of its logits.
    """

    def __init__(self, vllm_config: Any, tokenizer: Any, vocab_size: int) -> None:
        self.vllm_config, self.tokenizer, self.vocab_size = vllm_config, tokenizer, vocab_size
        self.vocabulary = vocabulary_of(tokenizer)
        # What all constraints of a vocabulary share is made as the engine starts.
        self.grammar(Asked("JSON_OBJECT", ""), (), lambda: 64)

    def grammar(
        self, asked: Asked, stop_token_ids: Iterable[int] | None, left: Callable[[], int]
    ) -> TractileGrammar:
        """Compile what a request asks for; from any thread.

        ``stop_token_ids`` end a text, and stand nowhere else in it. Raises the errors of constraints, and
        :class:`BudgetTooSmall` where no text fits into the tokens left.
        """
        constraint = asked.constraint()
        grammars = grammars_of(self.vocabulary, frozenset(stop_token_ids or ()))

        def begin(budget: int) -> GrammarRow:
            return grammars.row(constraint, budget)

        return TractileGrammar(begin, left)

    def compile_grammar(
        self, request_type: Any, grammar_spec: str, stop_token_ids: set[int] | None = None
    ) -> TractileGrammar:
        """A grammar of a request whose tokens are not known: up to the longest text of the model."""
        most = self.vllm_config.model_config.max_model_len
        return self.grammar(Asked(request_type.name, grammar_spec), stop_token_ids, lambda: most)

    def allocate_token_bitmask(self, max_num_seqs: int) -> Int32[Tensor, "rows words"]:
        """A bit mask for so many requests, everything allowed."""
        return torch.full((max_num_seqs, -(-self.vocab_size // 32)), -1, dtype=torch.int32)

    def destroy(self) -> None:
        """Compiled constraints are kept for the next engine of the process."""


class _ByFingerprint:
    """A vocabulary as a key: by its fingerprint."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.vocabulary, self._key = vocabulary, (vocabulary.fingerprint, len(vocabulary))

    def __hash__(self) -> int:
        return hash(self._key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _ByFingerprint) and self._key == other._key


@lru_cache(8)
def _grammars(key: _ByFingerprint, stops: frozenset[int]) -> Grammars:
    return Grammars(key.vocabulary, stops)


def grammars_of(vocabulary: Vocabulary, stops: frozenset[int]) -> Grammars:
    """The compiled constraints of a vocabulary, one for each set of stop tokens, in this process."""
    stops = frozenset(stop for stop in stops if 0 <= stop < len(vocabulary))
    return _grammars(_ByFingerprint(vocabulary), stops - {vocabulary.eos_token_id})
