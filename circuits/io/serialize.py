"""Save and load circuits, chains and automata: see :mod:`tractile.circuits.io.file_format`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from torch import Tensor

from ...argument_checks import short
from ...errors import FormatError, TractileError
from ...layers import InputLayer, Sum
from ...layers.inner import InnerLayer
from ..chain import Chain
from ..circuit import Circuit
from ..hmm import FORMAT as HMM_FORMAT
from ..hmm import HMM
from .file_format import FORMAT, VOCABULARY, read, read_files, register

__all__ = ["load", "register", "save"]


def save(model: Circuit | Chain, directory: str | Path) -> None:
    """Write a circuit, chain, automaton or HMM into a directory, each file atomically.

    A dense or Monarch HMM is written in its own format. Raises :class:`FormatError` for a layer whose class has no file format
    (``register`` it), :class:`StorageError` if the directory cannot be written.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import tractile as tt
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     tt.save(tt.HMM.random(hidden=2, vocab_size=3).unroll(4), folder)
    ...     print(sorted(file.name for file in Path(folder).iterdir()))
    ...     tt.load(folder)
    ['config.json', 'model.safetensors']
    Circuit(18 layers, variables [0, 1, 2, 3])
    """
    if not isinstance(model, Circuit | Chain):
        raise FormatError(f"save: expected a circuit or a chain, not {short(model)}; give the model first")
    model.save(directory)


def load(directory: str | Path) -> Circuit | Chain:
    """Read a model that :func:`save` wrote. Raises :class:`FormatError` if the directory holds anything else.

    Examples
    --------
    >>> import tempfile
    >>> import tractile as tt
    >>> one = tt.Automaton.from_edges([(0, 0, 0), (0, 1, 1), (1, 0, 1)], start=0, accept=[1], vocab_size=2)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     tt.save(one, folder)
    ...     again = tt.load(folder)
    >>> again, again.accepts([0, 1])
    (Automaton(states=(2,), units=(3,), vocab_size=2), True)
    """
    config, tensors = read_files(directory)
    path = Path(directory)
    if config.get("format") == HMM_FORMAT:
        return HMM.from_pretrained(path)
    if config.get("format") != FORMAT or "tensors_sha256" not in config:
        raise FormatError(
            f"{path}/config.json: expected format {FORMAT!r} with a checksum, found {config.get('format')!r}"
        )
    for name, tensor in tensors.items():
        if bool(tensor.isnan().any()):
            raise FormatError(
                f"{path}/model.safetensors: tensor {name!r} has entries that are no numbers (NaN)"
            )
    try:
        return _model(config, tensors)
    except (TractileError, LookupError, TypeError, ValueError, AttributeError, RuntimeError) as error:
        raise FormatError(f"{path}/config.json does not describe a circuit: {error!r}") from error


def _model(config: dict[str, Any], tensors: dict[str, Tensor]) -> Circuit | Chain:
    if "chain" in config:
        chain = read(config["chain"], tensors)
        if not isinstance(chain, Chain):
            raise FormatError(f"expected a chain, found {chain!r}")
        return chain.for_vocabulary(config.get(VOCABULARY))
    circuit, layers = Circuit(), read(config["layers"], tensors)
    for number, children, variable in config["nodes"]:
        layer = layers[number]
        if isinstance(layer, InputLayer):
            circuit.input(layer, variable)
        elif isinstance(layer, Sum):
            circuit.sum(layer, *children)
        elif isinstance(layer, InnerLayer):
            circuit.product(layer, *children)
        else:
            raise FormatError(f"expected a layer, found {layer!r}")
    if config["root"] not in circuit:
        raise FormatError(f"the root is node {config['root']}, which is not there")
    circuit.root = config["root"]
    return circuit
