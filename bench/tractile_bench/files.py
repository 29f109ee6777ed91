"""Reading data sets: JSON, JSON lines and text, plain or compressed (.gz, .zst), one file or a folder of them."""

from __future__ import annotations

import gzip
import io
import json
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, cast

from tractile.errors import FormatError, TractileError

COMPRESSED = (".zst", ".gz")
BROKEN = (OSError, EOFError, zlib.error)
"""The errors that reading a damaged .gz file raises."""


def find(folder: str | Path, *names: str) -> Path:
    """Find the first of ``names`` in ``folder`` that exists, plain or compressed; return ``folder`` itself if it is a file.

    Raises :class:`FormatError`, with the names, if there is none.
    """
    folder = Path(folder)
    if folder.is_file():
        return folder
    for name in names:
        for ending in ("", *COMPRESSED):
            if (path := folder / (name + ending)).exists():
                return path
    reason = (
        f"has none of {', '.join(names)} (or these with .zst, .gz)" if folder.is_dir() else "does not exist"
    )
    raise FormatError(f"{folder} {reason}")


def open_bytes(path: str | Path) -> BinaryIO:
    """Open a file for reading bytes, decompressed as its name says. Raises :class:`FormatError` if there is no such file."""
    path = Path(path)
    try:
        if path.suffix == ".gz":
            return cast(BinaryIO, gzip.open(path, "rb"))
        if path.suffix == ".zst":
            return _unpacked(path)
        return path.open("rb")
    except OSError as error:
        raise FormatError(f"{path} does not open: {error.strerror or error}") from error


def read_bytes(path: str | Path) -> bytes:
    """Read a whole file, decompressed. Raises :class:`FormatError`."""
    try:
        with open_bytes(path) as stream:
            return stream.read()
    except BROKEN as error:
        raise FormatError(f"{path} does not unpack: {error}") from error


def read_text(path: str | Path) -> str:
    """Read a whole file as UTF-8. Raises :class:`FormatError`."""
    try:
        return read_bytes(path).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise FormatError(f"{path} is not UTF-8: {error}") from error


def read_lines(path: str | Path) -> Iterator[str]:
    """Yield all lines of a file, or of every file of a folder in order of name, without line ends."""
    for _, _, line in _numbered(Path(path)):
        yield line


def read_json(path: str | Path) -> Any:
    """Read a JSON file. Raises :class:`FormatError` with the line at fault."""
    try:
        return json.loads(read_text(path))
    except ValueError as error:
        raise FormatError(f"{path} is not JSON: {error}") from error


def read_jsonl(path: str | Path) -> Iterator[dict[str, Any]]:
    """Yield the objects of a file with one in each line or with one JSON array, whatever its name; empty lines are skipped.

    A folder yields the objects of all its files with .json in their names, in order of name. Raises :class:`FormatError`, with
    file and line, for anything that is not an object.
    """
    path = Path(path)
    if path.is_dir():
        for inside in _inside(path, ".json"):
            yield from read_jsonl(inside)
        return
    for _, number, line in _numbered(path):
        if number == 1 and line.lstrip("\ufeff ").startswith("["):
            for index, item in enumerate(read_json(path)):
                yield _object(item, path, f"item {index}")
            return
        if line.strip():
            try:
                item = json.loads(line)
            except ValueError as error:
                raise FormatError(f"{path}, line {number}: not JSON: {error}") from error
            yield _object(item, path, f"line {number}")


def _object(item: Any, path: Path, where: str) -> dict[str, Any]:
    if not isinstance(item, dict):
        raise FormatError(f"{path}, {where}: expected an object, not {json.dumps(item)[:60]}")
    return item


def _numbered(path: Path) -> Iterator[tuple[Path, int, str]]:
    """Yield (file, line number from 1, line) for a file, or for the files of a folder."""
    for inside in _inside(path) if path.is_dir() else [path]:
        number = 0
        try:
            with open_bytes(inside) as stream:
                # Only \n ends a line: other separators occur inside JSON strings.
                for number, line in enumerate(stream, 1):
                    yield inside, number, line.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r\n")
        except UnicodeDecodeError as error:
            raise FormatError(f"{inside}, line {number}: not UTF-8: {error}") from error
        except BROKEN as error:
            raise FormatError(f"{inside} does not unpack after line {number}: {error}") from error


def _inside(folder: Path, part: str = "") -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.is_file() and part in "".join(path.suffixes))


def _unpacked(path: Path) -> BinaryIO:
    """Unpack a .zst file into memory; zstandard's own stream reader would not notice a truncated file."""
    try:
        import zstandard
    except ImportError:
        raise TractileError(f"{path} is unpacked with zstandard: pip install zstandard") from None
    packed, parts = path.read_bytes(), []
    while packed:
        frame = zstandard.ZstdDecompressor().decompressobj()
        try:
            parts.append(frame.decompress(packed))
        except zstandard.ZstdError as error:
            raise FormatError(f"{path} does not unpack: {error}") from error
        if not frame.eof:
            raise FormatError(f"{path} does not unpack: it is cut off")
        packed = frame.unused_data
    return io.BytesIO(b"".join(parts))
