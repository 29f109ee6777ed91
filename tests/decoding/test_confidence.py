"""``generate(…, confidence=True)``: fields of typed answers, against enumeration."""

import enum
import math
from typing import Literal

import pytest
import torch
from pydantic import BaseModel, field_validator

import tractile as tt
from tractile.embedded import load_hmm, load_lm
from tractile.inference.smc import ABSENT

PROMPT = "Tom has a pet. It is a"
PETS = " cat", " dog", " bird"


def masses(texts, budget):
    """p_lm of each text in all its spellings within the budget, by one pass of the model for each prefix."""
    model, tokenizer = load_lm()
    fa = tt.constraints.any_of(*texts).compiled_for(tokenizer)
    prompt, found, todo = tokenizer(PROMPT).input_ids, dict.fromkeys(texts, 0.0), [((), 0.0)]
    for prefix, log_p in todo:
        query = tt.gcd(fa, budget).start(1, budget)
        for token in prefix:
            query.advance([token])
        with torch.no_grad():
            row = model(torch.tensor([[*prompt, *prefix]])).logits[0, -1].double().log_softmax(0)
        for token in query.mask()[0].nonzero()[:, 0].tolist():
            if token == tokenizer.eos_token_id:
                text = tokenizer.decode([*prompt, *prefix])[len(tokenizer.decode(prompt)) :]
                found[text] += math.exp(log_p + float(row[token]))
            else:
                todo.append(((*prefix, token), log_p + float(row[token])))
    return found


@pytest.fixture(scope="module")
def lm():
    return load_lm()


def test_an_answer_with_its_probability(lm):
    value, sure = tt.generate(*lm, PROMPT, Literal[PETS], max_new_tokens=8, confidence=True)
    field = sure[""]
    assert (list(sure), len(sure), "" in sure, "kind" in sure) == ([""], 1, True, False)
    assert field.exact
    truth = masses(PETS, 8)
    for pet, p in truth.items():
        assert field.probability(pet) == pytest.approx(p / sum(truth.values()), abs=1e-3)
    assert sure.rows() == [("", value, field.estimate(value))]
    assert repr(value) in str(sure)
    assert "exact" in str(field)
    assert repr(sure) == "Confidence(the answer)"
    for shown in (sure._repr_html_(), field._repr_html_()):
        assert f"{field.estimate(value).value:.3f}" in shown
    again = tt.generate(*lm, PROMPT, Literal[PETS], max_new_tokens=8, confidence=True)[1]
    assert again[""].entries == field.entries


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Bird(BaseModel):
    wings: Literal[2]


class Fish(BaseModel):
    colour: Colour


class Pets(BaseModel):
    pets: list[Bird | Fish]

    @field_validator("pets")
    @classmethod
    def not_many(cls, pets):
        if not 1 <= len(pets) <= 2:
            raise ValueError("one or two")
        return pets


def test_lists_unions_and_validators(lm):
    asked = {"max_new_tokens": 40, "particles": 8, "posterior": True, "confidence": True}
    value, post, sure = tt.generate(*lm, "Two pets:", Pets, **asked)
    assert isinstance(value, Pets)
    assert all(path.startswith("pets[") for path in sure)
    first = sure["pets[0].colour"]
    assert {type(one) for one, _ in first} <= {Colour, type(ABSENT)}
    assert sum(p.value for _, p in first) == pytest.approx(1)
    wings = sure["pets[0].wings"]
    assert wings.probability(ABSENT) == pytest.approx(1 - first.probability(ABSENT))
    for one, _ in post.field("pets"):
        assert 1 <= len(one) <= 2
    for path, part, p in sure.rows():
        assert 0 <= p.low <= p.value <= p.high <= 1, (path, part)
    assert post.parse(post.best.text) == value


def test_prompts_hmms_and_tools(lm):
    def feed(a: Literal["cat", "dog"]) -> str:
        """Feed an animal."""
        return a

    values, sures = tt.generate(
        *lm,
        [PROMPT, "The dog is"],
        feed,
        max_new_tokens=32,
        particles=2,
        hmm=[load_hmm(), None],
        confidence=True,
    )
    for call, sure in zip(values, sures, strict=True):
        assert sure["name"].probability("feed") == pytest.approx(1)
        assert set(sure) == {"name", "arguments.a"}
        assert sure["arguments.a"].probability(call.arguments["a"]) > 0


def test_what_goes_with_no_confidence(lm):
    for wrong in ({"samples": 3}, {"stream": True}):
        with pytest.raises(tt.errors.EvidenceError, match="confidence"):
            tt.generate(*lm, PROMPT, Literal[PETS], confidence=True, **wrong)
