"""Token masks: which tokens a lazy automaton can read next, and where each of them leads.

A mask is one walk down the trie of the vocabulary, with a configuration beside each node. In free text that walk would
visit most of the vocabulary, so there it is replaced by token sets which are made once for a vocabulary
(``text_tokens.py``): the tokens that stay within the text are one set, and only the tokens that leave it are walked.
"""
