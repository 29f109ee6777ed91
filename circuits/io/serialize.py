"""Any circuit, chain or automaton on disk: ``config.json`` for the structure, ``model.safetensors`` for the tensors.

The structure is written as nested calls, {"type": "Dense", "args": [{"tensor": "3"}]}, of the classes in ``TYPES``; a
layer used by several nodes is written once, and a tensor used twice is stored once, so what is tied stays tied. No code
is in the files: reading them calls the constructors below and nothing else. The digest in the configuration ties it to
its tensors, so that a pair of files from two savings is found out.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors import SafetensorError
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors
from torch import Tensor

from ... import layers
from ...errors import FormatError, TractileError
from ...layers.dense_tensor import DenseTensor
from ...layers.operator import TensorMap
from ...storage import make_directory, write_atomically
from ..automaton import Automaton
from ..chain import Chain
from ..circuit import Circuit
from ..hmm import FORMAT as HMM_FORMAT
from ..hmm import HMM, VOCABULARY
from ..narrowing import Narrowing

FORMAT = "tractile-circuit-1"
TRANSFORMS: dict[str, TensorMap] = {
    "exp": torch.exp,
    "square": torch.square,
    "softplus": torch.nn.functional.softplus,
    "sigmoid": torch.sigmoid,
}


class Type(NamedTuple):
    """How a class is written (its constructor's arguments), made again, and called in files (None: by its own name)."""

    arguments: Callable[[Any], tuple[Any, ...]]
    make: Callable[..., Any]
    name: str | None = None


def _automaton(
    transitions: Tensor,
    tokens: Tensor | layers.Incidence,
    initial: Tensor,
    final: Tensor,
    eos: int | None,
    narrowed: Sequence[Sequence[Any]] = (),
) -> Automaton:
    starts, accepts = (v.nonzero()[:, 0].tolist() for v in (initial, final))
    found = Automaton(transitions, tokens, starts, accepts, len(initial), eos)
    found.narrowed = tuple(Narrowing(*fields) for fields in narrowed)
    return found.map(lambda t: t.to(initial.dtype))


def _automaton_arguments(o: Automaton) -> tuple[Any, ...]:
    whole = (o.transitions, o.labels.tokens, o.initial[0], o.final[0], o.eos_token_id)
    return (*whole, [list(cut) for cut in o.narrowed]) if o.narrowed else whole


def _embedding(values: Tensor, name: str) -> layers.Embedding:
    return layers.Embedding(values, TRANSFORMS[name])


def _name(transform: Any) -> str:
    for name, known in TRANSFORMS.items():
        if known is transform:
            return name
    raise FormatError(
        f"save: the transform {transform!r} of an Embedding has no file format; use one of {list(TRANSFORMS)}"
    )


TYPES: dict[type, Type] = {
    layers.Dense: Type(lambda o: (o.weight,), layers.Dense),
    layers.Diagonal: Type(lambda o: (o.weight,), layers.Diagonal),
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
    layers.Constant: Type(lambda o: (len(o.unit_dims),), layers.Constant),
    layers.Categorical: Type(lambda o: (o.weight,), layers.Categorical),
    layers.TokenSets: Type(
        lambda o: (o.incidence.row, o.incidence.col, o.tokens, o.num_units), layers.TokenSets, "Labels"
    ),
    layers.KhatriRao: Type(lambda o: (o.a, o.b), layers.KhatriRao, "RowKron"),
    layers.Bernoulli: Type(lambda o: (o.probs,), layers.Bernoulli),
    layers.Binomial: Type(lambda o: (o.probs, o.trials), layers.Binomial),
    layers.Indicator: Type(lambda o: (o.vocab_size,), layers.Indicator),
    layers.Embedding: Type(lambda o: (o.values, _name(o.transform)), _embedding),
    layers.Gaussian: Type(
        lambda o: (
            o.mean,
            o.variance,
            o.parameters()[2] if len(o.parameters()) > 2 else None,
            o.min_variance,
        ),
        lambda m, v, a, least: layers.Gaussian(m, v, a, min_variance=least),
    ),
    Chain: Type(
        lambda o: (o.initial, o.left, o.inputs, o.right, o.final),
        lambda i, le, b, r, f: Chain(tuple(i), le, b, r, tuple(f)),
    ),
    HMM: Type(lambda o: (o.initial_probs, o.transition, o.emission_probs), HMM),
    Automaton: Type(_automaton_arguments, _automaton),
}


def _file_name(cls: type) -> str:
    """What files call a class."""
    return TYPES[cls].name or cls.__name__


def register(
    cls: type, arguments: Callable[[Any], tuple[Any, ...]], make: Callable[..., Any] | None = None
) -> None:
    """Give a class of your own a file format: what its constructor takes, as tensors, numbers, strings, lists and layers.

    Files know a class by its name: :class:`FormatError` for a name that another class has.
    """
    if any(_file_name(known) == cls.__name__ and known is not cls for known in TYPES):
        raise FormatError(f"register: there is a class named {cls.__name__} already")
    TYPES[cls] = Type(arguments, make or cls)


def save(model: Circuit | Chain, directory: str | Path) -> None:
    """Write a circuit, chain, automaton or HMM (a dense or Monarch one in its own format) into a directory, each file atomically.

    Raises :class:`FormatError` for a layer whose class has no file format (:func:`register` it), :class:`StorageError` where
    the directory cannot be written.
    """
    path = make_directory(directory)
    if isinstance(model, HMM) and isinstance(model.transition, layers.Dense | layers.Monarch):
        model.save_pretrained(path)
        return
    tensors = _Tensors()
    if isinstance(model, Circuit):
        layer_number: dict[int, int] = {}
        written: list[Any] = []
        nodes: list[Any] = []
        for node in sorted(model.graph):
            layer = model.layer(node)
            if id(layer) not in layer_number:
                layer_number[id(layer)] = len(written)
                written.append(tensors.write(layer))
            variable = next(iter(model.scope(node)), None) if isinstance(layer, layers.InputLayer) else None
            nodes.append([layer_number[id(layer)], list(model.children(node)), variable])
        config: dict[str, Any] = {"layers": written, "nodes": nodes, "root": model.root}
    else:
        config = {"chain": tensors.write(model), VOCABULARY: model.vocabulary_fingerprint}
    data = save_tensors(tensors.contents)
    config = {"format": FORMAT, "tensors_sha256": hashlib.sha256(data).hexdigest(), **config}
    write_atomically(path / "model.safetensors", data)
    write_atomically(path / "config.json", json.dumps(config).encode())


class _Tensors:
    """Writes values as JSON; tensors go into ``contents``, those with the same memory once."""

    def __init__(self) -> None:
        self.contents: dict[str, Tensor] = {}
        self._names: dict[Any, str] = {}
        self._kept: list[Tensor] = []  # so that no address is used again

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
        if kind is None or (kind is not type(value) and not isinstance(value, Automaton)):
            raise FormatError(
                f"save: {type(value).__name__} has no file format; give it one by tractile.circuits.io.serialize.register"
            )
        return {"type": _file_name(kind), "args": self.write(TYPES[kind].arguments(value))}


def load(directory: str | Path) -> Circuit | Chain:
    """Read what :func:`save` wrote, or an HMM's own format; raises :class:`FormatError` if the directory holds something else."""
    path = Path(directory)
    try:
        config, data = (
            json.loads((path / "config.json").read_bytes()),
            (path / "model.safetensors").read_bytes(),
        )
        tensors = load_tensors(data)
        if config["format"] == HMM_FORMAT:
            return HMM.from_pretrained(path)
    except (OSError, ValueError, TypeError, KeyError, SafetensorError) as error:
        raise FormatError(f"{path} is not a saved circuit: {error!r}") from error
    if config["format"] != FORMAT:
        raise FormatError(f"{path}/config.json: expected format {FORMAT!r}, found {config['format']!r}")
    if config.get("tensors_sha256") != hashlib.sha256(data).hexdigest():
        raise FormatError(f"{path}: model.safetensors is not the one that config.json was written with")
    try:
        return _model(config, tensors)
    except (
        TractileError,
        KeyError,
        TypeError,
        ValueError,
        IndexError,
        AttributeError,
        RuntimeError,
    ) as error:
        raise FormatError(f"{path}/config.json does not describe a circuit: {error!r}") from error


def _model(config: dict[str, Any], tensors: dict[str, Tensor]) -> Circuit | Chain:
    classes = {_file_name(cls): kind for cls, kind in TYPES.items()}

    def read(value: Any) -> Any:
        if isinstance(value, list):
            return [read(item) for item in value]
        if not isinstance(value, dict):
            return value
        return (
            tensors[value["tensor"]]
            if "tensor" in value
            else classes[value["type"]].make(*read(value["args"]))
        )

    if "chain" in config:
        chain = read(config["chain"])
        if not isinstance(chain, Chain):
            raise FormatError(f"expected a chain, found {chain!r}")
        return chain.for_vocabulary(config.get(VOCABULARY))
    circuit, made = Circuit(), [read(layer) for layer in config["layers"]]
    for number, children, variable in config["nodes"]:
        layer = made[number]
        if isinstance(layer, layers.InputLayer):
            circuit.input(layer, variable)
        elif isinstance(layer, layers.Sum):
            circuit.sum(layer, *children)
        elif isinstance(layer, layers.InnerLayer):
            circuit.product(layer, *children)
        else:
            raise FormatError(f"expected a layer, found {layer!r}")
    if config["root"] not in circuit.graph:
        raise FormatError(f"the root is node {config['root']}, which is not there")
    circuit.root = config["root"]
    return circuit
