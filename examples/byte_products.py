"""The distribution over bytes of a language model over tokens, the common ground of models with different tokenizers:

    p(text) = Σ over all token sequences that spell text of p_lm(tokens, EOS),
    p(next byte b | text) = P(text b …) / P(text …),        P(prefix …) = Σ_covers p_lm(tokens of the cover).

A cover of a prefix is a token sequence that spells the prefix, and whose last token may go on past its end: a prefix may end
inside a token. Covers that differ in their last token only are one *hypothesis*: the complete tokens, and the node of the
token trie reached by the bytes after them. The number of hypotheses grows with the text; ``beam`` keeps the most probable.

:class:`tractile.inference.smc.CharacterProposal` draws the tokens of one model by the bytes of the other, from the product
w(x) = p_a(x) · p_b(text of x)^power.

    python examples/byte_products.py
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any, NamedTuple, final

import numpy as np
import torch
from jaxtyping import Float
from numpy import ndarray

import tractile as tt
from tractile.embedded import load_lm
from tractile.errors import EvidenceError
from tractile.lm.base import Forking, LanguageModel, Prompt, TokenBytes
from tractile.lm.texts import TokenizerTexts
from tractile.lm.token_trie import Place, TokenTrie
from tractile.token_bytes import read

END = 256
KEPT = 1 << 14  # entries in each cache: texts with their hypotheses, token sequences with their tables


class Hypothesis(NamedTuple):
    """A partial tokenisation: the complete tokens, their log probability (nats), the trie node of the bytes after them."""

    tokens: tuple[int, ...]
    log_prob: float
    place: Place


@final
class ByteLM:
    """p(next byte | text so far) under a language model over tokens, summed over all tokenisations of the text.

    A call with the bytes of a text returns 257 numbers: the probabilities of the next byte and, last, of the end, each to the
    power ``power``. They serve as the ``weights`` of a :class:`.CharacterProposal` for a model with another tokenizer, whose
    target is then p_other(x) · p(text of x)^power. Results are cached. Each new text costs a call of the language model for
    each new hypothesis, which reads the tokens of the hypothesis from the start.

    Probability of special tokens inside a text goes to no byte. Raises :class:`EvidenceError` without an end token or a
    vocabulary, and for a beam below 1 or a power that is not positive.

    Parameters
    ----------
    lm
        The language model; another object than the sampler's own.
    prompt
        The prompt that the text follows, as text or token ids of this model.
    power
        The exponent, above 0.
    beam
        The number of hypotheses kept after each byte, the most probable ones; the most probable hypothesis without a partial
        token is kept too, since it can go on with any text. The result is a distribution over texts for every beam. None
        keeps all hypotheses, which gives exactly the language model's distribution.
    vocabulary
        Anything with ``token_bytes`` (default: read from ``lm.tokenizer``).

    Examples
    --------
    >>> import torch
    >>> import tractile as tt
    >>> vocab = tt.Vocabulary([None, b"a", b"b", b"ab"], eos_token_id=0)
    >>> quarter = torch.full((4,), 0.25, dtype=torch.float64).log()
    >>> bytes_of = ByteLM(tt.lm.TableLM({(): quarter}, eos_token_id=0), prompt=[], vocabulary=vocab)
    >>> [round(float(p), 3) for p in bytes_of(b"")[[97, 98, 256]]]  # "a" begins two tokens
    [0.5, 0.25, 0.25]
    >>> [round(float(p), 3) for p in bytes_of(b"a")[[97, 98, 256]]]  # "b": the rest of "ab", or a token of its own
    [0.25, 0.625, 0.125]
    """

    def __init__(
        self,
        lm: LanguageModel,
        *,
        prompt: Prompt = "",
        power: float = 1.0,
        beam: int | None = None,
        vocabulary: TokenBytes | None = None,
    ) -> None:
        tokenizer = getattr(lm, "tokenizer", None)
        if lm.eos_token_id is None or (vocabulary is None and tokenizer is None):
            raise EvidenceError(
                "ByteLM: the language model needs an end token, and a tokenizer or vocabulary=…"
            )
        if (beam is not None and beam < 1) or not 0 < power < math.inf:
            raise EvidenceError(f"ByteLM: beam must be 1 or more and power above 0, not {beam} and {power}")
        spelled: Sequence[bytes | None] = (
            read(tokenizer).tokens if vocabulary is None else vocabulary.token_bytes
        )
        self._eos = lm.eos_token_id
        own = [None if token == self._eos else s for token, s in enumerate(spelled[: lm.vocab_size])]
        self._lm, self._trie = lm.fork() if isinstance(lm, Forking) else lm, TokenTrie(own)
        self._prompt = (
            TokenizerTexts(tokenizer, self._eos).encode(prompt) if isinstance(prompt, str) else list(prompt)
        )
        self.power, self.beam = power, beam
        self._tables: OrderedDict[tuple[int, ...], tuple[float, Float[ndarray, " tokens"]]] = OrderedDict()
        self._beams: OrderedDict[bytes, list[Hypothesis]] = OrderedDict()

    def __call__(self, text: bytes) -> Float[ndarray, "257"]:
        """Return p(next byte | text)^power for the 256 bytes and, last, the end; zeros stay zero."""
        out: Float[ndarray, "257"] = self.probs(text) ** self.power
        return out

    def probs(self, text: bytes) -> Float[ndarray, "257"]:
        """Return p(next byte | text) for the 256 bytes and, last, the end.

        Raises :class:`EvidenceError` for a text of probability zero.
        """
        beam = self._beam(text)
        if not beam:
            raise EvidenceError(f"ByteLM: the language model gives {text!r} no probability")
        found, total = np.zeros(END + 1), 0.0  # both scaled by exp(−top)
        top = max(hypothesis.log_prob for hypothesis in beam)
        for tokens, log_prob, place in beam:
            (end, table), share = self._table(tokens), math.exp(log_prob - top)
            children = share * self._trie.masses(place, table)
            found[self._trie.node(place).bytes] += children
            if place == self._trie.root:
                found[END] += share * end
            total += share if place == self._trie.root else float(children.sum())
        out: Float[ndarray, "257"] = found / total
        return out

    def log_prob(self, text: str | bytes) -> float:
        """Return log p(text, then the end) in nats; −∞ if the model cannot write the text."""
        data = text.encode() if isinstance(text, str) else text
        total = 0.0
        for i in range(len(data) + 1):
            p = float(self.probs(data[:i])[data[i] if i < len(data) else END])
            if not p:
                return -math.inf
            total += math.log(p)
        return total

    def _beam(self, text: bytes) -> list[Hypothesis]:
        """Return the hypotheses after a text; [] for a text of probability zero."""
        if text in self._beams:
            self._beams.move_to_end(text)
            return self._beams[text]
        known = len(text)
        while known and text[:known] not in self._beams:
            known -= 1
        beam = self._beams[text[:known]] if known else [Hypothesis((), 0.0, self._trie.root)]
        for i in range(known, len(text)):
            beam = self._moved(beam, text[i])
            _keep(self._beams, text[: i + 1], beam)
        return beam

    def _moved(self, beam: Sequence[Hypothesis], byte: int) -> list[Hypothesis]:
        """Extend hypotheses by one byte: it may lie inside a token or end one; keep the most probable of the beam."""
        found: list[tuple[float, Hypothesis]] = []
        for tokens, log_prob, place in beam:
            node = self._trie.node(place)
            index = int(np.searchsorted(node.bytes, byte))
            if index == len(node.bytes) or node.bytes[index] != byte:
                continue
            below, (_, table) = self._trie.child(place, index), self._table(tokens)
            inside = float(self._trie.masses(below, table).sum())
            if inside:
                found.append((log_prob + math.log(inside), Hypothesis(tokens, log_prob, below)))
            ending = self._trie.ending(below)
            for token, p in zip(ending, table[below[0] : below[0] + len(ending)].tolist(), strict=True):
                if p:
                    log = log_prob + math.log(p)
                    found.append((log, Hypothesis((*tokens, token), log, self._trie.root)))
        found.sort(key=lambda pair: -pair[0])
        kept = [hypothesis for _, hypothesis in found]
        if self.beam is None or len(kept) <= self.beam:
            return kept
        complete = [one for one in kept if one.place == self._trie.root][:1]
        return kept[: self.beam] + [one for one in complete if one not in kept[: self.beam]]

    def _table(self, tokens: tuple[int, ...]) -> tuple[float, Float[ndarray, " tokens"]]:
        """Return p(EOS | tokens) and the next-token probabilities of the trie's tokens, in the trie's order; cached."""
        if tokens not in self._tables:
            self._lm.start([[*self._prompt, *tokens]])
            p = self._lm.log_probs()[0].detach().cpu().double().exp().numpy()
            _keep(self._tables, tokens, (float(p[self._eos]), p[self._trie.order]))
        self._tables.move_to_end(tokens)
        return self._tables[tokens]


def _keep(cache: OrderedDict[Any, Any], key: Any, value: Any) -> None:
    cache[key] = value
    while len(cache) > KEPT:
        cache.popitem(last=False)


def main() -> None:
    """Sample from the product of the embedded model and a model of single bytes that likes "Anna"."""
    single = tt.Vocabulary([bytes([byte]) for byte in range(256)] + [None], eos_token_id=256)
    counts: dict[tuple[int, ...], torch.Tensor] = {(): torch.ones(257)}
    for text in (b" Anna.", b" Anna and Lily.", b" Lily and Anna."):
        for i in range(len(text) + 1):
            counts.setdefault(tuple(text[:i]), torch.ones(257))[text[i] if i < len(text) else 256] += 200
    table = {context: row.div(row.sum()).log() for context, row in counts.items()}
    other = ByteLM(tt.lm.TableLM(table, eos_token_id=256), prompt=[], vocabulary=single, power=0.5, beam=4)
    model, tokenizer = load_lm()
    lm, fa = tt.TransformersLM(model, tokenizer), tt.constraints.regex(r" [A-Z][a-z]+( and [A-Z][a-z]+)?\.")
    proposal = tt.inference.smc.CharacterProposal(tt.Vocabulary.from_tokenizer(tokenizer), other)
    print(tt.smc(lm, "The names of the girls were", fa, proposal, max_new_tokens=12))


if __name__ == "__main__":
    main()
