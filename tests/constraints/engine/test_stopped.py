"""What stops while a program is given to the engine leaves it fit for the next."""

import pytest

import tractile as tt
from tractile.constraints.engine import cores

VOCAB = tt.Vocabulary([*(bytes([b]) for b in range(256)), None], eos_token_id=256)
SCHEMA = {"type": "array", "items": {"$ref": "#"}, "maxItems": 3}


@pytest.mark.parametrize("stop", range(6))  # its nodes
def test_a_program_that_was_stopped_on_its_way_can_be_given_again(monkeypatch, stop):
    monkeypatch.setattr(cores, "_shared", type(cores._shared)())
    given, add = [], cores.CoreEngine._add

    def stopped(self, node):
        given.append(node)
        if len(given) == stop + 1:
            raise KeyboardInterrupt
        return add(self, node)

    constraint = tt.constraints.json_schema(SCHEMA)
    with monkeypatch.context() as patch:
        patch.setattr(cores.CoreEngine, "_add", stopped)
        with pytest.raises(KeyboardInterrupt):
            constraint.compile(VOCAB)
    automaton = constraint.compile(VOCAB)
    assert automaton.accepts_tokens([*b"[[[], []], []]", 256])
    assert not automaton.accepts_tokens([*b"[[], [], [], []]", 256])
