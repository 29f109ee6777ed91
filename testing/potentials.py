"""What a potential promises: its value is that of the sequence, whatever the rows beside it."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from ..circuits.automaton import Automaton
from ..circuits.chain import Chain
from ..inference.smc.potentials import Potential
from ..inference.smc.step import Extension, Knowledge
from ..lm.base import LanguageModel, Prompt
from .comparison import promise, same
from .steps import query_of, step_after


def check_potential(
    potential: Potential,
    lm: LanguageModel,
    fa: Automaton,
    hmm: Chain | None = None,
    *,
    horizon: int = 4,
    prompt: Prompt = (),
    value: Callable[[tuple[int, ...]], float] | None = None,
    tolerance: float = 1e-9,
) -> None:
    """Check the values of a potential for all sequences that an automaton accepts, exactly.

    Its value for a sequence does not depend on the rows beside it, nor on how its states were copied and reordered on the way.
    A twist is 1 at the end. A prefix of value zero goes on to none of another value, whose particles would be missed.

    Parameters
    ----------
    potential, lm, fa, hmm
        What :func:`tractile.smc` is given. All sequences are written out, so the vocabulary and the automaton are to be small.
    horizon
        The budget, in tokens.
    prompt
        What the language model reads first.
    value
        Ψ of a complete sequence of tokens, the end of sequence included, if it is known.
    tolerance
        The largest difference of two values of log Ψ (nats).

    Raises
    ------
    AssertionError
        If a promise is broken; it says which, and for which tokens.

    Examples
    --------
    >>> import torch
    >>> import tractile as tt
    >>> from tractile.testing import check_potential
    >>> lm = tt.lm.TableLM({(): torch.tensor([0.8, 0.2]).log()})
    >>> second = tt.Automaton.from_edges([(0, [0, 1], 1), (1, 1, 2)], 0, [2], 2)  # the second of two tokens is 1
    >>> few = tt.inference.smc.FunctionPotential(lambda tokens: 1.0 / (1 + sum(tokens)), tokens=True)
    >>> check_potential(few, lm, second, horizon=2, value=lambda tokens: 1.0 / (1 + sum(tokens)))
    """
    walk = _Walk(potential, lm, fa, hmm, horizon, prompt)
    beside = walk.together()
    name = type(potential).__name__
    final = {tokens: psi for tokens, (psi, ended) in beside.items() if ended}
    for tokens, (psi, ended) in beside.items():
        said = f"{name} of {list(tokens)}"
        promise(not (math.isnan(psi) or psi == math.inf), f"{said}: log Ψ is neither NaN nor +∞: {psi}")
        alone = walk.alone(tokens)
        same(torch.tensor(psi), torch.tensor(alone), f"{said}: log Ψ is that of the row alone", tolerance)
        if ended and potential.is_twist:
            same(torch.tensor(psi), torch.tensor(0.0), f"{said}: a twist has Ψ = 1 at the end", tolerance)
        if ended and value is not None:
            known = value(tokens)
            log = math.log(known) if known > 0 else -math.inf
            same(torch.tensor(psi), torch.tensor(log), f"{said}: log Ψ of a complete sequence", tolerance)
        if psi == -math.inf and not ended:
            lost = [other for other in final if other[: len(tokens)] == tokens and final[other] > -math.inf]
            promise(
                not lost,
                f"{said}: Ψ is zero, and not of {[list(other) for other in lost[:1]]}, which goes on from it",
            )


class _Walk:
    """All sequences that an automaton accepts within a budget, token by token."""

    def __init__(
        self,
        potential: Potential,
        lm: LanguageModel,
        fa: Automaton,
        hmm: Chain | None,
        horizon: int,
        prompt: Prompt,
    ) -> None:
        self.potential, self.lm, self.horizon, self.prompt = potential, lm, horizon, prompt
        self.query = query_of(max(potential.needs, Knowledge.BUDGET), fa, hmm, horizon)

    def begin(self) -> list[tuple[int, ...]]:
        self.lm.start([self.prompt])
        self.query.start(1)
        self.potential.start(self.lm, [self.prompt], [self.horizon])
        return [()]

    def values(self, prefixes: list[tuple[int, ...]], rows: Tensor, tokens: Tensor) -> tuple[Tensor, Tensor]:
        """Return log Ψ of each row with its token, and whether it is complete."""
        step = step_after(self.lm, self.query, list(prefixes), self.horizon - len(prefixes[0]), rows)
        ended = step.ends(tokens)
        alive = torch.ones(len(tokens), dtype=torch.bool)
        psi = self.potential.log_value(Extension(step, tokens, ended, alive))
        promise(
            psi.shape == tokens.shape,
            f"{type(self.potential).__name__}: log_value() has a value for each row",
        )
        return psi, ended

    def advance(self, rows: Tensor, tokens: Tensor) -> None:
        self.potential.advance(rows, tokens)
        for table in (self.lm, self.query):
            table.select(rows)
            table.advance(tokens)

    def together(self) -> dict[tuple[int, ...], tuple[float, bool]]:
        """Return log Ψ of every prefix of an accepted sequence, all of one length in one batch, and whether it is complete."""
        found: dict[tuple[int, ...], tuple[float, bool]] = {}
        prefixes = self.begin()
        while prefixes:
            rows, tokens = self.query.mask().nonzero().flip(0).unbind(1)  # from the last row to the first
            psi, ended = self.values(prefixes, rows, tokens)
            grown = [
                (*prefixes[row], token) for row, token in zip(rows.tolist(), tokens.tolist(), strict=True)
            ]
            found |= zip(grown, zip(psi.tolist(), ended.tolist(), strict=True), strict=True)
            going = (~ended).nonzero()[:, 0]
            if len(going):
                self.advance(rows[going], tokens[going])
            prefixes = [grown[i] for i in going.tolist()]
        return found

    def alone(self, sequence: tuple[int, ...]) -> float:
        """Return log Ψ of a sequence whose prefixes are evaluated one after another in one row."""
        prefixes, row = self.begin(), torch.tensor([0])
        for place, token in enumerate(sequence):
            psi, _ = self.values(prefixes, row, torch.tensor([token]))
            if place + 1 < len(sequence):
                self.advance(row, torch.tensor([token]))
                prefixes = [sequence[: place + 1]]
        return float(psi[0])
