"""Measure how well an HMM approximates the language model that drew a corpus."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from ..circuits.hmm import HMM
from ..errors import ShapeError
from ..fingerprints import VocabularyPrint, check_vocabularies
from ..inference.engine.contract import adjoint
from ..inference.engine.filter import Filter
from ..inference.queries.exact import Rows, within_range
from ..inference.queries.marginal import prepare
from ..inference.queries.states import smooth
from ..inference.semirings.base import Semiring
from ..inference.semirings.scaled_real import Real
from .corpus import Corpus
from .distributed import Ranks, ranks
from .em import log_likelihood
from .sharding import ShardedHMM
from .start import has_end_state


@dataclass(frozen=True)
class Evaluation:
    """Quality of an HMM on a corpus, in nats per token; padding is not counted.

    ``nats_per_token`` is the HMM's cross-entropy, ``lm_nats_per_token`` that of the language model that drew the corpus (its
    entropy), and ``kl_per_token`` the difference, the Kullback-Leibler divergence KL(p_lm ‖ p_hmm) per token.
    ``unigram_nats_per_token`` is the entropy of independent tokens with the frequencies of *this* corpus: they are counted on the
    text that they are judged on (in sample), so no unigram model fitted elsewhere does better on it. ``by_position`` and
    ``lm_by_position`` are nats per token at each position, over the texts that have not ended before it.
    ``vocabulary_seen`` is the share of the vocabulary in the corpus, ``vocabulary_coverage`` Σ_v min(p(v), p_hmm(v)) over
    the token frequencies of the corpus and of the HMM, 1 if they are equal. ``agreement`` is the share of positions at
    which HMM and language model have the same most probable token. Fields about the language model are None for a corpus of
    existing text.

    Examples
    --------
    >>> import torch
    >>> import tractile as tt
    >>> from tractile.distill import Corpus, evaluate
    >>> corpus = Corpus.of(torch.tensor([[0, 0, 1], [0, 1, 1]]), vocab_size=2, eos_token_id=1)
    >>> found = evaluate(tt.HMM([1.0, 0.0], [[0.5, 0.5], [0.0, 1.0]], [[1.0, 0.0], [0.0, 1.0]]), corpus)
    >>> [round(nats, 4) for nats in found.by_position]  # the first is certain, then ½ each while the text goes on
    [0.0, 0.6931, 0.6931]
    >>> found.tokens, found.lm_nats_per_token  # 3 + 2; the corpus was not drawn from a language model
    (5, None)
    """

    nats_per_token: float
    lm_nats_per_token: float | None
    kl_per_token: float | None
    unigram_nats_per_token: float
    vocabulary_seen: float
    vocabulary_coverage: float
    agreement: float | None
    sequences: int
    tokens: int
    by_position: list[float]
    lm_by_position: list[float] | None


@torch.no_grad()
def evaluate(hmm: HMM, corpus: Corpus, batch_size: int = 256) -> Evaluation:
    """Compare an HMM with a corpus and with the language model that drew it; ranks of ``torchrun`` share the sequences.

    Raises :class:`VocabularyMismatch` for an HMM of another vocabulary and :class:`ShapeError` for an empty corpus.

    Examples
    --------
    >>> import tempfile
    >>> import torch
    >>> import tractile as tt
    >>> from tractile.distill import evaluate, sample
    >>> lm = tt.lm.TableLM({(): torch.tensor([0.5, 0.3, 0.2]).log()}, eos_token_id=2)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     corpus = sample(lm, folder, num_sequences=1000, max_new_tokens=8, prompts=[[]])
    >>> hmm = tt.HMM([0.8, 0.2], [[0.8, 0.2], [0.0, 1.0]], [[0.125, 0.875, 0.0], [0.0, 0.0, 1.0]])
    >>> round(evaluate(hmm, corpus).kl_per_token, 2)  # nearly 0.5 log (0.5 / 0.1) + 0.3 log (0.3 / 0.7) = 0.55 nats
    0.55
    """
    check(hmm, corpus)
    n, vocab_size = corpus.manifest.max_new_tokens, corpus.manifest.vocab_size
    # Sums at each position: texts, nats of the HMM and of the language model, times that both hold one token most probable.
    sums, seen = torch.zeros(4, n, dtype=torch.float64), torch.zeros(vocab_size, dtype=torch.float64)
    with ranks(hmm.device) as team:
        mine = torch.arange(team.rank, len(corpus), team.size)
        for rows in mine.split(batch_size) if len(mine) else []:
            part = corpus.select(rows)
            tokens, own, best = part.tokens, part.token_log_probs, part.best
            log_probs, guess = (found.cpu() for found in predictions(hmm, tokens.to(hmm.device)))
            ended = (tokens == corpus.manifest.eos_token_id).int().cumsum(1) > 0
            text = torch.cat([torch.ones_like(ended[:, :1]), ~ended[:, :-1]], 1)
            values = [
                text,
                -log_probs,
                text if own is None else -own,
                text if best is None else guess == best,
            ]
            sums += torch.stack([value.double().masked_fill(~text, 0).sum(0) for value in values])
            seen += torch.bincount(tokens[text], minlength=vocab_size)
        team.sum([sums, seen])
    total, frequency = int(sums[0].sum()), seen / seen.sum()
    by_position, lm_by_position, _ = (sums[1:] / sums[0].clamp(min=1)).tolist()
    nats, lm, same = (sums[1:].sum(1) / total).tolist()
    drawn = "log_probs" in corpus.shards[0]
    return Evaluation(
        nats,
        lm if drawn else None,
        nats - lm if drawn else None,
        float(torch.special.entr(frequency).sum()),
        float((frequency > 0).double().mean()),
        float(torch.minimum(frequency, _frequencies(hmm, corpus)).sum()),
        same if "best" in corpus.shards[0] else None,
        len(corpus),
        total,
        by_position,
        lm_by_position if drawn else None,
    )


def nats_per_token(hmm: ShardedHMM, corpus: Corpus, batch_size: int, team: Ranks) -> float:
    """Compute nats per token on a corpus, whose sequences the ranks of ``team`` share."""
    mine = torch.arange(team.rank, len(corpus), team.size)
    total = torch.zeros((), dtype=torch.float64, device=hmm.emission.device)
    for rows in mine.split(batch_size) if len(mine) else []:
        total += log_likelihood(hmm, corpus.take(rows).to(total.device)).sum()
    team.sum([total])
    return -float(total) / corpus.num_tokens


@torch.no_grad()
def predictions(
    hmm: HMM, tokens: Int[Tensor, "batch length"]
) -> tuple[Float[Tensor, "batch length"], Int[Tensor, "batch length"]]:
    """Compute log p_hmm(x_t | x_<t), nats, and the most probable token, at each position."""
    evidence, variables = prepare(hmm, tokens, None)
    n = len(variables)

    def roots(model: Any, semiring: Semiring[Any], rows: Rows) -> list[Tensor]:
        known = evidence if rows is None else evidence.repeat(rows)
        found = (semiring.log(root) for _, root in Filter(model, semiring).roots(known, range(n + 1)))
        return [torch.stack([log.expand(known.batch) for log in found], 1)]

    def most_probable(model: Any, semiring: Semiring[Any], rows: Rows) -> list[Tensor]:
        known = evidence if rows is None else evidence.repeat(rows)
        messages, best = Filter(model, semiring), list[Tensor]()
        last, first = messages.last(1), torch.zeros(1, dtype=torch.long, device=known.device)
        for predicted, _ in messages.forward(known, range(n)):
            table = messages.open(predicted, last)
            lost = semiring.log(semiring.gather(table, first, 0))[0].isnan()
            best.append(semiring.argmax(table, 0).double().masked_fill(lost, torch.nan))
        return [torch.stack(best, 1)]

    (logs,), (best,) = within_range(hmm, roots), within_range(hmm, most_probable)
    log_probs = logs.diff(dim=1).where(logs[:, 1:] > -torch.inf, -torch.inf)
    return log_probs, best.long()


def _frequencies(hmm: HMM, corpus: Corpus) -> Float[Tensor, " vocab"]:
    """Compute the expected token frequencies of the HMM's texts of the corpus's length; each end counts once."""
    eos = corpus.manifest.eos_token_id
    real = Real()
    states = real.lift(smooth(hmm, n=corpus.manifest.max_new_tokens)[0].exp().T, batched=True)
    each = real.log(adjoint(real, hmm.inputs, states)).exp().T.double()
    found = each.sum(0)
    if has_end_state(hmm, eos):
        found[eos] = each[-1, eos]
    return (found / found.sum()).cpu()


def check(hmm: HMM, corpus: Corpus) -> None:
    """Raise :class:`VocabularyMismatch` for an HMM of another vocabulary, :class:`ShapeError` for an empty corpus."""
    check_vocabularies(
        "the HMM", hmm, "the corpus", VocabularyPrint(corpus.manifest.vocab_size, corpus.vocabulary_fingerprint),
        "give the corpus of the language model that the HMM is for",
    )  # fmt: skip
    if len(corpus) == 0:
        raise ShapeError("the corpus is empty: there is nothing to compare the HMM with")
