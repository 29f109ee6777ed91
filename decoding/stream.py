"""A value from a language model while it is written: the text so far, and what of it is complete."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ..constraints.output_type import OutputType
from ..inference.smc.boundaries import Texts
from ..inference.smc.loop import prepared, steps
from ..inference.smc.request import Request
from ..inference.smc.run import Run
from ..inference.threads import one_thread
from .outputs import drawn
from .partial import growing_json, partial_value

REPLACEMENT = "\ufffd"


@dataclass(frozen=True)
class Part:
    """What is written so far.

    ``text``: all of it; ``new``: what came since the part before. ``value``: of JSON the complete members or items of the
    outermost object or array (items as the output's type reads them, if it does), of other texts None; with ``done``, the value
    of the output's type. ``growing``: where a string of JSON is being written, its place as a JSON pointer ("/pets/0/name"), else
    None; ``unfinished`` is then the value with the string as far as it is written, as JSON, else None.

    Examples
    --------
    >>> import tractile as tt
    >>> model, tokenizer = tt.embedded.load_lm()
    >>> for part in tt.generate(model, tokenizer, "I can count to", list[int], max_new_tokens=12, stream=True):
    ...     assert isinstance(part, tt.decoding.Part)
    >>> part.done, type(part.value)
    (True, <class 'list'>)
    """

    text: str
    new: str
    value: Any
    done: bool

    @cached_property
    def _growing(self) -> tuple[Any, str] | None:
        return None if self.done else growing_json(self.text)

    @property
    def growing(self) -> str | None:
        """The place of the string that is being written."""
        return None if self._growing is None else self._growing[1]

    @property
    def unfinished(self) -> Any:
        """The value with the string that is being written."""
        return None if self._growing is None else self._growing[0]


def parts(request: Request, kind: OutputType[Any]) -> Iterator[Part]:
    """Return the parts of one text, a token at a time. Raises :class:`BudgetTooSmall` at once, before the model is called."""
    (run,) = prepared([request])
    return _parts(run, kind)


def _parts(run: Run, kind: OutputType[Any]) -> Iterator[Part]:
    texts, shown, going = Texts(run.request.lm.decode), "", steps([run])
    while True:
        with one_thread(run.request.lm, run.request.hmm):
            growing = next(going, 0)
        if not growing:
            break
        text = texts(run.particles.token_ids(0)).rstrip(
            REPLACEMENT
        )  # a character whose bytes are not all there
        if text.startswith(shown) and text != shown:
            value = None if kind.parse is str else partial_value(text, kind.parse)
            yield Part(text, text[len(shown) :], value, False)
            shown = text
    post = run.posterior()
    value, text = drawn(post, kind, None, 0), post.best.text
    yield Part(text, text[len(shown) :], value, True)
