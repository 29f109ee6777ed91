"""Next-token queries: which token may come next, given the prefix and that the rest must end well."""
