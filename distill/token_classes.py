"""Classes of tokens, for a vocabulary that is much larger than what a corpus has.

Each token that occurs more than once is a class of its own, and all other tokens are one class, the *rare* one, within which
a token has a fixed share:

    p(v | z) = C(z, class(v)) · share(v),      share(v) = 1 for a token of its own class

So p(x) = p(classes of x) · Π_t share(x_t), and EM on the classes is EM on the tokens. In the rare class a token that occurs
once counts one, and those that do not occur count as many together, as Good and Turing estimate (Good 1953).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from jaxtyping import Float, Int
from torch import Tensor

from ..circuits.hmm import HMM
from ..layers import ClassCategorical
from .corpus import Corpus

LARGE = 1 << 15
"""The number of tokens below which a vocabulary is never divided into classes."""

SPARSE = 4
"""How many times as large as what a corpus has a vocabulary must be to be divided into classes by itself."""


@dataclass(frozen=True)
class TokenClasses:
    """A partition of a vocabulary: the class of each token, and its share of the class.

    Examples
    --------
    >>> import torch
    >>> from tractile.distill import Corpus
    >>> from tractile.distill.token_classes import TokenClasses
    >>> corpus = Corpus.of(torch.tensor([[0, 1, 0, 4], [0, 2, 1, 4]]), vocab_size=6, eos_token_id=4)
    >>> classes = TokenClasses.of(corpus)  # 0, 1 and the end occur twice, 2 once, 3 and 5 never
    >>> classes.class_of.tolist(), classes.share.tolist()
    ([0, 1, 3, 3, 2, 3], [1.0, 1.0, 0.5, 0.25, 1.0, 0.25])
    >>> classes.relabelled(corpus).tokens
    tensor([[0, 1, 0, 2],
            [0, 3, 1, 2]])
    """

    class_of: Int[Tensor, " vocab"]
    share: Float[Tensor, " vocab"]

    @classmethod
    def of(cls, corpus: Corpus) -> TokenClasses:
        """Return the classes of a corpus: one for each token that occurs twice or more and for the end, one for all others."""
        counts = _counts(corpus)
        own = counts > 1
        own[corpus.manifest.eos_token_id] = True
        class_of = torch.where(own, own.cumsum(0) - 1, int(own.sum()))
        once, never = (counts == 1) & ~own, (counts == 0) & ~own
        weight = own.double() + once + never * (max(1, int(once.sum())) / max(1, int(never.sum())))
        total = weight.new_zeros(int(class_of.max()) + 1).index_add(0, class_of, weight)
        return cls(class_of, (weight / total[class_of]).float())

    @classmethod
    def where_sparse(cls, corpus: Corpus) -> TokenClasses | None:
        """Return the classes of :meth:`of` for a large vocabulary of which the corpus has a small part; None for any other."""
        size = corpus.manifest.vocab_size
        if size < LARGE or SPARSE * int((_counts(corpus) > 0).sum()) > size:
            return None
        return cls.of(corpus)

    def relabelled(self, corpus: Corpus) -> Corpus:
        """Return the corpus with each token replaced by the number of its class."""
        tokens = ("tokens", "best")
        shards = [
            {name: self.class_of[x.long()].int() if name in tokens else x for name, x in shard.items()}
            for shard in corpus.shards
        ]
        end = int(self.class_of[corpus.manifest.eos_token_id])
        manifest = replace(corpus.manifest, vocab_size=int(self.class_of.max()) + 1, eos_token_id=end)
        return replace(corpus, shards=shards, manifest=manifest)

    def log_shares(self, corpus: Corpus) -> Float[Tensor, "sequences length"]:
        """Return the log-share of each token of a corpus in its class, in nats."""
        return self.share.log()[corpus.tokens]

    def narrow(self, hmm: HMM) -> HMM:
        """Return the HMM that emits the classes of the tokens that an HMM emits."""
        layer = hmm.inputs
        if isinstance(layer, ClassCategorical) and torch.equal(layer.class_of, self.class_of):
            table = layer.class_weight
        else:
            table = self.sum(hmm.emission_probs)
        return HMM(hmm.initial_probs, hmm.transition, table).for_vocabulary(hmm.vocabulary_fingerprint)

    def sum(self, table: Float[Tensor, "states vocab"]) -> Float[Tensor, "states classes"]:
        """Sum the columns of the tokens of each class."""
        return table.new_zeros(len(table), int(self.class_of.max()) + 1).index_add_(1, self.class_of, table)

    def widen(self, hmm: HMM) -> HMM:
        """Return the HMM that emits a class and then one of its tokens."""
        layer = ClassCategorical(hmm.emission_probs, self.class_of, self.share)
        return HMM(hmm.initial_probs, hmm.transition, layer).for_vocabulary(hmm.vocabulary_fingerprint)


def _counts(corpus: Corpus) -> Int[Tensor, " vocab"]:
    return torch.bincount(corpus.tokens.flatten(), minlength=corpus.manifest.vocab_size)
