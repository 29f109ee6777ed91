"""Automata over bytes, which keep every language here, and the algorithms on them.

``Nfa`` with epsilon transitions, ``dfa`` (subset construction, minimisation, products, complements), UTF-8, and the account of
work that bounds constructions (``work``).
"""
