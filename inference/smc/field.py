"""The distribution of one field of the answers: its values with probabilities and standard errors.

With a_v the mass of the complete texts found in which the field has the value v, and W_i the weights of N particles that stand
for all other texts,

    p(v) = (a_v + 1/N Σ_i W_i 1[v_i = v]) / Z,        Z the same sum over all values,

and the standard error is that of the ratio by the delta method: the sum of the influences W_i (1[v_i = v] − p(v)) / (N Z), over
groups of particles that are nearly independent (:mod:`.confidence`). The masses a_v are exact and add no variance.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, Protocol, final

import torch
from jaxtyping import Float, Int
from torch import Tensor

from ...circuits.io.summary import html_table
from ...errors import EvidenceError
from .confidence import Estimate, Spread, interval_of_share, spread
from .paths import ABSENT, at_path, read_path

SHOWN = 12  # values in a printed field
TOLERANCE = 1e-3
"""The share of the mass that may stay unread where no text is drawn."""


class Weighted(Protocol):
    """Particles with weights: the part of a posterior that fields need."""

    @property
    def texts(self) -> Sequence[str]: ...
    @property
    def log_weights(self) -> Float[Tensor, " particles"]: ...
    @property
    def lineage_or_own(self) -> Int[Tensor, "particles generations"]: ...


@dataclass(frozen=True)
class Listed:
    """Complete texts with their log masses (nats), the log mass that all others have at most, and particles for these.

    ``others`` is None where the others are left out; if ``texts`` is empty they are all there is.
    """

    texts: Sequence[str]
    log_masses: Float[Tensor, " texts"]
    log_unread: float
    others: Weighted | None

    @property
    def is_empty(self) -> bool:
        """Whether no text has any mass."""
        weights = [self.log_masses] if self.others is None else [self.log_masses, self.others.log_weights]
        return not any(bool((each > -torch.inf).any()) for each in weights)


@final
@dataclass(frozen=True, repr=False)
class Field:
    """The values of one field of the answers, with their probabilities p(value | constraint), the most probable first.

    ``entries`` are pairs of value and :class:`.Estimate`. The value is ``ABSENT`` for answers without the field: an alternative
    of a union that lacks it, a shorter list. ``unseen`` is the probability of values that are no entry. If ``exact``, nothing
    was sampled: intervals are bounds, their ``level`` is 1 and ``error`` is 0, and ``unseen`` is a bound. Else intervals have the
    confidence asked for, and ``unseen`` is the share of values that one draw alone has shown (Good 1953). ``absent`` is the
    estimate of each value that is no entry.

    Examples
    --------
    >>> from typing import Literal
    >>> import tractile as tt
    >>> model, tokenizer = tt.embedded.load_lm()
    >>> pet, sure = tt.generate(
    ...     model, tokenizer, "Tom has a pet. It is a", Literal[" cat", " dog"], max_new_tokens=8, confidence=True
    ... )
    >>> sure[""].exact, sure[""].top()[0] in (" cat", " dog")
    (True, True)
    """

    path: str
    entries: tuple[tuple[Any, Estimate], ...]
    unseen: float
    exact: bool
    absent: Estimate

    def __iter__(self) -> Iterator[tuple[Any, Estimate]]:
        return iter(self.entries)

    def __len__(self) -> int:
        return len(self.entries)

    def estimate(self, value: Any) -> Estimate:
        """Return the probability of a value; of one that was not seen it is 0, with the interval of ``absent``."""
        wanted = key_of(value)
        for other, found in self.entries:
            if key_of(other) == wanted:
                return found
        return self.absent

    def probability(self, value: Any) -> float:
        """Return the probability of a value, 0 if it was not seen."""
        return self.estimate(value).value

    def top(self) -> tuple[Any, Estimate]:
        """Return the most probable value and its probability."""
        return self.entries[0]

    @property
    def entropy(self) -> float:
        """The entropy of the values seen, in nats: −Σ p log p. It is a lower estimate where ``unseen`` is not small."""
        shares = [estimate.value for _, estimate in self.entries if estimate.value > 0]
        return -sum(p * math.log(p) for p in shares) + 0.0

    def __repr__(self) -> str:
        value, p = self.top()
        name, kind = self.path or "the answer", "exact" if self.exact else "estimated"
        return f"Field({name}: {value!r} {p}, {len(self.entries)} values, {self.unseen:.2g} unseen, {kind})"

    def __str__(self) -> str:
        lines = [f"{self.path or 'the answer'}: {'exact' if self.exact else 'estimated'}"]
        for value, p in self.entries[:SHOWN]:
            lines.append(f"{in_words(p)}  {bar(p.value)}  {value!r}")
        if len(self.entries) > SHOWN:
            rest = sum(p.value for _, p in self.entries[SHOWN:])
            lines.append(f"{rest:6.3f}          in {len(self.entries) - SHOWN} more")
        if self.unseen >= 5e-4:
            lines.append(f"{self.unseen:6.3f}          not seen" + " at most" * (self.top()[1].level == 1))
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        rows = [(f"{p.value:.3f}", bar(p.value), repr(value)) for value, p in self.entries[:SHOWN]]
        return html_table(["probability", "", self.path or "the answer"], rows, repr(self))


def in_words(p: Estimate) -> str:
    """Return a probability with its standard error, or with its bounds if it was not estimated."""
    return f"{p.value:6.3f} ± {p.error:.3f}" if p.level < 1 else f"{p.value:6.3f} [{p.low:.3f}, {p.high:.3f}]"


def bar(share: float, width: int = 20) -> str:
    """Return a bar of text whose filled part is a share of its width."""
    filled = round(share * width)
    return "█" * filled + "·" * (width - filled)


def field_of(listed: Listed, read: Any, path: str, level: float) -> Field:
    """Return the distribution of a field; ``read`` maps a text to its value, or raises ``ValueError`` if it has none.

    Raises :class:`EvidenceError` if no answer has the field.
    """
    steps = read_path(path)
    others = listed.others
    texts = [*listed.texts, *([] if others is None else others.texts)]
    count = len(listed.texts)
    masses = listed.log_masses.double()
    if others is not None:
        masses = torch.cat([masses, others.log_weights.double() - math.log(len(others.texts))])
    numbers: dict[Hashable, int] = {}
    values, of = list[Any](), torch.full((len(texts),), -1)
    whole: Any = None
    for i in (masses > -torch.inf).nonzero()[:, 0].tolist():
        whole = read(texts[i])
        found = at_path(whole, steps)
        of[i] = numbers.setdefault(key_of(found), len(values))
        if of[i] == len(values):
            values.append(found)
    if steps and all(value is ABSENT for value in values):
        raise EvidenceError(f"field: no answer has {path!r}; an answer is {whole!r:.200}")
    shares = masses.softmax(0)
    if others is None:
        return _bounded(path, values, of, shares, math.exp(listed.log_unread - float(masses.logsumexp(0))))
    drawn, entries = of[count:], []
    weight = shares[count:]
    for v, value in enumerate(values):
        p = float(shares[of == v].sum())
        influence = weight * ((drawn == v).double() - p)
        measured = spread(influence, weight, others.lineage_or_own)
        # A sixth of a draw more, so that draws that agree by chance do not make an estimate certain.
        more = (float(weight.sum()) / (6 * measured.groups)) ** 2
        entries.append(
            (value, interval_of_share(p, Spread(measured.variance + more, measured.groups), level))
        )
    entries.sort(key=lambda entry: -entry[1].value)
    first = others.lineage_or_own[:, 0]
    seen = set(of[:count].tolist())
    alone = [v for v in range(len(values)) if v not in seen and len(first[drawn == v].unique()) == 1]
    unseen = float(sum(shares[of == v].sum() for v in alone))
    groups = spread(torch.zeros_like(weight), weight, others.lineage_or_own).groups
    none = interval_of_share(0.0, Spread(0.0, groups), level)  # among the texts drawn
    absent = replace(none, high=none.high * float(weight.sum()))
    return Field(path, tuple(entries), unseen, False, absent)


def _bounded(
    path: str, values: list[Any], of: Int[Tensor, " texts"], shares: Float[Tensor, " texts"], unread: float
) -> Field:
    """Return the field where all texts but a mass of ``unread``, relative to theirs, are listed."""
    entries = []
    for v, value in enumerate(values):
        p = float(shares[of == v].sum())
        low, high = p / (1 + unread), (p + unread) / (1 + unread)
        entries.append((value, Estimate(p, 0.0, low, min(high, 1.0), 1.0)))
    entries.sort(key=lambda entry: -entry[1].value)
    unseen = unread / (1 + unread)
    return Field(path, tuple(entries), unseen, unread <= TOLERANCE, Estimate(0.0, 0.0, 0.0, unseen, 1.0))


def key_of(value: Any) -> Hashable:
    """Return a key that equal values of one type share, also for lists, dicts and objects of a class; 3 and 3.0 are equal."""
    if isinstance(value, dict):
        return dict, frozenset((name, key_of(member)) for name, member in value.items())
    if isinstance(value, list | tuple):
        return type(value), tuple(map(key_of, value))
    if is_dataclass(value) and not isinstance(value, type):
        return type(value), tuple(key_of(getattr(value, one.name)) for one in fields(value) if one.compare)
    if hasattr(type(value), "model_fields"):
        return type(value), key_of(vars(value))
    try:
        hash(value)
    except TypeError:
        return type(value), repr(value)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float, value
    return type(value), value
