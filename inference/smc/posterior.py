"""The result of a run: weighted particles with mean(weight · f(x)) unbiased for Σ_x p_lm(x) 1[x ∈ C] f(x).

With f = 1 that is Z = p_lm(C). Weights are absolute and final: nothing is resampled after the last token. A particle
that does not satisfy the constraint has weight zero. If all particles have weight zero the posterior has ``failed``, and
there is no best particle, no sample and no expectation.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from dataclasses import field as attribute
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, overload

import torch
from jaxtyping import Float, Int
from torch import Tensor

from ...argument_checks import whole
from ...circuits.io.summary import html_table
from ...circuits.narrowing import Narrowing
from ...errors import EvidenceError, NoParticleSurvived
from .confidence import Estimate, Spread, check_level, interval_of_mean, interval_of_share, spread
from .field import Field, Listed, field_of, key_of
from .proposals import draw_tokens
from .report import as_dict, as_figure, as_html, shortened
from .resampling import effective_sample_size
from .strength import Strength
from .trace import Trace
from .user_function import check_function

if TYPE_CHECKING:
    from matplotlib.figure import Figure


K = TypeVar("K", bound=Hashable)


class Asked(Protocol):
    """What a posterior was sampled from, which can be asked for more (:class:`.Source`)."""

    @property
    def listed(self) -> Listed | None:
        """Complete texts with their masses and draws of all others; None if the target has no such parts."""


SHOWN = 7  # texts in a printed posterior


def as_json(text: str) -> Any:
    """Return the JSON value of a text; raise :class:`EvidenceError` for a text that is none."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise EvidenceError(
            f"field: {shortened(text)!r} is no JSON, so it has no parts; leave path out, or give parse="
        ) from None


@dataclass(frozen=True)
class Particle:
    """One sequence: its tokens (the end-of-sequence token included), text, weight and log p_lm(tokens) in nats.

    ``weight`` is normalised over the posterior; ``log_weight`` is absolute. A particle of weight zero may be incomplete.

    Examples
    --------
    >>> import torch
    >>> import tractile as tt
    >>> lm = tt.lm.TableLM({(): torch.tensor([0.8, 0.2]).log()})  # token 1 has probability 0.2, whatever came before
    >>> second = tt.Automaton.from_edges([(0, [0, 1], 1), (1, 1, 2)], 0, [2], 2)  # the second of two tokens is 1
    >>> best = tt.smc(lm, [], second, "gcd", particles=4, max_new_tokens=2, seed=0).particles[0]
    >>> best.token_ids[1], best.weight
    (1, 0.25)
    """

    token_ids: tuple[int, ...]
    text: str
    weight: float
    log_weight: float
    log_prob: float


def json_value(particle: Particle) -> Hashable:
    """Return a key for :meth:`.Posterior.group_by`: its JSON value, whatever the white space, the order of members, 1 or 1.0.

    Examples
    --------
    >>> from tractile.inference.smc import Particle, json_value
    >>> one, two = (Particle((), text, 0.5, 0.0, 0.0) for text in ('{"a": 1, "b": 2}', '{"b":2,"a":1.0}'))
    >>> json_value(one) == json_value(two)
    True
    """
    try:
        return "json", key_of(json.loads(particle.text))
    except (ValueError, RecursionError):
        return "text", particle.text


@dataclass(frozen=True, repr=False)
class Posterior:
    """Weighted particles that approximate p_lm(x | constraint) · Ψ(x), with Ψ the potential.

    ``token_ids``, ``texts``, ``log_weights`` (absolute, nats) and ``log_probs`` (log p_lm, nats) have an entry for each particle.

    ``ess_trace`` has the effective sample size after each step, before any resampling; ``resampled`` the steps (from 0) after
    which particles were resampled; ``trace``, if requested, every particle at every step. ``log_potentials`` is log Ψ of each
    particle, in nats. ``cut_off`` has the log-weights of particles that hit the token budget before the constraint was
    satisfied, under proposals that do not know the budget; their ``log_weights`` are −∞. ``refused`` has the complete texts
    that satisfied the constraint and for which the potential was zero. ``narrowed`` says where the constraint accepts less than
    was asked for (``Constraint.narrowed``). ``strength`` is the power of p_hmm(C | x_≤t) in a :class:`.LookaheadProposal`, None
    for others; ``calibration`` is the pilot that found the strength (:class:`.Strength`), None if it was given. ``lineage`` has
    a column for each resampling, in order: particles with equal numbers have a common ancestor before this resampling. ``parse``
    reads a text as its value. ``log_kept`` has, for each particle and token, log Σ_{x allowed} p_lm(x | x_<t) in nats: what the
    mask kept of the model. It is known for the proposals "lcd" and "gcd" at temperature 1, whose weights it is; None for others
    (:func:`tractile.decoding.log_kept` computes it from logits). ``source`` draws more for :meth:`field`.

    ``str(posterior)`` is a table of the heaviest texts.

    Examples
    --------
    >>> import torch
    >>> import tractile as tt
    >>> lm = tt.lm.TableLM({(): torch.tensor([0.8, 0.2]).log()})  # token 1 has probability 0.2, whatever came before
    >>> second = tt.Automaton.from_edges([(0, [0, 1], 1), (1, 1, 2)], 0, [2], 2)  # the second of two tokens is 1
    >>> post = tt.smc(lm, [], second, "gcd", particles=4, max_new_tokens=2, seed=0)
    >>> len(post.texts), round(post.ess), round(post.log_evidence, 4)
    (4, 4, -1.6094)
    """

    token_ids: Sequence[tuple[int, ...]]
    texts: Sequence[str]
    log_weights: Float[Tensor, " particles"]
    log_probs: Float[Tensor, " particles"]
    ess_trace: Sequence[float] = attribute(default=())
    resampled: Sequence[int] = attribute(default=())
    trace: Trace | None = None
    log_potentials: Float[Tensor, " particles"] | None = None
    cut_off: Float[Tensor, " lost"] = attribute(default_factory=lambda: torch.zeros(0, dtype=torch.float64))
    refused: tuple[str, ...] = ()
    narrowed: tuple[Narrowing, ...] = ()
    strength: float | None = None
    calibration: Strength | None = None
    lineage: Int[Tensor, "particles resamplings"] | None = None
    parse: Callable[[str], Any] = str
    log_kept: Sequence[Float[Tensor, " tokens"]] | None = None
    source: Asked | None = attribute(default=None, compare=False)

    def __repr__(self) -> str:
        if self.failed:
            return f"Posterior({len(self.texts)} particles, failed)"
        return (
            f"Posterior({len(self.texts)} particles, {self.distinct} distinct, log_evidence={self.log_evidence:.3f}, "
            f"ess={self.ess:.1f}, best={shortened(self.best.text)!r})"
        )

    def __str__(self) -> str:
        if self.failed:
            return f"{len(self.texts)} particles, none of which satisfies the constraint"
        count = f"{self.distinct} distinct text" + "s" * (self.distinct != 1)
        lines = [
            f"{len(self.texts)} particles, {count}",
            f"log Z ≈ {self.log_evidence:.3f} nats, effective sample size {self.ess:.1f}",
        ]
        if self.calibration is not None:
            lines.append(str(self.calibration))
        texts = list(self.group_by(lambda particle: particle.text).items())
        lines += [f"{weight:6.3f}  {shortened(text)!r}" for text, weight in texts[:SHOWN]]
        if len(texts) > SHOWN:
            rest = 1 - sum(weight for _, weight in texts[:SHOWN])
            lines.append(f"{max(rest, 0.0):6.3f}  in {len(texts) - SHOWN} more")
        if lost := [each for each in self.narrowed if each.loses_values]:
            names = ", ".join(dict.fromkeys(each.keyword for each in lost))
            lines.append(f"the constraint leaves out some texts ({names}): see narrowed")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        if self.failed:
            return html_table([], [], str(self))
        texts = [(shortened(text), weight) for text, weight in self.group_by(lambda p: p.text).items()]
        return html_table(["weight", "text"], [(f"{w:.3f}", text) for text, w in texts[:SHOWN]], repr(self))

    @property
    def failed(self) -> bool:
        """True if no particle satisfies the constraint."""
        return not bool((self.log_weights > -torch.inf).any())

    @property
    def log_evidence(self) -> float:
        """The log of the unbiased estimate of Z = Σ_x p_lm(x) 1[x ∈ C] Ψ(x), in nats; −∞ if the run failed."""
        if self.failed:
            return -math.inf
        return float(self.log_weights.logsumexp(0)) - math.log(len(self.log_weights))

    @property
    def weights(self) -> Float[Tensor, " particles"]:
        """Normalised weights; all zero if the run failed."""
        return torch.zeros_like(self.log_weights) if self.failed else self.log_weights.softmax(0)

    @property
    def distinct(self) -> int:
        """The number of different texts among the particles that satisfy the constraint."""
        alive = (self.log_weights > -torch.inf).tolist()
        return len({text for text, lives in zip(self.texts, alive, strict=True) if lives})

    @property
    def collapsed(self) -> bool:
        """Whether all particles that satisfy the constraint go back to one, of several that there were, by resampling."""
        alive = self.log_weights > -torch.inf
        resampled = self.lineage is not None and self.lineage.shape[1] > 0 and int(alive.sum()) > 1
        return resampled and len(self.lineage_or_own[alive, 0].unique()) == 1

    @property
    def values(self) -> list[Any]:
        """The value of each particle of :attr:`accepted`: what ``parse`` reads its text as, the text itself by default."""
        return [self.parse(particle.text) for particle in self.accepted]

    @property
    def ess(self) -> float:
        """Effective sample size of the final weights, in particles.

        It measures how even the weights are. Copies made by resampling count as particles of their own, so it can be large even
        if all texts are equal: see :attr:`distinct`.
        """
        return effective_sample_size(self.log_weights) if len(self.log_weights) else 0.0

    @property
    def lineage_or_own(self) -> Int[Tensor, "particles generations"]:
        """By particle its ancestors (see ``lineage``); without resampling one column, in which each is its own ancestor."""
        if self.lineage is None or not self.lineage.shape[1]:
            return torch.arange(len(self.log_weights))[:, None]
        return self.lineage

    @property
    def particles(self) -> list[Particle]:
        """All particles, including those of weight zero."""
        numbers = (column.tolist() for column in (self.weights, self.log_weights, self.log_probs))
        return [Particle(*row) for row in zip(self.token_ids, self.texts, *numbers, strict=True)]

    @property
    def accepted(self) -> list[Particle]:
        """The particles that satisfy the constraint.

        Raises :class:`NoParticleSurvived` if there is none.
        """
        if self.failed:
            raise NoParticleSurvived(self._why_failed())
        return [particle for particle in self.particles if particle.log_weight > -math.inf]

    def _why_failed(self) -> str:
        count = len(self.log_weights)
        if self.refused:
            return (
                f"the potential is zero for all {len(self.refused)} texts that satisfied the constraint, such as "
                f"{shortened(self.refused[-1])!r}; use more particles, or a constraint that says more of what is wanted"
            )
        if len(self.cut_off):
            return (
                f"none of {count} particles satisfies the constraint: {len(self.cut_off)} ran out of max_new_tokens; raise it, "
                'or use proposal="gcd" or "pgcd", which keep to the budget'
            )
        return (
            f"none of {count} particles satisfies the constraint: every one has met a prefix whose tokens are forbidden, or have "
            'probability zero under the language model or the potential; use more particles or, if the proposal is "lm", "gcd"'
        )

    @property
    def best(self) -> Particle:
        """The sequence with the largest total weight over its copies; among ties the most probable under p_lm.

        Raises :class:`NoParticleSurvived` if the run failed.
        """
        totals = self.group_by(lambda particle: particle.token_ids)
        top = max(totals.values())
        ties = [p for p in self.accepted if math.isclose(totals[p.token_ids], top, rel_tol=1e-9)]
        return max(ties, key=lambda particle: particle.log_prob)

    @overload
    def group_by(self, key: Callable[[Particle], K]) -> dict[K, float]: ...

    @overload
    def group_by(self, key: Callable[[Particle], K], level: float) -> dict[K, Estimate]: ...

    def group_by(
        self, key: Callable[[Particle], K], level: float | None = None
    ) -> dict[K, float] | dict[K, Estimate]:
        """Return the normalised weight of each group of particles with equal ``key``, the heaviest first.

        With ``level`` (0.95, say) each is an :class:`.Estimate` with the interval of this confidence, from the ancestry of the
        particles. Groups without particles are missing. Raises :class:`NoParticleSurvived` if the run failed.
        """
        alive, members = self.accepted, dict[K, list[int]]()
        for i, group in enumerate(check_function(key, "group_by: key")(particle) for particle in alive):
            members.setdefault(group, []).append(i)
        weights = [particle.weight for particle in alive]
        totals = {group: sum(weights[i] for i in rows) for group, rows in members.items()}
        ranked = dict(sorted(totals.items(), key=lambda item: -item[1]))
        if level is None:
            return ranked
        level, found = check_level(level, "group_by"), {}
        for group, share in ranked.items():
            values = torch.zeros(len(alive), dtype=torch.float64)
            values[members[group]] = 1.0
            found[group] = interval_of_share(share, self._spread(values), level)
        return found

    @overload
    def expectation(self, f: Callable[[Particle], float]) -> float: ...

    @overload
    def expectation(self, f: Callable[[Particle], float], level: float) -> Estimate: ...

    def expectation(self, f: Callable[[Particle], float], level: float | None = None) -> float | Estimate:
        """Return Σ weight · f(particle), the estimate of E[f(x)] under the target.

        With ``level`` (0.95, say) it is an :class:`.Estimate` with the interval of this confidence, as in :meth:`group_by`.
        Raises :class:`NoParticleSurvived` if the run failed.
        """
        values = [float(check_function(f, "expectation: f")(particle)) for particle in self.accepted]
        mean = sum(p.weight * value for p, value in zip(self.accepted, values, strict=True))
        if level is None:
            return mean
        level = check_level(level, "expectation")
        return interval_of_mean(mean, self._spread(torch.tensor(values, dtype=torch.float64)), level)

    def field(self, path: str = "", level: float = 0.9) -> Field:
        """Return the distribution of one field of the answers: values with probabilities, and the mass not seen.

        ``path`` leads into the value of an answer, as ``kind``, ``items[0].kind`` or ``["a.b"]``; ``""`` is the whole answer.
        Values are what ``parse`` reads; texts of :func:`.smc` are read as JSON if there is a path. Where an answer lacks it
        its value is ``ABSENT``.

        The first call asks the language model again, once for all fields: it lists the most probable texts with their exact
        masses, and draws 16 of all others for each particle, at least 64, if these have more than a thousandth of the mass. An
        HMM guides both. Listing takes one to two times as many passes as the budget has tokens, up to 256 if it finds all texts;
        a batch of draws, 64 or as many as there are particles, takes as many as the budget has tokens. More particles make a
        field that cannot be listed more accurate. With AWRS, proposals of your own, potentials of prefixes, models that are not
        normalised, and in posteriors put together by hand, the particles alone are used. ``level`` is that of the intervals.

        Raises :class:`EvidenceError` if no answer has the field, :class:`NoParticleSurvived` if the run failed.
        """
        level, read = check_level(level, "field"), self.parse
        if read is str and path:
            read = as_json
        listed = None if self.source is None else self.source.listed
        if listed is None:
            if self.failed:
                raise NoParticleSurvived(self._why_failed())
            listed = Listed((), torch.zeros(0, dtype=torch.float64), 0.0, self)
        elif listed.is_empty:
            raise NoParticleSurvived(self._why_failed())
        return field_of(listed, read, path, level)

    def _spread(self, values: Float[Tensor, " alive"]) -> Spread:
        """Return the spread of the weighted mean of values, one for each particle of :attr:`accepted`."""
        alive = self.log_weights > -torch.inf
        weights = self.weights[alive].double()
        return spread(weights * (values - weights @ values), weights, self.lineage_or_own[alive])

    def sample(self, n: int, seed: int = 0) -> list[Particle]:
        """Draw ``n`` particles with replacement by weight. Raises :class:`NoParticleSurvived` if the run failed."""
        accepted, n, seed = self.accepted, whole(n, "sample: n", 0), whole(seed, "sample: seed", None)
        weights = torch.tensor([p.weight for p in accepted], dtype=torch.float64).expand(n, -1)
        drawn, _ = draw_tokens(weights, torch.Generator().manual_seed(seed))
        return [accepted[i] for i in drawn.tolist()]

    def to_dict(self) -> dict[str, Any]:
        """Return the run as plain JSON values; infinite logarithms are null."""
        return as_dict(self)

    def to_html(self, path: str | Path | None = None) -> str:
        """Return the run as a self-contained HTML page, and write it to ``path`` if given.

        The page shows ancestry, weights, and for each token what the constraint allowed and the proposal believed. Raises
        :class:`EvidenceError` if the run was made without ``trace=True``.
        """
        if self.trace is None:
            raise EvidenceError("to_html: the run kept no trace; give smc(…, trace=True)")
        html = as_html(self, self.trace)
        if path is not None:
            Path(path).write_text(html, encoding="utf-8")
        return html

    def plot(self) -> Figure:
        """Plot the effective sample size at each step, with the resampling steps, and the heaviest texts.

        With a trace, the particles' weights along their ancestry are plotted between them.
        """
        return as_figure(self)
