"""A grammar back end for SGLang: structured output by Tractile, within the token budget of each request.

    python -m sglang.launch_server --model-path MODEL --grammar-backend tractile

The entry point ``sglang.srt.plugins`` calls :func:`register`. Requests stay as they are: ``json_schema``, ``regex``, ``ebnf``,
``structural_tag``, ``response_format``. A model that reasons first ends its reasoning while the tokens left suffice for the
answer (:mod:`.reasoned_rows`). Constraints are compiled in a thread beside the engine's steps. Follows
``sglang.srt.constrained.base_grammar_backend`` of SGLang 0.5.23.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Sequence
from typing import Any, Self

import torch
from jaxtyping import Float, Int32
from torch import Tensor

from ..constraints.vocabulary.reading import vocabulary_of, vocabulary_within
from ..errors import TractileError, UnsupportedConstraint
from .grammar_rows import GrammarRow, Grammars
from .reasoned_rows import ReasonedRow

try:
    from sglang.srt.constrained.base_grammar_backend import BaseGrammarBackend as _Backend
    from sglang.srt.constrained.base_grammar_backend import BaseGrammarObject as _Grammar
except ImportError:  # not installed: adapters can be imported and tested without it
    _Backend = _Grammar = object

NAME = "tractile"
KINDS = {
    "json": "json_schema",
    "regex": "regex",
    "ebnf": "grammar",
    "full_assistant_ebnf": "grammar",
    "structural_tag": "structural_tag",
}
ANY_OBJECT = "$$ANY$$"  # SGLang's JSON Schema of response_format json_object
THINKING = ":thinking="  # in a key, before the number of tokens for the reasoning


class SGLangGrammar(_Grammar):  # type: ignore[misc]
    """The text of one request under its constraint; implements SGLang's ``BaseGrammarObject``."""

    def __init__(self, row: GrammarRow | ReasonedRow) -> None:
        super().__init__()
        self._row = row

    def accept_token(self, token: int) -> None:
        """Append a token; ignore it if the text has ended. Raises ``ValueError`` for a token that is not allowed."""
        if not self._row.terminated and not self._row.accept([token]):
            raise UnsupportedConstraint(f"the token {token} is not allowed here", path="accept_token")
        self.current_token = token

    def rollback(self, k: int) -> None:
        """Take back the last ``k`` tokens."""
        self._row.rollback(k)

    def is_terminated(self) -> bool:
        """Return whether the text has ended."""
        return self._row.terminated

    def allocate_vocab_mask(
        self, vocab_size: int, batch_size: int, device: Any
    ) -> Int32[Tensor, "rows words"]:
        """Allocate a bit mask on the CPU that allows all tokens."""
        return torch.full((batch_size, -(-vocab_size // 32)), -1, dtype=torch.int32)

    def fill_vocab_mask(self, vocab_mask: Int32[Tensor, "rows words"], idx: int) -> None:
        """Write the mask of the next token into row ``idx``."""
        self._row.fill(vocab_mask, idx)

    @staticmethod
    def reset_vocab_mask(vocab_mask: Int32[Tensor, "rows words"]) -> None:
        """Allow all tokens in all rows."""
        vocab_mask.fill_(-1)

    @staticmethod
    def move_vocab_mask(vocab_mask: Int32[Tensor, "rows words"], device: Any) -> Int32[Tensor, "rows words"]:
        """Copy the mask to the device of the logits."""
        return vocab_mask.to(device, non_blocking=True)

    @staticmethod
    def apply_vocab_mask(
        logits: Float[Tensor, "rows vocab"], vocab_mask: Int32[Tensor, "rows words"]
    ) -> None:
        """Set the logits of tokens outside the mask to −∞, in place."""
        bits = vocab_mask[:, :, None] >> torch.arange(32, device=vocab_mask.device) & 1
        logits.masked_fill_(~bits.flatten(1)[:, : logits.shape[1]].bool(), -torch.inf)

    def copy(self) -> Self:
        """Return an independent copy with the same tokens."""
        return type(self)(self._row.fork())

    def try_jump_forward(self, tokenizer: Any) -> tuple[list[int], str] | None:
        """Return (tokens that must come next, ""); None if the next token is not determined."""
        tokens = self._row.forced()
        return (tokens, "") if tokens else None

    def jump_forward_str_state(self, helper: tuple[list[int], str]) -> tuple[str, int]:
        """Return ("", −1): forced text is given as tokens, by :meth:`try_jump_forward`."""
        return "", -1

    def jump_and_retokenize(
        self, old_output_ids: Sequence[int], new_output_ids: Sequence[int], next_state: int
    ) -> None:
        """Replace the tokens by those of a new tokenisation. Raises ``ValueError`` for a token that is not allowed."""
        same = 0
        for old, new in zip(old_output_ids, new_output_ids, strict=False):
            if old != new:
                break
            same += 1
        self.rollback(len(old_output_ids) - same)
        for token in new_output_ids[same:]:
            self.accept_token(token)


class SGLangBackend(_Backend):  # type: ignore[misc]
    """The grammars of an engine; implements SGLang's ``BaseGrammarBackend``.

    Args:
        tokenizer: the model's tokenizer.
        stops: tokens that end a text, beside the tokenizer's end-of-sequence token.
        think_end: the tokens that end the reasoning of a model that reasons first; none: the model does not.
        options: options of ``json_schema``; ``None``: flexible white space.
        vocab_size: the number of columns of the logits, if the tokenizer may have more tokens, which are then left out.
    """

    def __init__(
        self,
        tokenizer: Any,
        stops: Collection[int] = (),
        think_end: Sequence[int] = (),
        options: dict[str, Any] | None = None,
        vocab_size: int | None = None,
    ) -> None:
        super().__init__()
        vocabulary = (
            vocabulary_of(tokenizer) if vocab_size is None else vocabulary_within(tokenizer, vocab_size)
        )
        ends = {stop for stop in stops if 0 <= stop < len(vocabulary)} - {vocabulary.eos_token_id}
        self.grammars, self.think_end = Grammars(vocabulary, ends), think_end
        self.options = {"whitespace": "flexible"} if options is None else options
        self.budget: int | None = None  # tokens of the request being read; set by follow_budget

    def get_request_grammar_key(
        self, key: tuple[str, str], *, input_ids: Sequence[int], thinking_budget: int | None
    ) -> tuple[str, str]:
        """Return the key of a request: its kind, with the token budget of its reasoning if it has one, and its text."""
        return key if thinking_budget is None else (f"{key[0]}{THINKING}{thinking_budget}", key[1])

    def get_cached_or_future_value(self, key: tuple[str, str], require_reasoning: bool) -> tuple[Any, bool]:
        """Return (grammar, True), or (future of the grammar, False) if its constraint is not compiled yet."""
        budget = self.budget
        try:
            constraint = self.constraint(key)
        except TractileError as error:
            return invalid(error), True
        (kind, _, tokens), thinking = key[0].partition(THINKING), None
        if require_reasoning and self.think_end and kind != "full_assistant_ebnf":
            thinking = int(tokens) if tokens else -1
        if self.grammars.ready(constraint):
            return self.grammar(constraint, budget, thinking), True
        return self.executor.submit(self.grammar, constraint, budget, thinking), False

    def set_cache(self, key: tuple[str, str], value: Any) -> None:
        """Do nothing: compiled constraints are cached in ``grammars``, for any budget."""

    def grammar(self, constraint: str, budget: int | None, thinking: int | None) -> Any:
        """Return a grammar for a budget of tokens, or SGLang's invalid grammar with the error message.

        ``thinking``: the most tokens of the reasoning before it, negative: what the answer leaves; ``None``: there is none.
        """
        try:
            if thinking is None:
                return SGLangGrammar(self.grammars.row(constraint, budget))
            at_most = None if thinking < 0 else thinking
            return SGLangGrammar(ReasonedRow(self.grammars, constraint, self.think_end, budget, at_most))
        except TractileError as error:
            return invalid(error)

    def constraint(self, key: tuple[str, str]) -> str:
        """Convert a key to the JSON text of a constraint, as in :mod:`.request`. Raises :class:`UnsupportedConstraint`."""
        kind, text = key[0].partition(THINKING)[0], key[1]
        if kind not in KINDS:
            raise UnsupportedConstraint(f"{kind!r} is not supported", path="")
        description: Any = text
        if kind == "json":
            try:
                description = {"type": "object"} if text == ANY_OBJECT else json.loads(text)
            except ValueError as error:
                raise UnsupportedConstraint(f"{text!r:.60} is not JSON: {error}", path=kind) from None
        return json.dumps([KINDS[kind], description, self.options if kind == "json" else {}])


def invalid(error: TractileError) -> Any:
    """Make SGLang's ``InvalidGrammarObject``, which refuses a request with an error message."""
    from sglang.srt.constrained.base_grammar_backend import InvalidGrammarObject

    return InvalidGrammarObject(str(error))


def make_backend(
    server_args: Any, tokenizer: Any, vocab_size: int, eos_token_ids: Any = None
) -> SGLangBackend:
    """Make the back end of an engine, with the arguments that ``register_grammar_backend`` specifies."""
    ends = {eos_token_ids} if isinstance(eos_token_ids, int) else set(eos_token_ids or ())
    think_end: tuple[int, ...] = ()
    parser = getattr(server_args, "reasoning_parser", None)
    if parser:
        from sglang.srt.parser.reasoning_parser import ReasoningParser

        found = ReasoningParser(model_type=parser, stream_reasoning=False, tokenizer=tokenizer)
        think_end = tuple(found.detector.get_think_end_token_ids(tokenizer) or ())
    tight = getattr(server_args, "constrained_json_disable_any_whitespace", False)
    options = {"whitespace": "none" if tight else "flexible"}
    return SGLangBackend(tokenizer, ends, think_end, options, vocab_size)


def follow_budget(original: Callable[..., Any], manager: Any, req: Any) -> Any:
    """Tell the back end the token budget of a request; wraps ``GrammarManager.process_req_with_grammar``."""
    if isinstance(manager.grammar_backend, SGLangBackend):
        manager.grammar_backend.budget = req.sampling_params.max_new_tokens
    return original(manager, req)


def register() -> None:
    """Register the back end as ``--grammar-backend tractile``; the entry point ``sglang.srt.plugins``."""
    from sglang.srt.arg_groups.choices import GRAMMAR_BACKEND_CHOICES
    from sglang.srt.constrained.base_grammar_backend import register_grammar_backend
    from sglang.srt.plugins.hook_registry import HookRegistry, HookType
    from sglang.srt.server_args import add_grammar_backend_choices

    register_grammar_backend(NAME, make_backend)
    if NAME not in GRAMMAR_BACKEND_CHOICES:
        add_grammar_backend_choices([NAME])
    target = "sglang.srt.constrained.grammar_manager.GrammarManager.process_req_with_grammar"
    HookRegistry.register(target, follow_budget, HookType.AROUND)
