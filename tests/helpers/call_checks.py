"""What tests of calls in JSON and in Python have in common: random texts, and checks against the finite automaton."""

import random

import pytest

import tractile as tt
from tractile.constraints import Vocabulary
from tractile.constraints.constraint import Constraint
from tractile.errors import BudgetTooSmall

BYTES = Vocabulary([*(bytes([byte]) for byte in range(256)), None], eos_token_id=256)

OPTIONS = [{}, {"parallel": (1, 2)}, {"whitespace": "flexible"}, {"order": "any", "parallel": True}]
"""Ways to ask for calls."""


def walks(constraint, rng, budgets):
    """Random texts, one within each budget of bytes: choices among what the mask allows, so no dead end."""
    automaton = constraint.compile(BYTES)
    for budget in budgets:
        try:
            query = tt.gcd(automaton, budget).start(1)
        except BudgetTooSmall:
            continue
        text = bytearray()
        while (token := rng.choice(query.mask()[0].nonzero().flatten().tolist())) != 256:
            text.append(token)
            query.advance([token])
        assert constraint.accepts(bytes(text))
        yield bytes(text)


def pieces_and_bytes(pieces):
    """A vocabulary of these pieces and of all characters and bytes."""
    words = [piece.encode() for piece in pieces]
    words += [*(chr(i).encode() for i in range(127)), *(bytes([b]) for b in range(127, 256))]
    return Vocabulary([*words, None], eos_token_id=len(words))


def check_guide(constraint, rejected):
    """The abstraction that guides are made of accepts all texts, and not everything."""
    guide = Constraint(constraint.regular(1_000))
    assert all(guide.accepts(text) for text in walks(constraint, random.Random(3), range(30, 150, 3)))
    assert not any(guide.accepts(text) for text in rejected)


def check_masks_and_budgets(constraint, vocab):
    """Masks within three budgets, and the least budget, are those of the finite automaton."""
    whole, finite = constraint.compile(vocab), constraint.finite.compile(vocab)
    with pytest.raises(BudgetTooSmall) as told:
        tt.gcd(whole, 1).start(1)
    least = told.value.needed
    for budget in (least, least + 3, 40):
        for seed in range(3):
            one, other = (tt.gcd(each, budget).start(1) for each in (whole, finite))
            rng = random.Random(budget + seed)
            while int(one.remaining):
                mask = one.mask()
                assert mask.equal(other.mask())
                token = rng.choice(mask[0].nonzero().flatten().tolist())
                one.advance([token])
                other.advance([token])
    for each in (whole, finite):
        with pytest.raises(BudgetTooSmall):
            tt.gcd(each, least - 1).start(1)


def check_masks_of_bytes(constraint, vocab, texts):
    """Along each text a vocabulary with pieces allows the bytes that one of bytes alone allows."""
    for text in texts:
        assert constraint.accepts(text)
        one, other = (tt.lcd(constraint.compile(each)).start() for each in (vocab, BYTES))
        for byte in text.encode():
            assert one.mask()[0][:256].equal(other.mask()[0][:256])
            for query in (one, other):
                query.advance([byte])


TREE = {"type": "object", "properties": {"leaf": {"type": "integer"}, "next": {"$ref": "#/$defs/tree"}}}


BY_KIND = {
    "properties": {"kind": {"enum": ["a", "b"]}, "n": {"type": "integer"}, "s": {"type": "string"}},
    "required": ["kind"],
    "if": {"properties": {"kind": {"const": "a"}}},
    "then": {"required": ["n"]},
    "else": {"required": ["s"]},
}


def tool(name, properties, required=(), **more):
    return {
        "name": name,
        "parameters": {"type": "object", "properties": properties, "required": [*required], **more},
    }
