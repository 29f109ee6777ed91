"""The definition of a program in plain Python (``tests/oracle``), on small programs and short texts."""

import definition
import pytest
from cases import SMALL, asked
from definition import Definition, TooLarge

from tractile.constraints.engine.tokens import ProgramStates
from tractile.constraints.program.left_recursion import left_recursive
from tractile.constraints.program.rewrite import parts_first

NODES, MOVES, LONGEST = 25, 400, 8
"""Nodes and moves of the programs, and characters of the texts, that are small enough."""


def is_small(node):
    """Whether the definition reads a program in little time."""
    parts = parts_first(node)
    moves = sum(len(table.edges) for part in parts for table in part.tables)
    return len(parts) <= NODES and moves <= MOVES and not left_recursive(node)


@pytest.mark.parametrize("cases", asked("oracle"))
def test_texts_and_masks_by_definition(cases, monkeypatch):
    monkeypatch.setattr(definition, "MOST", 500)  # stacks of a search
    for case in cases:
        short = [text for text in case.has + case.lacks if len(text) <= LONGEST]
        if not short or not is_small(node := case.constraint.program):
            continue
        meaning, core = Definition(node, SMALL), ProgramStates(node, SMALL)
        for text in short:
            assert meaning.accepts(text.encode()) == (text in case.has), (case, text)
        try:
            fewest = meaning.fewest(meaning.start)
        except TooLarge:
            continue
        found = core.fewest(core.start_state)
        assert found == fewest if core.is_exact else found >= fewest, case
