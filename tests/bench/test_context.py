"""The context head: an HMM that begins where the language model is predicts the first tokens better than from its prior."""

import pytest
import torch

import tractile as tt
from tractile import distill
from tractile.distill.evaluate import predictions
from tractile.errors import FormatError, ShapeError
from tractile_bench import guides
from tractile_bench.guides import context

PROMPTS = ["Once upon a time, there was a", "The dog said", "She was very", "They went to the", '"', "It was"]


def test_beginning_where_the_model_is(tmp_path) -> None:
    model, tokenizer = tt.embedded.load_lm()
    lm, hmm = tt.TransformersLM(model, tokenizer), tt.embedded.load_hmm()
    corpus = distill.sample(lm, tmp_path, 500, 6, PROMPTS, tokenizer=tokenizer)
    fit, test = corpus.split(0.3)
    head = guides.ContextHead.fit(hmm, model, tokenizer, fit, epochs=4)
    head.save_pretrained(tmp_path)
    head = guides.ContextHead.from_pretrained(tmp_path)
    nats = torch.zeros(2)
    for i, prompt in enumerate(PROMPTS):
        tokens = test.select(test.prompt == i).tokens[:, :3]
        informed = head.begin(hmm, model, tokenizer, prompt)
        assert informed.transition is hmm.transition
        nats -= torch.stack([predictions(h, tokens)[0].sum() for h in (hmm, informed)]) / (3 * len(test))
    assert nats[1] < nats[0] - 0.3
    fa = tt.constraints.keywords(["dog"]).compile(tt.Vocabulary.from_tokenizer(tokenizer))
    informed = head.begin(hmm, model, tokenizer, PROMPTS[1])
    post = tt.smc(lm, PROMPTS[1], fa, hmm=informed, particles=2, max_new_tokens=6, seed=0)
    assert "dog" in post.best.text


def test_hidden_states_are_kept_or_computed_again(tmp_path, monkeypatch) -> None:
    """The head is the same; kept states are read from the model once, not once in each epoch."""
    model, tokenizer = tt.embedded.load_lm()
    lm, hmm, counts, heads = tt.TransformersLM(model, tokenizer), tt.embedded.load_hmm(), [], []
    corpus = distill.sample(lm, tmp_path, 24, 4, PROMPTS[:2], tokenizer=tokenizer)
    for most in (context.KEPT_BYTES, 0):
        monkeypatch.setattr(context, "KEPT_BYTES", most)
        calls: list[int] = []
        hook = model.base_model.register_forward_hook(lambda *_, calls=calls: calls.append(1))
        heads.append(guides.ContextHead.fit(hmm, model, tokenizer, corpus, epochs=3, batch_size=8))
        hook.remove()
        counts.append(len(calls))
    assert counts == [3, 9]
    torch.testing.assert_close(heads[0].weight, heads[1].weight, atol=1e-3, rtol=1e-2)


def test_heads_that_do_not_fit(tmp_path) -> None:
    model, tokenizer = tt.embedded.load_lm()
    head = guides.ContextHead(torch.zeros(3, model.config.hidden_size), torch.zeros(3))
    with pytest.raises(ShapeError, match="3 hidden states"):
        head.begin(tt.embedded.load_hmm(), model, tokenizer, "a")
    with pytest.raises(FormatError, match="context"):
        guides.ContextHead.from_pretrained(tmp_path)
