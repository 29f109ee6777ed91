"""The methods of the comparison, by name: presets of the sampler.

    paper 1 (Dang et al. 2026), §4.3 and §5; k particles, target p_lm(x) · 1[x ∈ C]
      rs          x ~ p_lm until x ∈ C                                     rejection sampling: the ground truth
      lcd         q ∝ p_lm · 1[allowed], potential p_lm                    LCD + SMC
      gcd         q ∝ p_lm · 1[allowed within the budget], p_lm            GCD, Eq. 1
      pgcd        q ∝ p_lm · p_hmm(C | x_≤t), φ_pgcd                       φ-GCD, with the proposal that fits it
      pgcd-mixture         q ∝ p_lm^w · p_hmm(x_t | x_<t, C)^(1−w), φ_pgcd  φ-GCD as in Figure 3
      pgcd-mixture-prefix  the same proposal, potential p_lm               P-GCD as a proposal
      awrs        p_lm, tokens rejected until C allows one                 Lipkin et al. 2025, at any length

    paper 2 (Loula et al. 2025), §3; N particles, Ψ the task's potential
      base-lm            p_lm                                              1. Base LM
      lcd-unweighted     the local product p_lm · 1[allowed]               2. Locally constrained decoding
      grammar-only-is    the local product, weights p_lm / q               3.
      grammar-only-smc   the local product, weights p_lm / q, resampled    4.
      sample-rerank      lcd-unweighted, weights Ψ                         5.
      full-is            the local product, weights p_lm / q · Ψ           6.
      full-smc           the local product, weights p_lm / q · Ψ, resampled 7.
      smc-steering       resampled without replacement, beams of 3         Table 7 (Lew et al. 2023)
      full-gcd           gcd with the potential Ψ                          ours
      full-pgcd          pgcd with the potential φ_pgcd · Ψ                ours
      gcd-…              2. to 7. and steering with the proposal of gcd    ours: none is lost to the budget

Names of proposals are those of :func:`tractile.smc`: a method without a preset is ``smc(proposal=name)``, the others are
:data:`.presets.PRESETS`.

A text that the budget cuts off counts as an answer, and a wrong one, under methods that would return it: lcd-unweighted, and
lcd and awrs, as in Table 1 of the first paper. Under the other methods it has weight zero.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

from tractile.errors import EvidenceError
from tractile.inference.smc import (
    Knowledge,
    LookaheadProposal,
    MixtureProposal,
    Potential,
    Proposal,
)
from tractile.inference.smc.arguments import PROPOSALS
from tractile.inference.smc.boundaries import at_end

from .presets import PRESETS, Preset


@dataclass(frozen=True)
class Method(Preset):
    """A :class:`.Preset` with a title and the rules by which its answers are counted.

    ``cut_off``: texts that hit the token budget keep their weights; ``aligned``: particles wait for each other at the task's
    :meth:`~.base.Task.align` before they are resampled.
    """

    title: str = ""
    cut_off: bool = False
    aligned: bool = False

    @property
    def looks_ahead(self) -> bool:
        """Whether the method's lookahead has a strength."""
        assert isinstance(self.proposal, str)
        return isinstance(PROPOSALS[self.proposal](), LookaheadProposal)

    @property
    def guided(self) -> bool:
        """Whether the method needs an HMM."""
        assert isinstance(self.proposal, str)
        return PROPOSALS[self.proposal]().needs is Knowledge.HMM


def _smc(title: str, proposal: str, **settings: Any) -> Method:
    """Make a method of paper 1, with the defaults of :func:`tractile.smc`."""
    return Method(
        proposal=proposal, title=title, **{"ess_threshold": 0.5, "resampling": "systematic", **settings}
    )


def _preset(title: str, name: str) -> Method:
    """Make a method of paper 2 of a preset."""
    preset = PRESETS[name]
    return Method(
        **vars(preset),
        title=title,
        cut_off=preset.constrained and not preset.corrected and not preset.potential,
        aligned=preset.ess_threshold > 0 and preset.beam_factor == 1,
    )


METHODS: dict[str, Method] = {
    "rs": _smc("RS", "lm", ess_threshold=0.0),
    "lcd": _smc("LCD", "lcd", cut_off=True),
    "gcd": _smc("GCD", "gcd"),
    "pgcd": _smc("P-GCD", "pgcd"),
    "pgcd-mixture": _smc("P-GCD, mixture", "pgcd-mixture"),
    "pgcd-mixture-prefix": _smc("P-GCD, mixture without φ", "pgcd-mixture-prefix"),
    "awrs": _smc("AWRS", "awrs", cut_off=True),
    "base-lm": _preset("Base LM", "base-lm"),
    "lcd-unweighted": _preset("Locally constrained decoding", "lcd"),
    "grammar-only-is": _preset("Grammar-only IS", "grammar-only-is"),
    "grammar-only-smc": _preset("Grammar-only SMC", "grammar-only-smc"),
    "sample-rerank": _preset("Sample-Rerank", "sample-rerank"),
    "full-is": _preset("Full IS", "full-is"),
    "full-smc": _preset("Full SMC", "full-smc"),
    "smc-steering": _preset("SMC Steering", "smc-steering"),
    "full-gcd": _smc("Full GCD", "gcd", potential=True, aligned=True),
    "full-pgcd": _smc("Full P-GCD", "pgcd", potential=True, aligned=True),
}

SECOND = (
    "lcd-unweighted",
    "grammar-only-is",
    "sample-rerank",
    "grammar-only-smc",
    "full-is",
    "full-smc",
)
WITH_GCD = {name: f"gcd-{name.removeprefix('lcd-')}" for name in (*SECOND, "smc-steering")}
"""The methods of paper 2, each with the name of its variant whose proposal knows the budget (GCD)."""
METHODS |= {
    budgeted: replace(METHODS[name], title=f"{METHODS[name].title} (GCD)", proposal="gcd", cut_off=False)
    for name, budgeted in WITH_GCD.items()
}

PAPERS: dict[str, tuple[str, ...]] = {
    "paper1": ("rs", "lcd", "gcd", "pgcd-mixture-prefix", "pgcd", "awrs"),
    "paper2": ("base-lm", *SECOND),
    "paper2-gcd": ("base-lm", *(WITH_GCD[name] for name in SECOND)),
}


def named(names: str) -> tuple[str, ...]:
    """Parse a list such as "rs,lcd" or "paper1,full-smc" into method names. Raises :class:`EvidenceError` for unknown ones."""
    found: list[str] = []
    for name in (name.strip() for name in names.split(",")):
        if name not in METHODS and name not in PAPERS:
            raise EvidenceError(f"unknown method {name!r}: choose of {', '.join((*PAPERS, *METHODS))}")
        found.extend(PAPERS.get(name, (name,)))
    return tuple(dict.fromkeys(found))


def proposal(method: Method, w: float, strength: float | Literal["auto"] = "auto") -> Proposal:
    """Make a method's proposal; ``w``: the language model's weight in mixtures, ``strength``: strength of the lookahead."""
    assert isinstance(method.proposal, str)
    made = PROPOSALS[method.proposal]()
    if isinstance(made, LookaheadProposal):
        made = LookaheadProposal(strength)
    if isinstance(made, MixtureProposal):
        made = MixtureProposal(w, potential=made.potential)
    return made


def potential(method: Method, of_task: Potential | None) -> Potential | None:
    """Return the task's potential in the form that a method uses; None for a method without one.

    Raises :class:`EvidenceError` if the method needs a potential and the task has none.
    """
    if not method.potential:
        return None
    if of_task is None:
        raise EvidenceError(f"{method.title} weighs texts by a potential, and the task has none")
    # Without resampling only the final value counts: do not evaluate the potential before the end.
    return of_task if method.ess_threshold else of_task.at(at_end)
