"""The engines of benchmarks/masks.py, each of which compiles JSON Schemas and walks texts, and three schemas written here.

Engines are used as their documentation shows, with their defaults, and imported only when asked for.
"""

import json
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

import numpy as np
from samples import Tokens

import tractile as tt
from tractile.inference.next_token.gcd import GCDQuery

BUDGET = 1 << 14  # tokens, for Tractile's masks


def object_of(required: list[str] | None = None, **properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties) if required is None else required,
        "additionalProperties": False,
    }


STRING, INTEGER, NUMBER, BOOLEAN = ({"type": kind} for kind in ("string", "integer", "number", "boolean"))

# (name, schema, an instance of it)
TASKS: list[tuple[str, dict[str, Any], Any]] = [
    ("person", object_of(name=STRING, age=INTEGER), {"name": "Ada Lovelace", "age": 36}),
    (
        "weather",
        object_of(
            name={"const": "get_weather"},
            arguments=object_of(city=STRING, unit={"enum": ["celsius", "fahrenheit"]}, days=INTEGER),
        ),
        {"name": "get_weather", "arguments": {"city": "New York", "unit": "celsius", "days": 3}},
    ),
    (
        "order",
        object_of(
            id=INTEGER,
            items={"type": "array", "items": object_of(sku=STRING, count=INTEGER, price=NUMBER)},
            paid=BOOLEAN,
        ),
        {
            "id": 4711,
            "items": [{"sku": "A-12", "count": 2, "price": 9.5}, {"sku": "B-7", "count": 1, "price": 120}],
            "paid": True,
        },
    ),
]


class Walker(Protocol):
    """One pass over a text."""

    def mask(self) -> np.ndarray:
        """The allowed next tokens: int32 words, little-endian bits."""

    def advance(self, token: int) -> None:
        """Append a token."""

    def restart(self) -> None:
        """Back to the beginning."""


class Engine(Protocol):
    """Compiles schemas; the walker that it returns stands at the beginning."""

    def compile(self, schema: dict[str, Any]) -> Walker:
        """Compile a JSON Schema."""


class Tractile:
    """GCD: what can still be finished in the tokens left."""

    budget = BUDGET

    class _Walker:
        def __init__(self, query: GCDQuery, buffer: np.ndarray) -> None:
            self.query, self.buffer = query.start(batch=1), buffer

        def mask(self) -> np.ndarray:
            return self.query.words(self.buffer)[0]

        def advance(self, token: int) -> None:
            self.query.advance([token])

        def restart(self) -> None:
            self.query.start(batch=1)

    def __init__(self, tokens: Tokens) -> None:
        pieces = [piece or None for piece in tokens.bytes]
        self.vocab = tt.Vocabulary(pieces, eos_token_id=tokens.eos)
        self.buffer = np.empty((1, -(-len(pieces) // 32)), np.int32)

    def compile(self, schema: dict[str, Any]) -> Walker:
        automaton = tt.constraints.json_schema(schema).compile(self.vocab)
        return self._Walker(tt.gcd(automaton, horizon=self.budget), self.buffer)


class XGrammar:
    """xgrammar, its defaults but for one thread, and ``options``."""

    class _Walker:
        def __init__(self, module: Any, compiled: Any, size: int) -> None:
            self.restart = lambda: setattr(self, "matcher", module.GrammarMatcher(compiled))
            self.restart()
            self.buffer = module.allocate_token_bitmask(1, size)

        def mask(self) -> np.ndarray:
            self.matcher.fill_next_token_bitmask(self.buffer)
            return self.buffer.numpy()[0]

        def advance(self, token: int) -> None:
            self.matcher.accept_token(token)

    def __init__(self, tokens: Tokens, **options: bool) -> None:
        import xgrammar

        self.module, self.size = xgrammar, len(tokens.bytes)
        info = xgrammar.TokenizerInfo(tokens.bytes, vocab_size=self.size, stop_token_ids=[tokens.eos])
        self.compiler = xgrammar.GrammarCompiler(info, max_threads=1, **options)

    def compile(self, schema: dict[str, Any]) -> Walker:
        return self._Walker(self.module, self.compiler.compile_json_schema(json.dumps(schema)), self.size)


class LLGuidance:
    """llguidance, its defaults."""

    class _Walker:
        def __init__(self, matcher: Any, size: int) -> None:
            import llguidance.numpy

            self.restart = lambda: setattr(self, "matcher", matcher.deep_copy())
            self.restart()
            self.fill = llguidance.numpy.fill_next_token_bitmask
            self.buffer = llguidance.numpy.allocate_token_bitmask(1, size)

        def mask(self) -> np.ndarray:
            self.fill(self.matcher, self.buffer, 0)
            return self.buffer[0]

        def advance(self, token: int) -> None:
            self.matcher.consume_token(token)

    def __init__(self, tokens: Tokens) -> None:
        import llguidance

        pieces, encode = [piece or b"<special_%d>" % i for i, piece in enumerate(tokens.bytes)], tokens.encode
        special, eos = list(range(tokens.num_special)), tokens.eos

        class Adapter:
            tokens, special_token_ids = pieces, special
            eos_token_id, bos_token_id = eos, None

            def __call__(self, text: str) -> list[int]:
                return encode(text)

        self.module, self.size = llguidance, len(tokens.bytes)
        self.tokenizer = llguidance.LLTokenizer(llguidance.TokenizerWrapper(Adapter()))

    def compile(self, schema: dict[str, Any]) -> Walker:
        grammar = self.module.LLMatcher.grammar_from_json_schema(json.dumps(schema))
        matcher = self.module.LLMatcher(self.tokenizer, grammar, log_level=0)
        if matcher.is_error():
            raise ValueError(matcher.get_error())
        return self._Walker(matcher, self.size)


class GLRMask:
    """glrmask, its defaults; the end token is a token set behind the grammar."""

    class _Walker:
        def __init__(self, constraint: Any) -> None:
            self.restart = lambda: setattr(self, "state", constraint.start())
            self.restart()
            self.buffer = np.zeros(constraint.mask_len(), np.int32)

        def mask(self) -> np.ndarray:
            self.state.fill_mask(self.buffer)
            return self.buffer

        def advance(self, token: int) -> None:
            self.state.commit_token(token)

    def __init__(self, tokens: Tokens) -> None:
        import glrmask

        self.module, self.end = glrmask, glrmask.TokenSet([tokens.eos])
        pieces = {token: piece for token, piece in enumerate(tokens.bytes) if piece}
        self.vocab = glrmask.Vocab.from_id_to_bytes(pieces)

    def compile(self, schema: dict[str, Any]) -> Walker:
        grammar, expr = self.module.Grammar, self.module.Expr
        whole = expr.sequence(grammar.from_json_schema(json.dumps(schema)), self.end)
        return self._Walker(grammar.from_expr(whole).compile(self.vocab))


ENGINES: dict[str, tuple[str, Callable[[Tokens], Engine]]] = {  # name -> (distribution, class)
    "Tractile (GCD)": ("tractile", Tractile),
    "xgrammar": ("xgrammar", XGrammar),
    "xgrammar (dynamic)": ("xgrammar", partial(XGrammar, enable_dynamic_compilation=True)),
    "llguidance": ("llguidance", LLGuidance),
    "glrmask": ("glrmask", GLRMask),
}
