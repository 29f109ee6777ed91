"""Tables: byte automata as the leaves of a program, objects of the core (``core/leaf.h``).

``Table``
    A byte automaton: state 0 is its start, from each state some text is accepted, and each label is that of some text. It is
    deterministic, unless determinization would take too much: then several moves of a state may read the same byte. Equal tables
    are one object, so equality is identity.

    ``edges``: rows (source, lowest byte, highest byte, target), sorted by source and lowest byte. ``label``: by state what an
    accepted text is: −1 where none is accepted, otherwise a number ≥ 0, 0 if nothing is told apart. ``between``: by state whether
    a character has just ended; all False in a table whose characters are not counted. ``rows``, ``ends``: by state its moves; the
    states that accept. ``labels``, ``labels_ahead``: the labels of its texts, and by state those that may still be read, as the
    bits of a number. ``goes_on``: whether a text goes on where another ends.

    ``base``: a table that is shared by many such as this one, which read what it reads but for some texts. An engine need not
    look at it.
``table(edges, label, between=None)``
    The table of these arrays.
``of_nfa(nfa)``, ``to_nfa(table)``
    The table of a byte automaton, minimal if it could be determinized, None if it accepts nothing; and back, labels forgotten.
``of_text(text)``
    The table of exactly one text.
``with_fresh_start(table)``
    The table of the same texts whose start has no moves into it: in state 0 nothing has been read.
``loop(table)``
    The table of its texts in a row, a character ending with each; None if one text goes on where another ends.
``letters(words, text)``
    The table of a DFA of words; a character ends where the DFA of all texts, ``text``, is at its start. None if there is no word.
``around(inside, opening, closing)``
    The table of strings: what is inside them, with the bytes around it. What opens a string ends no character.
"""

from ..._core import Table as Table
from ..._core import around as around
from ..._core import letters as letters
from ..._core import loop as loop
from ..._core import of_nfa as of_nfa
from ..._core import of_text as of_text
from ..._core import table as table
from ..._core import to_nfa as to_nfa
from ..._core import with_fresh_start as with_fresh_start
