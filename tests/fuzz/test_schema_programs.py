"""Random JSON Schemas as programs: texts from masks within budgets, against ``jsonschema``.

What is left out of the schemas drawn is said in ``test_schemas.py``.
"""

import json
import random

import jsonschema
from hypothesis import given
from hypothesis import strategies as st
from random_schemas import DRAFTS, documents, is_known_difference, verdict

import tractile as tt

REFUSED = (tt.errors.UnsupportedConstraint, tt.errors.TooManyStates)
DOUBTFUL = (b"0000-", b":60")
"""Dates and times that ``jsonschema`` reads otherwise than RFC 3339."""


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
