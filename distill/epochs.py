"""The steps of a training run: mini-batches of EM, checkpoints and a log."""

from __future__ import annotations

import logging
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from ..errors import ShapeError
from . import checkpoint
from .checkpoint import Record
from .corpus import Corpus
from .distributed import ALONE, Ranks
from .em import em_step
from .evaluate import nats_per_token
from .progress import Log, draw_curve, progress
from .sharding import ShardedHMM
from .token_classes import TokenClasses

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Recipe:
    """How an HMM is trained, see :func:`~tractile.distill.train`. Raises :class:`ShapeError` for settings that make no sense."""

    hidden: int
    transition: str
    epochs: int
    step_size: float = 1.0
    batch_size: int = 2048
    chunk_size: int = 256
    pseudocount: float = 1e-3
    token_dropout: float = 0.0
    held_out: float = 0.02
    floor: float = 1e-3
    seed: int = 0
    dtype: torch.dtype = torch.float16
    messages: torch.dtype | None = None
    shard: bool = False

    def __post_init__(self) -> None:
        shares = {name: getattr(self, name) for name in ("token_dropout", "held_out", "floor")}
        if not all(0 <= share < 1 for share in shares.values()) or self.pseudocount < 0:
            raise ShapeError(
                f"train: shares must be in [0, 1) and the pseudocount not negative, not {shares}, {self.pseudocount}"
            )
        if min(self.epochs + 1, self.batch_size, self.chunk_size) < 1 or not 0 < self.step_size <= 1:
            raise ShapeError(
                "train: batch_size, chunk_size and step_size (at most 1) must be positive, epochs not negative"
            )

    @property
    def settings(self) -> dict[str, Any]:
        """The settings as JSON."""
        return {
            name: str(value).removeprefix("torch.") if isinstance(value, torch.dtype) else value
            for name, value in asdict(self).items()
        }


@dataclass(frozen=True)
class Texts:
    """A corpus for training: ``data`` as it was given; ``seen``, its tokens or their classes, and two parts of it.

    ``shares``: of corpora of classes, the log-shares of the tokens of both parts, in nats, which the log adds.
    """

    data: Corpus
    seen: Corpus
    fit: Corpus
    test: Corpus
    classes: TokenClasses | None
    shares: tuple[Float[Tensor, "sequences length"], Float[Tensor, "sequences2 length"]] | None

    @classmethod
    def of(cls, corpus: Corpus | str | Path, recipe: Recipe, token_classes: bool | None) -> Texts:
        """Split a corpus, and divide its vocabulary into classes if told so or, for None, where it is sparse."""
        data = corpus if isinstance(corpus, Corpus) else Corpus.load(corpus)
        fit, test = data.split(recipe.held_out, recipe.seed)
        if len(fit) == 0:
            raise ShapeError(
                f"train: no sequence is left for training ({len(test)} of {len(data)} are held out)"
            )
        divide = TokenClasses.where_sparse if token_classes is None else TokenClasses.of
        classes = None if token_classes is False else divide(fit)
        if classes is None:
            return cls(data, data, fit, test, None, None)
        seen = classes.relabelled(data)
        shares = classes.log_shares(fit), classes.log_shares(test)
        return cls(data, seen, *seen.split(recipe.held_out, recipe.seed), classes, shares)


def run_epochs(
    part: ShardedHMM,
    record: Record,
    texts: Texts,
    recipe: Recipe,
    minutes: float,
    out: Path | None,
    team: Ranks,
) -> ShardedHMM:
    """Run the steps after the record's; rank 0 writes the log, and each rank that has a part of the states its checkpoints."""
    fit, test, shares = texts.fit, texts.test, texts.shares
    seed, epochs, done = recipe.seed, recipe.epochs, record.step
    sharing = ALONE if recipe.shard else team  # those that share the sequences
    if team.rank == 0 and recipe.batch_size < sharing.size:
        _log.warning(
            "batches of %d sequences leave ranks idle: there are %d", recipe.batch_size, sharing.size
        )
    steps, eos = -(-len(fit) // recipe.batch_size), fit.manifest.eos_token_id
    padding = eos if part.has_end(eos) else None
    log = Log(out / "log.jsonl" if out is not None and team.rank == 0 else None, done)
    tested, saved_at = "", time.monotonic()
    with progress("training", epochs * steps, team.rank == 0) as advance:
        advance(done, "training")
        for epoch in range(done // steps, epochs):
            order = torch.randperm(len(fit), generator=_generator(seed, epoch))
            for within, rows in enumerate(torch.split(order, recipe.batch_size)):
                step, started = epoch * steps + within + 1, time.perf_counter()
                if step <= done:
                    continue
                rate = recipe.step_size * (1 - (step - 1) / (epochs * steps))
                tokens = fit.take(rows)
                known = int((tokens[:, :-1] != eos).sum()) + len(tokens)
                tokens = drop_tokens(tokens, recipe.token_dropout, _generator(seed, -step), padding)
                part, total = em_step(
                    part,
                    tokens,
                    rate,
                    recipe.pseudocount,
                    recipe.chunk_size,
                    padding,
                    sharing,
                    recipe.messages,
                )
                if shares is not None:
                    total += float(shares[0][rows].masked_fill(tokens < 0, 0).sum())
                line = {"step": step, "epoch": epoch + 1, "step_size": rate, "nats_per_token": -total / known}
                last = within + 1 == steps
                if last and len(test):
                    line["held_out"] = nats_per_token(part, test, recipe.chunk_size, sharing)
                    if shares is not None:
                        line["held_out"] -= float(shares[1].sum()) / test.num_tokens
                    tested = f", {line['held_out']:.4f} nats per token held out"
                speed = known / (time.perf_counter() - started)
                log.add(**line, tokens_per_second=round(speed))
                advance(1, f"epoch {epoch + 1} of {epochs}{tested}, {speed:,.0f} tokens/s")
                if out is not None and (last or _is_due(part.team, saved_at, minutes)):
                    if recipe.shard or team.rank == 0:
                        checkpoint.save(out, part, replace(record, step=step))
                    saved_at = time.monotonic()
    if log.path is not None and log.lines:
        draw_curve(log.lines, log.path.with_name("learning-curve.png"))
    return part


def _is_due(team: Ranks, since: float, minutes: float) -> bool:
    """Return whether a checkpoint is due, as the first of the ranks that write it decides."""
    return team.first(lambda: time.monotonic() - since > 60 * minutes)


def drop_tokens(tokens: Tensor, share: float, generator: torch.Generator, eos_token_id: int | None) -> Tensor:
    """Hide tokens at random: each becomes −1 (unobserved) with probability ``share``, but for ``eos_token_id``."""
    if share == 0:
        return tokens
    dropped = torch.rand(tokens.shape, generator=generator) < share
    return tokens.masked_fill(dropped if eos_token_id is None else dropped & (tokens != eos_token_id), -1)


def _generator(seed: int, number: int) -> torch.Generator:
    """Make the random generator of an epoch (``number`` from 0) or of a step (``number`` below 0)."""
    return torch.Generator().manual_seed(seed * 1_000_003 + number)
