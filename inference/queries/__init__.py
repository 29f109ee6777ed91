"""Queries on whole circuits: marginals, samples, maxima, information, learning."""
