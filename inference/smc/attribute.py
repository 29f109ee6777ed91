"""Soft attributes: a classifier that is a product over tokens, as a factor of the target and in the HMM's lookahead,

    p(attribute | x) = w_0 Π_t w(x_t),                 0 < w ≤ 1            (TRACE, Yidou-Weng et al. 2025)
    p_hmm(attribute, C | x_≤t) = w_0 Π_{s≤t} w(x_s) · E_hmm[1_C Π_{s>t} w(x_s) | x_≤t]

A text has the attribute if none of its tokens speaks against it, each independently with probability 1 − w (a noisy AND). The
expectation is the backward message of P-GCD with w in the emission (:mod:`.weighted_hmm`): as fast as without an attribute.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Self, final

import torch
from jaxtyping import Float, Int
from torch import Tensor

from ...circuits.hmm import HMM
from ...circuits.weighted_hmm import WeightedHMM
from ...errors import EvidenceError, ShapeError, VocabularyMismatch
from ...lm.base import LanguageModel, Prompt, fingerprint_of
from ..arguments import not_negative, whole
from .potentials import Potential
from .step import Extension

LEAST = 1e-9  # the smallest fitted weight of a token, so that no text is ruled out
TOLERANCE = 1e-7  # nats per text: fitting stops at a smaller gain in log-likelihood


@final
class Attribute(Potential):
    """p(attribute | x), a product over the tokens of the text, as the potential of :func:`.smc`.

    The target is p_lm(x) · 1[x ∈ C] · p(attribute | x). Proposals "lcd", "gcd" and "pgcd" multiply q by the token weights, and
    the lookahead of an HMM includes the attribute as well as the constraint. ``attribute.at(tt.inference.smc.at_end)`` has the
    same target, but is neither drawn by nor looked ahead to.

    :meth:`fit` learns both parameters. Raises :class:`ShapeError` for log-weights that are infinite, NaN or positive;
    :func:`.smc` raises :class:`VocabularyMismatch` for a language model with another vocabulary.

    Parameters
    ----------
    token_log_weights
        log w(v) ≤ 0 of each token (nats); that of the end token should be 0.
    log_bias
        log w_0 ≤ 0.

    Examples
    --------
    >>> import math, torch, tractile as tt
    >>> lm = tt.TableLM({(): torch.tensor([0.5, 0.5], dtype=torch.float64).log()})
    >>> attribute = tt.inference.smc.Attribute(torch.tensor([0.0, math.log(0.2)], dtype=torch.float64))
    >>> post = tt.smc(lm, [], None, "gcd", max_new_tokens=3, potential=attribute)
    >>> round(math.exp(post.log_evidence), 6)  # (½ · 1 + ½ · 0.2)³
    0.216
    """

    is_twist = False

    def __init__(self, token_log_weights: Float[Tensor, " vocab"], log_bias: float = 0.0) -> None:
        weights = torch.as_tensor(token_log_weights).detach().cpu().double()
        if weights.ndim != 1 or not bool((weights.isfinite() & (weights <= 0)).all()):
            raise ShapeError(
                f"Attribute: token_log_weights must be finite numbers, 0 or less, one for each token, not {tuple(weights.shape)} "
                "with others among them"
            )
        if not -torch.inf < log_bias <= 0:
            raise ShapeError(f"Attribute: log_bias must be finite and 0 or less, it is {log_bias}")
        self._weights, self.log_bias = weights, float(log_bias)
        self.vocabulary_fingerprint: str | None = None

    @property
    def token_log_weights(self) -> Float[Tensor, " vocab"]:
        return self._weights

    @classmethod
    def fit(
        cls,
        texts: Sequence[str | Sequence[int]],
        labels: Sequence[bool],
        lm: LanguageModel | Any,
        *,
        smoothing: float = 1.0,
        iterations: int = 1000,
    ) -> Self:
        """Fit an attribute by maximum likelihood; ``labels`` says which of the ``texts`` (or lists of token ids) have it.

        Texts are tokenised by ``lm.tokenizer``. ``smoothing`` is the rate of an exponential prior of each token's −log w (in
        tokens): a larger one keeps weights of rare tokens near 1. The likelihood is concave; EM climbs it without a step
        size until the gain is below 10⁻⁷ nats a text, or for ``iterations``.

        Raises :class:`EvidenceError` unless there is a label for each text and texts with and without the attribute, or if a
        text is given and the language model has no tokenizer, :class:`VocabularyMismatch` for tokens outside the vocabulary.
        """
        smoothing = not_negative(smoothing, "Attribute.fit: smoothing")
        iterations = whole(iterations, "Attribute.fit: iterations")
        marked = torch.tensor([bool(label) for label in labels])
        if len(texts) != len(marked) or not bool(marked.any()) or bool(marked.all()):
            raise EvidenceError(
                f"Attribute.fit: {len(texts)} texts and {len(marked)} labels, {int(marked.sum())} of them true; give one for "
                "each text, and texts of both kinds"
            )
        ids = [_token_ids(text, lm) for text in texts]
        vocab, row = (
            lm.vocab_size,
            torch.arange(len(ids)).repeat_interleave(torch.tensor([len(i) for i in ids])),
        )
        token = torch.tensor([v for one in ids for v in one], dtype=torch.long)
        if len(token) and not 0 <= int(token.min()) <= int(token.max()) < vocab:
            raise VocabularyMismatch(
                f"Attribute.fit: a token of the texts is outside the {vocab} of the language model"
            )
        counted = token != (-1 if lm.eos_token_id is None else lm.eos_token_id)
        cost = _fit_costs(row[counted], token[counted], marked, vocab, smoothing, iterations)
        out = cls(-cost[:-1], -float(cost[-1]))
        out.vocabulary_fingerprint = fingerprint_of(lm)
        return out

    def log_prob(self, token_ids: Sequence[int]) -> float:
        """Return log p(attribute | text of these tokens) in nats."""
        return self.log_bias + float(self._weights[torch.tensor(token_ids, dtype=torch.long)].sum())

    # ------------------------------------------------------------ the potential

    def start(self, lm: LanguageModel, prompts: Sequence[Prompt], budgets: Sequence[int]) -> None:
        own, given = self.vocabulary_fingerprint, fingerprint_of(lm)
        if lm.vocab_size != len(self._weights) or (None not in (own, given) and own != given):
            raise VocabularyMismatch(
                f"Attribute: weights for {len(self._weights)} tokens, the language model has {lm.vocab_size}, or other ones; fit "
                "the attribute with the language model that is sampled from"
            )
        self._total = torch.full((len(prompts),), self.log_bias, dtype=torch.float64)

    def log_value(self, rows: Extension) -> Float[Tensor, " rows"]:
        return self._total[rows.step.rows] + self._weights[rows.tokens]

    def advance(self, indices: Int[Tensor, " states"], tokens: Int[Tensor, " states"]) -> None:
        gain = self._weights[tokens.clamp(min=0)].masked_fill(tokens < 0, 0.0)
        self._total = self._total[indices] + gain


def looking_ahead(hmm: HMM | None, potential: Potential | None) -> HMM | None:
    """Return the HMM whose lookahead includes the potential's factors that are products over tokens.

    The HMM is returned as it is (None too) if the potential has no factor of this kind.
    """
    weights = None if potential is None else potential.token_log_weights
    return hmm if hmm is None or weights is None else WeightedHMM(hmm, weights)


def factor_over_tokens(potential: Potential | None) -> Attribute | None:
    """Return as one attribute the factors of a potential that are products over tokens; None if there are none."""
    weights = None if potential is None else potential.token_log_weights
    return None if weights is None else Attribute(weights)


def _token_ids(text: str | Sequence[int], lm: Any) -> list[int]:
    if not isinstance(text, str):
        return [int(token) for token in text]
    tokenizer = getattr(lm, "tokenizer", None)
    if not callable(tokenizer):
        raise EvidenceError("Attribute.fit: the language model has no tokenizer for texts; give token ids")
    return [int(token) for token in tokenizer(text, add_special_tokens=False).input_ids]


def _fit_costs(
    row: Int[Tensor, " tokens"],
    token: Int[Tensor, " tokens"],
    marked: Tensor,
    vocab: int,
    smoothing: float,
    iterations: int,
) -> Float[Tensor, " vocab+1"]:
    """Fit c = −log w of each token and, last, of the bias, by EM with latent Poisson counts.

    Each token v of a text makes Poisson(c_v) objections, and a text has the attribute if there is none:
    p = exp(−Σ_t c(x_t)). E-step: in texts without the attribute each token v has c_v / P(some objection) expected objections, in
    the others none. M-step: expected objections divided by the number of tokens v plus ``smoothing``.
    """
    row = torch.cat([row, torch.arange(len(marked))])
    token = torch.cat([token, torch.full((len(marked),), vocab)])  # the bias is a token of every text
    without, exposure = ~marked, torch.bincount(token, minlength=vocab + 1).double() + smoothing
    cost = torch.full((vocab + 1,), 0.1, dtype=torch.float64)
    before = -torch.inf
    for _ in range(iterations):
        total = torch.zeros(len(marked), dtype=torch.float64).index_add_(0, row, cost[token])
        some = -torch.expm1(-total)
        objections = torch.where(without, 1 / some, 0.0)
        found = torch.zeros_like(cost).index_add_(0, token, cost[token] * objections[row]) / exposure
        value = float(torch.where(without, some.log(), -total).sum()) - smoothing * float(cost.sum())
        cost = found.clamp(1e-12, -math.log(LEAST))
        if value - before < TOLERANCE * len(marked):
            break
        before = value
    return torch.where(exposure > smoothing, cost, 0.0) * (cost > 1e-9)
