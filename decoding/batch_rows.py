"""The masks of a batch of rows in one call of the engine, which holds no interpreter lock meanwhile.

fill([(row, 3), (other, 4)], bitmask)           as row.fill(bitmask, 3), other.fill(bitmask, 4)
"""

from __future__ import annotations

from collections.abc import Iterable

from jaxtyping import Int32
from torch import Tensor

from ..constraints.engine import tokens
from .grammar_rows import GrammarRow
from .reasoned_rows import ReasonedRow


def fill(rows: Iterable[tuple[GrammarRow | ReasonedRow, int]], bitmask: Int32[Tensor, "rows words"]) -> None:
    """Write the masks of rows under any constraints, each into its row of a bit mask, as :meth:`.GrammarRow.fill` does."""
    out, asked, answers = bitmask.numpy(), [], []
    for row, at in rows:
        answer = row.answer
        if answer is None:
            row.fill(bitmask, at)  # it reasons
            continue
        if (found := answer.ask(out, at)) is not None:
            asked.append((*found, at))
        answers.append((answer, at))
    tokens.fill(asked, out)
    for answer, at in answers:
        answer.end(out, at)
