"""Mini-batch EM from a corpus to an HMM.

    for each mini-batch:   θ ← (1 − η) θ + η · normalised(expected counts + pseudocount),    η from 1 to 0, linearly

The decreasing step size averages over more and more of the corpus (Liu et al. 2022; Zhang et al. 2025). A step depends only on
the parameters, the seed and its number, so a run resumed from a checkpoint ends in the same HMM, bit for bit.

Under ``torchrun`` the ranks share the chunks of each mini-batch and sum their counts.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from ..circuits.hmm import HMM
from ..errors import ShapeError
from ..storage import write_atomically
from . import checkpoint
from .card import model_card
from .corpus import Corpus
from .distributed import Ranks, ranks
from .em import em_step
from .evaluate import check, nats_per_token
from .latent import has_end_state, random_start
from .progress import Log, draw_curve, progress, read_log
from .run_folder import locked, write_record
from .sharding import ShardedHMM
from .token_classes import TokenClasses

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
    shard: bool = False,
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
    and the initial HMM's. A folder with another run, or another HMM, is refused unless ``overwrite``; from a folder where this
    run is finished, its HMM is read.

    Under ``torchrun`` all ranks train one HMM and return it. They share the sequences or, with ``shard``, the hidden states,
    for an HMM that is too large for one device.

    Raises :class:`VocabularyMismatch` if ``initial`` does not fit, :class:`ShapeError` for settings that make no sense,
    :class:`FormatError` if ``out`` holds another run or a damaged checkpoint, :class:`FolderInUse` if another process writes
    there, :class:`StorageError` if it cannot be written.

    Examples
    --------
    >>> import tempfile
    >>> import torch
    >>> import tractile as tt
    >>> from tractile.distill import evaluate, random_start, sample, train
    >>> rows = {(): torch.tensor([0.5, 0.3, 0.2]).log(), (1,): torch.tensor([0.8, 0.0, 0.2]).log()}  # no 1 after a 1
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     corpus = sample(tt.lm.TableLM(rows, eos_token_id=2), folder, num_sequences=1000, max_new_tokens=8, prompts=[[]])
    >>> trained = train(corpus, hidden=4, epochs=8, batch_size=250)
    >>> [round(evaluate(hmm, corpus).kl_per_token, 2) for hmm in (random_start(corpus, 4), trained)]  # nats
    [0.29, 0.0]
    """
    if not (0 <= token_dropout < 1 and 0 <= held_out < 1 and 0 <= floor < 1 and pseudocount >= 0):
        raise ShapeError(
            f"train: shares must be in [0, 1) and the pseudocount not negative, not token_dropout={token_dropout}, "
            f"held_out={held_out}, floor={floor}, pseudocount={pseudocount}"
        )
    if min(epochs + 1, batch_size, chunk_size) < 1 or not 0 < step_size <= 1:
        raise ShapeError(
            "train: batch_size, chunk_size and step_size (at most 1) must be positive, epochs not negative"
        )
    data = corpus if isinstance(corpus, Corpus) else Corpus.load(corpus)
    fit, test = data.split(held_out, seed)
    if len(fit) == 0:
        raise ShapeError(f"train: no sequence is left for training ({len(test)} of {len(data)} are held out)")
    divide = TokenClasses.where_sparse if token_classes is None else TokenClasses.of
    classes = None if token_classes is False else divide(fit)
    shares = None if classes is None else (classes.log_shares(fit), classes.log_shares(test))
    seen = data if classes is None else classes.relabelled(data)
    fit, test = seen.split(held_out, seed)
    settings = {
        "hidden": hidden, "transition": transition, "epochs": epochs, "batch_size": batch_size, "seed": seed,
        "chunk_size": chunk_size, "pseudocount": pseudocount, "token_dropout": token_dropout, "held_out": held_out,
        "step_size": step_size, "shard": shard, "messages": messages and str(messages).removeprefix("torch."),
        "floor": floor, "dtype": str(dtype).removeprefix("torch."),
        "sequences": len(data), "tokens": data.num_tokens, "corpus": data.digest,
        "start": checkpoint.start_name(initial, initial_name),
    }  # fmt: skip
    settings |= {} if classes is None else {"token_classes": fit.manifest.vocab_size}

    def begin() -> tuple[HMM, int | None]:
        """Return the HMM to go on from and the steps it has had (None: all): of this run in ``out``, or the initial one, 0."""
        saved = None if out is None else checkpoint.resume(Path(out), settings, overwrite)
        if saved is not None:
            return saved
        if initial is None:
            return random_start(seen, hidden, transition, seed), 0
        first = initial if isinstance(initial, HMM) else initial()
        check(first, data)
        return (first if classes is None else classes.narrow(first)), 0

    with ExitStack() as stack:
        team = stack.enter_context(ranks(torch.device(device)))
        team.check_same("train", settings | {"version": checkpoint.VERSIONS})
        if out is not None and team.rank == 0:
            stack.enter_context(locked(out))
        hmm, done = team.share(begin)
        if done is None:
            _log.info("%s holds this run, finished: its HMM is read, nothing is trained", out)
            return hmm
        if done and team.rank == 0:
            _log.info("%s: the run goes on after step %d", out, done)
        check(hmm, seen)
        made_for = hmm.vocabulary_fingerprint
        if out is not None and team.rank == 0:
            write_record(Path(out), settings)
        hmm = _run(
            hmm, done, fit, test, shares, settings, checkpoint_minutes, out, team, torch.device(device)
        )
        made_for = data.vocabulary_fingerprint or made_for
        hmm = smooth(hmm, floor, seen.manifest.eos_token_id)
        hmm = (hmm if classes is None else classes.widen(hmm)).for_vocabulary(made_for)
        if out is not None and team.rank == 0:
            hmm.save_pretrained(out, dtype=dtype)
            card = model_card(hmm, data.manifest, settings, read_log(Path(out) / "log.jsonl"), floor)
            write_atomically(Path(out) / "README.md", card.encode())
            model = checkpoint.tensors_digest(Path(out))
            write_record(Path(out), settings, finished=True, model=model)
            checkpoint.discard(Path(out))
        team.wait()
    return hmm


def _run(
    hmm: HMM,
    done: int,
    fit: Corpus,
    test: Corpus,
    shares: tuple[Float[Tensor, "sequences length"], Float[Tensor, "sequences2 length"]] | None,
    settings: dict[str, Any],
    minutes: float,
    out: str | Path | None,
    team: Ranks,
    device: torch.device,
) -> HMM:
    """Run the steps after ``done``. Rank 0 writes the log and the checkpoints.

    ``shares``: of corpora of classes, the log-shares of their tokens, in nats, which the log adds.
    """
    path = Path(out) if out is not None and team.rank == 0 else None
    seed, epochs = settings["seed"], settings["epochs"]
    batch_size, chunk_size = settings["batch_size"], settings["chunk_size"]
    steps, eos = -(-len(fit) // batch_size), fit.manifest.eos_token_id
    padding = eos if has_end_state(hmm, eos) else None
    messages = settings["messages"] and getattr(torch, settings["messages"])
    part = ShardedHMM.of(hmm, team if settings["shard"] else None).map(
        lambda w: w.detach().clone().to(device)
    )
    log = Log(None if path is None else path / "log.jsonl", done)
    tested, saved_at = "", time.monotonic()
    with progress("training", epochs * steps, team.rank == 0) as advance:
        advance(done, "training")
        for epoch in range(done // steps, epochs):
            order = torch.randperm(len(fit), generator=_generator(seed, epoch))
            for within, rows in enumerate(torch.split(order, batch_size)):
                step, started = epoch * steps + within + 1, time.perf_counter()
                if step <= done:
                    continue
                rate = settings["step_size"] * (1 - (step - 1) / (epochs * steps))
                tokens = fit.take(rows)
                known = int((tokens[:, :-1] != eos).sum()) + len(tokens)
                tokens = drop_tokens(tokens, settings["token_dropout"], _generator(seed, -step), padding)
                part, total = em_step(
                    part, tokens, rate, settings["pseudocount"], chunk_size, padding, team, messages
                )
                if shares is not None:
                    total += float(shares[0][rows].masked_fill(tokens < 0, 0).sum())
                line = {"step": step, "epoch": epoch + 1, "step_size": rate, "nats_per_token": -total / known}
                last = within + 1 == steps
                if last and len(test):
                    line["held_out"] = nats_per_token(part, test, chunk_size, team)
                    if shares is not None:
                        line["held_out"] -= float(shares[1].sum()) / test.num_tokens
                    tested = f", {line['held_out']:.4f} nats per token held out"
                speed = known / (time.perf_counter() - started)
                log.add(**line, tokens_per_second=round(speed))
                advance(1, f"epoch {epoch + 1} of {epochs}{tested}, {speed:,.0f} tokens/s")
                if out is not None and (last or _due(part, saved_at, minutes)):
                    whole = part.whole() if part.team.size > 1 or path is not None else None
                    if path is not None and whole is not None:
                        checkpoint.save(path, whole, settings, step)
                    saved_at = time.monotonic()
    if path is not None and log.lines:
        draw_curve(log.lines, path / "learning-curve.png")
    return part.whole().to("cpu")


def _due(part: ShardedHMM, since: float, minutes: float) -> bool:
    """Return whether a checkpoint is due, as rank 0 decides."""
    return part.team.share(lambda: time.monotonic() - since > 60 * minutes)


def drop_tokens(tokens: Tensor, share: float, generator: torch.Generator, eos_token_id: int | None) -> Tensor:
    """Hide tokens at random: each becomes −1 (unobserved) with probability ``share``, but for ``eos_token_id``."""
    if share == 0:
        return tokens
    dropped = torch.rand(tokens.shape, generator=generator) < share
    return tokens.masked_fill(dropped if eos_token_id is None else dropped & (tokens != eos_token_id), -1)


def smooth(hmm: HMM, floor: float, eos_token_id: int) -> HMM:
    """Mix a share ``floor`` of the uniform distribution into every row that is not deterministic.

    States that do not emit ``eos_token_id`` do not do so afterwards, so that only the end state ends a text.
    """

    def mix(weight: Tensor, allowed: Tensor) -> Tensor:
        certain = weight.max(-1, keepdim=True).values == 1
        return torch.where(
            certain, weight, (1 - floor) * weight + floor * allowed / allowed.sum(-1, keepdim=True)
        )

    emission = hmm.emission_probs
    allowed = torch.ones_like(emission)
    allowed[:, eos_token_id] = (emission[:, eos_token_id] > 0).to(emission.dtype)
    transition = hmm.transition.map(lambda weight: mix(weight, torch.ones_like(weight)))
    return HMM(mix(hmm.initial_probs, torch.ones_like(hmm.initial_probs)), transition, mix(emission, allowed))


def _generator(seed: int, number: int) -> torch.Generator:
    """Make the random generator of an epoch (``number`` from 0) or of a step (``number`` below 0)."""
    return torch.Generator().manual_seed(seed * 1_000_003 + number)
