"""Byte automata: the one form in which every regular language is kept, and the algorithms on it.

``Nfa`` with epsilon transitions, ``dfa`` (subset construction, minimisation, products, complements), reduction by
simulation, UTF-8, and the account of work that bounds them (``work``).
"""
