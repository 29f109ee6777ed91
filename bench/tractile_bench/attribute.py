"""Soft attributes: a classifier that is a product over tokens, as a factor of the target and in the HMM's lookahead,

    p(attribute | x) = w_0 Π_t w(x_t),                 0 < w ≤ 1            (TRACE, Yidou-Weng et al. 2025)
    p_hmm(attribute, C | x_≤t) = w_0 Π_{s≤t} w(x_s) · E_hmm[1_C Π_{s>t} w(x_s) | x_≤t]

A text has the attribute if none of its tokens speaks against it, each independently with probability 1 − w (a noisy AND). The
expectation is the backward message of P-GCD with w in the emission : as fast as without
an attribute.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Self, final

import torch
from jaxtyping import Float, Int
from torch import Tensor

from tractile.circuits import HMM, Chain
from tractile.errors import EvidenceError, ShapeError, VocabularyMismatch
from tractile.inference.arguments import not_negative, whole
from tractile.lm.base import LanguageModel, fingerprint_of

LEAST = 1e-9  # the smallest fitted weight of a token, so that no text is ruled out
TOLERANCE = 1e-7  # nats per text: fitting stops at a smaller gain in log-likelihood


@final
class Attribute:
    """p(attribute | x), a product over the tokens of the text.

    ``attribute.on(lm)`` is p_lm(x) Π_t w(x_t) as a language model for the samplers, whose proposals then draw by the weights;
    ``attribute.guide(hmm)`` the HMM whose lookahead includes the attribute. The constant w_0 is in neither. ``log_prob`` is that
    of a whole text.

    :meth:`fit` learns both parameters. Raises :class:`ShapeError` for log-weights that are infinite, NaN or positive.

    Parameters
    ----------
    token_log_weights
        log w(v) ≤ 0 of each token (nats); that of the end token should be 0.
    log_bias
        log w_0 ≤ 0.

    Examples
    --------
    >>> import math, torch, tractile as tt
    >>> lm = tt.lm.TableLM({(): torch.tensor([0.5, 0.5], dtype=torch.float64).log()})
    >>> attribute = Attribute(torch.tensor([0.0, math.log(0.2)], dtype=torch.float64))
    >>> post = tt.smc(attribute.on(lm), [], None, "gcd", max_new_tokens=3)
    >>> round(math.exp(post.log_evidence), 6)  # (½ · 1 + ½ · 0.2)³
    0.216
    """

    def __init__(self, token_log_weights: Float[Tensor, " vocab"], log_bias: float = 0.0) -> None:
        weights = torch.as_tensor(token_log_weights).detach().cpu().double()
        if weights.ndim != 1 or not bool((weights.isfinite() & (weights <= 0)).all()):
            raise ShapeError(
                f"Attribute: token_log_weights must be finite numbers, 0 or less, one for each token, not {tuple(weights.shape)} "
                "with others among them"
            )
        if not -torch.inf < log_bias <= 0:
            raise ShapeError(f"Attribute: log_bias must be finite and 0 or less, it is {log_bias}")
        self.token_log_weights, self.log_bias = weights, float(log_bias)
        self.vocabulary_fingerprint: str | None = None

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
        return self.log_bias + float(self.token_log_weights[torch.tensor(token_ids, dtype=torch.long)].sum())

    def on(self, lm: LanguageModel) -> LanguageModel:
        """Return p_lm(x) Π_t w(x_t) as a language model; its next-token weights do not sum to one.

        Raises :class:`VocabularyMismatch` for a language model with other tokens than the attribute.
        """
        own, given = self.vocabulary_fingerprint, fingerprint_of(lm)
        if lm.vocab_size != len(self.token_log_weights) or (None not in (own, given) and own != given):
            raise VocabularyMismatch(
                f"Attribute: weights for {len(self.token_log_weights)} tokens, the language model has {lm.vocab_size}, or other "
                "ones; fit the attribute with the language model that is sampled from"
            )
        weighted: Any = _Weighted(lm, self.token_log_weights)
        made: LanguageModel = weighted
        return made

    def guide(self, hmm: HMM) -> Chain:
        """Return the chain p_hmm(x) Π_t w(x_t), whose lookahead is the probability of constraint and attribute together.

        The weights of past tokens are in both parts of the ratio, and so in neither.
        """
        if len(self.token_log_weights) != hmm.vocab_size:
            raise VocabularyMismatch(
                f"Attribute: {len(self.token_log_weights)} weights for the {hmm.vocab_size} tokens of the HMM"
            )
        weights = self.token_log_weights.exp().to(hmm.emission_probs)
        made = Chain(hmm.initial, hmm.left, hmm.inputs.reweighted(weights), hmm.right, hmm.final)
        return made.for_vocabulary(hmm.vocabulary_fingerprint)


class _Weighted:
    """A language model with a weight for each next token."""

    is_normalised = False

    def __init__(self, lm: LanguageModel, token_log_weights: Float[Tensor, " vocab"]) -> None:
        self._lm, self._weights = lm, token_log_weights

    def log_probs(self) -> Float[Tensor, "batch vocab"]:
        """Return log p_lm(v) + log w(v) of the next tokens, in nats."""
        table = self._lm.log_probs()
        return table + self._weights.to(table)

    def fork(self) -> _Weighted:
        """Return an independent copy with the same rows."""
        lm: Any = self._lm
        return _Weighted(lm.fork(), self._weights)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._lm, name)


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
