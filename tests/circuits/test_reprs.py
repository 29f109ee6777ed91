"""What people print is short and says how large a thing is; printing works nothing out."""

import pytest
import torch

import tractile as tt

VOCAB = tt.Vocabulary([None, b"a", b"b", None], eos_token_id=0)
HMM = tt.HMM.random(3, 4, seed=0)
FINITE = tt.constraints.regex("[ab]{2}").compile(VOCAB)
LAZY = tt.constraints.json_schema({"type": "integer"})
TABLE = tt.lm.TableLM({(): torch.full((4,), 0.25, dtype=torch.float64).log()})
POST = tt.inference.smc.Posterior(
    [(1,), (2,)], ["a", "<b>"], torch.tensor([1.0, 3.0]).double().log(), torch.zeros(2).double()
)


@pytest.mark.parametrize(
    ("thing", "words"),
    [
        (VOCAB, "Vocabulary(4 tokens, 2 of them special, end token 0)"),
        (TABLE, "TableLM(1 contexts, 4 tokens)"),
        (tt.CircuitLM(HMM), "CircuitLM(HMM(states=(3,), units=(3,), vocab_size=4))"),
        (tt.gcd(FINITE, 5).start(2), "GCDQuery(2 rows, a horizon of 5 tokens, 4 tokens)"),
        (tt.lcd(FINITE).start(1), "GCDQuery(1 rows, no horizon, 4 tokens)"),
        (tt.pgcd(HMM, FINITE, 5).start(3), "PGCDQuery(3 rows, a horizon of 5 tokens, 4 tokens)"),
        (LAZY, "Constraint(states made when they are met"),
    ],
)
def test_reprs(thing, words):
    assert repr(thing).startswith(words)


def test_queries_can_be_printed_before_they_start():
    for query in (tt.gcd(FINITE, 5), tt.pgcd(HMM, FINITE, 5)):
        assert "not started" in repr(query)
        assert "2 rows" in repr(query.start(2))


def test_printing_a_lazy_automaton_does_not_write_it_out():
    model, tokenizer = tt.embedded.load_lm()
    fa = LAZY.compile(tokenizer)
    assert repr(fa) == "ConstraintAutomaton(states made when they are met, vocab_size=1024)"
    assert "1024" in fa._repr_html_()
    assert "_finite" not in vars(fa)
    assert (
        repr(tt.TransformersLM(model, tokenizer))
        == "TransformersLM(LlamaForCausalLM, 1,024 tokens, temperature 1)"
    )


def test_notebooks_show_tables():
    html = POST._repr_html_()
    assert "<td>0.750</td><td>&lt;b&gt;</td>" in html
    assert "2 particles, 2 distinct" in html
    narrowed = tt.constraints.keywords(["dog"], inflections=False)
    assert "<td>word_boundaries</td>" in narrowed._repr_html_()
    assert "<table>" not in tt.constraints.regex("a")._repr_html_()
    assert "<table>" in FINITE.finite._repr_html_()
