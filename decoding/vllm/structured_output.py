"""A back end for vLLM's structured output: masks that let each request complete its text within its token budget.

vLLM asks the back end for a grammar for each request, and the grammar for a row of a bit mask before each token:

    grammar = backend.grammar(Spec("JSON", schema), stop_token_ids, left=lambda: 64)      in a thread beside the step
    grammar.fill_bitmask(bitmask, 3); grammar.accept_tokens("id", [17]); grammar.validate_tokens([4, 5]); grammar.rollback(1)

``left()`` returns the number of tokens that the request may still have. Given the tokens that end the reasoning of a model that
reasons first, ``grammar(…, end=[42])`` reads the reasoning too and ends it in time (:mod:`..reasoned_rows`); else ``left()`` is
called again when the constrained text begins. Follows ``vllm.v1.structured_output.backend_types`` of vLLM 0.32.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import torch
from jaxtyping import Int32
from torch import Tensor

from ...constraints import Vocabulary
from ...constraints.vocabulary.reading import vocabulary_within
from ...errors import BudgetTooSmall, UnsupportedConstraint
from ..grammar_rows import GrammarRow, Grammars
from ..reasoned_rows import ReasonedRow, fill

try:
    from vllm.v1.structured_output.backend_types import StructuredOutputBackend as _Backend
    from vllm.v1.structured_output.backend_types import StructuredOutputGrammar as _Grammar
except ImportError:  # not installed: adapters can be imported and tested without it
    _Backend = _Grammar = object

logger = logging.getLogger(__name__)
Row = GrammarRow | ReasonedRow

KINDS = {
    "JSON": "json_schema",
    "JSON_OBJECT": "json_schema",
    "REGEX": "regex",
    "CHOICE": "choice",
    "GRAMMAR": "grammar",
    "STRUCTURAL_TAG": "structural_tag",
}
"""The kind of constraint for each ``StructuredOutputOptions`` of vLLM."""


class Spec(NamedTuple):
    """The structured output of a request: the name of a ``StructuredOutputOptions``, its text, options of ``json_schema``."""

    kind: str
    text: str
    options: Mapping[str, Any] = {}

    def constraint(self) -> str:
        """Return the constraint as JSON text, as in :mod:`..request`.

        Raises :class:`UnsupportedConstraint` for an unknown kind, and for text that should be JSON and is not.
        """
        if self.kind not in KINDS:
            raise UnsupportedConstraint(f"structured output of kind {self.kind} is not supported", path="")
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
    """The text of one request under its constraint; implements vLLM's ``StructuredOutputGrammar``.

    Args:
        begin: makes the request's row, for a budget in tokens.
        left: returns the number of tokens that the request may still have.

    Raises :class:`BudgetTooSmall` if no text fits.
    """

    def __init__(self, begin: Callable[[int], Row], left: Callable[[], int]) -> None:
        self._begin, self._left, self._budget = begin, left, left()
        self._row, self._begun = begin(self._budget), False

    def accept_tokens(self, request_id: str, tokens: list[int]) -> bool:
        """Append tokens and return True; False, and nothing is appended, if one is not allowed. Ignored after the end."""
        row = self.text(len(tokens))
        return row.terminated or row.accept(tokens)

    def validate_tokens(self, tokens: list[int]) -> list[int]:
        """Return the longest prefix of ``tokens`` that could be appended."""
        return self.text().validate(tokens)

    def rollback(self, num_tokens: int) -> None:
        """Take back the last ``num_tokens`` tokens."""
        self._row.rollback(num_tokens)

    def fill_bitmask(self, bitmask: Int32[Tensor, "rows words"], batch_index: int) -> None:
        """Write the mask of the next token into row ``batch_index``."""
        self.text().fill(bitmask, batch_index)

    def is_terminated(self) -> bool:
        """Return whether the text has ended."""
        return self._row.terminated

    def reset(self) -> None:
        """Take back all tokens."""
        self._row.reset()

    def text(self, coming: int = 0) -> Row:
        """Return the row, made for the tokens left when the text begins.

        ``coming``: the number of tokens that are not in the row yet but already subtracted from ``left()``.
        """
        if not self._begun:
            self._begun = True
            if (left := self._left() + coming) < self._budget:  # the rest went into reasoning
                self._row = self._within(left)
        return self._row

    def _within(self, left: int) -> Row:
        try:
            return self._begin(left)
        except BudgetTooSmall as error:
            logger.error("a request has too few tokens left for its structured output: %s", error)
            return self._begin(self._budget)  # it will be cut, and its finish_reason is "length"


def fill_together(
    grammars: Iterable[tuple[TractileGrammar, int]], bitmask: Int32[Tensor, "rows words"]
) -> None:
    """Write the mask of each grammar into its row, all in one call."""
    fill(((grammar.text(), row) for grammar, row in grammars), bitmask)


class TractileBackend(_Backend):  # type: ignore[misc]
    """What compiles the constraints of vLLM's requests with structured output: a ``StructuredOutputBackend``.

    Args:
        vllm_config: the engine's configuration, or ``None``.
        tokenizer: the model's tokenizer.
        vocab_size: the number of columns of the logits; the tokenizer's tokens beyond it are left out.
    """

    def __init__(self, vllm_config: Any, tokenizer: Any, vocab_size: int) -> None:
        self.vllm_config, self.tokenizer, self.vocab_size = vllm_config, tokenizer, vocab_size
        self.vocabulary = vocabulary_within(tokenizer, vocab_size)
        # Warm up: tables that all constraints of a vocabulary share are made as the engine starts.
        self.grammar(Spec("JSON_OBJECT", ""), (), lambda: 64)

    def grammar(
        self,
        asked: Spec,
        stop_token_ids: Iterable[int] | None,
        left: Callable[[], int],
        end: Sequence[int] = (),
        opening: Collection[int] = (),
    ) -> TractileGrammar:
        """Compile the structured output of a request; any thread may call it.

        ``stop_token_ids`` end a text and occur nowhere else in it. ``end``: the tokens that end the reasoning before the text,
        which the grammar then reads as well; ``opening``: tokens that end it and begin the text. Raises what compiling a
        constraint raises, and :class:`BudgetTooSmall` if no text fits into the tokens left.
        """
        constraint = asked.constraint()
        grammars = grammars_of(self.vocabulary, frozenset(stop_token_ids or ()))

        def begin(budget: int) -> Row:
            if not end:
                return grammars.row(constraint, budget)
            return ReasonedRow(grammars, constraint, end, budget, opening=opening)

        return TractileGrammar(begin, left)

    def compile_grammar(
        self, request_type: Any, grammar_spec: str, stop_token_ids: set[int] | None = None
    ) -> TractileGrammar:
        """Compile a grammar for a request of unknown budget: up to the model's longest text (``max_model_len``)."""
        most = self.vllm_config.model_config.max_model_len
        return self.grammar(Spec(request_type.name, grammar_spec), stop_token_ids, lambda: most)

    def allocate_token_bitmask(self, max_num_seqs: int) -> Int32[Tensor, "rows words"]:
        """Allocate a bit mask with a row for each of ``max_num_seqs`` requests, all tokens allowed."""
        return torch.full((max_num_seqs, -(-self.vocab_size // 32)), -1, dtype=torch.int32)

    def destroy(self) -> None:
        """Do nothing: compiled constraints stay cached for the next engine of the process."""


class _ByFingerprint:
    """A vocabulary as a cache key, compared by fingerprint and size."""

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
    """Return this process's cache of compiled constraints for a vocabulary and a set of stop tokens."""
    stops = frozenset(stop for stop in stops if 0 <= stop < len(vocabulary))
    return _grammars(_ByFingerprint(vocabulary), stops - {vocabulary.eos_token_id})
