"""Budgets of parts: how many tokens may go into a part of a text, ``c.tokens(at_most=…, at_least=…)``.

A token goes into a part if it writes at least one byte of it. The bytes alone are read by an ordinary stack automaton; the
limits concern tokens. A *strand* is a stack with the number of tokens that have gone into each open part:

    strand = (stack, counts)        counts[i]: tokens in the i-th open part, the outermost first
    state  = a set of strands       one for each way to divide the text read so far between the parts

Between two tokens every open part is marked with what its limits say of the next token (``automaton.py``). So stacks with
marks are few, whatever the limits are, and what a token does to them is worked out once. Whether a strand can still be
completed is asked of bounds first (``bounds.py``), and searched for where these do not answer (``search.py``). ``tokens.py``
has the states and masks.
"""
