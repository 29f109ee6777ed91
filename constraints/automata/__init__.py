"""Automata over bytes, which keep every language here, and the algorithms on them.

``Nfa`` with epsilon transitions, ``dfa`` (subset construction, minimisation, products, complements), reduction by
simulation, UTF-8, ``lazy`` and ``stack`` automata, and the account of work that bounds constructions (``work``).
"""
