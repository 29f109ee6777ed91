"""What is seldom met in a pattern: atomic groups, back-references, subroutine calls, the first match."""
