"""Arrays of distinct items, against ``jsonschema`` and what is read byte by byte: texts, masks and budgets."""

import itertools
import json
import random
from pathlib import Path

import jsonschema
import pytest

import tractile as tt
from tractile.constraints import json_schema
from tractile.constraints.engine.bytes import Bytes

WORDS = [bytes([b]) for b in range(256)]
WORDS += [
    word.encode()
    for line in [
        r'", "|","|", |",|"]|["|"a", "a"|a", "a"|a", "b"|"a"|"b", "a"|["a", "a"|["a", "b"|, "a"]|a"]|b"]|a\|\u0061|ab|ba|é|éa',
        r"[0, 0|[0, 1|, 0|, 1|1, 1|12|120|, 12|0]|1.0|.0, 1|null|null, null|true|, true|[1], [1]|[], []|[[], []|[]|[[|]]",
        r'}, {|{"a": |"}, {"|{"a": 1}|{"a": 1}, {"a": 1}|}, {"a": 1}|"b": 1|{}, {}|, {}|"x": |]}',
    ]
    for word in line.split("|")
]
STRINGS = {"type": "array", "items": {"type": "string"}, "uniqueItems": True}


def tokens_of(mask) -> set[int]:
    return set(mask[0].nonzero().flatten().tolist())


@pytest.mark.parametrize("character", list('a/\\"\n\0é😀'))
def test_no_spelling_of_a_former_item_ends_an_item(character):
    """After the item in each spelling; all that is left of an item of one character is its quote."""
    units = character.encode("utf-16-be")
    spellings = {json.dumps(character, ensure_ascii=raw)[1:-1] for raw in (False, True)}
    spellings |= {
        "".join(rf"\u{units[i : i + 2].hex()}" for i in range(0, len(units), 2)),
        *[r"\/"] * (character == "/"),
    }
    words = [
        *map(str.encode, spellings),
        *(f'{s}"'.encode() for s in spellings),
        b'", "',
        b'["',
        b"\\u",
        b"\\ud83d",
        rb"\ud83d\u",
    ]
    # A token that is no spelling comes last: it is looked at first, and tells what holds for all that are none.
    words = list(dict.fromkeys([*WORDS[:256], *words, "ß".encode()]))
    vocab = tt.Vocabulary([*words, None], eos_token_id=len(words))
    constraint = tt.constraints.json_schema(STRINGS | {"items": {"type": "string", "maxLength": 1}})
    bytewise, automaton = Bytes(constraint.program), constraint.compile(vocab)
    for spelled in spellings:
        query, here = tt.lcd(automaton).start(), bytewise.start
        for word in (b'["', spelled.encode(), b'", "'):
            query.advance([words.index(word)])
            for byte in word:
                here = bytewise.step(here, byte)
        expected = set()
        for token, word in enumerate(words):
            there = here
            for byte in word:
                there = there if there < 0 else bytewise.step(there, byte)
            expected |= {token} if there >= 0 else set()
        assert tokens_of(query.mask()) == expected
        assert not expected & {words.index(f'{s}"'.encode()) for s in spellings}


@pytest.mark.parametrize(
    "distinct", [STRINGS, {"type": "array", "uniqueItems": True, "minItems": 1}], ids=["strings", "values"]
)
def test_what_need_not_be_written_does_not_move_the_least_budget(distinct):
    """The fewest tokens and bytes are those of the schema without the member."""
    plain = {
        "type": "object",
        "properties": {"name": {"type": "string"}, "b": {"type": "string", "minLength": 3}},
        "required": ["name", "b"],
    }
    schema = plain | {"properties": plain["properties"] | {"listed": distinct}}
    vocab = tt.Vocabulary(
        [*WORDS, b'{"name"', b': "', b'", "b": "', b"aaa", b'"}', None], eos_token_id=len(WORDS) + 5
    )
    constraints = [tt.constraints.json_schema(each, open_objects=False) for each in (plain, schema)]
    texts = [each.shortest() for each in constraints]
    assert texts[0] == texts[1]
    assert [each.compile(vocab).fewest_after([]) for each in constraints] == [6, 6]


def walked(automaton, vocab, more):
    """The text of a random walk that has the least budget and some tokens more."""
    query, text, dice = tt.gcd(automaton, automaton.fewest_after([]) + more).start(), b"", random.Random(more)
    while True:
        allowed = sorted(tokens_of(query.mask()))
        assert allowed, text
        token = dice.choice(allowed)
        if token == vocab.eos_token_id:
            return text
        query.advance([token])
        text += vocab.token_bytes[token]


NAMED = {"type": "object", "minProperties": 2, "additionalProperties": {"type": "string"}}
LISTED = STRINGS | {"minItems": 2}


def fewest_tokens(text, vocab):
    """The fewest tokens that write a text, its end included."""
    pieces, best = {piece for piece in vocab.token_bytes if piece}, [0]
    for end in range(1, len(text) + 1):
        best.append(1 + min(best[begin] for begin in range(end) if text[begin:end] in pieces))
    return best[-1] + 1


@pytest.mark.parametrize(
    ("properties", "value"),
    [
        ({"value": NAMED}, {"value": {"": "", "a": ""}}),
        ({"tags": LISTED, "value": NAMED}, {"tags": ["", "a"], "value": {"": "", "a": ""}}),
        ({"tags": LISTED, "x": {"type": "integer"}}, {"tags": ["the", "a"], "x": 1}),
        ({"a": {"type": "array", "items": LISTED, "minItems": 2}}, {"a": [["", "a"], ["", "a"]]}),
    ],
)
def test_a_least_budget_is_not_a_token_for_each_byte(properties, value):
    """Where a text of items that differ has to be written, it is at most that of a text at hand."""
    schema = {"type": "object", "properties": properties, "required": list(properties)}
    several = [
        '{"', '":', '":"', '","', '":{"', '":["', '"]', '"}', '[["', '"],["', '""', '"},"', '"],"', "}}", "]}",
    ]  # fmt: skip
    pieces = [bytes([byte]) for byte in range(256)] + [piece.encode() for piece in several] + [None]
    vocab = tt.Vocabulary(pieces, len(pieces) - 1)
    automaton = tt.constraints.json_schema(schema, whitespace="none").compile(vocab)
    text = json.dumps(value, separators=(",", ":")).encode()
    assert automaton.fewest_after([]) <= fewest_tokens(text, vocab) < 0.8 * len(text)


@pytest.mark.long
def test_a_way_to_the_end_stays_open_with_a_large_vocabulary():
    """Tokens that write the names' end and the value's begin at once: the bound of a member must not be lost inside it."""
    module = pytest.importorskip("mistral_common")
    from mistral_common.tokens.tokenizers.tekken import Tekkenizer

    file = Path(module.__file__).parent / "data/tekken_240911.json"
    vocab = tt.Vocabulary.from_tokenizer(Tekkenizer.from_file(str(file)))
    booleans = {"type": "array", "uniqueItems": True, "items": {"type": "boolean"}, "maxItems": 3}
    named = {"type": "object", "minProperties": 2, "additionalProperties": {"type": "integer"}}
    schema = {
        "type": "object",
        "properties": {"value": named, "name": booleans},
        "required": ["name", "value"],
    }
    text = walked(tt.constraints.json_schema(schema, whitespace="none").compile(vocab), vocab, 0)
    assert jsonschema.Draft202012Validator(schema).is_valid(json.loads(text)), text


TEXTS = ["", "a", "b", "ab", "ba", "é", "~", "a\nb", '"', "a" * 61, "b-1", "b-2"]
VALUES = [*TEXTS, 1, 1.0, True, None, [], ["a"], ["a", "a"], {}, {"a": 1}]


@pytest.mark.parametrize(
    "items",
    [
        {"type": "string"},
        {"type": "string", "pattern": "^b"},
        {"type": "string", "maxLength": 20},
        {"anyOf": [{"type": "string", "pattern": "^a"}, {"enum": ["b-1", "é"]}]},
    ],
    ids=str,
)
@pytest.mark.parametrize("least", [0, 1, 2])
def test_arrays_of_up_to_three_values_are_those_of_jsonschema(items, least):
    """All arrays of up to three of the values."""
    schema = {"type": "array", "uniqueItems": True, "items": items, "minItems": least}
    validator = jsonschema.Draft202012Validator(schema)
    constraint = json_schema(schema)
    rng = random.Random(0)
    triples = [[rng.choice(VALUES) for _ in range(3)] for _ in range(100)]
    for found in [[], *([v] for v in VALUES), *map(list, itertools.product(VALUES, repeat=2)), *triples]:
        assert constraint.accepts(json.dumps(found, ensure_ascii=False)) == validator.is_valid(found), found


def test_a_finite_automaton_has_one_item_and_says_so():
    constraint = json_schema({"type": "array", "uniqueItems": True, "items": {"type": "string"}})
    found = constraint.within()
    assert [cut.keyword for cut in found.narrowed] == ["uniqueItems"]
    assert found.accepts('["x"]')
    assert not found.accepts('["x", "y"]')
