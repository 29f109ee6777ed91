"""The set proposal for potentials on bytes: a walk down the trie of tokens (Loula et al. 2025, Appendix C).

A potential on bytes gives ψ(b | text) for every next byte b at once, a token the product over its bytes; to score all tokens
would be slow. The walk starts at the root with Ψ = Π = 1, and at each node, for the bytes s read so far:

    the tokens spelled s join the set with weight  q(t) · Ψ / Π                          (Horvitz & Thompson 1952)
    the next byte b is drawn with probability      r(b) ∝ mass below s·b × ψ(b | text, s);   Ψ ← Ψ ψ(b),  Π ← Π r(b)

until no byte has mass. Then X is drawn from the set by weight, and the sum of the weights is its own: properly weighted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import final

import numpy as np
from jaxtyping import Float
from numpy import ndarray

from ...errors import EvidenceError
from ...lm.base import TokenBytes
from ...lm.token_trie import TokenTrie
from .blackbox import RowContext, RowDraw, RowProposal
from .proposals import Tabular
from .step import Step
from .user_function import CACHE_SIZE

END = 256


@final
class CharacterProposal(RowProposal):
    """Tokens weighed byte by byte: ``weights(text)`` gives 257 numbers ≥ 0 for the bytes of a continuation, ψ of each next
    byte and last ψ of the end; a parser's "may come next" is zeros and ones. The final target is p_lm times their product.

    ``vocabulary`` is anything with ``token_bytes``. Special tokens other than end-of-sequence, which have no bytes, are never
    drawn. The end has its say where end-of-sequence is written, not where the budget cuts a text off.

    Examples
    --------
    >>> import torch
    >>> import tractile as tt
    >>> lm = tt.TableLM({(): torch.tensor([0.5, 0.3, 0.2]).log()}, eos_token_id=2)
    >>> vocab, digit = tt.Vocabulary([b"a", b"7", b""], eos_token_id=2), [float(48 <= b < 58) for b in range(256)]
    >>> digits = tt.inference.smc.CharacterProposal(vocab, lambda text: [*digit, 1.0])
    >>> post = tt.smc(lm, [], None, digits, particles=8, max_new_tokens=3, seed=0)
    >>> {token for p in post.particles for token in p.token_ids} <= {1, 2}  # no letter
    True
    """

    def __init__(
        self,
        vocabulary: TokenBytes,
        weights: Callable[[bytes], Sequence[float]],
        *,
        base: Tabular | None = None,
    ) -> None:
        super().__init__(base)
        self._bytes, self._weights = vocabulary.token_bytes, weights
        self._trie = TokenTrie(vocabulary.token_bytes)
        self._psi: dict[bytes, Float[ndarray, "257"]] = {}

    def draw_row(self, row: RowContext, step: Step) -> RowDraw:
        yield from ()  # it has nothing to ask
        eos = step.eos_token_id
        context = b"".join(self._bytes[token] or b"" for token in row.prefix)
        q, pick, words = row.q, row.pick, row.q.copy()
        if eos is not None:
            words[eos] = 0.0  # it ends the text, whatever bytes a vocabulary gives it
        trie = self._trie
        sorted_q = words[trie.order]
        tokens: list[int] = []
        weights: list[float] = []
        place, read, ratio = trie.root, b"", 1.0
        while True:
            node, depth = trie.node(place), place[2]
            for token in trie.ending(place):
                tokens.append(token)
                weights.append(float(words[token]) * ratio)
            psi = self._psi_of(context + read)
            mass = np.zeros(len(node.bytes) + 1)
            mass[:-1] = trie.masses(place, sorted_q) * psi[node.bytes]
            if not depth and eos is not None:
                mass[-1] = q[eos] * psi[END]
            if not mass.any():
                break
            chosen = pick(mass)
            share = float(mass[chosen] / mass.sum())
            if chosen == len(node.bytes):
                tokens.append(int(eos or 0))
                weights.append(float(mass[-1]) * ratio / share)
                break
            ratio *= float(psi[node.bytes[chosen]]) / share
            read += bytes([node.bytes[chosen]])
            place = trie.child(place, chosen)
        total = sum(weights)
        if not total:
            return int(q.argmax()), 0.0
        return tokens[pick(np.array(weights))], total

    def _psi_of(self, text: bytes) -> Float[ndarray, "257"]:
        if text not in self._psi:
            psi = np.asarray(self._weights(text), dtype=np.float64)
            if psi.shape != (END + 1,) or not np.isfinite(psi).all() or (psi < 0).any():
                raise EvidenceError(
                    f"CharacterProposal: after {text!r} the weights are not 257 finite numbers that are not negative"
                )
            if len(self._psi) >= CACHE_SIZE:
                self._psi.clear()
            self._psi[text] = psi
        return self._psi[text]
