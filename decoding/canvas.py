"""Canvas: independent distributions over the tokens of n positions, given that the text satisfies a constraint.

    q(x) = 1[x ∈ C] Π_t p_t(x_t) / Z,        Z = Σ_{x ∈ C} Π_t p_t(x_t)

This is what a masked diffusion model proposes in one step, conditioned exactly: a chain with one hidden state and an emission
for each position, times an automaton. Every question is a query on the automaton over :class:`~.letters.Letters`.

Constraints on parts of a canvas are about different positions, so q is a product of one such distribution for each part.

Axes: (batch, position, token); logarithms in nats.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cached_property
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from ..argument_checks import short, whole, whole_numbers
from ..circuits.automaton import Automaton
from ..constraints.constraint import Constraint
from ..constraints.vocabulary.reading import vocabulary_of
from ..errors import CircuitError, EvidenceError, ShapeError, VocabularyMismatch
from ..inference.queries.conditional import marginals
from ..inference.queries.marginal import log_marginal
from ..inference.queries.sample_mpe import mpe, sample
from .letters import IMPOSSIBLE, RANGE, Letters, anything

Parts = list[tuple[range, Letters]]


class Mode(NamedTuple):
    """The most probable texts of a batch, and log q of each in nats."""

    tokens: Int[Tensor, "batch positions"]
    log_prob: Float[Tensor, " batch"]


class Weighed(NamedTuple):
    """The weights of the letters of a part, relative to a scale (nats), and whether a canvas has weights rounded to zero."""

    weights: Float[Tensor, "batch positions letters"]
    scale: Float[Tensor, "batch positions"]
    wide: Bool[Tensor, " batch"]


class Canvas:
    """The distribution q of a batch of canvases; made by :func:`canvas`.

    ``log_probs`` are the log-probabilities given; ``known`` the fixed tokens, −1 where open, which have probability one;
    ``parts`` the positions of each part of the canvas and its letters.

    Examples
    --------
    >>> import torch
    >>> import tractile as tt
    >>> same = tt.Automaton.from_edges([(0, 0, 1), (1, 0, 2), (0, 1, 3), (3, 1, 2)], start=0, accept=[2], vocab_size=2)
    >>> two = tt.canvas(torch.tensor([[0.9, 0.1], [0.5, 0.5]]).log(), same)  # 00 or 11
    >>> two.mpe.tokens
    tensor([[0, 0]])
    """

    def __init__(
        self,
        log_probs: Float[Tensor, "batch positions vocab"],
        known: Int[Tensor, "batch positions"],
        parts: Parts,
    ) -> None:
        self.log_probs, self.known, self.parts = log_probs, known, parts

    @cached_property
    def log_partition(self) -> Float[Tensor, " batch"]:
        """log Z: the log-probability that a text drawn position by position satisfies the constraint; −∞ if none can."""
        return self._log_partition(torch.full_like(self.known, -1))

    def _log_partition(self, seen: Int[Tensor, "batch positions"]) -> Float[Tensor, " batch"]:
        """Return log Z where further tokens are seen (−1: not), and have probability one."""
        total = self.log_probs.new_zeros(len(self.log_probs), dtype=torch.float64)
        for (over, letters), weighed in zip(self.parts, self._weighed, strict=True):
            weights, scale = with_tokens(letters, weighed, seen[:, over.start : over.stop])
            found = log_marginal(letters.automaton, weights)
            check_range(weighed, over, found, weights.sum(2).log().sum(1))
            total = total + found + scale.sum(1)
        return total

    @cached_property
    def _weighed(self) -> list[Weighed]:
        return [self._weigh(over, letters) for over, letters in self.parts]

    def _weigh(self, over: range, letters: Letters, best: bool = False) -> Weighed:
        """Weigh the letters of a part: their weights at each position, its scale, and whether a canvas is too wide."""
        known = self.known[:, over.start : over.stop]
        open_rows = (known < 0).nonzero(as_tuple=True)
        shape = (*known.shape, letters.size)
        weights = torch.zeros(shape, dtype=torch.float64, device=known.device)
        scale, wide = weights.new_zeros(known.shape), torch.zeros_like(known, dtype=torch.bool)
        if len(open_rows[0]):
            some = self.log_probs[:, over.start : over.stop][open_rows]
            weights[open_rows], scale[open_rows], wide[open_rows] = letters.weights(some, best=best)
        weights, scale = with_tokens(letters, Weighed(weights, scale, wide.any(1)), known)
        return Weighed(weights, scale, wide.any(1))

    def log_prob(self, tokens: Int[Tensor, "batch positions"]) -> Float[Tensor, " batch"]:
        """Return the joint log q(x_S) of tokens at some positions S, the others summed out (−1 there)."""
        tokens = tokens_for(self.known.shape, self.log_probs.shape[2], tokens, "tokens").to(self.known.device)
        contradicts = ((tokens >= 0) & (self.known >= 0) & (tokens != self.known)).any(1)
        found = self._log_partition(tokens) + self.log_p(tokens) - self.possible()
        return torch.where(contradicts, -torch.inf, found)

    def log_p(self, tokens: Int[Tensor, "batch positions"]) -> Float[Tensor, " batch"]:
        """Return Σ_{t ∈ S} log p_t(x_t), without the constraint: −1 outside S; known tokens count nothing."""
        found = self.log_probs.gather(2, tokens.clamp(min=0)[:, :, None])[:, :, 0].double()
        return torch.where((tokens >= 0) & (self.known < 0), found, 0.0).sum(1)

    def sample(
        self,
        k: int = 1,
        *,
        where: Bool[Tensor, "batch positions"] | None = None,
        generator: torch.Generator | None = None,
    ) -> Int[Tensor, "k batch positions"]:
        """Draw k texts of each canvas from q. With ``where``, only its positions are given, the others are −1.

        Raises :class:`EvidenceError` if no text fills a canvas.
        """
        k = whole(k, "canvas: k, the number of texts,", 0)
        self.possible()
        wanted = torch.ones_like(self.known, dtype=torch.bool) if where is None else where
        out = torch.where(wanted, self.known, -1).repeat(k, 1, 1)
        for (over, letters), weighed in zip(self.parts, self._weighed, strict=True):
            drawn = sample(letters.automaton, k, weighed.weights, generator=generator)
            drawn = drawn.view(k, len(self.known), len(over))
            for b, t in (wanted & (self.known < 0))[:, over.start : over.stop].nonzero().tolist():
                # given the letters, positions are independent
                for letter in drawn[:, b, t].unique().tolist():
                    rows, tokens = (drawn[:, b, t] == letter).nonzero()[:, 0], letters.tokens(letter)
                    weights = self.log_probs[b, over.start + t, tokens].double().softmax(0)
                    pick = torch.multinomial(weights, len(rows), replacement=True, generator=generator)
                    out[rows, b, over.start + t] = tokens[pick]
        return out

    def marginals(
        self, positions: Int[Tensor, " some"] | None = None
    ) -> Float[Tensor, "batch positions vocab"]:
        """Return log q(x_t = v) in nats for all positions, or only for those given; at least in float32."""
        self.possible()
        asked = self._asked(positions)
        dtype = torch.promote_types(self.log_probs.dtype, torch.float32)
        out = self.log_probs.new_empty(len(self.known), len(asked), self.log_probs.shape[2], dtype=dtype)
        for (over, letters), weighed in zip(self.parts, self._weighed, strict=True):
            here = [(i, t - over.start) for i, t in enumerate(asked) if t in over]
            found = marginals(letters.automaton, weighed.weights) if here else {}
            for i, t in here:
                weights = weighed.weights[:, t]
                ratio = torch.where(weights > 0, found[t] - weights.log(), -torch.inf).exp()
                share = letters.spread(ratio).log() - weighed.scale[:, t, None]
                out[:, i] = self.log_probs[:, over.start + t].double() + share
        known = self.known[:, asked]
        row, at = (known >= 0).nonzero(as_tuple=True)
        out[row, at] = -torch.inf
        out[row, at, known[row, at]] = 0.0
        return out

    def _asked(self, positions: Int[Tensor, " some"] | None) -> list[int]:
        """Return positions as they count in the canvas. Raises :class:`ShapeError` for those that it does not have."""
        n = self.known.shape[1]
        if positions is None:
            return list(range(n))
        asked = whole_numbers(positions, "canvas: positions", ShapeError)
        if asked.ndim != 1 or bool(((asked < 0) | (asked >= n)).any()):
            raise ShapeError(f"canvas: positions are whole numbers in 0 … {n - 1}, not {short(positions)}")
        return list(map(int, asked.tolist()))

    @cached_property
    def mpe(self) -> Mode:
        """The most probable text of each canvas. Raises :class:`EvidenceError` if none fills a canvas."""
        total, tokens = self.possible(), self.known.clone()
        for over, letters in self.parts:
            weighed = self._weigh(over, letters, best=True)
            chosen, score = mpe(letters.automaton, weighed.weights)
            check_range(weighed, over, score, torch.zeros_like(score))
            for b, t in (self.known[:, over.start : over.stop] < 0).nonzero().tolist():
                some = letters.tokens(int(chosen[b, t]))
                tokens[b, over.start + t] = some[self.log_probs[b, over.start + t, some].argmax()]
        return Mode(tokens, self.log_p(tokens) - total)

    def possible(self) -> Float[Tensor, " batch"]:
        """Return log Z. Raises :class:`EvidenceError` for a canvas that no text can fill."""
        empty = self.log_partition.isneginf().nonzero()[:, 0].tolist()
        if empty:
            raise EvidenceError(
                f"canvas: no text fills canvas {empty[0]}: the tokens known, those of probability zero and the constraint "
                "leave none"
            )
        return self.log_partition


def tokens_for(shape: torch.Size, size: int, given: Any, name: str) -> Int[Tensor, "batch positions"]:
    """Return a token or −1 for each position of each canvas. Raises :class:`ShapeError` if what is given does not fit."""
    found = whole_numbers(given, f"canvas: {name}", ShapeError)
    if found.shape not in (shape, shape[1:]) or (
        found.numel() and (int(found.max()) >= size or int(found.min()) < -1)
    ):
        raise ShapeError(f"canvas: {name} holds a token below {size} or −1 for each of {shape[1]} positions")
    return found.expand(shape)


def with_tokens(
    letters: Letters, weighed: Weighed, tokens: Int[Tensor, "batch positions"]
) -> tuple[Tensor, Tensor]:
    """Return weights and scale of a part where some tokens are known, and have probability one (−1: none)."""
    at = (tokens >= 0).nonzero(as_tuple=True)
    if not len(at[0]):
        return weighed.weights, weighed.scale
    weights, scale = weighed.weights.clone(), weighed.scale.clone()
    weights[at], scale[at] = letters.of(tokens[at]), 0.0
    return weights, scale


def check_range(weighed: Weighed, over: range, found: Float[Tensor, " batch"], most: Tensor) -> None:
    """Raise :class:`CircuitError` if tokens whose weight was rounded to zero could change a result (relative, 1e-15).

    All texts with such a token weigh at most n e^−700 times ``most``, the logarithm of the weight of all texts.
    """
    if bool((weighed.wide & (math.log(len(over)) - RANGE + most.clamp(min=0) > found - 35)).any()):
        raise CircuitError(
            f"canvas: log-probabilities of one position lie more than {RANGE:.0f} nats apart, and the result depends on the "
            f"smallest; raise the temperature, or set what is impossible to −inf (or {-IMPOSSIBLE:,.0f} below the best)"
        )


def canvas(
    log_probs: Float[Tensor, "*batch positions vocab"],
    constraint: Any,
    known: Int[Tensor, "*batch positions"] | None = None,
    *,
    vocab: Any = None,
    pad_token_id: int | None = None,
) -> Canvas:
    """Condition distributions over the tokens of each position on a constraint, exactly.

    Parameters
    ----------
    log_probs
        Log-probabilities in nats (any real scores: the partition function is of their exponentials), −inf where impossible. A
        score 10,000 nats or more below the best of its position counts as −inf, since models write masks so. Any dtype: sums
        are in float64. A batch of canvases shares the constraint.
    constraint
        An automaton over these tokens; a :class:`Constraint`, compiled for ``vocab``; or a mapping from ranges of positions,
        which do not overlap, to such constraints. Positions in no range are free. A text must fill its range, but in the range
        that ends the canvas it may end earlier: it is followed by end tokens, or by one end token and ``pad_token_id``. An
        automaton for a range that must be filled is compiled with ``require_eos=False``.
    known
        Tokens already fixed, −1 at open positions.
    vocab
        The :class:`~tractile.Vocabulary`, or a tokenizer.

    Raises
    ------
    BudgetTooSmall
        A constraint has no text as short as its range.
    TooManyStates
        A lazy constraint has too many states within it.
    VocabularyMismatch
        An automaton is of another vocabulary.

    Examples
    --------
    >>> import torch
    >>> import tractile as tt
    >>> one = tt.Automaton.from_edges([(0, 0, 0), (0, 1, 1), (1, 0, 1)], start=0, accept=[1], vocab_size=2)
    >>> p = torch.tensor([[0.5, 0.5], [0.9, 0.1], [0.4, 0.6]], dtype=torch.float64)
    >>> three = tt.canvas(p.log(), one)  # exactly one 1 in three positions
    >>> three.log_partition.exp()  # 0.5 · 0.9 · 0.4 + 0.5 · 0.1 · 0.4 + 0.5 · 0.9 · 0.6
    tensor([0.4700], dtype=torch.float64)
    >>> three.mpe.tokens, three.marginals().exp()[0, :, 1]
    (tensor([[0, 0, 1]]), tensor([0.3830, 0.0426, 0.5745], dtype=torch.float64))
    """
    if not isinstance(log_probs, Tensor) or log_probs.ndim not in (2, 3) or not log_probs.is_floating_point():
        raise ShapeError("canvas: log_probs are floats, ([batch,] positions, vocabulary)")
    log_probs = log_probs[None] if log_probs.ndim == 2 else log_probs
    if not bool((log_probs < torch.inf).all()):
        raise ShapeError("canvas: log_probs hold nan or inf; give log-probabilities, −inf where impossible")
    batch, n, size = log_probs.shape
    parts = parts_of(constraint, n, size, vocab, pad_token_id, log_probs.device)
    tokens = torch.full((batch, n), -1, device=log_probs.device)
    if known is not None:
        tokens = tokens_for(tokens.shape, size, known, "known").to(log_probs.device).clone()
    return Canvas(log_probs, tokens, parts)


def parts_of(
    constraint: Any,
    n: int,
    size: int,
    vocab: Any = None,
    pad_token_id: int | None = None,
    device: torch.device | None = None,
) -> Parts:
    """Return the parts of a canvas of n positions in order, free positions among them."""
    given = constraint if isinstance(constraint, Mapping) else {range(n): constraint}
    parts, at = Parts(), 0
    for over in given:
        if not isinstance(over, range) or over.step != 1 or not 0 <= over.start < over.stop <= n:
            raise ShapeError(f"canvas: a part is a range of the {n} positions, not {over!r}")
    for over, fa in sorted(given.items(), key=lambda part: part[0].start):
        if over.start < at:
            raise ShapeError(f"canvas: {over} overlaps the part before; join constraints on one range by &")
        if over.start > at:
            parts.append((range(at, over.start), Letters(anything(size), over.start - at, device=device)))
        fills, at = over.stop < n, over.stop
        if isinstance(fa, Constraint):
            fa = fa.compile(vocabulary_of(vocab, size=size), require_eos=not fills)
        if not isinstance(fa, Automaton):
            raise ShapeError(
                f"canvas: a constraint is an automaton or a Constraint, not a {type(fa).__name__}; of hmm * fa: tt.mpe, tt.sample"
            )
        if fa.vocab_size != size:
            raise VocabularyMismatch(f"canvas: log_probs of {size} tokens, an automaton of {fa.vocab_size}")
        parts.append((over, Letters(fa, len(over), pad_token_id, fills=fills, device=device)))
    if at < n:
        parts.append((range(at, n), Letters(anything(size), n - at, device=device)))
    return parts
