"""The kinds of local states of objects: a local state is a tuple that begins with its kind."""

START, OPEN, AFTER, COMMA, BEFORE, KEY, COLON, VALUE, END, TRAIL = range(10)
_IN_MEMBER = frozenset([OPEN, COMMA, BEFORE, KEY, COLON, VALUE, END, TRAIL])
_BETWEEN = frozenset([AFTER, COMMA, BEFORE, END, TRAIL])
_VALUE = frozenset([COLON, VALUE, *_BETWEEN])
COVERED = (frozenset(range(10)), _IN_MEMBER, _BETWEEN, *[_IN_MEMBER] * 3, _VALUE, _VALUE, *[_BETWEEN] * 2)
"""By kind of a local state: the kinds of later local states whose moves its key determines."""
