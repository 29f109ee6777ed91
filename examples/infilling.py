"""Infilling: text for the gaps between fixed texts, sampled from the language model.

    p(g_1, …, g_k | t_0, …, t_k)  ∝  p_lm(g_1 t_1 g_2 t_2 … g_k t_k EOS | t_0) · Π_i 1[g_i ∈ C_i, at most n_i tokens go into g_i]

The fixed texts behind the first gap are a constraint on bytes, so every sequence of tokens that spells them counts, also with
tokens that cross from a gap into a fixed text. With an HMM the proposal sees the fixed texts ahead while it fills a gap.

    python examples/infilling.py
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import tractile as tt
from tractile.constraints import Constraint, regex, sections, validation
from tractile.embedded import load_hmm, load_lm
from tractile.errors import EvidenceError
from tractile.inference.arguments import short, whole
from tractile.inference.smc.arguments import broadcast
from tractile.inference.smc.posterior import Posterior
from tractile.inference.smc.sampler import smc
from tractile.lm.base import LanguageModel


@dataclass(frozen=True)
class Infilling:
    """Weighted texts for the gaps. ``posterior`` has the whole continuations of the first text, with weights and log Z.

    Examples
    --------
    >>> import torch
    >>> import tractile as tt
    >>> vocab = tt.Vocabulary([None, b"a", b"b", b"ab"], eos_token_id=0)
    >>> lm = tt.lm.TableLM({(): torch.full((4,), 0.25, dtype=torch.float64).log()}, eos_token_id=0, vocabulary=vocab)
    >>> found = infill(lm, "", "b", fa=tt.constraints.any_of("a"), max_new_tokens=1, proposal="gcd", particles=4)
    >>> found.best, found.texts
    (('a',), ('', 'b'))
    """

    texts: tuple[str, ...]
    constraints: tuple[Constraint, ...]
    posterior: Posterior

    @property
    def best(self) -> tuple[str, ...]:
        """The text of each gap in the heaviest particle. Raises :class:`NoParticleSurvived`."""
        return self.gaps(self.posterior.best.text)

    @property
    def probs(self) -> dict[tuple[str, ...], float]:
        """The weight of each way to fill the gaps, the heaviest first. Raises :class:`NoParticleSurvived`."""
        return self.posterior.group_by(lambda particle: self.gaps(particle.text))

    def gaps(self, text: str) -> tuple[str, ...]:
        """Split a continuation of the first text into the texts of its gaps; if several splits fit, the first gaps are shortest.

        Raises :class:`EvidenceError` for a text without the fixed texts, or whose gaps do not satisfy their constraints.
        """
        found = self._divided(text, 0)
        if found is None:
            raise EvidenceError(
                f"Infilling: {short(text)} does not have the fixed texts with gaps as asked for"
            )
        return found

    def _divided(self, text: str, gap: int) -> tuple[str, ...] | None:
        constraint, fixed = self.constraints[gap], self.texts[gap + 1]
        if gap + 1 == len(self.constraints):
            filled = text.removesuffix(fixed)
            return (filled,) if text.endswith(fixed) and constraint.accepts(filled) else None
        at = text.find(fixed)
        while at >= 0:
            if constraint.accepts(text[:at]):
                rest = self._divided(text[at + len(fixed) :], gap + 1)
                if rest is not None:
                    return (text[:at], *rest)
            at = text.find(fixed, at + 1)
        return None


def infill(
    lm: LanguageModel | Any,
    *texts: str,
    fa: Constraint | Sequence[Constraint | None] | None = None,
    max_new_tokens: int | Sequence[int] = 16,
    **settings: Any,
) -> Infilling:
    """Fill the gaps between fixed texts: ``infill(lm, "The dog", " went home.")`` has one, before " went home.".

    The first text is the prompt. Each further text comes after a gap, and the whole text ends with the last one (which may be
    empty). ``fa`` constrains the gaps: one constraint for all, or one for each (None: any text). ``max_new_tokens`` is the most
    tokens in a gap, one number for all or one for each; a token that crosses into a fixed text counts. Fixed texts may be
    written with any tokens that spell them.

    ``settings`` are those of :func:`.smc`: ``proposal``, ``hmm``, ``particles``, ``seed``, ``potential``, ``tokenizer``, ….
    Raises :class:`EvidenceError` for fewer than two texts, or if the number of constraints or budgets is not the number of
    gaps, :class:`EmptyLanguage` if no text fits the budgets, and what :func:`.smc` raises.

    >>> import torch
    >>> import tractile as tt
    >>> vocab = tt.Vocabulary([None, b"a", b"b", b"ab"], eos_token_id=0)
    >>> lm = tt.lm.TableLM({(): torch.full((4,), 0.25, dtype=torch.float64).log()}, eos_token_id=0, vocabulary=vocab)
    >>> found = infill(lm, "", "b", fa=tt.constraints.any_of("a"), max_new_tokens=1, proposal="gcd", particles=100)
    >>> found.best
    ('a',)
    """
    if len(texts) < 2:
        raise EvidenceError(
            f"infill: {len(texts)} fixed texts have no gap between them; give two or more, the last may be ''"
        )
    fixed = [validation.text(text, f"infill: text {i}") for i, text in enumerate(texts)]
    gaps = len(fixed) - 1
    anything = regex(r"(.|\n)*")
    chosen = [anything if one is None else one for one in broadcast(fa, gaps, "fa", "infill", "gaps")]
    lengths = broadcast(max_new_tokens, gaps, "max_new_tokens", "infill", "gaps")
    budgets = [whole(n, "infill: max_new_tokens") for n in lengths]
    for one in chosen:
        if not isinstance(one, Constraint):
            raise EvidenceError(f"infill: fa must be a constraint for each gap, not {short(one)}")
    parts = [
        part
        for one, n, text in zip(chosen, budgets, fixed[1:], strict=True)
        for part in (one.tokens(at_most=n), text)
    ]
    total = sum(budgets) + sum(len(text.encode()) for text in fixed[1:]) + 1
    posterior: Posterior = smc(lm, fixed[0], sections(*parts), max_new_tokens=total, **settings)
    return Infilling(tuple(fixed), tuple(chosen), posterior)


def main() -> None:
    """Fill two gaps of a story, the first with one or two words."""
    lm, hmm = tt.TransformersLM(*load_lm()), load_hmm()
    found = infill(
        lm,
        "One day, a boy found a",
        ". He took it home and",
        " The end.",
        fa=[regex(" [a-z]+( [a-z]+)?"), regex(r" [^\n]*\.")],
        max_new_tokens=[4, 16],
        hmm=hmm,
        particles=8,
    )
    print(found.best)  # a text for each gap
    for gaps, weight in found.probs.items():
        print(f"{weight:.3f} {gaps}")
    print(f"log of what the model gives to all of them: {found.posterior.log_evidence:.2f} nats")


if __name__ == "__main__":
    main()
