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


def test_posteriors_are_the_engines_marginals() -> None:
    for form in ("dense", "monarch"):
        hmm = tt.HMM.random(6, 4, form, seed=2, dtype=torch.float64)
        tokens = torch.randint(4, (3, 5), generator=torch.Generator().manual_seed(0))
        found = distill.posteriors(hmm, tokens)
        for t in range(5):  # p(z_t = h, x) with the emissions of all other states struck out at t
            for h in range(6):
                expected = torch.zeros(3, dtype=torch.float64)
                for row, text in enumerate(tokens):
                    message = hmm.initial_probs
                    for i, token in enumerate(text.tolist()):
                        message = message * hmm.emission_probs[:, token]
                        if i == t:
                            message = message * torch.nn.functional.one_hot(torch.tensor(h), 6)
                        message = message @ hmm.transition.dense()
                    expected[row] = message.sum()
                torch.testing.assert_close(found[:, t, h], expected / hmm.log_prob(tokens).exp())


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
        hook = model.register_forward_hook(lambda *_, calls=calls: calls.append(1))
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


def test_what_a_guide_is_worth() -> None:
    """An HMM that is the model leaves nothing to chance, and a weaker one something; without one there is more."""
    truth = tt.HMM.random(5, 4, seed=3, dtype=torch.float64)
    other = tt.HMM.random(5, 4, seed=4, dtype=torch.float64)
    mixed = tt.HMM(
        torch.lerp(truth.initial_probs, other.initial_probs, 0.3),
        torch.lerp(truth.transition.weight, other.transition.weight, 0.3),
        torch.lerp(truth.emission_probs, other.emission_probs, 0.3),
    )
    lm = tt.CircuitLM(truth)
    edges = [(0, [1, 2, 3], 0), (0, 0, 1), (1, 1, 0), (1, 0, 2), (2, [1, 2], 2)]
    fa = tt.Automaton.from_edges(edges, 0, {2}, 4)

    def after(prompt: list[int]) -> tt.HMM:
        message = truth.initial_probs
        for token in prompt:
            message = (message * truth.emission_probs[:, token]) @ truth.transition.dense()
        return tt.HMM(message / message.sum(), truth.transition, truth.emission_probs)

    guides = {"none": None, "mixed": mixed, "truth": after}
    found = distill.guidance(lm, [[], [1], [2, 3]], fa, guides, 7)
    assert found["truth"].deviation < 1e-6
    assert found["truth"].effective == pytest.approx(1)
    assert 1e-3 < found["mixed"].deviation < found["none"].deviation
    assert found["none"].effective < found["mixed"].effective < 1
