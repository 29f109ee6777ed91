"""Files of HMMs whose states are sharded over ranks: no rank ever holds more than its part and one piece of another's."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterator, Sequence
from math import prod
from pathlib import Path

import torch
from torch import Tensor

from ..circuits.hmm import write_hmm
from ..circuits.io.file_format import VOCABULARY
from ..circuits.io.pieces import Pieces, write_pieces
from ..errors import FormatError
from .distributed import Ranks
from .sharding import ShardedHMM, names_and_cuts
from .tensor_file import read_range, tensor_shapes
from .token_classes import TokenClasses

PIECE = 1 << 25
"""Bytes of a piece, about."""


def write_part(file: Path, part: ShardedHMM) -> str:
    """Write one rank's parameters, to the bit; return the SHA-256 of the file. Raises :class:`StorageError`."""
    names = names_and_cuts(part.axes)
    return write_pieces(file, {name: Pieces.of(w) for name, w in zip(names, part.parameters, strict=True)})


def read_part(files: Sequence[Path], axes: Sequence[int] | None, team: Ranks) -> ShardedHMM:
    """Read this rank's parameters from files that :func:`write_part` wrote on any number of ranks, in their order.

    Raises :class:`FormatError` if a file is damaged, :class:`ShapeError` if the states cannot be dealt out evenly.
    """
    shapes = tensor_shapes(files[0])
    names = names_and_cuts(axes)
    if not shapes.keys() >= names.keys():
        raise FormatError(f"{files[0]} does not hold the parameters of an HMM, only {', '.join(shapes)}")
    initial, *weights, emission = (
        read_range(files, name, cut, team.rank, team.size) for name, cut in names.items()
    )
    return ShardedHMM(initial, tuple(weights), None if axes is None else tuple(axes), emission, team)


def read_part_of_hmm(
    folder: Path, classes: TokenClasses | None, team: Ranks
) -> tuple[ShardedHMM, str | None]:
    """Read this rank's parameters of a saved HMM, in float32, and the fingerprint of its vocabulary.

    ``classes``: those in which the tokens are counted. Raises :class:`FormatError` if the folder holds no HMM of this format.
    """
    file = folder / "model.safetensors"
    try:
        config = json.loads((folder / "config.json").read_text())
        axes, fingerprint = config.get("axes"), config.get(VOCABULARY)
    except (OSError, ValueError, AttributeError) as error:
        raise FormatError(f"{folder} is not a saved HMM: {error!r}") from error
    stored = read_part([file], axes, team)
    part = stored.map(torch.Tensor.float)
    emission = part.emission
    if "class_of" in tensor_shapes(file):
        class_of, share = (read_range([file], name, 0, 0, 1) for name in ("class_of", "share"))
        emission = emission[:, class_of] * share
    if classes is not None:
        emission = classes.sum(emission)
    found = part.with_parameters([*part.parameters[:-1], emission])
    return (found if stored.initial.dtype == torch.float32 else found.normalised()), fingerprint


def write_whole(
    folder: Path, part: ShardedHMM, dtype: torch.dtype, classes: TokenClasses | None, fingerprint: str | None
) -> None:
    """Write the HMM that all ranks hold parts of, as ``HMM.save_pretrained`` does: rank 0 writes what it is sent.

    Raises :class:`StorageError`.
    """
    tensors = {
        name: _pieces(weight.to(dtype), cut, part.team)
        for (name, cut), weight in zip(names_and_cuts(part.axes).items(), part.parameters, strict=True)
    }
    vocab_size = part.emission.shape[1]
    if classes is not None:
        vocab_size = len(classes.class_of)
        tensors |= {"class_of": Pieces.of(classes.class_of), "share": Pieces.of(classes.share)}
    if part.team.rank == 0:
        write_hmm(folder, tensors, vocab_size, part.axes, fingerprint)
    else:
        for pieces in tensors.values():
            deque(pieces.pieces, maxlen=0)


def _pieces(tensor: Tensor, cut: int, team: Ranks) -> Pieces:
    """Return the whole tensor of which the ranks hold parts along a dimension; all ranks must go through its pieces together."""
    shape = list(tensor.shape)
    shape[cut] *= team.size
    rows = max(1, PIECE // (prod(shape[1:]) * tensor.itemsize))

    def pieces() -> Iterator[Tensor]:
        if cut == 0:
            for source in range(team.size):
                for own in tensor.split(rows):
                    piece = own.contiguous() if team.rank == source else torch.empty_like(own).contiguous()
                    team.broadcast(piece, source)
                    yield piece
            return
        for own in tensor.flatten(0, -2).split(rows * prod(shape[1:-1])):
            yield team.gather(own, 1)

    return Pieces(tuple(shape), tensor.dtype, pieces())
