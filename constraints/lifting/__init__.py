"""From bytes to tokens: the transitions of tokens, and the fewest tokens from a state to acceptance.

``lift.py`` writes out all transitions of a finite automaton; ``lazy_distances.py`` searches distances from the states of a lazy
one. Masks are in ``constraints/masks``.
"""
