"""Mini-batch EM from a corpus to an HMM.

    for each mini-batch:   θ ← (1 − η) θ + η · normalised(expected counts + pseudocount),    η from 1 to 0, linearly

The decreasing step size averages over more and more of the corpus (Liu et al. 2022; Zhang et al. 2025). A step depends only on
the parameters, the seed and its number, so a run resumed from a checkpoint ends in the same HMM, bit for bit.

Under ``torchrun`` the ranks share the sequences of each mini-batch and sum their counts, or share the hidden states.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from ..circuits.hmm import HMM
from ..errors import ShapeError
from ..fingerprints import VocabularyPrint, check_vocabularies
from ..inference.threads import one_thread
from ..storage import write_atomically
from . import checkpoint
from .card import model_card
from .checkpoint import Record
from .corpus import Corpus
from .distributed import ALONE, Ranks, own_device, ranks
from .epochs import Recipe, Texts, run_epochs
from .evaluate import check
from .progress import read_log
from .run_folder import locked
from .shard_files import read_part_of_hmm, write_whole
from .sharding import ShardedHMM
from .start import random_part

_log = logging.getLogger(__name__)


def train(
    corpus: Corpus | str | Path,
    hidden: int,
    transition: str = "dense",
    epochs: int = 6,
    *,
    initial: HMM | Callable[[], HMM] | None = None,
    step_size: float = 1.0,
    batch_size: int = 2048,
    chunk_size: int = 256,
    pseudocount: float = 1e-3,
    token_dropout: float = 0.0,
    held_out: float = 0.02,
    floor: float = 1e-3,
    checkpoint_minutes: float = 10.0,
    seed: int = 0,
    out: str | Path | None = None,
    dtype: torch.dtype = torch.float16,
    messages: torch.dtype | None = None,
    token_classes: bool | None = None,
    device: torch.device | str = "cpu",
    initial_name: str = "made by a function",
    overwrite: bool = False,
) -> HMM:
    """Distil an HMM with ``hidden`` states and a "dense" or "monarch" transition from a corpus.

    ``initial``: the initial HMM (see :func:`tractile.distill.initialise`), or a function that makes it, called only if there is
    no checkpoint; random by default. ``initial_name`` names the function's result, to tell runs apart. ``step_size``: the
    first η; below one, the first step keeps part of the initial HMM. ``token_dropout``: share of tokens that each step treats
    as unobserved. ``held_out``: share of sequences kept for testing; their nats per token are logged after each epoch.
    ``messages``: dtype of forward and backward messages, bfloat16 to halve their memory. ``floor``: share of the uniform
    distribution mixed into every row at the end, so that no token is impossible and half precision does not underflow.
    ``token_classes``: whether tokens that occur at most once share one emission; default: where the
    vocabulary has over 32,768 tokens and the corpus less than a quarter of them.

    With ``out`` the HMM is saved there as ``dtype``, with a model card, ``log.jsonl`` (a line for each step) and
    ``learning-curve.png``. Until then a checkpoint is written every ``checkpoint_minutes`` and after each epoch; the same call
    resumes from it. The folder belongs to one run and one process: ``training.json`` keeps the settings, the corpus's digest
    and the initial HMM's. Another run, or another HMM, is refused unless ``overwrite``; a finished run's HMM is read.

    Under ``torchrun`` all ranks share the sequences of each step, train one HMM and return it. For one that is too large for a
    device there is :func:`train_sharded`. Up to 128 hidden states torch uses one thread.

    Raises :class:`VocabularyMismatch` if ``initial`` is for another vocabulary, :class:`ShapeError` if it has another form, and
    for settings that make no sense, :class:`FormatError` if ``out`` holds another run or a damaged checkpoint,
    :class:`FolderInUse` if another process writes there, :class:`StorageError` if it cannot be written, :class:`RankLost`.

    Examples
    --------
    >>> import tempfile
    >>> import torch
    >>> import tractile as tt
    >>> from tractile.distill import evaluate, random_start, sample, train
    >>> rows = {(): torch.tensor([0.5, 0.3, 0.2]).log(), (1,): torch.tensor([0.8, 0.0, 0.2]).log()}  # no 1 after a 1
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     corpus = sample(tt.lm.TableLM(rows, eos_token_id=2), folder, num_sequences=1000, max_new_tokens=8, prompts=[[]])
    >>> trained = train(corpus, hidden=4, epochs=8, batch_size=250, seed=1)
    >>> [round(evaluate(hmm, corpus).kl_per_token, 1) for hmm in (random_start(corpus, 4, seed=1), trained)]  # nats
    [0.3, 0.0]
    """
    recipe = Recipe(
        hidden, transition, epochs, step_size, batch_size, chunk_size, pseudocount, token_dropout, held_out, floor, seed,
        dtype, messages,
    )  # fmt: skip
    texts = Texts.of(corpus, recipe, token_classes)

    def begin(team: Ranks) -> tuple[ShardedHMM, str | None]:
        if initial is None:
            return random_part(texts.seen, hidden, transition, seed, team), None
        hmm = initial if isinstance(initial, HMM) else initial()
        check(hmm, texts.data)
        counted = hmm if texts.classes is None else texts.classes.narrow(hmm)
        return ShardedHMM.of(counted), hmm.vocabulary_fingerprint

    name = checkpoint.start_name(initial, initial_name)
    folder = None if out is None else Path(out)
    hmm = _train(texts, recipe, name, begin, folder, checkpoint_minutes, torch.device(device), overwrite)
    return HMM.from_pretrained(str(out)) if hmm is None else hmm


def train_sharded(
    corpus: Corpus | str | Path,
    hidden: int,
    out: str | Path,
    transition: str = "dense",
    epochs: int = 6,
    *,
    initial: str | Path | None = None,
    checkpoint_minutes: float = 10.0,
    token_classes: bool | None = None,
    device: torch.device | str = "cpu",
    overwrite: bool = False,
    **recipe: Any,
) -> None:
    """Distil an HMM whose hidden states the ranks of ``torchrun`` share, for one that is too large for a device.

    No rank ever holds more than its part: it begins with its part, of a random HMM or of the one in the folder ``initial``, which
    has as many states; it writes its part of each checkpoint, which ranks of another number can read; and ``out`` is written
    piece by piece. Every machine must see the folder ``out``. ``recipe``: other settings of :func:`train`, from ``step_size``
    to ``messages``. Dense states are shared evenly, those of a Monarch transition by their first index.

    Raises :class:`ShapeError` if the states cannot be dealt out evenly, and as :func:`train` does.

    Examples
    --------
    >>> import tempfile
    >>> import torch
    >>> import tractile as tt
    >>> from tractile.distill import Corpus, train_sharded
    >>> corpus = Corpus.of(torch.tensor([[0, 1, 2], [1, 1, 2]]), vocab_size=3, eos_token_id=2)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     train_sharded(corpus, hidden=4, out=folder, epochs=1)  # a single rank, which has all states
    ...     tt.HMM.from_pretrained(folder).hidden
    4
    """
    settings = Recipe(hidden, transition, epochs, shard=True, **recipe)
    texts = Texts.of(corpus, settings, token_classes)
    first = None if initial is None else Path(initial)

    def begin(team: Ranks) -> tuple[ShardedHMM, str | None]:
        if first is None:
            return random_part(texts.seen, hidden, transition, settings.seed, team), None
        part, vocabulary = read_part_of_hmm(first, texts.classes, team)
        check_vocabularies(
            "the HMM", VocabularyPrint(part.emission.shape[1], vocabulary), "the corpus", texts.seen.manifest
        )
        return part, vocabulary

    name = checkpoint.start_name(first, "")
    _train(texts, settings, name, begin, Path(out), checkpoint_minutes, torch.device(device), overwrite)


def _train(
    texts: Texts,
    recipe: Recipe,
    start: str,
    begin: Callable[[Ranks], tuple[ShardedHMM, str | None]],
    out: Path | None,
    minutes: float,
    device: torch.device,
    overwrite: bool,
) -> HMM | None:
    """Run EM on all ranks and write its result; return the HMM, None if it is finished in ``out`` or sharded.

    ``start``: the name of the initial HMM. ``begin`` makes each rank's part of it, and the fingerprint of its vocabulary.
    """
    data = texts.data
    settings = recipe.settings | {"sequences": len(data), "tokens": data.num_tokens, "corpus": data.digest}
    settings |= {"start": start}
    settings |= {} if texts.classes is None else {"token_classes": texts.fit.manifest.vocab_size}
    with ExitStack() as stack:
        if recipe.hidden <= 128:  # operations of microseconds, less than waiting for a second thread
            stack.enter_context(one_thread())
        team = stack.enter_context(ranks(device))
        device = own_device(device)
        team.check_same("train", settings | {"version": checkpoint.VERSIONS})
        record = Record(settings)
        if out is not None:
            team.first(lambda: str(stack.enter_context(locked(out))))
            record = Record(**team.first(lambda: asdict(checkpoint.resume(out, settings, overwrite))))
        if record.model:
            _log.info("%s holds this run, finished: its HMM is read, nothing is trained", out)
            return None
        if record.step and team.rank == 0:
            _log.info("%s: the run goes on after step %d", out, record.step)

        def begun() -> tuple[ShardedHMM, str | None]:
            states = team if recipe.shard else ALONE
            if out is not None and record.step:
                part, vocabulary = checkpoint.load(out, record, states), record.vocabulary
            else:
                part, vocabulary = begin(states)
                found = len(part.initial) * states.size, "dense" if part.axes is None else "monarch"
                if found != (recipe.hidden, recipe.transition):
                    raise ShapeError(
                        f"train: the initial HMM has {found[0]} states, {found[1]}, not {recipe.hidden}, {recipe.transition}; "
                        "say so, or grow it (distill.split) before"
                    )
            return part.map(lambda weight: weight.detach().to(device).contiguous()), vocabulary

        part, vocabulary = begun() if recipe.shard else _from_rank_0(begun, team, device)
        record = Record(
            settings, record.step, record.files, record.axes, data.vocabulary_fingerprint or vocabulary
        )
        if out is not None and team.rank == 0:
            checkpoint.write_record(out, record)
        part = run_epochs(part, record, texts, recipe, minutes, out, team)
        part = part.smooth(recipe.floor, texts.fit.manifest.eos_token_id)
        if out is not None and (recipe.shard or team.rank == 0):
            write_whole(out, part, recipe.dtype, texts.classes, record.vocabulary)
        if out is not None and team.rank == 0:
            card = model_card(out, data.manifest, settings, read_log(out / "log.jsonl"))
            write_atomically(out / "README.md", card.encode())
            checkpoint.write_record(out, Record(settings, model=checkpoint.tensors_digest(out)))
        team.wait()
    if recipe.shard:
        return None
    hmm = part.map(torch.Tensor.cpu).whole()
    return (hmm if texts.classes is None else texts.classes.widen(hmm)).for_vocabulary(record.vocabulary)


def _from_rank_0(
    begun: Callable[[], tuple[ShardedHMM, str | None]], team: Ranks, device: torch.device
) -> tuple[ShardedHMM, str | None]:
    """Make an HMM on rank 0 and broadcast its tensors to all ranks."""
    made = list[ShardedHMM]()

    def described() -> dict[str, Any]:
        part, vocabulary = begun()
        made.append(part)
        kind = str(part.initial.dtype).removeprefix("torch.")
        shapes = [list(weight.shape) for weight in part.parameters]
        return {"shapes": shapes, "dtype": kind, "axes": part.axes, "vocabulary": vocabulary}

    found = team.first(described)
    if not made:
        dtype, axes = getattr(torch, found["dtype"]), found["axes"]
        initial, *weights, emission = (
            torch.empty(shape, dtype=dtype, device=device) for shape in found["shapes"]
        )
        made.append(ShardedHMM(initial, tuple(weights), axes and tuple(axes), emission, ALONE))
    for weight in made[0].parameters:
        team.broadcast(weight)
    return made[0], found["vocabulary"]
