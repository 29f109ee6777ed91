"""Mini-batch EM from a corpus to an HMM.

    for each mini-batch:   θ ← (1 − η) θ + η · normalised(expected counts + pseudocount),    η from 1 to 0, linearly

Early steps forget fast, late ones average over ever more of the corpus (Liu et al. 2022; Zhang et al. 2025). After each
epoch the parameters are saved, so an interrupted run goes on with the next epoch and ends in the same HMM.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from ..circuits.hmm import HMM
from ..errors import FormatError, VocabularyMismatch
from .corpus import Corpus
from .em import blend, expected_counts, maximise
from .latent import has_end_state, random_start
from .progress import progress, write_atomically

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Evaluation:
    """How well an HMM predicts a corpus, in nats per token (padding is not counted as tokens).

    ``lm_nats_per_token`` is what the language model that drew the corpus needs, its own entropy: the difference is the
    Kullback-Leibler divergence per token. ``unigram_nats_per_token`` is that of independent tokens with the corpus's
    own frequencies.
    """

    nats_per_token: float
    lm_nats_per_token: float
    unigram_nats_per_token: float
    sequences: int
    tokens: int


@torch.no_grad()
def evaluate(hmm: HMM, corpus: Corpus, batch_size: int = 512) -> Evaluation:
    """Nats per token of an HMM on a corpus; raises :class:`VocabularyMismatch` if they do not belong together."""
    _check(hmm, corpus)
    total = sum(hmm.log_prob(part).sum().item() for part in torch.split(corpus.tokens, batch_size))
    tokens = corpus.num_tokens
    eos, vocab_size = corpus.manifest.eos_token_id, corpus.manifest.vocab_size
    count = torch.bincount(corpus.tokens.flatten(), minlength=vocab_size).double()
    count[eos] -= (
        corpus.tokens.numel() - tokens
    )  # padding, and sequences that were cut off count one token too many
    entropy = float(torch.special.entr(count / count.sum()).sum())
    return Evaluation(
        -total / tokens, -float(corpus.log_probs.double().sum()) / tokens, entropy, len(corpus), tokens
    )


def train(
    corpus: Corpus | str | Path,
    hidden: int,
    transition: str = "dense",
    epochs: int = 6,
    *,
    initial: HMM | None = None,
    batch_size: int = 2048,
    chunk_size: int = 256,
    pseudocount: float = 1e-3,
    held_out: float = 0.02,
    floor: float = 1e-3,
    seed: int = 0,
    out: str | Path | None = None,
    dtype: torch.dtype = torch.float16,
) -> HMM:
    """Distil an HMM with ``hidden`` states and a "dense" or "monarch" transition from a corpus.

    ``initial`` is where EM starts (see :func:`tractile.distill.latent.initialise`), a random HMM if absent.
    ``held_out`` is the share of sequences kept apart; their nats per token are logged after each epoch. ``floor`` is the
    share of the uniform distribution mixed into every row at the end, so that no token is impossible and half precision
    loses none. With ``out`` the HMM is saved there as ``dtype``, checkpoints beside it until it is done.

    Raises :class:`VocabularyMismatch` if ``initial`` does not fit and :class:`FormatError` if ``out`` holds checkpoints
    of another run.
    """
    data = corpus if isinstance(corpus, Corpus) else Corpus.load(corpus)
    hmm = initial or random_start(data, hidden, transition, seed)
    _check(hmm, data)
    fit, test = data.split(held_out, seed)
    settings = {
        "hidden": hidden, "transition": transition, "epochs": epochs, "batch_size": batch_size, "seed": seed,
        "pseudocount": pseudocount, "sequences": len(fit),
    }  # fmt: skip
    done = 0
    if out is not None:
        hmm, done = _resume(Path(out), hmm, settings)
    steps = -(-len(fit) // batch_size)
    eos = data.manifest.eos_token_id
    padding = eos if has_end_state(hmm, eos) else None
    with progress("training", epochs * steps) as advance:
        advance(done * steps, "training")
        for epoch in range(done, epochs):
            generator = torch.Generator().manual_seed(seed * 1_000_003 + epoch)
            order = torch.randperm(len(fit), generator=generator)
            for step, rows in enumerate(torch.split(order, batch_size)):
                rate = 1 - (epoch * steps + step) / (epochs * steps)
                hmm = em_step(hmm, fit.tokens[rows], rate, pseudocount, chunk_size, padding)
                advance(1, f"epoch {epoch + 1} of {epochs}")
            if len(test):
                nats = evaluate(hmm, test).nats_per_token
                log.info("epoch %d of %d: %.4f nats per token held out", epoch + 1, epochs, nats)
            if out is not None:
                _save(Path(out), hmm, settings, epoch + 1)
    hmm = smooth(hmm, floor, eos)
    if out is not None:
        hmm.save_pretrained(out, dtype=dtype)
        for old in Path(out).glob("checkpoint-*"):
            shutil.rmtree(old)
    return hmm


def em_step(
    hmm: HMM,
    tokens: Tensor,
    rate: float,
    pseudocount: float,
    chunk_size: int,
    eos_token_id: int | None = None,
) -> HMM:
    """One mini-batch of EM; the counts are added up over chunks of ``chunk_size`` sequences to bound memory.

    With ``eos_token_id`` the padding is cut off: in an end state it is certain and there is nothing to count.
    """
    first, *rest = (expected_counts(hmm, part) for part in _chunks(tokens, chunk_size, eos_token_id))
    for counts in rest:
        first = first + counts
    return blend(hmm, maximise(hmm, first, pseudocount), rate)


def smooth(hmm: HMM, floor: float, eos_token_id: int) -> HMM:
    """A share ``floor`` of the uniform distribution in every row that is not certain; ends stay ends.

    States that never emit ``eos_token_id`` do not begin to: what has ended stays so.
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


def _chunks(tokens: Tensor, size: int, eos_token_id: int | None) -> Iterator[Tensor]:
    """Rows in chunks; with ``eos_token_id`` rows of like length together, and no columns that are padding in all."""
    if eos_token_id is None:
        yield from torch.split(tokens, size)
        return
    lengths = 1 + (tokens[:, :-1] != eos_token_id).sum(1)
    order = lengths.argsort()
    for rows in torch.split(order, size):
        yield tokens[rows, : int(lengths[rows[-1]])]


def _check(hmm: HMM, corpus: Corpus) -> None:
    if hmm.vocab_size != corpus.manifest.vocab_size:
        raise VocabularyMismatch(
            f"the HMM has {hmm.vocab_size} tokens and the corpus {corpus.manifest.vocab_size}"
        )


def _save(out: Path, hmm: HMM, settings: dict[str, object], epoch: int) -> None:
    """A checkpoint appears whole, by a rename, before the one before it goes."""
    part, path = out / f".checkpoint.{os.getpid()}.part", out / f"checkpoint-{epoch:04d}"
    hmm.save_pretrained(part)
    write_atomically(part / "settings.json", json.dumps(settings).encode())
    os.replace(part, path)
    for old in out.glob("checkpoint-*"):
        if old != path:
            shutil.rmtree(old)


def _resume(out: Path, hmm: HMM, settings: dict[str, object]) -> tuple[HMM, int]:
    """The last checkpoint and its epoch, or the HMM to start from and 0."""
    out.mkdir(parents=True, exist_ok=True)
    found = sorted(out.glob("checkpoint-*"))
    if not found:
        return hmm, 0
    if json.loads((found[-1] / "settings.json").read_text()) != settings:
        raise FormatError(f"{found[-1]} belongs to a run with other settings; choose another directory")
    return HMM.from_pretrained(found[-1]), int(found[-1].name.split("-")[1])
