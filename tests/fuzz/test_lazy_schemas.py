"""Random JSON Schemas as lazy automata: against ``jsonschema``, against the materialised automaton, and what the protocol of
lazy automata promises of every configuration that is met.

What is left out of the schemas drawn is said in ``test_schemas.py``.
"""

import json
import random
from itertools import pairwise

import jsonschema
from hypothesis import given
from hypothesis import strategies as st
from random_schemas import DRAFTS, documents, instances, is_known_difference, verdict

import tractile as tt
from tractile.constraints.automata.comparing_stack import RecordingAutomaton
from tractile.constraints.automata.dfa import minimize
from tractile.constraints.automata.lazy import Numbered, explore
from tractile.constraints.json.document import read_schema
from tractile.constraints.json.lazy import lazy_schema

REFUSED = (tt.errors.UnsupportedConstraint, tt.errors.TooManyStates)
DOUBTFUL = (b"0000-", b":60")
"""Dates and times that ``jsonschema`` reads otherwise than RFC 3339."""


def made(document, whitespace="space", order="any", plain=False):
    """The lazy automaton of a schema and what it lacks."""
    whitespace, *writing = ("space", None, "any", "\t") if whitespace == "indent" else (whitespace,)
    options = (whitespace, order, None, None, True, "assert", plain, None, *writing)
    automaton, narrowed = lazy_schema(read_schema(document), False, options)
    return RecordingAutomaton(automaton), narrowed


def walk(states, rng, length):
    """The states along a random text, with the text so far."""
    state, text = states.start(), b""
    for _ in range(length):
        yield state, text
        moves = states.moves(state)
        if not moves:
            return
        marks = [move for move in moves if move[0] in b'"}],:{[0123456789 ']
        low, high, state = rng.choice(marks if marks and rng.random() < 0.6 else moves)
        text += bytes([rng.randint(low, high)])


@given(st.data(), documents(), st.sampled_from(["any", "declared"]))
def test_texts_are_those_of_valid_values(data, document, order):
    if is_known_difference(document):
        return
    validator = DRAFTS[document["$schema"]](document, format_checker=jsonschema.FormatChecker())
    try:
        automaton, narrowed = made(document, order=order)
        states = Numbered(automaton)
        for _ in range(6):
            instance = data.draw(instances(document, document))
            valid = verdict(validator, instance)
            if valid is None:
                return
            text = json.dumps(instance, ensure_ascii=False)
            accepted = states.accepts(text.encode())
            assert valid or not accepted, text
            assert accepted or not valid or order == "declared" or narrowed, text
    except REFUSED:
        return


@given(documents(), st.integers(0, 10**6), st.sampled_from(["none", "space", "flexible", "indent"]))
def test_every_configuration_can_be_completed(document, seed, whitespace):
    if is_known_difference(document):
        return
    validator = DRAFTS[document["$schema"]](document, format_checker=jsonschema.FormatChecker())
    rng = random.Random(seed)
    try:
        automaton, _ = made(document, whitespace)
        states = Numbered(automaton)
        if states.start() < 0:
            return
        for state, text in walk(states, rng, 40):
            rest = automaton.completion(states.configurations[state])
            end = states.run(state, rest)
            assert end >= 0, (text, rest)
            assert states.accepting(end), (text, rest)
            whole = text + rest
            if not any(each in whole for each in DOUBTFUL):
                assert verdict(validator, json.loads(whole)) is not False, whole
    except REFUSED:
        return


@given(documents(), st.integers(0, 10**6))
def test_bodies_steps_and_views_say_what_moves_do(document, seed):
    rng = random.Random(seed)
    try:
        automaton, _ = made(document)
        states = Numbered(automaton)
        if states.start() < 0:
            return
        met = [state for length in (15, 30, 45) for state, _ in walk(states, rng, length)]
        views = {}
        for state in dict.fromkeys(met):
            configuration = states.configurations[state]
            check_moves(automaton, configuration, rng)
            reach = rng.choice([2, 5, 9])
            other = views.setdefault((automaton.view(configuration, reach), reach), state)
            if other != state:
                check_alike(states, state, other, reach, rng)
    except REFUSED:
        return


def check_moves(automaton, configuration, rng):
    """``step`` is what ``moves`` says, and ``body`` too."""
    moves = automaton.moves(configuration)
    assert all(a.high < b.low for a, b in pairwise(moves))
    for low, high, target in moves:
        assert automaton.step(configuration, rng.randint(low, high)) == target
    body = automaton.body(configuration)
    if body is None or body.most == 0:
        return
    letters = body.letters.nfa
    rows = {}
    for source, low, high, target in letters.edges.tolist():
        rows.setdefault(source, []).append((low, high, target))
    at, within, count, first = configuration, 0, 0, True
    for _ in range(12):
        low, high, target = rng.choice(rows[within])
        byte = rng.randint(low, high)
        if first and byte in body.exceptions:
            continue
        first, within = False, target
        at = automaton.step(at, byte)
        assert at is not None
        if not within:
            count += 1
            expected = body.after(count)
            assert at == expected
            if count == body.most:
                break
    starts = [(low, high) for low, high, _ in rows[0]]
    for low, high, _ in moves:
        if any(a <= low and high <= b for a, b in starts) or low in body.exceptions:
            continue
        assert not any(a <= low <= b for a, b in starts)


def check_alike(states, one, other, reach, rng):
    """Two states accept the same beginnings of some length."""
    for a, b in ((one, other), (other, one)):
        for _ in range(3):
            x, y = a, b
            for _ in range(reach):
                assert states.accepting(x) == states.accepting(y)
                moves = states.moves(x)
                if not moves:
                    break
                low, high, x = rng.choice(moves)
                y = states.after(y, rng.randint(low, high))
                assert y >= 0


@given(documents(), st.sampled_from(["none", "space", "flexible", "indent"]), st.booleans())
def test_languages_are_those_of_the_materialised_automaton(document, whitespace, plain):
    """Where that one is exact, with members as declared: a lazy automaton lets undeclared members stand anywhere."""
    writing = {"indent": "\t"} if whitespace == "indent" else {"whitespace": whitespace}
    options = {"order": "declared", **writing, "formats": "assert", "on_narrowed": "ignore"}
    try:
        old = tt.constraints.json_schema(document, numbers="plain" if plain else "any", **options)
        if old.narrowed:
            return
        found = minimize(explore(made(document, whitespace, "declared", plain)[0], 2_000))
    except REFUSED:
        return
    new = tt.constraints.Constraint(found, ())
    assert (old & ~new).is_empty()
    assert (new & ~old).is_empty()


PIECES = [
    '": ',
    '", "',
    '"}',
    "}}",
    '["',
    '"]',
    '{"',
    '": {',
    "null",
    "true",
    "]}",
    "12",
    ", ",
    "[]",
    "{}",
    "[{",
    '"},',
    "}]",
]
PIECES += ["\n\t", "{\n", "\n}", ",\n\t"]
WORDS = [bytes([byte]) for byte in range(256)] + [piece.encode() for piece in PIECES]
VOCAB = tt.Vocabulary([*WORDS, None], eos_token_id=len(WORDS))


@given(documents(), st.integers(0, 10**6), st.sampled_from(["space", "flexible", "indent"]))
def test_texts_drawn_from_masks_end_in_time(document, seed, whitespace):
    """By the public calls, within budgets from the smallest on: no mask is empty, and every text is valid."""
    if is_known_difference(document):
        return
    validator = DRAFTS[document["$schema"]](document, format_checker=jsonschema.FormatChecker())
    writing = {"indent": "\t"} if whitespace == "indent" else {"whitespace": whitespace}
    rng = random.Random(seed)
    try:
        constraint = tt.constraints.json_schema(document, formats="assert", on_narrowed="ignore", **writing)
        automaton = constraint.compile(VOCAB)
        least = automaton.fewest_after([])
        for more in (0, 1, 3, 8):
            query, out = tt.gcd(automaton, least + more).start(), list[int]()
            while not out or out[-1] != VOCAB.eos_token_id:
                allowed = query.mask()[0].nonzero().flatten().tolist()
                text = b"".join(WORDS[token] for token in out)
                assert allowed, text
                marks = [t for t in allowed if t >= 256 or WORDS[t] in b'"}],:{[0123456789 \n\t']
                out.append(rng.choice(marks if marks and rng.random() < 0.7 else allowed))
                query.advance([out[-1]])
            assert constraint.accepts(text), text
            if not any(each in text for each in DOUBTFUL):
                assert verdict(validator, json.loads(text)) is not False, text
    except (*REFUSED, tt.errors.EmptyLanguage):
        return
