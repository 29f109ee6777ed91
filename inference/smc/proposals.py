"""Proposals: each draws a token X and a weight W, *properly weighted* for language model and constraint,

    E[W · 1{X = x}] = p_lm(x | x_<t) · 1[x is allowed]        for every token x,

so the sampler that multiplies the weights is unbiased for every proposal; the choice of q only changes the variance.
A tabular proposal gives log q for the whole vocabulary, up to a constant; then X ~ q and W = p_lm(X) / q(X).

    lm          q ∝ p_lm                                      no guidance; W is 0 or 1
    lcd, gcd    q ∝ p_lm · 1[allowed]                         the exact local product (Dang et al. 2026, Eq. 1)
    lookahead   q ∝ p_lm · p_hmm(C | x_≤t)^strength           Bayes' rule with the HMM as the likelihood of C
    mixture     q ∝ p_lm^w · p_hmm(x_t | x_<t, C)^(1-w)       the paper's form (Dang et al. 2026, §4.3)

Rows are unfinished particles; all (rows, vocab) tensors are batch first.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from math import isqrt
from typing import Literal, final

import torch
from jaxtyping import Float, Int
from torch import Generator, Tensor

from ...errors import EvidenceError, ProposalError
from .potentials import LookaheadPotential, Potential, PrefixPotential, scaled
from .sparse import draw_sparse, sparse_step
from .step import Knowledge, Step, entries
from .strength import Strength


class Proposal(ABC):
    """A way to draw the next token of every row; abstract.

    ``needs``: the knowledge of the constraint that it uses.

    Moves and Markov chains keep their target only with proposals whose draws do not depend on earlier ones.

    Examples
    --------
    >>> import torch
    >>> import tractile as tt
    >>> lm = tt.lm.TableLM({(): torch.tensor([0.8, 0.2]).log()})  # token 1 has probability 0.2, whatever came before
    >>> second = tt.Automaton.from_edges([(0, [0, 1], 1), (1, 1, 2)], 0, [2], 2)  # the second of two tokens is 1
    >>> class Uniform(tt.inference.smc.Proposal):  # the allowed tokens, one as probable as another
    ...     def draw(self, step, generator):
    ...         tokens = torch.multinomial(step.mask.double(), 1, generator=generator)
    ...         weight = step.log_probs.gather(1, tokens)[:, 0] + step.mask.sum(1).log()
    ...         return tokens[:, 0], weight.double()
    >>> post = tt.smc(lm, [], second, Uniform(), particles=400, max_new_tokens=2, seed=0)
    >>> round(post.log_evidence, 1)  # log 0.2 = -1.6
    -1.6
    """

    needs: Knowledge = Knowledge.BUDGET

    @abstractmethod
    def draw(self, step: Step, generator: Generator) -> tuple[Int[Tensor, " rows"], Float[Tensor, " rows"]]:
        """Draw tokens and return them with log-weights (nats, float64), properly weighted for p_lm · 1[allowed].

        The log-weight is −∞ if no token is allowed.
        """

    @property
    def potential(self) -> Potential:
        """The potential that :func:`.smc` uses with this proposal by default.

        φ_pgcd for proposals that need an HMM, the prefix potential for the others. Override it if another one fits better.
        """
        return LookaheadPotential() if self.needs is Knowledge.HMM else PrefixPotential()

    def draw_checked(
        self, step: Step, generator: Generator, drawn: tuple[Tensor, Tensor] | None = None
    ) -> tuple[Int[Tensor, " rows"], Float[Tensor, " rows"]]:
        """Return the result of ``draw`` (or this one) on the CPU; raise :class:`ProposalError` if it isn't properly weighted.

        That is a weight that is NaN or +∞, a token outside the vocabulary, or a positive weight on a token that the
        constraint forbids. Raises :class:`EvidenceError` if the language model's own log-probabilities are NaN or +∞.
        """
        tokens, log_weight = (value.detach().cpu() for value in drawn or self.draw(step, generator))
        rows, vocab = step.rows.shape[0], step.table.shape[1]
        if tokens.shape != (rows,) or log_weight.shape != (rows,):
            shapes = f"{tuple(tokens.shape)} and {tuple(log_weight.shape)}"
            raise ProposalError(self, f"returned tokens and log-weights of shapes {shapes}, not ({rows},)")
        if rows and not log_weight.numpy().max() < torch.inf:  # NaN if any value is
            step.check_log_probs()
            row = int((log_weight.isnan() | log_weight.isposinf()).nonzero()[0, 0])
            value, token = float(log_weight[row]), int(tokens[row])
            raise ProposalError(self, f"returned the log-weight {value} for token {token}", step.text(row))
        if rows and not 0 <= min(ids := tokens.tolist()) <= max(ids) < vocab:
            row = next(i for i, token in enumerate(ids) if not 0 <= token < vocab)
            raise ProposalError(self, f"drew token {ids[row]} of {vocab}", step.text(row))
        kind = type(self)
        if (kind.draw, getattr(kind, "log_weight", None)) == (Tabular.draw, Tabular.log_weight):
            return tokens, log_weight.double()  # forbidden tokens have weight zero
        forbidden = (~log_weight.isneginf() & ~step.allows(tokens)).nonzero()[:, 0].tolist()
        if forbidden:
            token = int(tokens[forbidden[0]])
            what = f"gave a positive weight to token {token}, which the constraint forbids"
            raise ProposalError(self, what, step.text(forbidden[0]))
        return tokens, log_weight.double()


class Tabular(Proposal):
    """A proposal that gives its probabilities q for the whole vocabulary; abstract.

    ``elementwise``: ``belief`` at a token is computed from the step's tables at this token only, and is −∞ where the mask is
    False. On the CPU it is then computed once for each state, on the allowed tokens only (:mod:`.sparse`), and runs with equal
    proposals draw together.
    """

    elementwise = False

    @abstractmethod
    def belief(self, step: Step) -> Float[Tensor, "rows vocab"]:
        """Return log q of each token in nats, up to a constant for each row."""

    def draw(self, step: Step, generator: Generator) -> tuple[Int[Tensor, " rows"], Float[Tensor, " rows"]]:
        if (drawn := self.draw_sparsely([step], [generator])[0]) is not None:
            return drawn
        belief = self.checked(self.belief(step), step)
        # The clamp keeps `top` finite in rows without any mass.
        top = belief.amax(dim=1, keepdim=True).clamp(min=torch.finfo(belief.dtype).min)
        tokens, total = draw_tokens((belief - top).exp_(), generator)
        log_q = belief.gather(1, tokens[:, None])[:, 0].double() - top[:, 0].double() - total.log()
        return tokens, self.log_weight(step, log_q, tokens)

    def draw_sparsely(
        self, steps: Sequence[Step], generators: Sequence[Generator]
    ) -> list[tuple[Int[Tensor, " rows"], Float[Tensor, " rows"]] | None]:
        """Return the draw of each step if the proposal is ``elementwise``; None for those that need the whole table.

        No random number is used up if a belief is an error.
        """
        given = enumerate(steps) if self.elementwise else ()
        few = {i: one for i, step in given if (one := sparse_step(step)) is not None}
        if not few:
            return [None] * len(steps)
        beliefs = [self.checked(self.belief(one), steps[i]) for i, one in few.items()]
        drawn = draw_sparse(list(few.values()), beliefs, [generators[i] for i in few])
        found = dict(zip(few, drawn, strict=True))
        return [found.get(i) for i in range(len(steps))]

    def checked(self, belief: Tensor, step: Step) -> Tensor:
        """Return ``belief``; raise :class:`ProposalError` if a value is NaN or +∞.

        Raises :class:`EvidenceError` if the language model's own log-probabilities are NaN or +∞.
        """
        highest = float(belief.amax()) if belief.numel() else 0.0  # NaN if any value is
        if not highest < torch.inf:
            step.check_log_probs()
            raise ProposalError(self, f"has {highest} as the logarithm of a probability")
        return belief

    def log_weight(
        self, step: Step, log_q: Float[Tensor, " rows"], tokens: Int[Tensor, " rows"]
    ) -> Float[Tensor, " rows"]:
        """Return log p_lm(token) − log q(token) in nats, −∞ if the constraint forbids the token."""
        tokens = tokens.cpu()
        log_p = entries(step.table, step.rows, tokens)
        return (log_p - log_q.cpu().double()).masked_fill(~step.allows(tokens) | log_p.isneginf(), -torch.inf)


class Local(Tabular):
    """The language model at a temperature, on the allowed tokens; the weights correct for the temperature."""

    def __init__(self, temperature: float = 1.0) -> None:
        if not temperature > 0:
            raise EvidenceError(f"{type(self).__name__}: the temperature must be positive, not {temperature}")
        self.temperature = temperature

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash((type(self), self.temperature))

    def _tempered(self, step: Step) -> Float[Tensor, "rows vocab"]:
        return step.log_probs if self.temperature == 1 else step.log_probs / self.temperature

    def belief(self, step: Step) -> Float[Tensor, "rows vocab"]:
        return step.allowed_only(self._tempered(step))


@final
class LMProposal(Local):
    """The language model itself; a token that leaves no way to satisfy the constraint kills its particle.

    Examples
    --------
    >>> import torch
    >>> import tractile as tt
    >>> lm = tt.lm.TableLM({(): torch.tensor([0.8, 0.2]).log()})  # token 1 has probability 0.2, whatever came before
    >>> second = tt.Automaton.from_edges([(0, [0, 1], 1), (1, 1, 2)], 0, [2], 2)  # the second of two tokens is 1
    >>> post = tt.smc(lm, [], second, tt.inference.smc.LMProposal(), particles=1000, max_new_tokens=2, seed=0)
    >>> round(post.log_evidence, 1)  # log 0.2 = -1.6; four in five particles die
    -1.7
    """

    needs = Knowledge.BUDGET

    def belief(self, step: Step) -> Float[Tensor, "rows vocab"]:
        return self._tempered(step)


@final
class LCDProposal(Local):
    """Locally constrained decoding: p_lm on the tokens after which some continuation of any length satisfies the constraint.

    Examples
    --------
    >>> import torch
    >>> import tractile as tt
    >>> lm = tt.lm.TableLM({(): torch.tensor([0.8, 0.2]).log()})  # token 1 has probability 0.2, whatever came before
    >>> second = tt.Automaton.from_edges([(0, [0, 1], 1), (1, 1, 2)], 0, [2], 2)  # the second of two tokens is 1
    >>> post = tt.smc(lm, [], second, tt.inference.smc.LCDProposal(), particles=4, max_new_tokens=2, seed=0)
    >>> round(post.log_evidence, 4)  # log 0.2
    -1.6094
    """

    needs = Knowledge.LOCAL
    elementwise = True


@final
class GCDProposal(Local):
    """Globally constrained decoding: p_lm on the tokens after which a continuation within the budget satisfies the constraint.

    Examples
    --------
    >>> import torch
    >>> import tractile as tt
    >>> lm = tt.lm.TableLM({(): torch.tensor([0.8, 0.2]).log()})  # token 1 has probability 0.2, whatever came before
    >>> second = tt.Automaton.from_edges([(0, [0, 1], 1), (1, 1, 2)], 0, [2], 2)  # the second of two tokens is 1
    >>> post = tt.smc(lm, [], second, tt.inference.smc.GCDProposal(), particles=4, max_new_tokens=2, seed=0)
    >>> round(post.log_evidence, 4)  # log 0.2
    -1.6094
    """

    needs = Knowledge.BUDGET
    elementwise = True


@final
class LookaheadProposal(Local):
    """The proposal q ∝ p_lm(x_t) · p_hmm(C | x_≤t)^strength: the language model times the HMM's lookahead.

    With the strength "auto", :func:`.smc`, :func:`.mcmc` and :func:`.resample_move` find it for a model, an HMM and a constraint;
    with a :class:`Strength`, for all requests that share the object.

    Examples
    --------
    >>> import torch
    >>> import tractile as tt
    >>> coin = tt.HMM(torch.ones(1), torch.ones(1, 1), torch.tensor([[0.5, 0.5]]))
    >>> lm = tt.lm.TableLM({(): torch.tensor([0.8, 0.2]).log()})
    >>> second = tt.Automaton.from_edges([(0, [0, 1], 1), (1, 1, 2)], 0, [2], 2)  # the second of two tokens is 1
    >>> post = tt.smc(lm, [], second, tt.inference.smc.LookaheadProposal(), coin, particles=4, max_new_tokens=2, seed=0)
    >>> round(post.log_evidence, 4)  # log 0.2
    -1.6094
    """

    needs = Knowledge.HMM
    elementwise = True

    def __init__(self, strength: float | Literal["auto"] | Strength = 1.0, temperature: float = 1.0) -> None:
        super().__init__(temperature)
        number = 0.0 if strength == "auto" or isinstance(strength, Strength) else strength
        if isinstance(number, str) or not number >= 0:
            raise EvidenceError(
                f'LookaheadProposal: the strength must be "auto" or a number that is not negative, not {strength!r}'
            )
        self.strength = strength

    @property
    def power(self) -> float:
        """The strength as a number; raises :class:`EvidenceError` if it has not been found."""
        if isinstance(self.strength, str | Strength):
            raise EvidenceError(
                "LookaheadProposal: its strength is found by smc, mcmc and resample_move; give a number to use it elsewhere"
            )
        return self.strength

    def belief(self, step: Step) -> Float[Tensor, "rows vocab"]:
        belief = self._tempered(step)
        if self.power:
            belief = belief + self.power * step.lookahead
        return step.allowed_only(belief)

    @property
    def potential(self) -> Potential:
        """The lookahead potential φ_pgcd, with the strength of this proposal as its exponent."""
        return LookaheadPotential(self.power)


@final
class MixtureProposal(Tabular):
    """The proposal q ∝ p_lm(x_t)^w · p_hmm(x_t | x_<t, C)^(1 − w).

    ``potential`` is the default potential of samplers with this proposal: by default φ_pgcd; ``PrefixPotential()`` gives the
    paper's form.

    Examples
    --------
    >>> import torch
    >>> import tractile as tt
    >>> coin = tt.HMM(torch.ones(1), torch.ones(1, 1), torch.tensor([[0.5, 0.5]]))
    >>> lm = tt.lm.TableLM({(): torch.tensor([0.8, 0.2]).log()})
    >>> second = tt.Automaton.from_edges([(0, [0, 1], 1), (1, 1, 2)], 0, [2], 2)  # the second of two tokens is 1
    >>> post = tt.smc(lm, [], second, tt.inference.smc.MixtureProposal(0.5), coin, particles=400, max_new_tokens=2, seed=0)
    >>> round(post.log_evidence, 1)  # log 0.2 = -1.6
    -1.6
    """

    needs = Knowledge.HMM
    elementwise = True

    def __init__(self, w: float = 0.5, *, potential: Potential | None = None) -> None:
        if not 0 <= w <= 1:
            raise EvidenceError(f"MixtureProposal: w must lie between 0 and 1, it is {w}")
        self.w = w
        self._potential = LookaheadPotential() if potential is None else potential

    @property
    def potential(self) -> Potential:
        """The potential given, by default φ_pgcd."""
        return self._potential

    def belief(self, step: Step) -> Float[Tensor, "rows vocab"]:
        possible = step.mask & ~step.log_probs.isneginf()
        belief = scaled(self.w, step.log_probs)
        if self.w < 1:
            belief = belief + (1 - self.w) * step.conditional
        return belief.masked_fill(~possible, -torch.inf)


def draw_tokens(
    weights: Float[Tensor, "rows vocab"], generator: Generator
) -> tuple[Int[Tensor, " rows"], Float[Tensor, " rows"]]:
    """Draw a token for each row with probability proportional to its weight; return (tokens, the total weight of each row).

    Totals are float64; blocks of some √V tokens are added up in the precision of the weights, or float32 if that is finer.

    The distribution function is inverted at one uniform number per row, first over blocks of tokens, then within one: a token of
    weight zero is never drawn, unless all are zero. The numbers are drawn on the CPU, so a seed gives the same result on any
    device.
    """
    rows, size = weights.shape
    width = max(1, isqrt(size))
    if rest := -size % width:
        weights = torch.nn.functional.pad(weights, (0, rest))
    blocks = weights.reshape(rows, -1, width)
    # Not in float64: with 262,144 tokens a copy of the whole table takes as long as the rest of a draw.
    mass = blocks.sum(2, dtype=torch.promote_types(weights.dtype, torch.float32)).double()
    cumulative = mass.cumsum(1)
    total = cumulative[:, -1]
    uniform = torch.rand(rows, 1, dtype=torch.float64, generator=generator).to(weights.device)
    point = uniform * total[:, None]
    block = _first_above(cumulative, point)
    point = (point - (cumulative - mass).gather(1, block)).clamp(min=0)
    inside = blocks[torch.arange(rows, device=weights.device), block[:, 0]].cumsum(1, dtype=torch.float64)
    return (block * width + _first_above(inside, point))[:, 0].clamp(max=size - 1), total


def _first_above(
    cumulative: Float[Tensor, "rows entries"], point: Float[Tensor, "rows 1"]
) -> Int[Tensor, "rows 1"]:
    """Return for each row of running sums the index of the first that is above the row's point.

    If the point is the total itself, that is the first sum that equals the total: the last entry of positive weight.
    """
    last = cumulative[:, -1:]
    below = torch.minimum(point, torch.nextafter(last, torch.zeros_like(last)))
    return torch.searchsorted(cumulative, below, right=True).clamp(max=cumulative.shape[1] - 1)
