"""Rows of one model that come and go: joined batches against a full forward pass of each row."""

import networks
import pytest
import torch

import tractile as tt

V, EOS = 50, 2


def gemma():
    """Layers with a window of 4 tokens, and one that attends to everything."""
    from transformers import Gemma3ForCausalLM, Gemma3TextConfig

    torch.manual_seed(2)
    kinds = ["sliding_attention", "full_attention", "sliding_attention"]
    sizes = {**networks.SIZES, "num_hidden_layers": 3, "head_dim": 8}
    config = Gemma3TextConfig(
        vocab_size=V, sliding_window=4, layer_types=kinds, initializer_range=0.3, pad_token_id=0, **sizes
    )
    return Gemma3ForCausalLM(config).eval()


MODELS = {"llama": lambda: networks.llama(V, initializer_range=0.3), "gemma": gemma}


@pytest.mark.parametrize("share", [True, False], ids=["shared", "padded"])
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("seed", range(2))
def test_joined_rows_are_those_of_a_full_pass(name, share, seed):
    model = MODELS[name]()
    generator = torch.Generator().manual_seed(seed)

    def some(least, most, *shape):
        return torch.randint(least, most, shape, generator=generator)

    def plain(tokens):
        with torch.no_grad():
            return model(input_ids=torch.tensor([tokens]), use_cache=False).logits[0, -1].log_softmax(-1)

    lm, rows = tt.TransformersLM(model, None, eos_token_id=EOS, share_prompts=share), [[5, 6, 7]]
    (whole := lm.fork()).start(rows)
    assert (whole._shared is not None) is share
    for step in range(36):
        if step % 3 == 0:  # others come, at the same length or another
            new = [some(3, V, int(some(1, 9))).tolist() for _ in range(int(some(1, 3)))]
            other = lm.fork()
            other.start(new)
            whole.join(other)
            rows = rows + new
            assert whole._mask is None or bool(whole._mask[:, 0].any()), "no column is padding alone"
        if step % 4 == 1:  # some go, the longest first
            kept = sorted(range(len(rows)), key=lambda i: len(rows[i]))[:4]
            whole.select(torch.tensor(kept))
            rows = [rows[i] for i in kept]
        tokens = some(3, V, len(rows))
        tokens[torch.rand(len(rows), generator=generator) < 0.2] = -1  # some wait
        whole.advance(tokens)
        rows = [row if t < 0 else [*row, t] for row, t in zip(rows, tokens.tolist(), strict=True)]
        expected = torch.stack([plain(row) for row in rows]) if step % 2 else whole.log_probs()
        torch.testing.assert_close(whole.log_probs(), expected, rtol=2e-4, atol=2e-4)


def test_finished_rows_stay_finished():
    lm = tt.TransformersLM(networks.llama(V), None, eos_token_id=EOS)
    one, other = lm.fork(), lm.fork()
    one.start([[3]])
    other.start([[4, 5], [6]])
    other.advance(torch.tensor([7, EOS]))
    one.join(other)
    one.advance(torch.tensor([8, 9, EOS]))
    assert one.log_probs()[:, EOS].exp().tolist() == pytest.approx([0, 0, 1], abs=0.2)
    assert one.log_probs()[2, EOS] == 0
