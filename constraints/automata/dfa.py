"""Subset construction, products, complements and minimisation of byte-level automata, by ranges of bytes (``core/dfa.h``).

    {q, r} --k--> {q', r'}        (a, b) --k--> (a', b')

Arguments may have epsilon transitions; results are plain. Only :func:`determinize` can be exponential, and it has a limit. All
count their work (``work.py``) and raise :class:`TooManyStates`.

``determinize(nfa, limit)``
    The DFA, of at most ``limit`` subsets of more than one state, or about a hundred times as much work.
``resolved(nfa, units)``
    The DFA, or the automaton as it is if that takes more than ``units`` of work or about three times the states.
``intersect(a, b, limit)``, ``complement(nfa)``, ``difference(a, b)``
    The words of both; all other byte strings; the words of ``a`` but not ``b``. Products of deterministic automata are so too.
``minimize(nfa, limit)``
    The minimal DFA, its states in the order of their smallest ones.
``simplify(nfa)``
    The minimal DFA, or the plain automaton if the DFA would be much larger; a deterministic one of more than 10,000 states, as of
    counted repeats, stays as it is: minimising it takes long and saves little.
``first_matches(texts)``
    The accepted texts that have no accepted proper prefix.
``together(parts, limit)``
    Several automata read at once, as long as one of them goes on: the moves of each state, and the parts that accept there.
"""

from ..._core import MANY_STATES as MANY_STATES
from ..._core import complement as complement
from ..._core import determinize as determinize
from ..._core import difference as difference
from ..._core import first_matches as first_matches
from ..._core import intersect as intersect
from ..._core import minimize as minimize
from ..._core import resolved as resolved
from ..._core import simplify as simplify
from ..._core import together as together
