"""The definition of what programs mean: steps, distances and masks, written plainly.

``kinds.py``: what a frame reads, calls, and where it may end. ``observers.py``: what is kept of the bytes inside a node that
counts or compares them. ``steps.py``: configurations, byte by byte. ``crossing.py``: the cheapest text from a configuration to
acceptance. ``masks.py``: which tokens may follow, with and without a budget.
``expansion.py``, ``regular.py``: finite automata of exactly the texts, of fewer, of more. ``bytes.py``: programs byte by byte.
``native.py``: the compiled engine, where it was built.
"""
