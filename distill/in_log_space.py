"""Posteriors and predictions of an HMM in log space, for sequences that leave the range of floating point."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

from ..circuits.hmm import HMM
from ..inference.queries.baum_welch import check_possible
from ..layers.log_product import finite, log_product, smallest_weight


def posteriors_in_log_space(
    hmm: HMM, tokens: Int[Tensor, "batch length"], rows: Tensor
) -> Float[Tensor, "batch length hidden"]:
    """Compute p(z_t | x_1 … x_n) in float64; ``rows`` are the numbers of the sequences.

    Raises :class:`EvidenceError` if a sequence is impossible.
    """
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


def _emitted(hmm: HMM, tokens: Tensor) -> Float[Tensor, "length batch hidden"]:
    """Return log B[:, x_t]; zero for token −1."""
    found = hmm.emission_probs.T.double().log()[tokens.T.clamp(min=0)]
    return torch.where(tokens.T[:, :, None] < 0, 0.0, found)
