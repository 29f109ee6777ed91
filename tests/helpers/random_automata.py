"""Random finite automata over bytes."""

import numpy as np

from tractile.constraints.automata.nfa import Nfa


def drawn(dice):
    n = dice.randint(1, 6)
    ranges = [sorted((dice.randint(97, 100), dice.randint(97, 100))) for _ in range(dice.randint(1, 10))]
    edges = np.array(sorted({(dice.randrange(n), *ends, dice.randrange(n)) for ends in ranges}))
    accept = np.array(sorted({dice.randrange(n) for _ in range(2)}))
    start = np.array(sorted({dice.randrange(n) for _ in range(dice.randint(1, 2))}))
    return Nfa(n, edges, (), start, accept).plain
