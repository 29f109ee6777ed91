"""The kinds of local states of objects: a local state is a tuple that begins with its kind."""

START, OPEN, AFTER, COMMA, BEFORE, KEY, COLON, VALUE, END = range(9)
_IN_MEMBER = frozenset([OPEN, COMMA, BEFORE, KEY, COLON, VALUE, END])
_BETWEEN = frozenset([AFTER, COMMA, BEFORE, END])
_VALUE = frozenset([COLON, VALUE, *_BETWEEN])
COVERED = (frozenset(range(9)), _IN_MEMBER, _BETWEEN, *[_IN_MEMBER] * 3, _VALUE, _VALUE, _BETWEEN)
"""By the kind of a local state: the kinds whose moves its key determines."""
