"""Vocabularies: the bytes of each token, their prefix tree, and the reading of tokenizers."""
