"""The fields of an answer with their distributions: what ``generate(…, confidence=True)`` returns beside the value."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, final

from ..circuits.io.summary import html_table
from ..inference.smc.confidence import Estimate
from ..inference.smc.field import Field, bar, in_words
from ..inference.smc.paths import at_path, leaves, read_path
from ..inference.smc.posterior import Posterior


@final
class Confidence(Mapping[str, Field]):
    """The distribution of each field of an answer, by its path; the path of an answer without parts is ``""``.

    Iterating goes over the paths of the answer itself; any other path may be asked for (:meth:`.Posterior.field`). ``str`` is a
    table of the answer's fields, each with the probability of the value that the answer has.

    Examples
    --------
    >>> from dataclasses import make_dataclass
    >>> from typing import Literal
    >>> import tractile as tt
    >>> Pet = make_dataclass("Pet", [("kind", Literal["cat", "dog"])])
    >>> model, tokenizer = tt.embedded.load_lm()
    >>> pet, sure = tt.generate(model, tokenizer, "Tom has a cat.", Pet, max_new_tokens=32, confidence=True)
    >>> list(sure), sure.answer == pet, sure["kind"].probability("bird")
    (['kind'], True, 0.0)
    """

    def __init__(self, posterior: Posterior, answer: Any) -> None:
        self.answer = answer
        self._posterior = posterior
        self._paths = list(leaves(answer))
        self._found: dict[str, Field] = {}

    def __getitem__(self, path: str) -> Field:
        if path not in self._found:
            self._found[path] = self._posterior.field(path)
        return self._found[path]

    def __contains__(self, path: object) -> bool:
        return path in self._paths

    def __iter__(self) -> Iterator[str]:
        return iter(self._paths)

    def __len__(self) -> int:
        return len(self._paths)

    def rows(self) -> list[tuple[str, Any, Estimate]]:
        """Return for each field of the answer its path, its value and the probability of this value."""
        found = []
        for path, field in self.items():
            value = at_path(self.answer, read_path(path))
            found.append((path, value, field.estimate(value)))
        return found

    def __repr__(self) -> str:
        return f"Confidence({', '.join(path or 'the answer' for path in self)})"

    def __str__(self) -> str:
        rows = self.rows()
        wide = max(len(path) for path, *_ in rows)
        return "\n".join(f"{path:{wide}}  {in_words(p)}  {bar(p.value)}  {v!r}" for path, v, p in rows)

    def _repr_html_(self) -> str:
        rows = [(path, repr(value), in_words(p), bar(p.value)) for path, value, p in self.rows()]
        return html_table(["field", "value", "probability", ""], rows, "")
