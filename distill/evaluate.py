"""How well an HMM stands for the language model that drew a corpus."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from ..circuits.hmm import HMM
from ..errors import ShapeError, VocabularyMismatch
from .corpus import Corpus
from .distributed import Ranks


@dataclass(frozen=True)
class Evaluation:
    """How well an HMM predicts a corpus, in nats per token (padding is not counted as tokens).

    ``lm_nats_per_token`` is what the language model that drew the corpus needs, its own entropy: the difference is the
    Kullback-Leibler divergence per token. ``unigram_nats_per_token`` is that of independent tokens with the corpus's
    own frequencies.
    """

    nats_per_token: float
    lm_nats_per_token: float | None
    unigram_nats_per_token: float
    sequences: int
    tokens: int


@torch.no_grad()
def evaluate(hmm: HMM, corpus: Corpus, batch_size: int = 512, team: Ranks | None = None) -> Evaluation:
    """Nats per token of an HMM on a corpus; raises :class:`VocabularyMismatch` if they do not belong together.

    With ``team`` each rank does its share of the sequences, and all get the same answer.
    """
    check(hmm, corpus)
    if len(corpus) == 0:
        raise ShapeError("evaluate: the corpus is empty")
    team, device = team or Ranks(), hmm.emission_probs.device
    total = torch.zeros((), dtype=torch.float64, device=device)
    for i, rows in enumerate(torch.split(torch.arange(len(corpus)), batch_size)):
        if i % team.size == team.rank:
            total += hmm.log_prob(corpus.take(rows).to(device)).sum()
    team.sum([total])
    tokens, everything = corpus.num_tokens, corpus.tokens
    eos, vocab_size = corpus.manifest.eos_token_id, corpus.manifest.vocab_size
    count = torch.bincount(everything.flatten(), minlength=vocab_size).double()
    # padding, and sequences that were cut off count one token too many
    count[eos] -= everything.numel() - tokens
    entropy = float(torch.special.entr(count / count.sum()).sum())
    log_probs = corpus.log_probs
    lm = None if log_probs is None else -float(log_probs.double().sum()) / tokens
    return Evaluation(-float(total) / tokens, lm, entropy, len(corpus), tokens)


def check(hmm: HMM, corpus: Corpus) -> None:
    """Raises :class:`VocabularyMismatch` if an HMM and a corpus do not belong together."""
    if hmm.vocab_size != corpus.manifest.vocab_size:
        raise VocabularyMismatch(
            f"the HMM has {hmm.vocab_size} tokens and the corpus {corpus.manifest.vocab_size}"
        )
