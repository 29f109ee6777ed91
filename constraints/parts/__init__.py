"""Token budgets of parts of a text: ``c.tokens(at_most=…, at_least=…)``.

A token counts for a part if it writes at least one byte of it. An ordinary stack automaton reads the bytes; the limits
concern tokens. A *strand* is a stack with the number of tokens counted so far for each open part:

    strand = (stack, counts)        counts[i]: tokens in the i-th open part, the outermost first
    state  = a set of strands       one for each way to divide the text read so far between the parts

Between two tokens every open part is marked with what its limits allow for the next token (``automaton.py``). The marks
have few values however large the limits are, so the effect of a token on a marked stack is computed once and cached.
Whether a strand can still be completed is decided by bounds if possible (``bounds.py``), otherwise by a search
(``search.py``). States and masks are in ``tokens.py``.
"""
