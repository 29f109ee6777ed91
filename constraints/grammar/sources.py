"""The files that a grammar in Lark's notation imports from.

``%import .other (A, b)`` reads ``other.lark`` beside the grammar that says so; ``%import other.A`` reads it from the folders that
were given, else from the grammars that come with the ``lark`` package.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from pathlib import Path
from typing import Any

from ...errors import FormatError
from .. import validation
from .lark_syntax import refused

PACKAGED = ("common", "lark", "python", "unicode")
"""The grammars that come with the package."""
Paths = str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | None


@dataclass(frozen=True)
class Sources:
    """Where the grammars lie that are imported from.

    ``beside``: the folder of the grammar itself, None if it is no file; ``folders``: those to look in; ``above``: the files that
    are being read.
    """

    beside: Path | None = None
    folders: tuple[Path, ...] = ()
    above: tuple[str, ...] = ()

    def find(self, parts: Sequence[str], relative: bool, line: Any) -> tuple[str, Sources]:
        """Return the text of a grammar that is imported from, and where its own imports lie.

        ``parts``: its folders and its name; ``relative``: whether a dot stands before them; ``line``: a token of the line.
        Raises ``UnsupportedConstraint`` if there is no such file, or it imports from itself.
        """
        folders = ([self.beside] if relative and self.beside else []) + list(self.folders)
        for folder in folders:
            path = folder.joinpath(*parts).with_suffix(".lark")
            if path.is_file():
                if str(path.resolve()) in self.above:
                    raise refused(f"%import of {name_of(parts, relative)!r}, which imports this one", line)
                above = (*self.above, str(path.resolve()))
                return read(path), replace(self, beside=path.parent, above=above)
        if not relative and len(parts) == 1 and parts[0] in PACKAGED:
            found = files("lark") / "grammars" / f"{parts[0]}.lark"
            return found.read_text(encoding="utf-8"), Sources()
        where = (
            " or ".join(map(str, folders)) or "no folder: give the grammar as a file, or import_from=folder"
        )
        known = "" if relative else f"; without a file {', '.join(PACKAGED)} can be imported from"
        raise refused(
            f"%import of {name_of(parts, relative)!r}: {'/'.join(parts)}.lark was looked for in {where}{known}",
            line,
        )


def name_of(parts: Sequence[str], relative: bool) -> str:
    """Return the name of a grammar as an import writes it."""
    return "." * relative + ".".join(parts)


def read(path: Path) -> str:
    """Return the text of a file in UTF-8. Raises ``FormatError``."""
    try:
        return path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise FormatError(f"the grammar cannot be read: {error}") from None


def folders_of(import_from: Paths) -> tuple[Path, ...]:
    """Return the folders of the argument ``import_from``. Raises ``FormatError`` for what is none."""
    given = [import_from] if isinstance(import_from, str | os.PathLike) else list(import_from or ())
    for each in given:
        if not isinstance(each, str | os.PathLike) or not Path(each).is_dir():
            raise FormatError(f"import_from: {validation.short(each)} is no folder")
    return tuple(map(Path, given))
