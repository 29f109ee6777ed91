"""n-gram models as HMMs: guides counted from samples, without training.

A state is a context: the longest suffix of the text so far, of at most n − 1 tokens, that is among the kept contexts. A state
emits its last token, so a text determines its states, and

    A[c, c'] = Σ {p(v | c) : c' is the longest kept suffix of c v},      p interpolated Kneser–Ney (Chen & Goodman 1999),

    p(v | c) = max(N(c v) − D, 0) / N(c) + λ(c) · p(v | c without its first token).

N counts occurrences for the longest contexts, and the different tokens before the n-gram for shorter ones. The discount is
D = n₁ / (n₁ + 2 n₂), where n₁ and n₂ are the numbers of n-grams seen once and twice. The most frequent contexts are kept; all
parts of a kept context are then kept too. The beginning of a text counts as a token in contexts. Tokens without a context of
their own share one state, which emits them by frequency. The last state is the end. Every token may follow any other, as a
guide requires.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from numpy import ndarray
from torch import Tensor

from tractile.circuits.hmm import HMM
from tractile.distill.corpus import Corpus
from tractile.distill.sampling import sample
from tractile.errors import ShapeError

if TYPE_CHECKING:
    from tractile.lm.base import LanguageModel, Prompt

UNSEEN = 0.5  # pseudocount of the tokens that share a state


@dataclass(frozen=True)
class Grams:
    """The distinct k-grams of a corpus, numbered by their position in these arrays."""

    prefix: Int[ndarray, " grams"]  # the number of the (k−1)-gram without the last symbol
    suffix: Int[ndarray, " grams"]  # the number of the (k−1)-gram without the first symbol
    symbol: Int[ndarray, " grams"]  # the last symbol
    count: Int[ndarray, " grams"]  # the number of occurrences
    begins: Bool[ndarray, " grams"]  # whether the first symbol is the beginning of a text


def ngram(corpus: Corpus, order: int = 3, states: int = 2048) -> HMM:
    """Fit an n-gram model of a corpus as an HMM of at most ``states`` hidden states; ``order`` is n.

    Raises :class:`ShapeError` for an order below one, fewer than two states or an empty corpus.

    Examples
    --------
    >>> import torch
    >>> from tractile.distill import Corpus, evaluate
    >>> from tractile_bench.guides import ngram
    >>> corpus = Corpus.of(torch.tensor([[0, 1, 0, 1, 2], [1, 0, 1, 0, 2]] * 5), vocab_size=3, eos_token_id=2)
    >>> [round(evaluate(ngram(corpus, order=n), corpus).nats_per_token, 2) for n in (1, 2, 3)]
    [1.05, 0.61, 0.54]
    >>> ngram(corpus, order=3).hidden  # 0, 1, the pairs 01, 10, ⊢0, ⊢1, and the end
    7
    """
    vocab, eos = corpus.manifest.vocab_size, corpus.manifest.eos_token_id
    if order < 1 or states < 2 or len(corpus) == 0:
        raise ShapeError(f"ngram: order {order}, {states} states and {len(corpus)} sequences are too few")
    tokens = np.pad(
        corpus.tokens.numpy(), ((0, 0), (1, 0)), constant_values=vocab
    )  # the beginning of a text is one more token, number ``vocab``
    text = np.pad(tokens[:, :-1] != eos, ((0, 0), (1, 0)), constant_values=True).cumprod(1).astype(bool)

    # Symbols: frequent tokens, one for all other tokens (if there are any), the end, the beginning.
    own = np.zeros(0, int)
    if order > 1:
        grams = _count(tokens, text, order - 1, vocab)
        own = np.sort(grams[1].symbol[_frequent(grams, np.arange(vocab + 1) != eos, 1, states - 2)[1]])
    shared = len(own) + 1 < vocab
    width = len(own) + shared + 1
    symbol = np.full(vocab + 1, len(own))
    symbol[own], symbol[eos], symbol[vocab] = np.arange(len(own)), width - 1, width
    grams = _count(symbol[tokens], text, order, width)
    usual = (np.arange(width + 1) < len(own)) | (np.arange(width + 1) == width)
    begin, probability, ahead, last = _states(grams, _frequent(grams[:-1], usual, 2, states - width), width)

    emission = torch.zeros(width, vocab)
    emission[torch.arange(len(own)), torch.from_numpy(own)] = 1
    emission[-1, eos] = 1
    if shared:
        count = np.bincount(tokens[text], minlength=vocab)[:vocab] + UNSEEN
        count[own], count[eos] = 0, 0
        emission[-2] = torch.from_numpy(count)
    transition = torch.zeros(len(last), len(last))
    transition.scatter_add_(1, torch.from_numpy(ahead), torch.from_numpy(probability).float())
    transition[-1] = 0
    transition[-1, -1] = 1
    hmm = HMM(_normal(torch.from_numpy(begin).float()), _normal(transition), _normal(emission)[last])
    return hmm.for_vocabulary(corpus.vocabulary_fingerprint)


def ngram_guide(
    lm: LanguageModel,
    prompts: Sequence[Prompt],
    max_new_tokens: int,
    *,
    num_sequences: int = 1000,
    order: int = 3,
    states: int = 2048,
    seed: int = 0,
) -> HMM:
    """Sample continuations of prompts from a language model and fit an n-gram HMM to them.

    ``max_new_tokens`` is the length of the samples; a text may grow longer. Raises as :func:`.sample` and :func:`ngram` do.

    Examples
    --------
    >>> import torch
    >>> import tractile as tt
    >>> from tractile_bench.guides import ngram_guide
    >>> rows = {(): torch.tensor([0.5, 0.3, 0.2]).log(), (1,): torch.tensor([0.8, 0.0, 0.2]).log()}  # no 1 after a 1
    >>> hmm = ngram_guide(tt.lm.TableLM(rows, eos_token_id=2), [[]], max_new_tokens=8, order=2)
    >>> x = torch.tensor([[1, 0], [1, 1]])
    >>> [round(p, 2) for p in tt.log_marginal(hmm, x).exp().tolist()]  # of the model: 0.3 · 0.8 and 0
    [0.25, 0.0]
    """
    with tempfile.TemporaryDirectory() as directory:
        corpus = sample(lm, directory, num_sequences, max_new_tokens, prompts, seed=seed)
        return ngram(corpus, order, states)


def _count(symbols: ndarray, text: ndarray, order: int, beginning: int) -> list[Grams]:
    """Count the k-grams of the rows for k = 0 … ``order``, where ``text`` is true."""
    none = np.zeros(1, int)
    found = [Grams(none, none, none, none, np.zeros(1, bool))]
    ids = np.where(text, 0, -1)  # the number of the k-gram that ends at each place
    for k in range(1, order + 1):
        before = np.pad(ids, ((0, 0), (1, 0)), constant_values=0 if k == 1 else -1)[:, :-1]
        there = text & (before >= 0)
        key, first, gram, count = np.unique(
            before[there] * (beginning + 1) + symbols[there],
            return_index=True,
            return_inverse=True,
            return_counts=True,
        )
        prefix, symbol = key // (beginning + 1), key % (beginning + 1)
        begins = symbol == beginning if k == 1 else found[-1].begins[prefix]
        found.append(Grams(prefix, ids[there][first], symbol, count, begins))
        ids = np.full_like(ids, -1)
        ids[there] = gram
    return found


def _frequent(
    grams: list[Grams], allowed: Bool[ndarray, " symbols"], shortest: int, most: int
) -> list[Int[ndarray, " grams"]]:
    """Select the ``most`` most frequent grams of allowed symbols and at least ``shortest`` symbols; return them by length k."""
    inside, found, count = np.ones(1, bool), list[ndarray](), list[ndarray]()
    for k, level in enumerate(grams):
        inside = allowed[level.symbol] & inside[level.prefix] if k else inside
        chosen = inside & ~(level.begins & (k == 1)) & (k >= shortest)
        found.append(np.flatnonzero(chosen))
        count.append(level.count[chosen])
    length = np.repeat(np.arange(len(found)), [len(f) for f in found])
    best = np.argsort(-np.concatenate(count), kind="stable")[: max(most, 0)]  # of equals the shorter first
    return [np.concatenate(found)[best[length[best] == k]] for k in range(len(found))]


def _states(
    grams: list[Grams], kept: list[Int[ndarray, " grams"]], width: int
) -> tuple[
    Float[ndarray, " states"],
    Float[ndarray, "states symbols"],
    Int[ndarray, "states symbols"],
    Int[ndarray, " states"],
]:
    """Return p(first state), p(symbol | state), the next state after each symbol, and the last symbol of each state.

    There is a state for each symbol except the end, then one for each longer kept context, then the end.
    """
    order = len(grams) - 1
    counts = [g.count for g in grams]
    for k in range(1, order):  # count the different symbols before each shorter gram
        before = np.bincount(grams[k + 1].suffix, minlength=len(counts[k]))
        counts[k] = np.where(grams[k].begins, counts[k], before)
    hidden = width + sum(map(len, kept))
    state = [np.zeros(1, int), np.where(grams[1].symbol < width - 1, grams[1].symbol, -1)]
    last, free = np.arange(hidden).clip(max=width - 1), width - 1
    for k in range(2, order):
        state.append(np.full(len(counts[k]), -1))
        state[k][kept[k]] = free + np.arange(len(kept[k]))
        last[state[k][kept[k]]] = grams[k].symbol[kept[k]]
        free += len(kept[k])

    step = np.append(np.arange(width - 1), hidden - 1)
    ahead = np.tile(step, (hidden, 1))
    rows, place = (
        _rows(grams[1], counts[1], np.zeros(1, int), np.full((1, width), 1 / width)),
        np.zeros(1, int),
    )
    probability, begin = np.repeat(rows, hidden, 0), rows[0]
    for k in range(1, order):
        level, longer = grams[k], grams[k + 1]
        contexts = np.flatnonzero((state[k] >= 0) | (level.begins & (k == 1)))
        rows = _rows(longer, counts[k + 1], contexts, rows[place[level.suffix[contexts]]])
        place = np.full(len(level.count), -1)
        place[contexts] = np.arange(len(contexts))
        own = state[k][contexts] >= 0
        probability[state[k][contexts[own]]] = rows[own]
        if k > 1:
            ahead[state[k][contexts]] = ahead[state[k - 1][level.suffix[contexts]]]
        if k == 1:
            begin = rows[~own][0]
        if k + 1 < order:
            source, target = state[k][longer.prefix[kept[k + 1]]], state[k + 1][kept[k + 1]]
            symbol, known = longer.symbol[kept[k + 1]], source >= 0
            ahead[source[known], symbol[known]] = target[known]
            if k == 1:
                step[symbol[~known]] = target[~known]
    return np.bincount(step, begin, hidden), probability, ahead, last


def _rows(
    longer: Grams,
    count: ndarray,
    contexts: Int[ndarray, " contexts"],
    lower: Float[ndarray, "contexts symbols"],
) -> Float[ndarray, "contexts symbols"]:
    """Compute p(symbol | context); ``count``: counts of the grams ``longer``, ``lower``: p given the context's suffix."""
    once, twice = (count == 1).sum(), (count == 2).sum()
    place = np.full(int(longer.prefix.max(initial=-1)) + 1, -1)
    there = contexts < len(place)
    place[contexts[there]] = np.flatnonzero(there)
    row, width = place[longer.prefix], lower.shape[1]
    here = (row >= 0) & (longer.symbol < width)
    row, symbol, count = row[here], longer.symbol[here], count[here]
    discount = np.minimum(count, once / (once + 2 * twice) if once else 0.5)
    total = np.bincount(row, count, len(lower))
    rest = np.where(total > 0, np.bincount(row, discount, len(lower)) / np.maximum(total, 1), 1)
    out: ndarray = lower * rest[:, None]
    out[row, symbol] += (count - discount) / total[row]
    return out


def _normal(weight: Tensor) -> Tensor:
    return weight / weight.sum(-1, keepdim=True)
