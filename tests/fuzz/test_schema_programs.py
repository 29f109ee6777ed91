"""Random JSON Schemas as programs: against ``jsonschema``, byte by byte and from masks within budgets.

What is left out of the schemas drawn is said in ``test_schemas.py``.
"""

import json
import random

import jsonschema
from hypothesis import given
from hypothesis import strategies as st
from random_schemas import DRAFTS, documents, instances, is_known_difference, verdict

import tractile as tt
from tractile.constraints.engine.bytes import Bytes

REFUSED = (tt.errors.UnsupportedConstraint, tt.errors.TooManyStates)
DOUBTFUL = (b"0000-", b":60")
"""Dates and times that ``jsonschema`` reads otherwise than RFC 3339."""


def made(document, whitespace="space", order="any"):
    """The states of a schema over bytes and what it lacks."""
    writing = {"indent": "\t"} if whitespace == "indent" else {"whitespace": whitespace}
    constraint = tt.constraints.json_schema(
        document, order=order, formats="assert", on_narrowed="ignore", **writing
    )
    return Bytes(constraint.program), constraint.narrowed


def walk(states, rng, length):
    """The states along a random text, with the text so far."""
    state, text = states.start, b""
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
        states, narrowed = made(document, order=order)
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
        states, _ = made(document, whitespace)
        if states.is_empty:
            return
        for state, text in walk(states, rng, 40):
            rest = states.completion(state)
            assert states.accepts(text + rest), (text, rest)
            whole = text + rest
            if not any(each in whole for each in DOUBTFUL):
                assert verdict(validator, json.loads(whole)) is not False, whole
    except REFUSED:
        return


PIECES = [
    '": ', '", "', '"}', "}}", '["', '"]', '{"', '": {', "null", "true", "]}", "12", ", ", "[]", "{}", "[{", '"},', "}]",
]  # fmt: skip
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
