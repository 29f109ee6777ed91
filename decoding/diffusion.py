"""Denoising under a constraint: a masked diffusion model fills a canvas, and every text satisfies the constraint.

A masked model fills a canvas in steps. In step i it reads the tokens that are there and gives a distribution p_i(x_t) for each
open position; some positions S_i are chosen and get a token. Here the tokens of S_i are drawn from the model's proposal given
the constraint C (:mod:`~.canvas`), with everything still open summed out:

    q_i(x_S) = Z_i(x_S) Π_{t ∈ S} p_i(x_t) / Z_i        Z_i = Σ_{x ∈ C} Π_t p_i(x_t),  Z_i(x_S): its part that agrees with x_S

So no step leaves a canvas that no text fills. The positions S_i are a function of what has been drawn before, never of the
tokens drawn in the step. The model alone, with the same rule, draws a path x_{S_1}, x_{S_2}, … with probability Π_i p_i(x_{S_i}).

Target: the paths of the model alone, given that the text satisfies C. The weight of a path is

    w = p / q = Z_1 · Π_{i > 1} Z_i / Z_{i−1}(x_{S_{i−1}})

whose mean is the probability that the model alone satisfies C; several particles are resampled when their weights differ much
(SMC). Not the target: one particle alone (it is drawn from q), and any distribution over texts that does not depend on the order
of the positions, since a masked model defines none.

A token that the model rules out now (p_i = 0) may become possible once other tokens are there. Were it ruled out in Z_i, paths
of the model alone would never be drawn. So at positions that stay open, p_i in Z_i gives the tokens it rules out, of those that C
could use, a share :data:`LATER` in all; w corrects for it. A particle that no token of the step can continue has weight zero.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from ..argument_checks import not_negative, whole, whole_numbers
from ..constraints.vocabulary.reading import vocabulary_of
from ..errors import EvidenceError, ShapeError
from ..inference.smc.confidence import check_level
from ..inference.smc.field import Field, Listed, field_of
from ..inference.smc.posterior import as_json
from ..inference.smc.resampling import effective_sample_size, systematic
from ..lm.masked import Denoiser
from .canvas import Canvas, Parts, parts_of

Confidence = Callable[[Float[Tensor, "rows positions vocab"]], Float[Tensor, "rows positions"]]
"""Log-marginals of the open positions under the constraint → how sure the model is of each."""
Schedule = Callable[[Float[Tensor, "rows positions"], int, int], Bool[Tensor, "rows positions"]]
"""(confidence, −∞ where nothing is open; number of the step; number of steps) → positions to fill now."""


def top(marginals: Tensor) -> Tensor:
    """The log-probability of the most probable token: LLaDA's "low_confidence", Dream's "maskgit_plus"."""
    return marginals.amax(-1)


def margin(marginals: Tensor) -> Tensor:
    """The probability by which the best token leads: Dream's "topk_margin"."""
    best = marginals.topk(2).values.exp()
    return best[..., 0] - best[..., 1]


def negative_entropy(marginals: Tensor) -> Tensor:
    """The negative entropy in nats: Dream's "entropy"."""
    share = marginals.exp()
    return torch.where(share > 0, share * marginals, 0.0).sum(-1)


def linear(confidence: Tensor, step: int, steps: int) -> Tensor:
    """Fill equally many positions in each step, the surest first; the first steps one more if need be (LLaDA)."""
    left = confidence.isfinite().sum(1)
    return _surest(confidence, (left + steps - step - 1) // (steps - step))


def timesteps(least: float = 1e-3) -> Schedule:
    """Fill the share 1 − s / t of what is open on the way from noise level t to s; levels go from 1 to ``least`` (Dream)."""

    def schedule(confidence: Tensor, step: int, steps: int) -> Tensor:
        level = torch.linspace(1, least, steps + 1, dtype=torch.float64)
        left = confidence.isfinite().sum(1)
        return _surest(confidence, (left * (1 - level[step + 1] / level[step]).item()).long())

    return schedule


def threshold(least: float = 0.9) -> Schedule:
    """Fill all positions surer than a probability, at least one (Fast-dLLM; for the confidence :func:`top`)."""

    def schedule(confidence: Tensor, step: int, steps: int) -> Tensor:
        return (confidence > math.log(least)) | _surest(confidence, torch.ones_like(confidence[:, 0]))

    return schedule


def _surest(confidence: Tensor, count: Tensor) -> Tensor:
    rank = confidence.argsort(dim=1, descending=True, stable=True).argsort(1)
    return (rank < count[:, None]) & confidence.isfinite()


LATER = 0.05
"""The probability, at each position that stays open, that its token is one that the model rules out now."""


@dataclass(frozen=True)
class Denoised:
    """Filled canvases. ``texts`` are those of the open positions; logarithms in nats.

    There are fewer than asked for if the model left some no text and those that live were not resampled.

    ``log_p``: of each path under the model alone; ``log_q``: the joint log-probability with which it was drawn;
    ``log_weights``: properly weighted for the target, their difference if nothing was resampled; ``log_evidence``: the estimate
    of the log-probability that the model alone satisfies the constraint. At temperature zero nothing is drawn: these three are
    nan. ``lineage_or_own`` has by particle its ancestors: at the start, and after each resampling.

    Examples
    --------
    >>> import torch
    >>> from tractile.decoding import Denoised
    >>> Denoised(torch.tensor([[1], [2]]), ("a", "b"), *torch.zeros(3, 2), 0.0, torch.tensor([[0], [1]])).ess
    2.0
    """

    tokens: Int[Tensor, "particles positions"]
    texts: tuple[str, ...]
    log_p: Float[Tensor, " particles"]
    log_q: Float[Tensor, " particles"]
    log_weights: Float[Tensor, " particles"]
    log_evidence: float
    lineage_or_own: Int[Tensor, "particles generations"]

    @property
    def ess(self) -> float:
        """The effective sample size, between one and the number of particles."""
        return effective_sample_size(self.log_weights)

    def field(self, path: str = "", level: float = 0.9) -> Field:
        """Return the distribution of one field of the answers, estimated by the weighted texts: a :class:`.Field`.

        ``path`` leads into the JSON value of a text, as in :meth:`.Posterior.field`; ``""`` is the whole text. ``level`` is that
        of the intervals. Raises :class:`EvidenceError` if no answer has the field, a text is no JSON, or nothing was drawn.

        Examples
        --------
        >>> import tractile as tt
        >>> lm = tt.lm.MaskedLM(*tt.embedded.load_masked_lm())
        >>> pet, canvas = tt.constraints.any_of(" cat", " dog"), lm.ids("Tom has a big", 1, ". It can bark.")
        >>> tt.decoding.denoise(lm, canvas, pet, particles=64).field().top()[0]
        ' dog'
        """
        if bool(self.log_weights.isnan().any()):
            raise EvidenceError("field: at temperature zero nothing is drawn; denoise at a higher one")
        listed = Listed((), torch.zeros(0, dtype=torch.float64), 0.0, self)
        return field_of(listed, as_json if path else str, path, check_level(level, "field"))


def denoise(
    lm: Denoiser,
    ids: Int[Tensor, " positions"],
    constraint: Any,
    *,
    steps: int | None = None,
    block: int | None = None,
    schedule: Schedule = linear,
    confidence: Confidence = top,
    temperature: float = 1.0,
    particles: int = 1,
    resample: float = 0.5,
    seed: int = 0,
) -> Denoised:
    """Fill the masks of a text by a masked diffusion model; the result satisfies the constraint.

    Parameters
    ----------
    lm
        A :class:`~tractile.lm.MaskedLM`, or a :class:`~tractile.lm.masked.Denoiser`.
    ids
        The canvas: token ids, the model's mask where a token is wanted. What stands on either side is kept, as in
        ``lm.ids("Once upon a", 24, "home.")``.
    constraint
        Of what lies between the first mask and the last, both included; or a mapping from ranges of positions to constraints.
        See :func:`.canvas` for ends and padding.
    steps
        Passes of the model in a block; default: one for each open position. Fewer fill several positions at once, which are then
        independent but for the constraint. The last step fills all that is left.
    block
        Open positions in a block, filled from left to right; default: all in one.
    schedule, confidence
        Which positions are filled in a step (`linear`, `timesteps` or `threshold` of `tractile.decoding.diffusion`), and by how
        sure the model is under the constraint (`top`, `margin` or `negative_entropy`); or functions of your own.
    temperature
        Of the model's distributions. At zero the most probable text under the constraint is taken, step by step.
    particles
        Weighted canvases; they are resampled when their effective sample size falls below the share ``resample``.

    Raises
    ------
    EvidenceError
        No text fills the canvas, or the model's zeros have left every particle without one: then the estimate is zero. Or the
        model's log-probabilities hold NaN.
    BudgetTooSmall, TooManyStates, VocabularyMismatch
        As :func:`.canvas`.

    Examples
    --------
    >>> import tractile as tt
    >>> lm = tt.lm.MaskedLM(*tt.embedded.load_masked_lm())
    >>> name = tt.constraints.regex(" [A-Z][a-z]+")
    >>> found = tt.decoding.denoise(lm, lm.ids("There was a girl named", 2, ". She was happy."), name, particles=4)
    >>> all(map(name.accepts, found.texts))
    True
    """
    ids = whole_numbers(ids, "denoise: ids", ShapeError)
    opened = (ids == lm.mask_token_id).nonzero()[:, 0] if ids.ndim == 1 else ids.new_zeros(0)
    if not len(opened):
        raise ShapeError(
            "denoise: ids are the token ids of one canvas, with the model's mask where a token is wanted"
        )
    particles, block = whole(particles, "denoise: particles"), whole(block or len(opened), "denoise: block")
    temperature = not_negative(temperature, "denoise: temperature")
    vocab = vocabulary_of(lm.tokenizer, lm.eos_token_id, getattr(lm, "vocab_size", None))
    span = range(int(opened[0]), int(opened[-1]) + 1)
    over = constraint if isinstance(constraint, Mapping) else {span: constraint}
    device = lm.device
    parts = parts_of(over, len(ids), len(vocab), vocab, lm.pad_token_id, device)
    rows, opened = ids.to(device).repeat(particles, 1), opened.to(device)
    draw = torch.Generator(device).manual_seed(seed)
    copy = torch.Generator().manual_seed((2_654_435_761 * seed + 1) % 2**32)  # of resampling, on the CPU
    log_p, log_q, log_w, ahead = torch.zeros(4, particles, dtype=torch.float64, device=device)
    lineage = torch.arange(particles)[:, None]
    for positions in opened.split(block):
        passes = len(positions) if steps is None else whole(steps, "denoise: steps")
        for step in range(passes):
            masked = rows == lm.mask_token_id
            if not bool(masked[:, positions].any()):
                break
            scores, known = _scores(lm, rows, masked, temperature), torch.where(masked, -1, rows)
            now = Canvas(scores, known, parts)
            later = _with_later(scores, masked, parts, lm.mask_token_id) if temperature else scores
            if later is not scores:  # the marginals are the model's own where it leaves a text
                left = torch.where(now.log_partition.isneginf()[:, None, None], later, scores)
                now = Canvas(left, known, parts)
            now.possible()
            here = masked[:, positions]
            sure = torch.where(here, confidence(now.marginals(positions)).double(), -torch.inf)
            fill = torch.zeros_like(masked)
            fill[:, positions] = here if step == passes - 1 else here & schedule(sure, step, passes)
            if later is not scores:
                now = Canvas(torch.where(fill[:, :, None], scores, later), known, parts)
            log_w = log_w + now.log_partition - ahead
            kept, log_w = _kept(log_w, resample if temperature else 0.0, particles, copy)
            if kept is not None:
                rows, fill, log_p, log_q = rows[kept], fill[kept], log_p[kept], log_q[kept]
                lineage = torch.cat([lineage[kept.cpu()], torch.arange(len(kept))[:, None]], 1)
                now = Canvas(now.log_probs[kept], now.known[kept], parts)
            found = now.sample(where=fill, generator=draw)[0] if temperature else now.mpe.tokens
            tokens = torch.where(fill, found, -1)
            drawn, alone = now.log_prob(tokens), now.log_p(tokens)
            log_p, log_q, ahead = log_p + alone, log_q + drawn, now.log_partition + drawn - alone
            rows = torch.where(fill, tokens, rows)
    pieces = [[vocab.token_bytes[v] or b"" for v in row] for row in rows[:, opened].tolist()]
    texts = tuple(b"".join(piece).decode(errors="replace") for piece in pieces)
    if not temperature:
        log_q, log_w = torch.full((2, particles), torch.nan, dtype=torch.float64)
    evidence = log_w.logsumexp(0).item() - math.log(particles)
    return Denoised(rows, texts, log_p, log_q, log_w, evidence, lineage)


def _scores(
    lm: Denoiser, rows: Tensor, masked: Tensor, temperature: float
) -> Float[Tensor, "rows positions vocab"]:
    """Return the model's log-probabilities at a temperature, at least in float32; −inf for the mask."""
    given = lm.log_probs(rows)
    scores = given.to(torch.promote_types(given.dtype, torch.float32)) / (temperature or 1.0)
    scores = scores.log_softmax(-1)
    if bool((scores.isnan().any(-1) & masked).any()):
        raise EvidenceError(
            "denoise: the model's log-probabilities hold nan or inf, or are −inf for every token"
        )
    return scores


def _with_later(
    scores: Tensor, masked: Tensor, parts: Parts, mask: int
) -> Float[Tensor, "rows positions vocab"]:
    """Give tokens that the model rules out at open positions, of those that a constraint could use, :data:`LATER` in all.

    Returns ``scores`` itself if the model rules out none.
    """
    out = scores
    for over, letters in parts:
        here, usable = scores[:, over.start : over.stop], letters.usable.clone()
        usable[mask] = False
        ruled_out = here.isneginf() & usable & masked[:, over.start : over.stop, None]
        if bool(ruled_out.any()):
            out = scores.clone() if out is scores else out
            share = (LATER / ruled_out.sum(-1, keepdim=True)).log().to(scores)
            out[:, over.start : over.stop] = torch.where(ruled_out, share, here)
    return out


def _kept(
    log_w: Float[Tensor, " rows"], resample: float, particles: int, generator: torch.Generator
) -> tuple[Int[Tensor, " kept"] | None, Float[Tensor, " kept"]]:
    """Return the rows to go on with, None for all of them, and their weights: resampled, else those that live."""
    alive = log_w > -torch.inf
    if not bool(alive.any()):
        raise EvidenceError(
            "denoise: no particle lives: given the tokens drawn before, the model rules out all that the constraint allows; "
            "use more particles"
        )
    if effective_sample_size(log_w) < resample * particles:
        kept = systematic(log_w.softmax(0).cpu(), generator, particles).to(log_w.device)
        return kept, log_w.new_full((particles,), log_w.logsumexp(0).item() - math.log(particles))
    return (None, log_w) if bool(alive.all()) else (alive.nonzero()[:, 0], log_w[alive])
