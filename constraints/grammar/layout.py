"""Indentation as ``lark.indenter.Indenter`` reads it, with its NEWLINE, INDENT and DEDENT as texts.

A NEWLINE takes the columns of the next line with it. Here they are written where that line begins:

    NEWLINE  =  blank lines and comments up to the last line break, then as many columns as the block around has
    INDENT   =  more columns than the block around has; they are those of the block up to its DEDENT

Both are signs until the program is written (``columns.py``), so rules are copied for no number of columns. A state says where
a text is: "mid" in a line; "begun": columns are written, so what follows is no blank; "pending": a line break is written and
its columns are not; "inside" of parentheses, where line breaks are ignored.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from ...errors import UnsupportedConstraint
from ..automata import dfa, nfa
from ..automata.nfa import Nfa
from .columns import AROUND, DEEPER
from .copies import Copier, Copies, joined
from .tree import Expression, Layout, Ref, Rules, Series, Text

BLANKS = nfa.star(nfa.byte_ranges([(9, 9), (32, 32)]))


def breaks_of(newline: Nfa) -> Nfa:
    """Return the texts of a NEWLINE up to their last line break.

    Raises ``UnsupportedConstraint`` unless any blanks may follow it.
    """
    broken = nfa.concat([nfa.ANYTHING, nfa.literal(b"\n")])
    plain = dfa.minimize(dfa.intersect(newline, nfa.concat([broken, BLANKS])))
    ends = [
        state
        for state in range(plain.num_states)
        if not dfa.intersect(BLANKS, plain.between([state])).is_empty
    ]
    found = dfa.minimize(dfa.intersect(plain.between(accept=ends), broken))
    if found.is_empty or not dfa.difference(nfa.concat([found, BLANKS]), newline).is_empty:
        raise UnsupportedConstraint(
            "postlex: a newline of an indenter ends with a line break and any blanks, as in /\\r?\\n[\\t ]*/"
        )
    return found


def continuing(newline: Nfa, breaks: Nfa) -> Nfa:
    """Return the texts whose first byte would lengthen a NEWLINE that has a line break and blanks."""
    ends = dfa.minimize(nfa.concat([breaks, BLANKS]))
    whole = dfa.minimize(newline)
    seen = {(int(ends.start[0]), int(whole.start[0]))}
    onward = set[int]()
    accept = set(ends.accept.tolist())
    for one, other in (todo := list(seen)):  # grows meanwhile
        moves = {byte: to for low, high, to in whole.rows[other] for byte in range(low, high + 1)}
        if one in accept:
            onward |= moves.keys()
        for low, high, to in ends.rows[one]:
            for pair in {(to, moves[byte]) for byte in range(low, high + 1) if byte in moves} - seen:
                seen.add(pair)
                todo.append(pair)
    return nfa.concat([nfa.byte_ranges([(byte, byte) for byte in sorted(onward)]), nfa.ANYTHING])


def with_indentation(grammar: Rules, start: str, layout: Layout) -> tuple[Rules, str]:
    """Return the rules of a grammar whose blocks are indented."""
    return Indenting(grammar, layout).copied(start, "mid")


class Indenting(Copier):
    """Copies each rule once for each place in a line at which it may begin; see the module for the places."""

    def __init__(self, grammar: Rules, layout: Layout) -> None:
        super().__init__(grammar)
        self.layout = layout
        self._blocks: dict[tuple[Series, int], str] = {}

    def may_end(self, state: Hashable) -> bool:
        """Return whether a text may end in a state."""
        return state != "inside"

    def text(self, text: Text, state: Hashable) -> Copies:
        """Return a terminal's texts: the state after them is in the line."""
        if text is DEEPER:
            return {"begun": text} if state == "pending" else {}
        if state == "pending":
            return {state: Series([])} if text is self.layout.end else {}
        if text not in self.layout.begun:
            raise UnsupportedConstraint(
                "postlex: %json, %lark and rules with [lazy] are not read beside indentation"
            )
        if state == "mid":
            return {state: text}
        found = self.layout.inside[text] if state == "inside" else self.layout.begun[text]
        if found.node.is_nothing:
            return {}
        return {state if state == "inside" or text is self.layout.end else "mid": found}

    def call(self, e: Ref, state: Hashable) -> Copies:
        """Return a call's copies; that of a NEWLINE is written with the columns after it, or without."""
        if e.rule == self.layout.newline:
            return line_ends(self.layout.breaks) if state == "mid" else {}
        if e.rule in self.brackets:
            raise unmatched(e)
        return super().call(e, state)

    def series(self, e: Series, state: Hashable) -> Copies:
        """Return a concatenation's copies; parentheses and blocks in it are read as wholes."""
        at = next(
            (i for i, part in enumerate(e.parts) if isinstance(part, Ref) and part.rule in self.brackets),
            None,
        )
        if at is None:
            return super().series(e, state)
        opening = e.parts[at]
        assert isinstance(opening, Ref)
        ends = self.closing(e, at)
        deeper = opening.rule == self.layout.indent
        inner = self.block(e, at, [*[DEEPER] * deeper, *e.parts[at + 1 : ends]])
        rest = Series(e.parts[ends + 1 :])
        ways: list[Copies] = []
        for between, before in super().series(Series(e.parts[:at]), state).items():
            if deeper:
                found = self.indented(inner, between)
            else:
                closing = e.parts[ends]
                assert isinstance(closing, Ref)
                found = self.parenthesised(opening, inner, closing, between)
            for after, middle in found.items():
                for last, more in self.series(rest, after).items():
                    ways.append({last: Series([before, middle, more])})
        return joined(ways)

    @property
    def brackets(self) -> frozenset[str]:
        """The names of what opens or closes."""
        return self.layout.opening | self.layout.closing | {self.layout.indent, self.layout.dedent}

    def closing(self, e: Series, at: int) -> int:
        """Return the place of what closes the bracket at a place. Raises ``UnsupportedConstraint`` if it is in another rule."""
        depth = 0
        for i, part in enumerate(e.parts[at:], at):
            if isinstance(part, Ref):
                depth += part.rule in self.layout.opening or part.rule == self.layout.indent
                depth -= part.rule in self.layout.closing or part.rule == self.layout.dedent
            if depth <= 0 and i > at:
                return i
        call = e.parts[at]
        assert isinstance(call, Ref)
        raise unmatched(call)

    def block(self, e: Series, at: int, parts: Sequence[Expression]) -> Ref:
        """Return a call of what stands between brackets; ``at``: the place of the opening one in a series."""
        if (e, at) not in self._blocks:
            self._blocks[e, at] = name = f"block {len(self._blocks)}"
            self.given[name] = Series(parts)
        return Ref(self._blocks[e, at])

    def parenthesised(self, opening: Ref, inner: Ref, closing: Ref, state: Hashable) -> Copies:
        """Return the copies of a part in parentheses."""
        ways: list[Copies] = []
        for after, first in super().call(opening, state).items():
            for between, middle in self.call(inner, "inside").items():
                for last in super().call(closing, between).values():
                    ways.append({after: Series([first, middle, last])})
        return joined(ways)

    def indented(self, inner: Ref, state: Hashable) -> Copies:
        """Return the copies of a block: its lines have more columns than the one around."""
        found = self.call(inner, state) if state == "pending" else {}
        return line_ends(found["pending"]) if "pending" in found else {}


def line_ends(before: Expression) -> Copies:
    """Return the ways to go on after a line break: out of the block or into another, or in it."""
    return {"pending": before, "begun": Series([before, AROUND])}


def unmatched(call: Ref) -> UnsupportedConstraint:
    """Return the error for a bracket, INDENT or DEDENT that is not closed where it is opened."""
    return UnsupportedConstraint(
        f"postlex: {call.rule} stands without its counterpart in one alternative of a rule",
        path=f"line {call.line}",
    )
