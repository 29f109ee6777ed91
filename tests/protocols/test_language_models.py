"""Every language model says of a row what it says of the row alone: those of the library, and one that an outsider writes."""

import networks
import pytest
import torch
from smc_reference import Letters, random_table

import tractile as tt
from tractile.testing import check_language_model

V, EOS = 3, 2
HMM = tt.HMM.random(3, V, seed=1)
FA = tt.Automaton.from_edges([(0, [0, 1], 0), (0, 2, 1), (1, [0, 2], 1), (1, 1, 0)], 0, [1], V)


class Coin:
    """An outsider's: equal probabilities, and no state but the number of rows."""

    vocab_size, eos_token_id = 2, None

    def start(self, prompts):
        self.rows = len(prompts)

    def log_probs(self):
        return torch.full((self.rows, 2), 0.5).log()

    def advance(self, tokens):
        pass

    def select(self, indices):
        self.rows = len(indices)

    def decode(self, token_ids):
        return "".join(map(str, token_ids))


def table(seed, eos=EOS):
    return tt.lm.TableLM(random_table(V, 2, seed), eos, Letters())


def transformer(share):
    network = networks.llama(50, max_position_embeddings=24, initializer_range=0.3)
    return tt.TransformersLM(network, None, eos_token_id=EOS, share_prompts=share)


MODELS = {
    "an HMM": (lambda: tt.CircuitLM(HMM, EOS), [[], [0, 1], [1]]),
    "an HMM without an end": (lambda: tt.CircuitLM(HMM), [[0], []]),
    "a Monarch HMM": (lambda: tt.CircuitLM(tt.HMM.random(4, V, "monarch", seed=3), EOS), [[], [1]]),
    "a product chain, with a horizon": (lambda: tt.CircuitLM(HMM * FA, horizon=12), [[], [0, 2]]),
    "a table": (lambda: table(0), [[], [0, 1], [1, 1, 1]]),
    "a table without an end": (lambda: table(0, None), [[], [2]]),
    "a transformer": (lambda: transformer(True), [[3], [4, 5, 6], [3]]),
    "a transformer, padded": (lambda: transformer(False), [[3], [4, 5, 6], [3]]),
    "an outsider's": (Coin, [[], [0]]),
}
PRODUCTS = {
    "a product": lambda: table(1) * table(2) / table(3) ** 0.5,
    "one model, two prompts": lambda: tt.lm.ProductLM(
        [table(1), table(1)], [0.7, 0.5], prompts=[None, [1, 0]]
    ),
}


@pytest.mark.parametrize("name", MODELS)
def test_rows_are_what_they_are_alone(name):
    make, prompts = MODELS[name]
    for seed in range(2):
        check_language_model(make(), prompts, seed=seed)


@pytest.mark.parametrize("name", PRODUCTS)
def test_rows_of_products_are_what_they_are_alone(name):
    check_language_model(PRODUCTS[name](), [[], [0, 1]], normalised=False)
