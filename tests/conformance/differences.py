"""Where mask engines differ: short texts that only one of two engines accepts, by schema, and who is right.

Tractile's automaton and another engine read the same bytes. A place is a pair (Tractile's configuration, the other's mask of
bytes); places are visited in the order of the length of the shortest whole text through them, each once. Where one engine allows
a byte or an end that the other does not, that engine completes the text, which is short but not always the shortest.
`jsonschema` judges it: is it JSON, and does its value satisfy the schema (formats as far as `jsonschema` checks them)?

    kind        what differs: the keyword that an invalid text breaks; of a valid text, what would make it accepted
    witness     the shortest of the texts that were found of this kind
    schemas     the number of schemas with a text of this kind, at most one for each kind, engine and schema

All engines are asked for JSON Schema's own meaning, and for the white space of `json.dumps`: xgrammar with
`strict_mode=False, any_order=True, any_whitespace=False`, llguidance with `whitespace_flexible: false`. The walk visits a
bounded number of places, so "none found" is no proof. A schema and an engine get 10 s of CPU time.

    python tests/conformance/differences.py [--smoke] [--every N] [--first N] [--places N] [--show] [--out FILE.jsonl]
"""

from __future__ import annotations

import argparse
import heapq
import json
import signal
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from samples import needed
from schemas import TooSlow, arguments_and_rows

import tractile as tt
from tractile.constraints.difference import preferred_byte, states_of
from tractile.constraints.engine.bytes import Bytes

END = 256
BYTES = [bytes([b]) for b in range(256)] + [b"</s>"]
CANDIDATES = 60  # differences that are judged, of a schema and an engine
SPELLING = "spelling"  # another way to write the same value
FINISH = 400  # places that are visited to complete a text
Allowed = frozenset[int]  # the bytes that may come next, and END


class Engine(NamedTuple):
    """Another engine with one schema: what it allows after a text."""

    allowed: Callable[[bytes], Allowed]

    def accepts(self, text: bytes) -> bool:
        """Whether it would write this text."""
        return all(text[i] in self.allowed(text[:i]) for i in range(len(text))) and END in self.allowed(text)


def bits(words: np.ndarray) -> Allowed:
    """The set bits of a mask."""
    return frozenset(
        np.flatnonzero(np.unpackbits(words.view(np.uint8), count=len(BYTES), bitorder="little")).tolist()
    )


def xgrammar() -> Callable[[Any], Engine]:
    """xgrammar on a vocabulary of bytes."""
    xgr = needed("xgrammar", "peers")
    compiler = xgr.GrammarCompiler(xgr.TokenizerInfo(BYTES, stop_token_ids=[END]), max_threads=1)
    buffer = xgr.allocate_token_bitmask(1, len(BYTES))

    def compile_schema(schema: Any) -> Engine:
        compiled = compiler.compile_json_schema(
            json.dumps(schema), strict_mode=False, any_order=True, any_whitespace=False
        )
        matcher = xgr.GrammarMatcher(compiled)

        def allowed(text: bytes) -> Allowed:
            matcher.reset()
            if not all(matcher.accept_token(byte) for byte in text):
                return frozenset()
            matcher.fill_next_token_bitmask(buffer)
            return bits(buffer.numpy()[0])

        return Engine(allowed)

    return compile_schema


def llguidance() -> Callable[[Any], Engine]:
    """llguidance on a vocabulary of bytes."""
    llg, fill = needed("llguidance", "peers"), needed("llguidance.numpy", "peers")

    class Bytes:
        tokens, special_token_ids, eos_token_id, bos_token_id = BYTES, (END,), END, None

        def __call__(self, text: str) -> list[int]:
            return list(text.encode())

    tokenizer = llg.LLTokenizer(llg.TokenizerWrapper(Bytes()))
    buffer = fill.allocate_token_bitmask(1, len(BYTES))
    options = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}

    def compile_schema(schema: Any) -> Engine:
        grammar = llg.LLMatcher.grammar_from_json_schema(json.dumps(schema), overrides=options)
        first = llg.LLMatcher(tokenizer, grammar, log_level=0)
        if first.is_error():
            raise ValueError(first.get_error())

        def allowed(text: bytes) -> Allowed:
            matcher = first.deep_copy()
            if text and not matcher.consume_tokens(list(text)):
                return frozenset()
            fill.fill_next_token_bitmask(matcher, buffer, 0)
            return bits(buffer[0])

        return Engine(allowed)

    return compile_schema


ENGINES = {"xgrammar": xgrammar, "llguidance": llguidance}


class Witness(NamedTuple):
    """A text that one engine accepts and the other does not."""

    text: bytes
    ours: bool  # whether it is Tractile that accepts it


def witnesses(states: Bytes, other: Engine, places: int) -> Iterator[Witness]:
    """Differing texts, shorter ones first; one for each engine and first differing byte."""
    start = states.start
    queue: list[tuple[int, bytes, int]] = [(0, b"", start)]
    seen: set[tuple[int, Allowed]] = set()
    told: set[tuple[bool, int]] = set()
    while queue and len(seen) < places and len(told) < CANDIDATES:
        _, text, state = heapq.heappop(queue)
        theirs = other.allowed(text)
        if (state, theirs) in seen:
            continue
        seen.add((state, theirs))
        moves = states.moves(state)
        if states.accepting(state) != (END in theirs) and (states.accepting(state), END) not in told:
            told.add((states.accepting(state), END))
            yield Witness(text, states.accepting(state))
        mine = {byte for low, high, _ in moves for byte in range(low, high + 1)}
        extra = sorted(theirs - mine - {END}, key=lambda byte: preferred_byte(byte, byte))
        if extra and (False, extra[0]) not in told:
            told.add((False, extra[0]))
            whole = finished(other, text + bytes(extra[:1]))
            if whole is not None:
                yield Witness(whole, ours=False)
        for low, high, target in moves:
            rest = states.completion(target)
            lost = sorted(set(range(low, high + 1)) - theirs, key=lambda byte: preferred_byte(byte, byte))
            if lost and (True, lost[0]) not in told:
                told.add((True, lost[0]))
                yield Witness(text + bytes(lost[:1]) + rest, ours=True)
            both = sorted(set(range(low, high + 1)) & theirs, key=lambda byte: preferred_byte(byte, byte))
            for byte in both[:1]:
                heapq.heappush(queue, (len(text) + 1 + len(rest), text + bytes([byte]), target))


def finished(engine: Engine, text: bytes) -> bytes | None:
    """The shortest text found that begins so and that an engine accepts; None where none is found."""
    queue, seen = [text], set[Allowed]()
    for begun in queue:
        allowed = engine.allowed(begun)
        if END in allowed:
            return begun
        if allowed in seen:
            continue
        seen.add(allowed)
        if len(queue) < FINISH:
            some = sorted(allowed, key=lambda byte: preferred_byte(byte, byte))
            queue += [begun + bytes([byte]) for byte in some[:40]]
    return None


class Names(Exception):
    """A name occurs twice in an object."""


def read(text: bytes) -> Any:
    """The value of a JSON text. Raises ``ValueError`` for what is none, :class:`Names`."""

    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        if len({name for name, _ in items}) < len(items):
            raise Names
        return dict(items)

    def constant(name: str) -> Any:
        raise ValueError(name)

    return json.loads(text.decode(), object_pairs_hook=pairs, parse_constant=constant)


@dataclass
class Judge:
    """What jsonschema says of the texts of one schema."""

    schema: Any
    validator: Any = field(init=False)

    def __post_init__(self) -> None:
        jsonschema = needed("jsonschema", "test")
        kind = jsonschema.validators.validator_for(self.schema, default=jsonschema.Draft202012Validator)
        self.validator = kind(self.schema, format_checker=kind.FORMAT_CHECKER)

    def kind(self, witness: Witness, accepts: Callable[[bytes], bool]) -> tuple[bool | None, str]:
        """(Whether the text is valid, None where that is open; the kind of difference). ``accepts`` is the engine that refuses
        the text."""
        try:
            value = read(witness.text)
        except Names:
            return None, "a name twice"
        except UnicodeDecodeError:
            return False, "not UTF-8"
        except (ValueError, RecursionError):
            return False, "not JSON"
        errors = list(self.validator.iter_errors(value))
        if errors:
            while errors[0].context and errors[0].validator in ("anyOf", "oneOf"):
                errors = errors[0].context
            return False, str(errors[0].validator)
        for name, change in self.changes():
            value = change(value)
            if accepts(json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass")):
                return (
                    True,
                    name if name != SPELLING else "escapes" if b"\\" in witness.text else "numbers: -0, 0e0",
                )
        return True, "another value"

    def changes(self) -> list[tuple[str, Callable[[Any], Any]]]:
        """Changes, one after another, after which a valid value may be accepted: they name the kind of a difference."""
        source = json.dumps(self.schema)
        return [
            (SPELLING, lambda value: value),
            ("integers written 1.0", lambda value: mapped(value, number=round_if_whole)),
            ("order of members", lambda value: ordered(value, source)),
            ("characters", lambda value: mapped(value, text=plain)),
        ]


def round_if_whole(number: float) -> float:
    """The number as an ``int`` where it is one."""
    return int(number) if number == int(number) else number


def plain(text: str) -> str:
    """The text with a letter for each character but printable ASCII."""
    return "".join(c if " " <= c <= "~" else "a" for c in text)


def mapped(value: Any, number: Callable[[float], float] = float, text: Callable[[str], str] = str) -> Any:
    """The value with each float and each text, names too, replaced."""
    if isinstance(value, float):
        return number(value)
    if isinstance(value, str):
        return text(value)
    if isinstance(value, list):
        return [mapped(item, number, text) for item in value]
    if isinstance(value, dict):
        return {text(name): mapped(item, number, text) for name, item in value.items()}
    return value


def ordered(value: Any, source: str) -> Any:
    """The value with the members of objects in the order in which the schema names them first."""
    if isinstance(value, list):
        return [ordered(item, source) for item in value]
    if not isinstance(value, dict):
        return value
    places = {name: source.find(json.dumps(name) + ":") % (len(source) + 1) for name in value}
    return {name: ordered(value[name], source) for name in sorted(value, key=lambda name: places[name])}


class Found(NamedTuple):
    """A difference of a schema."""

    engine: str
    schema: str
    kind: str
    accepted_by: str
    right: str
    text: str


def compare(
    row: dict[str, Any], name: str, compile_schema: Callable[[Any], Engine], places: int
) -> list[Found] | str:
    """The differences of one schema, at most one of each kind; or why it was not compared."""
    signal.setitimer(signal.ITIMER_VIRTUAL, 10.0)
    found: dict[tuple[str, str], Found] = {}
    try:
        try:
            other = compile_schema(row["schema"])
        except Exception as error:
            if isinstance(error, TooSlow):
                raise
            return f"refused by {name}"
        try:
            constraint = tt.constraints.json_schema(row["schema"], on_narrowed="ignore")
            states = states_of(constraint)
        except tt.TractileError:
            return "refused by tractile"
        if states is None:
            return "no text at all"
        judge = Judge(row["schema"])
        for witness in witnesses(states, other, places):
            accepts = other.accepts if witness.ours else constraint.accepts
            if accepts(witness.text):
                continue  # the other parse of an engine accepts it after all
            valid, kind = judge.kind(witness, accepts)
            by = "tractile" if witness.ours else name
            right = "open" if valid is None else "tractile" if valid == witness.ours else name
            found.setdefault(
                (kind, by), Found(name, row["id"], kind, by, right, witness.text.decode(errors="replace"))
            )
    except TooSlow:
        return [*found.values()] or "too slow"
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    return list(found.values())


def tables(found: list[Found], outcomes: dict[str, Counter[str]]) -> str:
    """How many schemas differ, by engine; and by kind."""
    lines = [
        "| engine | schemas compared | a difference | tractile right in all | the engine right in some | not compared |"
    ]
    lines.append("| --- | --- | --- | --- | --- | --- |")
    for name, counts in outcomes.items():
        by_schema = defaultdict(set)
        for each in found:
            if each.engine == name:
                by_schema[each.schema].add(each.right)
        ours = sum(name not in rights and "tractile" in rights for rights in by_schema.values())
        theirs = sum(name in rights for rights in by_schema.values())
        rest = ", ".join(f"{why} {n}" for why, n in counts.items() if why != "compared") or "none"
        lines.append(f"| {name} | {counts['compared']} | {len(by_schema)} | {ours} | {theirs} | {rest} |")
    lines += [
        "",
        "| engine | kind | accepted by | right | schemas | witness |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    groups = defaultdict(list)
    for each in found:
        groups[each.engine, each.kind, each.accepted_by, each.right].append(each.text)
    for (name, kind, by, right), texts in sorted(
        groups.items(), key=lambda item: (item[0][0], -len(item[1]))
    ):
        shortest = min(texts, key=lambda text: (len(text), text)).replace("|", "\\|")
        shown = shortest if len(shortest) <= 60 else shortest[:59] + "…"
        lines.append(f"| {name} | {kind} | {by} | {right} | {len(texts)} | `{shown}` |")
    return "\n".join(lines)


def main() -> None:
    """Compare and print the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--places", type=int, default=800, help="places visited, of a schema and an engine")
    parser.add_argument("--show", action="store_true", help="every difference")
    parser.add_argument("--out", type=Path, help="every difference as a line of JSON")
    arguments, chosen = arguments_and_rows(parser)
    found: list[Found] = []
    outcomes: dict[str, Counter[str]] = {}
    begin = time.process_time()
    for name, make in ENGINES.items():
        try:
            compile_schema = make()
        except SystemExit as error:
            print(f"{name} is left out: {error}", file=sys.stderr)
            continue
        outcomes[name] = Counter()
        for row in chosen:
            result = compare(row, name, compile_schema, arguments.places)
            outcomes[name]["compared" if isinstance(result, list) else result] += 1
            found += result if isinstance(result, list) else []
    for each in found if arguments.show else []:
        print(
            f"{each.engine} {each.schema}: {each.kind}: only {each.accepted_by}, right {each.right}: {each.text!r}"
        )
    if arguments.out is not None:
        arguments.out.write_text(
            "".join(json.dumps(each._asdict()) + "\n" for each in found), encoding="utf-8"
        )
    print(tables(found, outcomes))
    print(f"\n{len(chosen)} schemas, {arguments.places} places each, {time.process_time() - begin:.0f} s CPU")


if __name__ == "__main__":
    main()
