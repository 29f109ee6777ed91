"""What tests of calls in JSON and in Python have in common: tools, and random texts."""

import tractile as tt
from tractile.constraints import Vocabulary
from tractile.errors import BudgetTooSmall

BYTES = Vocabulary([*(bytes([byte]) for byte in range(256)), None], eos_token_id=256)


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
