"""What tokens are: the bytes of each, a trie of them, and how a tokenizer is read."""
