"""Rare constructs of patterns: atomic groups, back-references, subroutine calls, preferred matches."""
