"""Canonical tokenization: each text only as the tokenizer itself segments it."""
