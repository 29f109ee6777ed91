"""The distribution over bytes that a language model of tokens gives, by which models of different tokenizers meet:

    p(text) = Σ over all token sequences that spell text of p_lm(tokens, EOS),
    p(next byte b | text) = P(text b …) / P(text …),        P(prefix …) = Σ_covers p_lm(tokens of the cover).

A cover of a prefix is a token sequence that spells it, or goes on behind it with its last token alone; so a prefix may end inside
a token. Covers with all tokens but the last in common are one *hypothesis*: tokens that are written, and a node of the trie of
tokens that the text has walked to since. Their number grows with the text; ``beam`` keeps the most probable.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any, NamedTuple, final

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from ..errors import EvidenceError
from ..token_bytes import read
from .base import Forking, LanguageModel, Prompt, TokenBytes
from .texts import TokenizerTexts
from .token_trie import Place, TokenTrie

END = 256
KEPT = 1 << 14  # texts, and token sequences, whose numbers are kept


class Hypothesis(NamedTuple):
    """One tokenisation of a text: the tokens that are whole, their log probability (nats), and the trie node of the rest."""

    tokens: tuple[int, ...]
    log_prob: float
    place: Place


@final
class ByteLM:
    """p(next byte | text so far) of a language model of tokens, over all its tokenisations.

    Called with the bytes of a text it gives 257 numbers, the probabilities of the next byte and, last, of the end, to the power
    ``power``: the ``weights`` of a :class:`.CharacterProposal` for a model of another tokenizer, whose target is then
    p_other(x) · p(text of x)^power. The object keeps what it has computed; each new text costs a call of the model for each
    new hypothesis, which reads its tokens anew.

    What the model gives to special tokens in a text is given to no byte. Raises :class:`EvidenceError` without an end token or a
    vocabulary, and for a beam below 1 or a power that is not positive.

    Parameters
    ----------
    lm
        The language model; another object than the sampler's own.
    prompt
        What the text follows, by its own tokens.
    power
        The exponent, above 0.
    beam
        Hypotheses kept after each byte, by probability, and the most probable that ends with a token, which can write any
        text. It is a distribution over texts whatever the beam; with None, all hypotheses, exactly the language model's.
    vocabulary
        Anything with ``token_bytes`` (default: read from ``lm.tokenizer``).

    Examples
    --------
    >>> import torch
    >>> import tractile as tt
    >>> vocab = tt.Vocabulary([None, b"a", b"b", b"ab"], eos_token_id=0)
    >>> quarter = torch.full((4,), 0.25, dtype=torch.float64).log()
    >>> bytes_of = tt.lm.ByteLM(tt.TableLM({(): quarter}, eos_token_id=0), prompt=[], vocabulary=vocab)
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
        """p(next byte | text)^power, and last of the end; zeros stay zero."""
        out: Float[ndarray, "257"] = self.probs(text) ** self.power
        return out

    def probs(self, text: bytes) -> Float[ndarray, "257"]:
        """p(next byte | text), last of the end. Raises :class:`EvidenceError` for a text of probability zero."""
        beam = self._beam(text)
        if not beam:
            raise EvidenceError(f"ByteLM: the language model gives {text!r} no probability")
        found, total = np.zeros(END + 1), 0.0  # both times exp(−top)
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
        """log p(text and its end), nats; −∞ where the model cannot write it."""
        data = text.encode() if isinstance(text, str) else text
        total = 0.0
        for i in range(len(data) + 1):
            p = float(self.probs(data[:i])[data[i] if i < len(data) else END])
            if not p:
                return -math.inf
            total += math.log(p)
        return total

    def _beam(self, text: bytes) -> list[Hypothesis]:
        """The hypotheses after a text; none for a text of probability zero."""
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
        """The hypotheses after one more byte: those inside a token, and those whose token ends with it."""
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
        """p(EOS | tokens), and the probabilities of the tokens that spell something, in the trie's order."""
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
