"""Fit the parameters of :class:`.Copying` by gradient ascent on log p(text | prompt)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from tractile.circuits.hmm import HMM
from tractile.distill.corpus import Corpus
from tractile.distill.evaluate import check
from tractile.distill.progress import progress
from tractile.distill.sharding import ShardedHMM
from tractile.distill.start import has_end_state
from tractile.errors import ShapeError
from tractile.inference.queries import states
from tractile.layers import Dense

from .copying import Copying, Places, joined, places_of, tokens_of


def fit_copying(
    hmm: HMM,
    corpus: Corpus,
    *,
    tokenizer: Any = None,
    recent: int = 64,
    epochs: int = 1,
    batch_size: int = 64,
    rate: float = 0.1,
    floor: float = 1e-3,
    seed: int = 0,
) -> Copying:
    """Fit copying, and the initial and transition probabilities of ``hmm``, to a corpus with prompts; emissions are kept.

    By Adam with a falling step size. ``tokenizer`` reads prompts that are text; its special tokens are not copied.
    ``floor`` is as in :func:`tractile.distill.train`. Raises :class:`VocabularyMismatch` if HMM and corpus do not belong
    together, :class:`ShapeError` for prompts that are text without a tokenizer, for a transition that is not dense, and for
    settings that make no sense.

    Examples
    --------
    >>> import torch
    >>> import tractile as tt
    >>> from tractile.distill import Corpus
    >>> from tractile_bench.guides import copying_nats, fit_copying, ngram
    >>> texts = torch.tensor([[0, 1, 3], [1, 2, 3], [2, 0, 3]])
    >>> corpus = Corpus.of(texts, vocab_size=4, eos_token_id=3, prompts=[[0, 1], [1, 2], [2, 0]])  # each repeats its prompt
    >>> hmm = ngram(corpus, order=1)
    >>> copying = fit_copying(hmm, corpus, epochs=20)
    >>> nats = tt.distill.evaluate(hmm, corpus).nats_per_token, copying_nats(copying, corpus)
    >>> [round(value, 2) for value in nats]
    [1.37, 0.77]
    """
    check(hmm, corpus)
    if not isinstance(hmm.transition, Dense):
        raise ShapeError(f"fit_copying: the transition must be dense, it is {hmm.transition}")
    if min(epochs, batch_size) < 1 or recent < 0 or not rate > 0:
        raise ShapeError("fit_copying: epochs, batch_size and rate must be positive, recent not negative")
    eos, end = corpus.manifest.eos_token_id, has_end_state(hmm, corpus.manifest.eos_token_id)
    usage = states.smooth(hmm, n=corpus.manifest.max_new_tokens)[0].exp().sum(0).float()
    usage[len(usage) - 1 :] *= not end
    begun = Copying(
        hmm,
        torch.tensor(0.1),
        torch.full((hmm.hidden,), 0.1).masked_fill(torch.arange(hmm.hidden) >= hmm.hidden - end, 0.0),
        torch.full((hmm.vocab_size,), 0.75),
        torch.ones(hmm.vocab_size),
        torch.tensor(8.0),
        usage,
        recent,
    )
    prompts = prompts_of(begun, corpus, tokenizer)
    order = sorted(range(len(corpus)), key=lambda i: len(prompts[int(corpus.prompt[i])]))
    batches = [torch.tensor(order[i : i + batch_size]) for i in range(0, len(order), batch_size)]
    generator, steps = torch.Generator().manual_seed(seed), epochs * len(batches)
    free = [
        begun.begin.logit(), begun.enter.logit(), begun.stay.logit(), begun.start.log(), begun.follow.log(),
        hmm.initial_probs.float().log(), hmm.transition.dense().float().log(),
    ]  # fmt: skip
    free = [value.clone().requires_grad_() for value in free]  # −∞ (probability zero) stays −∞

    def now() -> tuple[Copying, Tensor, Tensor]:
        begin, enter, stay, start, follow, initial, transition = free
        parts = begin.sigmoid(), enter.sigmoid(), stay.sigmoid(), start.exp(), follow.exp()
        return Copying(hmm, *parts, usage, recent), initial.softmax(0), transition.softmax(1)

    optimiser = torch.optim.Adam(free, lr=rate)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda step: 1 - step / steps)
    with progress("copying", steps) as advance:
        for _ in range(epochs):
            for b in torch.randperm(len(batches), generator=generator).tolist():
                rows = batches[b]
                tokens = corpus.take(rows)
                copying, initial, transition = now()
                places = places_of([prompts[i] for i in corpus.prompt[rows].tolist()], recent)
                each = log_probs(copying, places, tokens, initial, transition)
                loss = -each.sum() / corpus.select(rows).num_tokens
                optimiser.zero_grad()
                loss.backward()
                optimiser.step()
                schedule.step()
                advance(1, f"copying, {float(loss.detach()):.3f} nats per token")
    with torch.no_grad():
        copying, initial, transition = now()
        whole = ShardedHMM.of(HMM(initial, transition, hmm.emission_probs))
        found = whole.smooth(floor, eos).whole()
        made_for = hmm.vocabulary_fingerprint or corpus.vocabulary_fingerprint
        return replace(copying, hmm=found.for_vocabulary(made_for))


def prompts_of(copying: Copying, corpus: Corpus, tokenizer: Any = None) -> list[list[int]]:
    """Return for each prompt of a corpus the tokens that may be copied."""
    said = (copying.usage @ copying.hmm.emission_probs > 0).tolist()
    return [
        [token for token in tokens_of(prompt, tokenizer) if said[token]] for prompt in corpus.manifest.prompts
    ]


def log_probs(
    copying: Copying,
    places: Places,
    tokens: Int[Tensor, "batch length"],
    initial: Float[Tensor, " hidden"],
    transition: Float[Tensor, "hidden hidden"],
) -> Float[Tensor, " batch"]:
    """Compute log p(text | prompt), nats, under :meth:`Copying.read` with these initial and transition probabilities."""
    message, move, own = joined(copying, places, initial, transition)
    width, rows = places.tokens.shape[1], copying.hmm.emission_probs.T
    total = message.new_zeros(len(tokens))
    for t in range(tokens.shape[1]):
        emitted = torch.cat([(places.tokens == tokens[:, t, None]).to(message), rows[tokens[:, t]]], 1)
        message = message * emitted
        scale = message.sum(1, keepdim=True)
        total = total + scale[:, 0].log()
        message = message / scale
        copied, said = message[:, None, :width], message[:, None, width:]
        said = (said + copied @ move.leave) @ own
        message = (said + torch.nn.functional.pad(copied @ move.stay, (0, rows.shape[1])))[:, 0]
    return total


def copying_nats(copying: Copying, corpus: Corpus, tokenizer: Any = None, batch_size: int = 64) -> float:
    """Compute nats per token of a corpus given its prompts; ``tokenizer`` reads prompts that are text.

    Raises :class:`VocabularyMismatch` if HMM and corpus do not belong together, :class:`ShapeError` for prompts that are text
    without a tokenizer.

    Examples
    --------
    >>> import torch
    >>> import tractile as tt
    >>> from tractile.distill import Corpus
    >>> from tractile_bench.guides import Copying, copying_nats
    >>> hmm = tt.HMM([1.0], [[1.0]], [[0.25] * 4])
    >>> parts = dict(begin=torch.tensor(0.5), enter=torch.tensor([0.1]), stay=torch.full((4,), 0.9), usage=torch.ones(1))
    >>> copying = Copying(hmm, start=torch.ones(4), follow=torch.tensor(1.0), **parts)
    >>> corpus = Corpus.of(torch.tensor([[0, 1, 3]]), vocab_size=4, eos_token_id=3, prompts=[[0, 1]])
    >>> round(copying_nats(copying, corpus), 4)  # against log 4 = 1.3863 without the prompt
    0.9375
    """
    check(copying.hmm, corpus)
    prompts, total = prompts_of(copying, corpus, tokenizer), 0.0
    initial, transition = copying.hmm.initial_probs, copying.hmm.transition.dense().float()
    with torch.no_grad():
        for rows in torch.split(torch.arange(len(corpus)), batch_size):
            places = places_of([prompts[i] for i in corpus.prompt[rows].tolist()], copying.recent)
            total -= float(log_probs(copying, places, corpus.take(rows), initial, transition).sum())
    return total / corpus.num_tokens
