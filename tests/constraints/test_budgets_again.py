"""Budgets asked for again: what is stated, granted and allowed does not depend on what was asked before."""

import random

import pytest

import tractile as tt
from tractile.errors import BudgetTooSmall

TEXT, FLAG = {"type": "string"}, {"type": "boolean"}
PLAYER = {
    "autoPlay": FLAG, "rates": {"type": "array"}, "buffering": FLAG, "cued": FLAG, "loaded": {"type": "integer"},
}  # fmt: skip
PLAYER |= {"id": TEXT, "url": TEXT}
CODE = {"type": "string", "pattern": "[a-f0-9]{4}-[a-f0-9]{2}"}
PIECES = [
    '{"', '":', '","', '":"', '",', '"}', "true", "false", "[],", "],", "ed", "auto", "Play", "url", '":true', "}}", "0-",
    "00",
]  # fmt: skip
PIECES += ["x=", "= ", "))", "((", " +", "(x", "\n\n", "  "]
VOCAB = tt.Vocabulary(
    [*[bytes([byte]) for byte in range(256)], *(one.encode() for one in PIECES), None], 256 + len(PIECES)
)
ARITHMETIC = r"""
root ::= (expr "=" ws term "\n")+
expr ::= term ([-+*/] term)*
term ::= ident | num | "(" ws expr ")" ws
ident ::= [a-z] [a-z0-9_]* ws
num ::= [0-9]+ ws
ws ::= [ \t\n]*
"""


def schema(members, **more):
    return tt.constraints.json_schema(
        {"type": "object", "properties": members, "required": list(members), **more}
    )


CONSTRAINTS = {
    "many members": lambda: schema(PLAYER, additionalProperties=False),
    "a pattern among members": lambda: schema(
        {"code": CODE, **{name: PLAYER[name] for name in ("url", "cued", "id")}}
    ),
    "new names": lambda: tt.constraints.json_schema({"type": "object", "minProperties": 2}),
    "arithmetic": lambda: tt.constraints.grammar(ARITHMETIC, syntax="gbnf"),
}


def query(name, vocab=VOCAB):
    return tt.gcd(CONSTRAINTS[name]().compile(vocab), horizon=300)


def stated(asked, given=0):
    """The least budget that a refusal states."""
    with pytest.raises(BudgetTooSmall) as refusal:
        asked.start(budgets=given)
    return refusal.value.needed


def masks(asked, budget, seed):
    """The masks along a random walk that follows them to its end."""
    rng, found = random.Random(seed), []
    asked.start(budgets=budget)
    for _ in range(budget):
        allowed = asked.mask()[0].nonzero()[:, 0].tolist()
        found.append(allowed)
        asked.advance([rng.choice(allowed)])
        if asked.states[0] == -2 or allowed == [VOCAB.eos_token_id]:
            break
    return found


@pytest.mark.parametrize("name", CONSTRAINTS)
def test_a_stated_minimum_is_granted_to_whoever_asks(name):
    needed = stated(query(name))
    assert masks(query(name), needed, 0)[-1] == [VOCAB.eos_token_id]
    assert stated(query(name), needed - 1) == needed
    again = query(name)
    assert stated(again, needed - 1) == needed == stated(again)
    assert masks(again, needed, 1)[-1] == [VOCAB.eos_token_id]


@pytest.mark.parametrize("name", CONSTRAINTS)
def test_masks_are_equal_before_and_after_other_requests(name):
    asked = query(name)
    needed = stated(asked)
    for seed in range(3):
        masks(asked, needed + 2 * seed, seed + 100)
    for seed in (0, 3):
        assert masks(asked, needed + seed, seed) == masks(query(name), needed + seed, seed)
