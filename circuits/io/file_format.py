"""Files of circuits and chains: ``config.json`` for the structure, ``model.safetensors`` for the tensors.

The structure is written as nested calls, {"type": "Dense", "args": [{"tensor": "3"}]}, of the classes in ``TYPES``. A layer
used by several nodes is written once, and a tensor used twice is stored once, so tied parameters stay tied. The files hold no
code: reading them calls the constructors below and nothing else. The configuration holds a digest of the tensors, which
detects a pair of files that were not saved together.
"""

from __future__ import annotations

import hashlib
import json
import pickle
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from ... import layers
from ...errors import FormatError
from ...layers.dense_tensor import DenseTensor
from ...layers.input import Constant, KhatriRao
from ...storage import make_directory, write_atomically
from .pieces import Pieces, write_pieces

FORMAT = "tractile-circuit-1"
VOCABULARY = "vocabulary_fingerprint"  # in config.json


class Type(NamedTuple):
    """The file format of a class: the arguments of its constructor, and the function that makes an object from them.

    ``name``: the name in files, by default the class's own; ``subclasses``: whether objects of subclasses are written as this
    class.
    """

    arguments: Callable[[Any], tuple[Any, ...]]
    make: Callable[..., Any]
    name: str | None = None
    subclasses: bool = False


TYPES: dict[type, Type] = {
    layers.Dense: Type(lambda o: (o.weight,), layers.Dense),
    layers.Identity: Type(lambda o: o.row_dims, layers.Identity),
    layers.Incidence: Type(
        lambda o: (o.row, o.col, o.shape), lambda r, c, s: layers.Incidence(r, c, tuple(s))
    ),
    layers.Monarch: Type(
        lambda o: (o.weights, o.axes, o.transposed), lambda w, a, t: layers.Monarch(w, a, transposed=t)
    ),
    layers.Kron: Type(lambda o: (o.a, o.b), layers.Kron),
    DenseTensor: Type(lambda o: (o.weight, o.row_axes), DenseTensor, "Joint"),
    layers.Sum: Type(lambda o: o.operators, layers.Sum),
    layers.Hadamard: Type(lambda o: (), layers.Hadamard),
    layers.Kronecker: Type(lambda o: (o.order,), layers.Kronecker),
    Constant: Type(lambda o: (len(o.unit_dims),), Constant),
    layers.Categorical: Type(lambda o: (o.weight,), layers.Categorical),
    layers.ClassCategorical: Type(lambda o: (o.class_weight, o.class_of, o.share), layers.ClassCategorical),
    layers.TokenSets: Type(
        lambda o: (o.incidence.row, o.incidence.col, o.tokens, o.num_units), layers.TokenSets, "Labels"
    ),
    KhatriRao: Type(lambda o: (o.a, o.b), KhatriRao, "RowKron"),
    layers.Bernoulli: Type(lambda o: (o.probs,), layers.Bernoulli),
    layers.Indicator: Type(lambda o: (o.vocab_size,), layers.Indicator),
    layers.Gaussian: Type(
        lambda o: (
            o.mean,
            o.variance,
            o.parameters()[2] if len(o.parameters()) > 2 else None,
            o.min_variance,
        ),
        lambda m, v, a, least: layers.Gaussian(m, v, a, min_variance=least),
    ),
}


def file_name(cls: type) -> str:
    """Return the name of a class in files."""
    return TYPES[cls].name or cls.__name__


def register(
    cls: type,
    arguments: Callable[[Any], tuple[Any, ...]],
    make: Callable[..., Any] | None = None,
    *,
    subclasses: bool = False,
) -> None:
    """Give a class a file format: ``arguments`` returns the arguments from which ``make`` (default: the class) remakes an object.

    Arguments are tensors, numbers, strings, lists and layers. ``subclasses``: whether objects of subclasses are written as
    this class. Files identify a class by its name: raises :class:`FormatError` for a name that another class has.
    """
    if any(file_name(known) == cls.__name__ and known is not cls for known in TYPES):
        raise FormatError(f"register: there is a class named {cls.__name__} already")
    TYPES[cls] = Type(arguments, make or cls, subclasses=subclasses)


class Writer:
    """A writer of values as JSON; tensors are collected in ``contents``, tensors with the same memory once."""

    def __init__(self) -> None:
        self.contents: dict[str, Tensor] = {}
        self._names: dict[Any, str] = {}
        self._kept: list[Tensor] = []  # references, so that no address is used again

    def write(self, value: Any) -> Any:
        if isinstance(value, Tensor):
            key = (value.data_ptr(), value.shape, value.stride(), value.dtype, value.device)
            if key not in self._names:
                self._names[key] = str(len(self._names))
                self.contents[self._names[key]] = value.detach().cpu().clone().contiguous()
            self._kept.append(value)
            return {"tensor": self._names[key]}
        if isinstance(value, tuple | list):
            return [self.write(item) for item in value]
        if value is None or isinstance(value, bool | int | float | str):
            return value
        kind = next((cls for cls in type(value).__mro__ if cls in TYPES), None)
        if kind is None or (kind is not type(value) and not TYPES[kind].subclasses):
            raise FormatError(
                f"save: {type(value).__name__} has no file format; give it one by tractile.circuits.io.serialize.register"
            )
        return {"type": file_name(kind), "args": self.write(TYPES[kind].arguments(value))}


def write(directory: str | Path, config: Callable[[Writer], dict[str, Any]]) -> None:
    """Write a model into a directory; ``config`` returns the structure, its values written by the writer."""
    writer = Writer()
    body = config(writer)
    tensors = {name: Pieces.of(tensor) for name, tensor in writer.contents.items()}
    write_files(directory, {"format": FORMAT} | body, tensors)


def write_files(
    directory: str | Path, config: dict[str, Any], tensors: Mapping[str, Pieces], indent: int | None = None
) -> str:
    """Write a configuration and tensors into a directory, each file atomically; the configuration has a digest of the tensors.

    Returns the digest. Raises :class:`StorageError` if the directory cannot be written.
    """
    path = make_directory(directory)
    digest = write_pieces(path / "model.safetensors", tensors)
    config = config | {"tensors_sha256": digest}
    write_atomically(path / "config.json", (json.dumps(config, indent=indent) + "\n").encode())
    return digest


def read_files(directory: str | Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Read the configuration and the tensors in a directory; without ``model.safetensors``, those of ``pytorch_model.bin``.

    Raises :class:`FormatError` if they are not there, or damaged: not the tensors of which the configuration has the digest.
    """
    try:
        path = Path(directory)
        file, older = path / "model.safetensors", path / "pytorch_model.bin"
        config = json.loads((path / "config.json").read_bytes())
        if not isinstance(config, dict):
            raise ValueError("config.json holds no object")
        if not file.exists() and older.exists():
            tensors = torch.load(older, map_location="cpu", weights_only=True)
            if not isinstance(tensors, dict) or not all(isinstance(t, Tensor) for t in tensors.values()):
                raise ValueError("pytorch_model.bin holds no dictionary of tensors")
            return config, dict(tensors)
        digest = config.get("tensors_sha256")
        with file.open("rb") as content:
            if digest is not None and hashlib.file_digest(content, "sha256").hexdigest() != digest:
                raise FormatError(
                    f"{file} is damaged, or not the file that config.json was written with: its checksum is wrong; "
                    "copy or distil it again"
                )
        return config, load_file(file)
    except (
        OSError, ValueError, TypeError, SafetensorError, RuntimeError, pickle.UnpicklingError, EOFError
    ) as error:  # fmt: skip
        raise FormatError(f"{directory} is not a saved model: {error}") from error


def read(value: Any, tensors: dict[str, Tensor]) -> Any:
    """Return the value that :meth:`Writer.write` wrote, made again by the constructors of its classes, which check it."""
    classes = {file_name(cls): kind for cls, kind in TYPES.items()}

    def made(value: Any) -> Any:
        if isinstance(value, list):
            return [made(item) for item in value]
        if not isinstance(value, dict):
            return value
        if "tensor" in value:
            return tensors[value["tensor"]]
        return classes[value["type"]].make(*made(value["args"]))

    return made(value)
