"""Automata over bytes, which keep every language here.

``nfa``: the automata, which are objects of the core, and how they are built; ``dfa``: subset construction, minimisation,
products, complements; ``repeats``, UTF-8, and the account of work that bounds constructions (``work``).
"""
