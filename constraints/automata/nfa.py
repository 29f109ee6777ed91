"""Byte-level finite automata, and how they are built.

    L(nfa) = { w : some path  start --w--> accept }

A move of a state reads any one byte of a range: (lowest byte, highest byte, target). A skip, (source, target), reads nothing.
Everything is built from one operation, :func:`network`: a graph whose arcs are automata themselves. Automata are objects of
the core (``core/nfa.h``, ``trim.h``); what Python sees of them it asks for. Products, subsets and minimisation are in ``dfa.py``.

``Nfa``
    An automaton. Immutable; states are ``0 .. num_states - 1``. ``rows``: for each state its moves, merged, in the order of their
    bytes; ``moves(state)``: those of one. ``plain``: the language without skips and without useless states. ``edges``: rows
    (source, lowest byte, highest byte, target). ``byte_class``: the class of each byte; bytes that no move tells apart share one,
    and classes are numbered by their smallest byte. ``transitions``: sorted rows (source, byte class, target) of plain automata.
    ``is_deterministic``: at most one start, and one target for each state and byte, of plain automata; ``after`` and ``run`` then
    give the state after a byte or a word, −1 if there is none. ``between``: the automaton with other starts, or other ends.
``of_rows(rows, start, accept, skips=(), *, minimal=False)``
    The automaton of each state's moves. ``minimal``: it is known to be the minimal DFA, without useless states.
``network(nodes, arcs, start, accept)``
    What paths from ``start`` to ``accept`` read. An arc ``(i, nfa, j)`` reads a word of its automaton, ``(i, None, j)`` nothing.
``literal(word)``, ``byte_ranges(*sequence)``, ``sequences(options)``
    One word; the words whose i-th byte is in a range of ``sequence[i]``, (low, high); the union of ``byte_ranges(*option)`` over
    all options, none of which is empty.
``erased(nfa, first, last)``, ``looped(nfa, marks)``
    The automaton with skips in place of moves on the bytes from ``first`` to ``last``; with a loop on some ranges of bytes at
    each state. ``nfa.marks(first)``: the bytes of all moves that read none below ``first``.
``empty()``, ``union``, ``concat``, ``star``, ``plus``, ``optional``
    The regular operations. All raise :class:`TooManyStates`.
"""

from ..._core import Nfa as Nfa
from ..._core import byte_ranges as byte_ranges
from ..._core import concat as concat
from ..._core import empty as empty
from ..._core import erased as erased
from ..._core import literal as literal
from ..._core import looped as looped
from ..._core import network as network
from ..._core import of_rows as of_rows
from ..._core import optional as optional
from ..._core import plus as plus
from ..._core import sequences as sequences
from ..._core import star as star
from ..._core import union as union
from .arrays import check_limit as check_limit

Move = tuple[int, int, int]
"""The lowest byte, the highest byte and the target."""
Rows = list[list[Move]]
"""For each state its moves."""
Skip = tuple[int, int]
"""The source and the target of an epsilon transition."""
ANYTHING = star(byte_ranges([(0, 255)]))
"""All byte strings."""
