"""HMM checkpoints of the Ctrl-G family, made here as ``PyTorchModelHubMixin`` writes them, against sums written out."""

import itertools
import json
import math

import numpy as np
import pytest
import torch
from huggingface_hub import PyTorchModelHubMixin
from oracle import assert_log_close
from safetensors.torch import load_file, save_file

import tractile as tt
from tractile.errors import FormatError
from tractile.layers import Monarch

H, V, EOS = 12, 7, 3


class Model(torch.nn.Module, PyTorchModelHubMixin):
    """A dense HMM; the last state emits the end-of-sequence token alone, and stays."""

    def __init__(self, hidden_states: int, vocab_size: int, eos_token_id: int):
        super().__init__()
        gen = torch.Generator().manual_seed(0)
        alpha = torch.rand(hidden_states, hidden_states, generator=gen).softmax(1)
        alpha[-1] = 1e-10
        alpha[-1, -1] = 1.0
        beta = torch.randn(hidden_states, vocab_size, generator=gen)
        beta[:, eos_token_id], beta[-1, eos_token_id] = -1e10, 1e10
        self.alpha_exp = torch.nn.Parameter(alpha)
        self.beta = torch.nn.Parameter(beta.log_softmax(1))
        self.gamma = torch.nn.Parameter(torch.randn(hidden_states, generator=gen))  # not normalised


class Factors(torch.nn.Module):
    def __init__(self, weights):
        super().__init__()
        self.weights_exp = torch.nn.ParameterList(weights)


class MonarchModel(torch.nn.Module, PyTorchModelHubMixin):
    """A Monarch HMM: the transition is a list of batches of blocks."""

    def __init__(self, hidden_states: int, block_sizes: list[int], vocab_size: int, eos_token_id: int):
        super().__init__()
        gen = torch.Generator().manual_seed(1)
        self.alpha_exp = Factors(
            [
                torch.randn(hidden_states // b, b, b, generator=gen).mul(2).softmax(-1).clamp(min=1e-6)
                for b in block_sizes
            ]
        )
        self.beta = torch.nn.Parameter(torch.randn(hidden_states, vocab_size, generator=gen).log_softmax(1))
        self.gamma_exp = torch.nn.Parameter(torch.randn(1, hidden_states, generator=gen).softmax(1))


def likelihood(initial, transition, emission, x):
    """log p(x), by matrices."""
    alpha = initial * emission[:, x[0]]
    for v in x[1:]:
        alpha = (alpha @ transition) * emission[:, v]
    return math.log(alpha.sum())


def blocks_applied(factors, vector):
    """The transition times a vector, from the last factor to the first: blocks, then the two axes change places."""
    for weight in reversed(factors):
        pieces = vector.reshape(-1, weight.shape[-1])
        vector = np.stack([w @ piece for w, piece in zip(weight, pieces, strict=True)]).T.reshape(-1)
    return vector


def test_a_dense_checkpoint(tmp_path):
    model = Model(H, V, EOS)
    model.save_pretrained(tmp_path, config={"hidden_states": H, "vocab_size": V, "eos_token_id": EOS})
    hmm = tt.HMM.from_pretrained(tmp_path, torch.float64)
    alpha, beta, gamma = (p.detach().double().numpy() for p in (model.alpha_exp, model.beta, model.gamma))
    initial = np.exp(gamma) / np.exp(gamma).sum()
    alpha = alpha / alpha.sum(1, keepdims=True)
    emission = np.exp(beta) / np.exp(beta).sum(1, keepdims=True)
    x = np.random.default_rng(0).integers(0, V, (20, 6))
    x[:, 4:] = EOS
    x[:, :4][x[:, :4] == EOS] = 0
    expected = [likelihood(initial, alpha, emission, row) for row in x]
    assert_log_close(tt.log_marginal(hmm, torch.tensor(x)), expected, 1e-6)
    assert hmm.emission_probs[-1].tolist() == [float(v == EOS) for v in range(V)]
    ends = tt.log_marginal(hmm, torch.tensor([[0, EOS, 0]]))  # nothing but padding follows the end
    assert ends.item() < math.log(1e-8)


@pytest.mark.parametrize("blocks", [[3, 4], [4, 3], [2, 3, 2], [12], [3, 2, 2, 1]])
def test_a_monarch_checkpoint(tmp_path, blocks):
    model = MonarchModel(H, blocks, V, EOS)
    model.save_pretrained(
        tmp_path, config={"hidden_states": H, "block_sizes": blocks, "vocab_size": V, "eos_token_id": EOS}
    )
    hmm = tt.HMM.from_pretrained(tmp_path, torch.float64)
    assert isinstance(hmm.transition, Monarch)
    factors = [w.detach().double() for w in model.alpha_exp.weights_exp]
    factors = [(w / w.sum(-1, keepdim=True)).numpy() for w in factors]
    expected = np.stack([blocks_applied(factors, column) for column in np.eye(H)], 1)
    np.testing.assert_allclose(hmm.transition.dense().numpy(), expected, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(hmm.initial_probs.numpy(), model.gamma_exp.detach()[0].numpy(), rtol=1e-5)
    assert abs(tt.partition(hmm, n=9).item()) < 1e-10
    query = tt.pgcd(hmm, tt.Automaton.from_edges([(0, [0, 1, 2], 0), (0, 4, 1)], 0, [1], V), 5).start(1)
    total = sum(
        math.exp(likelihood(hmm.initial_probs.numpy(), expected, hmm.emission_probs.numpy(), [*x, 4]))
        for x in itertools.product(range(3), repeat=4)
    )
    assert_log_close(query.log_lookahead(), [math.log(total)], 1e-6)


def test_the_older_file_of_weights_and_half_precision(tmp_path):
    model = Model(H, V, EOS)
    model.save_pretrained(tmp_path, config={"hidden_states": H, "vocab_size": V, "eos_token_id": EOS})
    expected = tt.HMM.from_pretrained(tmp_path)
    (tmp_path / "model.safetensors").unlink()
    torch.save(model.state_dict(), tmp_path / "pytorch_model.bin")
    again = tt.HMM.from_pretrained(tmp_path)
    for a, b in zip(again.parameters(), expected.parameters(), strict=True):
        assert torch.equal(a, b)
    half = {k: v.half() if k == "alpha_exp" else v.bfloat16() for k, v in model.state_dict().items()}
    torch.save(half, tmp_path / "pytorch_model.bin")
    rough = tt.HMM.from_pretrained(tmp_path)
    for a, b in zip(rough.parameters(), expected.parameters(), strict=True):
        assert a.dtype == torch.float32
        torch.testing.assert_close(a, b, rtol=0.03, atol=1e-4)


def save(path, config=None, **changes):
    """A dense checkpoint of two states and two tokens, with changes; None leaves a tensor out."""
    half = torch.full((2, 2), 0.5)
    tensors = {"alpha_exp": half, "beta": half.log(), "gamma": half[0].log()} | changes
    save_file({k: v for k, v in tensors.items() if v is not None}, path / "model.safetensors")
    (path / "config.json").write_text(
        json.dumps({"hidden_states": 2, "vocab_size": 2, "eos_token_id": 1} | (config or {}))
    )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"beta": None}, "beta .* missing"),
        ({"beta": torch.ones(2, 2, 2)}, r"beta .* \(2, 2, 2\)"),
        ({"beta": torch.zeros(2)}, r"beta .* of shape \(2,\)$"),
        ({"beta": torch.zeros(2, 0)}, r"beta .* of shape \(2, 0\)$"),
        ({"beta": torch.full((2, 2), 0.5)}, "beta should be log-probabilities that sum to one"),
        ({"beta": torch.full((2, 2), torch.nan)}, "beta .* nan"),
        ({"beta": torch.full((2, 2), -torch.inf)}, "beta .* sums to 0"),
        ({"alpha_exp": torch.full((2, 2), 0.5).log()}, "alpha_exp should be probabilities"),
        ({"alpha_exp": torch.tensor([[0.5, 0.5], [1.5, -0.5]])}, "alpha_exp"),
        ({"alpha_exp": torch.tensor([[0.5, 0.52], [0.5, 0.5]])}, "1.02"),
        ({"alpha_exp": torch.full((2, 3), 1 / 3)}, r"alpha_exp should have shape \(2, 2\)"),
        ({"gamma": None}, "no 'gamma_exp'"),
        ({"gamma": torch.zeros(3)}, "gamma should have shape"),
        ({"gamma": torch.full((2,), -torch.inf)}, "gamma"),
        ({"gamma": None, "gamma_exp": torch.full((2,), 0.5)}, "gamma_exp should have shape"),
        ({"config": {"hidden_states": 3}}, "hidden_states = 3"),
        ({"config": {"vocab_size": 5}}, "vocab_size = 5"),
        ({"config": {"eos_token_id": 2}}, "token 2"),
        ({"alpha_exp": None, "alpha_exp.weights_exp.0": torch.ones(2, 1, 1)}, r"blocks \(1,\)"),
        ({"alpha_exp": None, "alpha_exp.weights_exp.1": torch.full((1, 2, 2), 0.25)}, "sums to 0.5"),
        ({"alpha_exp": None, "alpha_exp.weights": torch.ones(2, 1, 1)}, r"blocks \(\)"),
        ({"alpha_exp": None}, "expected format"),
    ],
)
def test_what_is_wrong_with_a_checkpoint_is_said(tmp_path, changes, message):
    save(tmp_path, **changes)
    with pytest.raises(FormatError, match=message):
        tt.HMM.from_pretrained(tmp_path)


def test_blocks_must_be_those_of_the_config(tmp_path):
    MonarchModel(H, [3, 4], V, EOS).save_pretrained(tmp_path, config={"block_sizes": [4, 3]})
    with pytest.raises(FormatError, match="block_sizes"):
        tt.HMM.from_pretrained(tmp_path)


def test_files_that_are_no_checkpoint_are_refused(tmp_path):
    save(tmp_path)
    tensors = load_file(tmp_path / "model.safetensors")
    (tmp_path / "model.safetensors").unlink()
    with pytest.raises(FormatError):
        tt.HMM.from_pretrained(tmp_path)
    for content in (b"no pickle", b""):
        (tmp_path / "pytorch_model.bin").write_bytes(content)
        with pytest.raises(FormatError):
            tt.HMM.from_pretrained(tmp_path)
    torch.save({"state": tensors}, tmp_path / "pytorch_model.bin")
    with pytest.raises(FormatError, match="tensors"):
        tt.HMM.from_pretrained(tmp_path)
    torch.save(tt.HMM.random(2, 2), tmp_path / "pytorch_model.bin")  # an object, not weights: never unpickled
    with pytest.raises(FormatError):
        tt.HMM.from_pretrained(tmp_path)
    (tmp_path / "config.json").write_text("[]")
    with pytest.raises(FormatError):
        tt.HMM.from_pretrained(tmp_path)


def test_the_worst_row_is_named(tmp_path):
    rows = torch.tensor([[0.5, 0.505], [0.9, 0.3]])
    save(tmp_path, alpha_exp=rows)
    with pytest.raises(
        FormatError, match=r"alpha_exp should be probabilities .* \(± 0\.01\); one sums to 1\.2$"
    ):
        tt.HMM.from_pretrained(tmp_path)
    save(tmp_path, alpha_exp=rows[[0, 0]])
    assert tt.HMM.from_pretrained(tmp_path).transition.dense().sum(1).tolist() == pytest.approx([1, 1])
