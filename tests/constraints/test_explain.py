"""Where a text stops to satisfy a constraint, against a search in the accepted texts."""

import json

import pytest
from pydantic import BaseModel
from typer.testing import CliRunner

import tractile as tt
from tractile.cli import app
from tractile.errors import BudgetTooSmall, EmptyLanguage

TEXTS = {
    "(cat|dog)s?": ["cat", "cats", "dog", "dogs"],
    "a{2,3}b?c": ["aac", "aabc", "aaac", "aaabc"],
    "[a-c]x|[a-c]yy|": ["", "ax", "bx", "cx", "ayy", "byy", "cyy"],
    "é|è|ab": ["é", "è", "ab"],
    "(ab|abc)(d|cd)": ["abd", "abcd", "abccd"],
}


@pytest.mark.parametrize("pattern", TEXTS)
def test_the_place_is_that_of_a_search_in_all_texts(pattern):
    wanted, accepted = tt.constraints.regex(pattern), TEXTS[pattern]
    texts = {
        a[:n] + more
        for a in accepted
        for n in range(len(a) + 1)
        for more in ("", "a", "x", "é", "ß", "sd", "cd")
    }
    for text in sorted(texts):
        why = tt.explain(wanted, text)
        begins = max(n for n in range(len(text) + 1) if any(a.startswith(text[:n]) for a in accepted))
        assert why.accepted == (text in accepted)
        assert why.before == text[:begins]
        assert why.at == len(why.before.encode())
        assert why.found == text[begins : begins + 1]
        assert why.may_end == (why.before in accepted)
        assert wanted.accepts(why.before + why.completion)
        assert ("satisfies" in str(why)) == why.accepted
        follow = {a[begins] for a in accepted if a.startswith(why.before) and len(a) > begins}
        for letter in follow:
            assert any(
                one.startswith(letter)
                or (one == "other characters" and not letter.isascii())
                or (len(one) == 3 and one[1] == "–" and one[0] <= letter <= one[2])
                for one in why.could
            )
        assert bool(follow) == bool(why.could)


class Pet(BaseModel):
    kind: str
    age: int


SCHEMA = {
    "type": "object",
    "properties": {
        "pets": {"type": "array", "items": {"type": "object", "properties": {"age": {"type": "integer"}}}}
    },
    "required": ["pets"],
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    ("text", "at", "path", "found"),
    [
        ('{"pets": [{"age": 3}, {"age": "x"}]}', 30, "/pets/1/age", '"'),
        ('{"pets": [{"age": 3}], "dogs": 1}', 21, "/pets", ","),
        ('{"pats": []}', 3, "", "a"),
        ('{"pets": [', 10, "/pets/0", ""),
    ],
)
def test_json_has_the_place_in_the_value(text, at, path, found):
    why = tt.explain(SCHEMA, text)
    assert not why.accepted
    assert (why.path, why.found, why.before) == (path, found, text[: why.at])
    assert why.at == at
    json.loads(why.before + why.completion)
    assert why.to_dict()["at"] == at


def test_words_that_must_come_are_shown_whole():
    why = tt.explain(Pet, '{"kind": "cat", ')
    assert any("age" in one for one in why.could)
    assert "a shortest end" in str(why)
    assert tt.explain(Pet, '{"kind": "cat", "age": 3}').accepted
    assert str(tt.explain(Pet, '{"kind": "cat", "age": 3}')) == "satisfies the constraint"


def test_nothing_explains_what_nothing_satisfies():
    with pytest.raises(EmptyLanguage):
        tt.explain(tt.constraints.regex("a") & tt.constraints.regex("b"), "a")


def test_on_the_command_line():
    run = CliRunner().invoke(app, ["compile", "--regex", "(cat|dog)s?", "--explain", "cap"])
    assert run.exit_code == 1
    assert "stops at byte 2: 'ca' goes on with 'p'" in run.output
    run = CliRunner().invoke(app, ["compile", "--regex", "(cat|dog)s?", "--explain", "cats", "--json"])
    assert run.exit_code == 0
    assert json.loads(run.output)["accepted"] is True


# ------------------------------------------------------------ a budget that is too small carries a text that shows it

MODEL, TOKENIZER = tt.embedded.load_lm()


@pytest.mark.parametrize(
    "output",
    [Pet, tt.constraints.regex(" [a-z]{30,60}"), tt.constraints.any_of("an umbrella")],
)
def test_a_budget_that_is_too_small_carries_a_shortest_text(output):
    kind = tt.constraints.output_type(output)
    prompt = TOKENIZER("Tom has", return_tensors="pt", return_token_type_ids=False)

    def masked():
        processor = tt.ConstraintLogitsProcessor(output, tokenizer=TOKENIZER, max_new_tokens=2)
        MODEL.generate(**prompt, max_new_tokens=2, logits_processor=[processor])

    for ask in (lambda: tt.generate(MODEL, TOKENIZER, "Tom has", output, max_new_tokens=2), masked):
        with pytest.raises(BudgetTooSmall) as raised:
            ask()
        error = raised.value
        assert len(error.tokens) == error.needed
        assert error.tokens[-1] == TOKENIZER.eos_token_id
        assert kind.accepts(error.text)
        assert kind.constraint.accepts(error.text)
        assert kind.constraint.compile(TOKENIZER).accepts_tokens(error.tokens)
