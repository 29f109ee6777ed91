"""Texts written as the tokenizer itself writes them: canonical tokenisation."""
