"""Object shapes without registers, for abstractions: any member may come, any number of times."""

from __future__ import annotations

from collections.abc import Iterator

from ..shapes import Need
from .members import Form, Run

FEW_REQUIRED = 4
"""The most required members that an abstraction keeps: it has a state for each set of them."""


class CoarseForm(Form):
    """A form without registers.
    ``keep_required``: remember the required members seen, if there are few, and demand all of them at the end."""

    def __init__(self, form: Form, keep_required: bool) -> None:
        self.__dict__.update(form.__dict__)
        self.exact = form
        few = keep_required and form.required.bit_count() <= FEW_REQUIRED
        self.required = form.required if few else 0

    def start(self, number: int) -> Run | None:
        """Return the run before the first member, ``None`` if no object has the shape."""
        return None if self.exact.start(number) is None else Run(number)

    def allowed(self, run: Run) -> int:
        """Return the alternatives that may come next, as bits."""
        found = self.exact.live & ~run.seen
        for each in self.exact.possible:
            found |= 1 << each.bit
        return found

    def done(self, run: Run) -> bool:
        """Return whether the object may end."""
        return not self.required & ~run.seen

    def tracks(self, run: Run) -> bool:
        """Return False: no names are remembered."""
        return False

    def after(self, run: Run, mark: int, name: str | None) -> Iterator[tuple[Need, Run]]:
        """Yield the runs after a member, each with the need of its value."""
        if mark < len(self.exact.names):
            yield self.exact.needs[mark], run._replace(seen=run.seen | 1 << mark & self.required)
            return
        for each in self.exact.possible:
            if each.bit == mark:
                yield each.need, run
