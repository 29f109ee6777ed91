"""Infilling: text for the gaps between fixed texts, sampled from the language model.

    p(g_1, …, g_k | t_0, …, t_k)  ∝  p_lm(g_1 t_1 g_2 t_2 … g_k t_k EOS | t_0) · Π_i 1[g_i ∈ C_i, at most n_i tokens go into g_i]

The fixed texts behind the first gap are a constraint on bytes, so every sequence of tokens that spells them counts, also with
tokens that cross from a gap into a fixed text. With an HMM the proposal sees the fixed texts ahead while it fills a gap.

    python examples/infilling.py
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import tractile as tt
from tractile.constraints import Constraint, regex, sections


@dataclass(frozen=True)
class Infilling:
    """Weighted texts for the gaps. ``posterior`` has the whole continuations of the first text, with weights and log Z."""

    texts: tuple[str, ...]
    constraints: tuple[Constraint, ...]
    posterior: tt.inference.smc.Posterior

    @property
    def best(self) -> tuple[str, ...]:
        """The text of each gap in the heaviest particle. Raises :class:`NoParticleSurvived`."""
        return self.gaps(self.posterior.best.text)

    @property
    def probs(self) -> dict[tuple[str, ...], float]:
        """The weight of each way to fill the gaps, the heaviest first. Raises :class:`NoParticleSurvived`."""
        return self.posterior.group_by(lambda particle: self.gaps(particle.text))

    def gaps(self, text: str) -> tuple[str, ...]:
        """The texts of the gaps in a continuation of the first text; if several splits fit, the first gaps are shortest."""
        found = self._divided(text, 0)
        if found is None:
            raise ValueError(f"{text!r} does not have the fixed texts with gaps as asked for")
        return found

    def _divided(self, text: str, gap: int) -> tuple[str, ...] | None:
        constraint, fixed = self.constraints[gap], self.texts[gap + 1]
        if gap + 1 == len(self.constraints):
            filled = text.removesuffix(fixed)
            return (filled,) if text.endswith(fixed) and constraint.accepts(filled) else None
        at = text.find(fixed)
        while at >= 0:
            rest = self._divided(text[at + len(fixed) :], gap + 1) if constraint.accepts(text[:at]) else None
            if rest is not None:
                return (text[:at], *rest)
            at = text.find(fixed, at + 1)
        return None


def infill(
    lm: tt.lm.LanguageModel,
    *texts: str,
    fa: Sequence[Constraint | None],
    max_new_tokens: Sequence[int],
    **settings: Any,
) -> Infilling:
    """Fill the gaps between fixed texts: the first is the prompt, and each further one comes after a gap.

    ``fa`` has a constraint for each gap (None: any text) and ``max_new_tokens`` the most tokens that go into it; a token that
    crosses into a fixed text counts. ``settings`` are those of :func:`tractile.smc`: ``hmm``, ``particles``, ``seed``, ….

    >>> import torch
    >>> vocab = tt.Vocabulary([None, b"a", b"b", b"ab"], eos_token_id=0)
    >>> lm = tt.lm.TableLM({(): torch.full((4,), 0.25, dtype=torch.float64).log()}, eos_token_id=0, vocabulary=vocab)
    >>> found = infill(lm, "", "b", fa=[tt.constraints.any_of("a")], max_new_tokens=[1], proposal="gcd", particles=100)
    >>> found.best
    ('a',)
    """
    gaps = [regex(r"(.|\n)*") if one is None else one for one in fa]
    parts: list[Any] = []
    for gap, tokens, text in zip(gaps, max_new_tokens, texts[1:], strict=True):
        parts += [gap.tokens(at_most=tokens), text]
    most = sum(max_new_tokens) + sum(len(text.encode()) for text in texts[1:]) + 1
    posterior = tt.smc(lm, texts[0], sections(*parts), max_new_tokens=most, **settings)
    return Infilling(texts, tuple(gaps), posterior)


def main() -> None:
    """Fill two gaps of a story, the first with one or two words."""
    lm, hmm = tt.TransformersLM(*tt.embedded.load_lm()), tt.embedded.load_hmm()
    texts = "One day, a boy found a", ". He took it home and", " The end."
    gaps = [regex(" [a-z]+( [a-z]+)?"), regex(r" [^\n]*\.")]
    found = infill(lm, *texts, fa=gaps, max_new_tokens=[4, 16], hmm=hmm, particles=8)
    for filled, weight in found.probs.items():
        print(f"{weight:.3f} {filled}")
    print(f"log of what the model gives to all of them: {found.posterior.log_evidence:.2f} nats")


if __name__ == "__main__":
    main()
