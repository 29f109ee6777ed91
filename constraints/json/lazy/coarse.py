"""Object shapes without registers, for abstractions: any member may come, any number of times."""

from __future__ import annotations

from collections.abc import Iterator

from ..shapes import Need
from .members import Form, Run

FEW_REQUIRED = 4
"""Required members that an abstraction may keep: it has a state for each set of them."""


class CoarseForm(Form):
    """A form that forgets its registers. ``keep_required``: where few members are required, those that
    have been seen are kept, and all of them must have been at the end."""

    def __init__(self, form: Form, keep_required: bool) -> None:
        self.__dict__.update(form.__dict__)
        self.exact = form
        few = keep_required and form.required.bit_count() <= FEW_REQUIRED
        self.required = form.required if few else 0

    def start(self, number: int) -> Run | None:
        """The run at the beginning, ``None`` if no object has the shape."""
        return None if self.exact.start(number) is None else Run(number)

    def allowed(self, run: Run) -> int:
        """The alternatives that may come next, as bits."""
        found = self.exact.live & ~run.seen
        for each in self.exact.possible:
            found |= 1 << each.bit
        return found

    def done(self, run: Run) -> bool:
        """Whether the object may end."""
        return not self.required & ~run.seen

    def tracks(self, run: Run) -> bool:
        """Whether the names of undeclared members matter."""
        return False

    def after(self, run: Run, mark: int, name: str | None) -> Iterator[tuple[Need, Run]]:
        """The runs after a member, with what its value needs."""
        if mark < len(self.exact.names):
            yield self.exact.needs[mark], run._replace(seen=run.seen | 1 << mark & self.required)
            return
        for each in self.exact.possible:
            if each.bit == mark:
                yield each.need, run
