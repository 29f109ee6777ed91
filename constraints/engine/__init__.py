"""Programs at work.

``cores.py``: the compiled core of each vocabulary, within limits. ``tokens.py``: which tokens may follow, also within a budget.
``bytes.py``: programs byte by byte. ``expansion.py``, ``regular.py``: finite automata of exactly the texts, of fewer, of more.

The core is ``core/``. What a program means is said plainly in ``tests/oracle/``, with which tests compare it.
"""
