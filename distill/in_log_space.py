"""Expected counts, posteriors and predictions of an HMM in log space, for sequences that leave the range of floating point.

``rows`` are the numbers of the sequences, to name one in an error.
"""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

from ..circuits.chain import Chain
from ..circuits.forward import log_prob
from ..circuits.hmm import HMM
from ..errors import EvidenceError
from ..inference.queries.em import expected_counts
from ..layers import Categorical, Identity
from ..layers.log_product import finite, log_product, smallest_weight
from .sharding import ShardedHMM


def counts_in_log_space(
    hmm: ShardedHMM,
    tokens: Int[Tensor, "batch length"],
    missing: Float[Tensor, " hidden"] | None,
    rows: Tensor,
) -> tuple[Tensor, list[Tensor], Tensor, Tensor]:
    """Compute the expected counts of initial, transition and emission, as derivatives of log p, and log p of all, in nats.

    Token −1 has probability ``missing`` in each state, by default one. Raises :class:`EvidenceError` if a sequence is impossible.
    """
    ones, vocab_size = torch.ones_like(hmm.initial), hmm.emission.shape[1]
    table = torch.cat([hmm.emission, (ones if missing is None else missing)[:, None]], 1)
    seen = torch.where(tokens < 0, vocab_size, tokens)
    check_possible(log_prob(hmm.initial, hmm.operator, table, seen), rows)
    found = expected_counts(
        Chain((hmm.initial,), Identity(len(ones)), Categorical(table), hmm.operator, (ones,)), seen
    )
    weights = [found.of(w) for w in hmm.weights]
    return found.of(hmm.initial), weights, found.of(table)[:, :vocab_size], found.log_likelihood


def posteriors_in_log_space(
    hmm: HMM, tokens: Int[Tensor, "batch length"], rows: Tensor
) -> Float[Tensor, "batch length hidden"]:
    """Compute p(z_t | x_1 … x_n) in float64. Raises :class:`EvidenceError` if a sequence is impossible."""
    matrix = hmm.transition.dense().double()
    smallest, emitted = smallest_weight(matrix), _emitted(hmm, tokens)
    forward, backward = [hmm.initial_probs.double().log() + emitted[0]], [torch.zeros_like(emitted[0])]
    for column in emitted[1:]:
        forward.append(log_product(forward[-1], matrix, smallest) + column)
    for column in emitted[1:].flip(0):
        backward.append(log_product(backward[-1] + column, matrix.T, smallest))
    joint = torch.stack(forward) + torch.stack(backward[::-1])
    check_possible(forward[-1].logsumexp(1), rows)
    return (joint - joint.logsumexp(2, keepdim=True)).exp().transpose(0, 1)


def predictions_in_log_space(
    hmm: HMM, tokens: Int[Tensor, "batch length"]
) -> tuple[Float[Tensor, "batch length"], Int[Tensor, "batch length"]]:
    """Compute log p(x_t | x_<t), in nats and float64, and the most probable token, at each position."""
    matrix, emission = hmm.transition.dense().double(), hmm.emission_probs.double()
    smallest, log_probs, best = smallest_weight(matrix), list[Tensor](), list[Tensor]()
    message = hmm.initial_probs.double().log().expand(len(tokens), -1)
    for column in _emitted(hmm, tokens):
        best.append(log_product(message, emission).argmax(1))
        message = message + column
        log_probs.append(message.logsumexp(1, keepdim=True))
        message = log_product(message - finite(log_probs[-1]), matrix, smallest)
    return torch.cat(log_probs, 1), torch.stack(best, 1)


def check_possible(log_p: Float[Tensor, " batch"], rows: Tensor) -> None:
    """Raise :class:`EvidenceError` that names a sequence of probability zero."""
    impossible = log_p.isneginf()
    if bool(impossible.any()):
        row = int(rows[impossible][0])
        raise EvidenceError(f"expected_counts: sequence {row} has probability zero under the HMM")


def _emitted(hmm: HMM, tokens: Tensor) -> Float[Tensor, "length batch hidden"]:
    """Return log B[:, x_t]; zero for token −1."""
    found = hmm.emission_probs.T.double().log()[tokens.T.clamp(min=0)]
    return torch.where(tokens.T[:, :, None] < 0, 0.0, found)
