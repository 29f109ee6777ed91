"""Tags, and free text that triggers them.

    triggered    (U · T)* · F        U: free text up to the first trigger, T: the rest of a tag that begins with it, F: free
    text
    separated    T (s T)*

If the content of a tag is free text, the first occurrence of an end string ends it.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from typing import NamedTuple

from ...errors import EmptyLanguage, UnsupportedConstraint
from .. import validation
from ..constraint import Constraint, checked
from ..words.free_text import strings, until_first, without_any
from ..words.literals import any_of, literal


class Tag(NamedTuple):
    """``begin`` · ``content`` · one of ``end``. ``content=None``: free text up to the first end string."""

    begin: str
    content: Constraint | None
    end: str | Sequence[str] = ""

    def after(self, begun: str = "") -> Constraint:
        """Return the rest of the tag after ``begun``, a prefix of ``begin``.

        Raises ``UnsupportedConstraint`` for free text without an end string.
        """
        if self.content is None:
            stops = strings(self.end, "end")
            rest = until_first(stops, stops)
        else:
            rest = closed(checked(self.content), [self.end] if isinstance(self.end, str) else self.end)
        return literal(self.begin[len(begun) :]) + rest if len(begun) < len(self.begin) else rest


def closed(content: Constraint, ends: Sequence[str] | None) -> Constraint:
    """Append one of the end strings to a content, if there are any."""
    return content if not ends or list(ends) == [""] else content + any_of(*ends)


def tag(begin: str, content: Constraint | None, end: str | Sequence[str] = "") -> Constraint:
    """Accept ``begin`` · ``content`` · ``end`` (or one of several ends).

    ``content=None``: free text up to the first end string.

    >>> from tractile.constraints import regex, tag
    >>> tag("<n>", regex("[0-9]+"), "</n>").accepts("<n>42</n>")
    True
    """
    return Tag(validation.check_text(begin, "begin"), content, end).after()


def sections(*parts: Constraint | str) -> Constraint:
    """Concatenate parts; a string stands for itself.

    Each part may have a token budget: ``part.tokens(at_most=200)``.

    Raises ``EmptyLanguage`` for no parts.

    >>> from tractile.constraints import free, regex, sections
    >>> sections(free(until="</think>"), "Answer: ", regex("yes|no")).accepts("Hm.</think>Answer: yes")
    True
    """
    if not parts:
        raise EmptyLanguage("sections: no parts")
    return reduce(operator.add, (literal(part) if isinstance(part, str) else checked(part) for part in parts))


def triggered(
    tags: Iterable[Tag | tuple[str, Constraint | None, str | Sequence[str]]],
    triggers: str | Sequence[str],
    *,
    at_least_one: bool = False,
    stop_after_first: bool = False,
    without: str | Iterable[str] = (),
    until: str | Sequence[str] | None = None,
) -> Constraint:
    """Accept free text in which a trigger starts a tag, any number of times.

    Args:
        tags: (begin, content, end) of each tag; exactly one trigger is a prefix of ``begin``.
        triggers: strings that do not occur in the free text: they begin a tag.
        at_least_one: the text begins with a tag.
        stop_after_first: nothing follows the first tag.
        without: strings that do not occur in the free text.
        until: the free text ends with the first occurrence of this string, or of one of these; ``None``: anywhere.

    Raises ``UnsupportedConstraint`` for a tag without a trigger or with two, and for triggers that contain each other.

    Examples
    --------
    >>> import tractile as tt
    >>> digit = tt.constraints.regex("[0-9]")
    >>> found = tt.constraints.triggered([("<n>", digit, "</n>")], "<n>")
    >>> found.accepts("one <n>1</n> and more"), found.accepts("one <n>x</n>")
    (True, False)
    """
    listed = [Tag(*each) for each in tags]
    first = choice([tag.after() for tag in listed])
    return dispatched(
        grouped(listed, strings(triggers, "triggers")),
        loop=not stop_after_first,
        without=strings(without, "without", least=0),
        ends=None if until is None else strings(until, "until"),
        first=first if at_least_one else None,
    )


def dispatched(
    rules: Mapping[str, Constraint],
    *,
    loop: bool,
    without: Sequence[str],
    ends: Sequence[str] | None,
    first: Constraint | None = None,
) -> Constraint:
    """Return free text in which each pattern of ``rules`` is followed by its content.

    Args:
        loop: whether free text goes on after a content.
        without: strings that do not occur in the free text.
        ends: the first occurrence of one of these in the free text ends the whole; ``None``: it may end anywhere.
        first: a constraint for the beginning, in place of free text.
    """
    events = [*rules, *(ends or [])]
    one = choice([until_first([pattern], events, without) + content for pattern, content in rules.items()])
    text = until_first(ends, events, without) if ends else without_any([*without, *rules])
    if not loop:
        return closed(one, ends) | text if first is None else closed(first, ends)
    rest = one.repeat(0) + text
    return rest if first is None else first + rest


def separated(
    tags: Iterable[Tag | tuple[str, Constraint | None, str | Sequence[str]]],
    separator: str,
    *,
    at_least_one: bool = False,
    stop_after_first: bool = False,
) -> Constraint:
    """Accept tags with a separator between them, and nothing else.

    Args:
        tags: (begin, content, end) of each tag.
        separator: the text between two tags; it may be empty.
        at_least_one: there is a tag. Otherwise the text may be empty.
        stop_after_first: there is one tag at most.

    Examples
    --------
    >>> import tractile as tt
    >>> digit = tt.constraints.regex("[0-9]")
    >>> found = tt.constraints.separated([("<n>", digit, "</n>")], ", ")
    >>> found.accepts("<n>1</n>, <n>2</n>"), found.accepts("<n>1</n><n>2</n>")
    (True, False)
    """
    one = choice([Tag(*each).after() for each in tags])
    return in_a_row(one, validation.check_text(separator, "separator"), at_least_one, not stop_after_first)


def in_a_row(one: Constraint, separator: str, at_least_one: bool, several: bool) -> Constraint:
    """Return texts of ``one`` with a separator between them, ``several`` or one, or none.

    None is possible unless ``at_least_one``.
    """
    some = one + (literal(separator) + one if separator else one).repeat(0) if several else one
    return some if at_least_one else some | literal("")


def grouped(tags: Sequence[Tag], triggers: Sequence[str]) -> dict[str, Constraint]:
    """Return by trigger the constraint of what follows it: the rest of one of the tags that begin with it.

    Raises ``UnsupportedConstraint`` as :func:`check_triggers`, and if not exactly one trigger starts a tag.
    """
    check_triggers(triggers)
    groups: dict[str, list[Constraint]] = {}
    for number, each in enumerate(tags):
        begins = [trigger for trigger in triggers if each.begin.startswith(trigger)]
        if len(begins) != 1:
            why = f"{len(begins)} triggers begin {each.begin!r}; exactly one of {list(triggers)} must"
            raise UnsupportedConstraint(why, path=f"tags/{number}/begin")
        groups.setdefault(begins[0], []).append(each.after(begins[0]))
    return {trigger: choice(group) for trigger, group in groups.items()}


def check_triggers(triggers: Iterable[str]) -> None:
    """Raise ``UnsupportedConstraint`` if a trigger contains another."""
    for a, b in itertools.permutations(triggers, 2):
        if a in b[:-1]:
            why = f"the trigger {a!r} occurs in {b!r}, which could never come: leave out one of them"
            raise UnsupportedConstraint(why, path="triggers")


def choice(options: Sequence[Constraint]) -> Constraint:
    """Return the union of the options. Raises ``EmptyLanguage`` for none."""
    if not options:
        raise EmptyLanguage("no tags to choose from")
    return reduce(operator.or_, options)
