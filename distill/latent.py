"""Initial HMMs for EM, from the language model's hidden states.

The last hidden state of the model after each token of a corpus is a point, and a state of the HMM is a cluster of points. A
frequent token has several states of its own, *clones* (Dedieu et al. 2019): k-means splits its points by context. Rare tokens
share states: k-means splits the points of all of them together. A clone emits its token almost with certainty, so it tells
the last token, which a cluster of points alone does not.

With the states observed, maximum likelihood is counting, without iterations. Most pairs of states are never seen, so counts
are discounted in favour of transitions from any clone of the same token, and these in favour of transitions from any state
(absolute discounting, as in Kneser and Ney 1995). EM then begins close to its optimum.
"""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from ..circuits.hmm import HMM
from ..errors import ShapeError
from ..inference.queries.baum_welch import HMMCounts
from ..layers import Monarch
from .corpus import Corpus
from .sharding import ShardedHMM
from .start import with_end_state
from .token_classes import TokenClasses


@torch.no_grad()
def initialise(
    model: Any,
    tokenizer: Any,
    corpus: Corpus,
    hidden: int,
    transition: str = "dense",
    *,
    sequences: int = 20_000,
    iterations: int = 10,
    seed: int = 0,
) -> HMM:
    """Initialise an HMM: its states are clusters of a transformers model's hidden states on the first ``sequences``.

    Rare tokens of a large vocabulary share one emission, as in :func:`~tractile.distill.train`.

    Raises :class:`VocabularyMismatch` if the corpus was made with another tokenizer, :class:`ShapeError` if the corpus has fewer
    tokens than ``hidden``.

    Examples
    --------
    >>> import tempfile
    >>> import tractile as tt
    >>> from tractile.distill import evaluate, from_text, initialise, random_start
    >>> model, tokenizer = tt.embedded.load_lm()
    >>> texts = ["Once upon a time there was a girl.", "Once upon a time there was a dog.", "The dog was big."]
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     corpus = from_text(texts, tokenizer, folder, max_new_tokens=12)
    >>> starts = initialise(model, tokenizer, corpus, hidden=16), random_start(corpus, hidden=16)
    >>> [round(evaluate(hmm, corpus).nats_per_token, 1) for hmm in starts]
    [0.5, 3.1]
    """
    corpus.check_tokenizer(tokenizer)
    part = corpus.select(torch.arange(min(sequences, len(corpus))))
    points = hidden_states(model, tokenizer, part)
    if (classes := TokenClasses.where_sparse(corpus)) is None:
        return _of_points(points, part, hidden, transition, iterations, seed)
    found = _of_points(points, classes.relabelled(part), hidden, transition, iterations, seed)
    return classes.widen(found)


def _of_points(
    points: Float[Tensor, "sequences length width"],
    part: Corpus,
    hidden: int,
    transition: str,
    iterations: int,
    seed: int,
) -> HMM:
    """Fit an HMM whose states are clusters of the points at the tokens of a corpus."""
    tokens, eos, vocab = part.tokens, part.manifest.eos_token_id, part.manifest.vocab_size
    text = tokens != eos
    if int(text.sum()) < hidden:
        raise ShapeError(f"initialise: {int(text.sum())} tokens are too few for {hidden} hidden states")
    states = torch.full_like(tokens, hidden - 1)
    states[text], owner = clones(points[text], tokens[text], hidden - 1, iterations, seed)

    random = HMM.random(hidden, vocab, transition, seed).for_vocabulary(part.vocabulary_fingerprint)
    base = with_end_state(random, eos)
    counts = _observed(base, states, tokens)
    if transition != "dense":
        fitted = ShardedHMM.of(base).m_step(counts, pseudocount=0.01).whole()
        return fitted.for_vocabulary(part.vocabulary_fingerprint)
    followed, emitted = counts.transition[0], counts.emission
    followed[-1], emitted[-1], emitted[:, eos] = 0, 0, 0
    kinds = followed.clamp(max=1)
    family = _families(owner)
    siblings = torch.zeros(hidden, hidden).index_add_(0, family, kinds)
    anything = _normal(kinds.sum(0) + UNSEEN)
    move = discounted(followed, discounted(siblings, anything)[family])
    frequency = torch.bincount(tokens[text], minlength=vocab) + UNSEEN
    frequency[eos] = 0
    usual = _normal(frequency)
    emission = discounted(emitted, usual)
    own = owner >= 0
    emission[own] = torch.lerp(torch.nn.functional.one_hot(owner[own], vocab).to(usual), usual, OTHERS)
    hmm = with_end_state(HMM(_normal(counts.initial + UNSEEN), _normal(move), emission), eos)
    return hmm.for_vocabulary(part.vocabulary_fingerprint)


UNSEEN = 0.05  # pseudocount of initial states, of transitions from any state and of token frequencies
DISCOUNT = 0.6  # subtracted from each positive count
OTHERS = 1e-3  # the probability with which a clone emits tokens other than its own


def discounted(counts: Float[Tensor, "rows columns"], lower: Float[Tensor, "*rows columns"]) -> Tensor:
    """Normalise counts by absolute discounting; the discounted mass follows the distribution ``lower``."""
    taken = counts.clamp(max=DISCOUNT)
    total = counts.sum(1, keepdim=True)
    rows = (counts - taken + taken.sum(1, keepdim=True) * lower) / total.clamp(min=DISCOUNT)
    return torch.where(total > 0, rows, lower)


def _normal(weight: Tensor) -> Tensor:
    return weight / weight.sum(-1, keepdim=True)


def clones(
    points: Float[Tensor, "points width"],
    tokens: Int[Tensor, " points"],
    clusters: int,
    iterations: int,
    seed: int,
) -> tuple[Int[Tensor, " points"], Int[Tensor, " clusters_and_end"]]:
    """Cluster the points of each token by themselves; return (cluster of each point, token of each cluster).

    A cluster that several tokens share has the token −1, and so has the end, which comes last.

    The number of clones of a token is proportional to count^0.7; tokens with less than one share the other clusters.
    """
    count = torch.bincount(tokens)
    share = _normal(count.double() ** 0.7) * clusters
    own = torch.where(share >= 1, torch.arange(len(count)), -1)  # −1: those that share
    names, group = own[tokens].unique(return_inverse=True)
    size = torch.bincount(group)
    want = torch.zeros(len(count) + 1, dtype=share.dtype).index_add_(0, own + 1, share)[names + 1]
    number = torch.minimum(want.floor().long(), size)
    if names[0] < 0:
        number[0].clamp_(min=1)
    while spare := clusters - int(number.sum()):
        behind = torch.where(number < size, want - number, -torch.inf)
        number[behind.topk(min(spare, int((number < size).sum()))).indices] += 1
    label, owner, start = torch.empty_like(tokens), torch.full((clusters + 1,), -1), 0
    for rows, name, n in zip(
        group.argsort().split(size.tolist()), names.tolist(), number.tolist(), strict=True
    ):
        label[rows] = start + (kmeans(points[rows], n, iterations, seed) if n > 1 else 0)
        owner[start : start + n] = name
        start += n
    return label, owner


def _families(owner: Int[Tensor, " hidden"]) -> Int[Tensor, " hidden"]:
    """Return for each state the first clone of its token; a shared state is its own family."""
    number = torch.arange(len(owner))
    token = torch.where(owner >= 0, owner, int(owner.max()) + 1 + number)
    first = torch.full((int(token.max()) + 1,), len(owner)).scatter_reduce(0, token, number, "amin")
    return first[token]


def hidden_states(
    model: Any, tokenizer: Any, corpus: Corpus, batch_size: int = 256, shift: int = 0
) -> Float[Tensor, "sequences length width"]:
    """Compute the model's last hidden state after each token of the sequences, each read behind its prompt, in float16.

    With ``shift`` 1, the state before each token: the first is the state after the prompt.
    """
    prompts = [tokenizer(p).input_ids if isinstance(p, str) else p for p in corpus.manifest.prompts]
    if tokenizer.bos_token_id is not None:  # as it was sampled: no prompt is the beginning of a text
        prompts = [prompt or [tokenizer.bos_token_id] for prompt in prompts]
    n, eos, found = corpus.manifest.max_new_tokens, corpus.manifest.eos_token_id, []
    heads = [torch.tensor(prompts[i], dtype=torch.long) for i in corpus.prompt.tolist()]
    offset = torch.tensor([len(head) for head in heads])
    if int(offset.min()) < shift:
        raise ShapeError("hidden_states: there is a prompt without tokens; begin it with the model's BOS")
    order = offset.argsort(stable=True)  # a batch has prompts of like lengths: less padding
    for rows in torch.split(order, batch_size):
        texts = [torch.cat([heads[row], corpus.tokens[row]]) for row in rows.tolist()]
        # Padding on the right does not affect a causal model.
        ids = torch.nn.utils.rnn.pad_sequence(texts, batch_first=True, padding_value=eos).to(model.device)
        states = model.base_model(input_ids=ids, use_cache=False).last_hidden_state.cpu()
        places = offset[rows, None] + torch.arange(n) - shift  # the prompt's last token is at offset − 1
        found.append(states.gather(1, places[:, :, None].expand(-1, -1, states.shape[2])).half())
    return torch.cat(found)[order.argsort()]


def kmeans(
    points: Float[Tensor, "points width"],
    clusters: int,
    iterations: int = 20,
    seed: int = 0,
    batch: int = 65_536,
) -> Int[Tensor, " points"]:
    """Mini-batch k-means (Sculley 2010): the cluster of each point. Empty clusters restart at a random point."""
    generator = torch.Generator().manual_seed(seed)
    centres = points[torch.randperm(len(points), generator=generator)[:clusters]].float()
    weight = torch.zeros(clusters)
    for _ in range(iterations):
        chosen = points[torch.randint(len(points), (min(batch, len(points)),), generator=generator)].float()
        label = _nearest(chosen, centres)
        count = torch.bincount(label, minlength=clusters).float()
        total = torch.zeros_like(centres).index_add_(0, label, chosen)
        weight = 0.5 * weight + count  # older batches were labelled by worse centres
        centres += (total - count[:, None] * centres) / weight.clamp(min=1)[:, None]
        empty = weight < 0.5
        centres[empty] = chosen[torch.randint(len(chosen), (int(empty.sum()),), generator=generator)]
    return torch.cat([_nearest(part.float(), centres) for part in torch.split(points, batch)])


def _nearest(points: Tensor, centres: Tensor) -> Tensor:
    return torch.addmm(centres.square().sum(1), points, centres.T, beta=1, alpha=-2).argmin(1)


def _observed(
    hmm: HMM, states: Int[Tensor, "batch length"], tokens: Int[Tensor, "batch length"]
) -> HMMCounts:
    """Counts of each parameter when the hidden states are observed."""
    initial = torch.bincount(states[:, 0], minlength=hmm.hidden).float()
    pair = (states * hmm.vocab_size + tokens).flatten()
    emission = torch.bincount(pair, minlength=hmm.hidden * hmm.vocab_size).view(hmm.hidden, -1).float()
    transition = []
    weights = hmm.transition.parameters()
    dims = weights[0].shape[:-1]
    here = list(torch.unravel_index(states[:, :-1].flatten(), dims))
    there = torch.unravel_index(states[:, 1:].flatten(), dims)
    for weight, axis in zip(
        weights, hmm.transition.axes if isinstance(hmm.transition, Monarch) else (0,), strict=True
    ):
        flat = torch.zeros_like(weight).flatten()
        index = torch.zeros_like(here[0])
        for size, value in zip(weight.shape, [*here, there[axis]], strict=True):
            index = index * size + value
        transition.append(flat.index_add_(0, index, torch.ones(len(index))).view_as(weight))
        here[axis] = there[axis]
    return HMMCounts(initial, transition, emission, torch.zeros_like(initial), torch.zeros(()))
