"""A disk cache of compiled automata and tries."""
