"""The distribution over bytes of a language model over tokens, the common ground of models with different tokenizers:

    p(text) = Σ over all token sequences that spell text of p_lm(tokens, EOS),
    p(next byte b | text) = P(text b …) / P(text …),        P(prefix …) = Σ_covers p_lm(tokens of the cover).

A cover of a prefix is a token sequence that spells the prefix, and whose last token may go on past its end: a prefix may end
inside a token. Covers that differ in their last token only are one *hypothesis*: the complete tokens, and the node of the
token trie reached by the bytes after them. The number of hypotheses grows with the text; ``beam`` keeps the most probable.

    python examples/byte_products.py
"""

import math
from functools import cache
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from numpy import ndarray

import tractile as tt
from tractile.lm.token_trie import Place, TokenTrie

END = 256


class Hypothesis(NamedTuple):
    """The complete tokens, their log probability (nats), and the trie node of the bytes after them."""

    tokens: tuple[int, ...]
    log_prob: float
    place: Place


class ByteLM:
    """p(next byte | text so far)^power under a language model over tokens, summed over all tokenisations of the text.

    A call with the bytes of a text returns 257 numbers: the probabilities of the next byte and, last, of the end, each to the
    power ``power``. As the ``weights`` of a :class:`.CharacterProposal` for a model with another tokenizer they make the
    target p_other(x) · p(text of x)^power. ``beam`` hypotheses are kept after each byte (None: all, which is exact), and the
    most probable one without a partial token, since it can go on with any text. Results are cached.

    >>> lm = tt.lm.TableLM({(): torch.full((4,), 0.25, dtype=torch.float64).log()}, eos_token_id=0)
    >>> bytes_of = ByteLM(lm, [], tt.Vocabulary([None, b"a", b"b", b"ab"], eos_token_id=0))
    >>> [round(float(p), 3) for p in bytes_of(b"a")[[97, 98, 256]]]  # "b": the rest of "ab", or a token of its own
    [0.25, 0.625, 0.125]
    """

    def __init__(
        self,
        lm: tt.lm.LanguageModel,
        prompt: list[int],
        vocabulary: tt.Vocabulary,
        power: float = 1.0,
        beam: int | None = None,
    ) -> None:
        self.lm, self.prompt, self.power, self.most = lm, prompt, power, beam
        self.eos = vocabulary.eos_token_id  # which spells nothing
        self.trie = TokenTrie([None if i == self.eos else b for i, b in enumerate(vocabulary.token_bytes)])
        self.table, self.beam = cache(self._table), cache(self._beam)

    def __call__(self, text: bytes) -> Float[ndarray, "257"]:
        found, total = np.zeros(END + 1), 0.0  # both scaled by exp(−top)
        top = max(hypothesis.log_prob for hypothesis in self.beam(text))
        for tokens, log_prob, place in self.beam(text):
            (end, table), share = self.table(tokens), math.exp(log_prob - top)
            children = share * self.trie.masses(place, table)
            found[self.trie.node(place).bytes] += children
            if place == self.trie.root:
                found[END] += share * end
            total += share if place == self.trie.root else float(children.sum())
        return (found / total) ** self.power

    def _beam(self, text: bytes) -> list[Hypothesis]:
        """The hypotheses after a text: its last byte may lie inside a token or end one."""
        if not text:
            return [Hypothesis((), 0.0, self.trie.root)]
        found = []
        for tokens, log_prob, place in self.beam(text[:-1]):
            here = self.trie.node(place).bytes.tolist()
            if text[-1] not in here:
                continue
            below, (_, table) = self.trie.child(place, here.index(text[-1])), self.table(tokens)
            if inside := float(self.trie.masses(below, table).sum()):
                found.append((log_prob + math.log(inside), Hypothesis(tokens, log_prob, below)))
            for token, p in zip(self.trie.ending(below), table[below[0] :].tolist(), strict=False):
                if p:
                    log = log_prob + math.log(p)
                    found.append((log, Hypothesis((*tokens, token), log, self.trie.root)))
        kept = [hypothesis for _, hypothesis in sorted(found, key=lambda pair: -pair[0])]
        most = len(kept) if self.most is None else self.most
        whole = [i for i, hypothesis in enumerate(kept) if hypothesis.place == self.trie.root]
        return kept[:most] + [kept[i] for i in whole[:1] if i >= most]

    def _table(self, tokens: tuple[int, ...]) -> tuple[float, Float[ndarray, " tokens"]]:
        """p(EOS | tokens), and the next-token probabilities in the trie's order."""
        self.lm.start([[*self.prompt, *tokens]])
        p = self.lm.log_probs()[0].detach().cpu().double().exp().numpy()
        return float(p[self.eos]), p[self.trie.order]


def main() -> None:
    """Sample from the product of the embedded model and a model of single bytes that likes "Anna"."""
    single = tt.Vocabulary([bytes([byte]) for byte in range(256)] + [None], eos_token_id=256)
    counts: dict[tuple[int, ...], torch.Tensor] = {(): torch.ones(257)}
    for text in (b" Anna.", b" Anna and Lily.", b" Lily and Anna."):
        for i in range(len(text) + 1):
            counts.setdefault(tuple(text[:i]), torch.ones(257))[text[i] if i < len(text) else 256] += 200
    table = {context: row.div(row.sum()).log() for context, row in counts.items()}
    other = ByteLM(tt.lm.TableLM(table, eos_token_id=256), [], single, power=0.5, beam=4)
    model, tokenizer = tt.embedded.load_lm()
    lm, fa = tt.TransformersLM(model, tokenizer), tt.constraints.regex(r" [A-Z][a-z]+( and [A-Z][a-z]+)?\.")
    proposal = tt.inference.smc.CharacterProposal(tt.Vocabulary.from_tokenizer(tokenizer), other)
    print(tt.smc(lm, "The names of the girls were", fa, proposal, max_new_tokens=12))


if __name__ == "__main__":
    main()
