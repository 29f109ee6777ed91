"""Exact probabilities of texts under a language model, each over all its tokenisations.

    p(text) = Σ over token sequences s that spell the text of Π_t p_lm(s_t | prompt, s_<t) · p_lm(EOS | prompt, s)

Without the last factor this is the probability that the continuation begins with the text. The last token of s may then go on
past the end of the text; all tokens before it lie inside (Vieira et al. 2024, "From Language Models over Tokens to Language
Models over Characters", Prop. 1). The token sequences of all options form one tree of contexts. The search goes down it level
by level, with one batch of the language model for each depth.

    python examples/choices.py
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy import ndarray
from torch import Tensor

import tractile as tt
from tractile.constraints import validation
from tractile.constraints.vocabulary.reading import vocabulary_of
from tractile.constraints.vocabulary.vocabulary import Vocabulary
from tractile.embedded import load_lm
from tractile.errors import EvidenceError, VocabularyMismatch
from tractile.fingerprints import FEWER_OUTPUTS
from tractile.inference.arguments import short, whole
from tractile.inference.smc.arguments import a_language_model, a_prompt, check_normalised
from tractile.lm.base import LanguageModel, Prompt


@dataclass(frozen=True, repr=False)
class Choices:
    """The options with their probabilities. Tensors are float64 on the CPU, in the order of ``options``.

    ``log_probs``: log probability of each option under the language model, in nats; not normalised over the options.
    ``log_missing``: log of an upper bound on the probability of its pruned tokenisations, in nats; −inf if none was pruned.

    Examples
    --------
    >>> import torch
    >>> import tractile as tt
    >>> log_probs = torch.tensor([0.6, 0.2]).double().log()
    >>> found = Choices(("yes", "no"), log_probs, torch.tensor([0.0, 0.0]).double().log())
    >>> found.options[int(found.log_probs.argmax())]
    'yes'
    """

    options: tuple[str, ...]
    log_probs: Float[Tensor, " options"]
    log_missing: Float[Tensor, " options"]

    @property
    def exact(self) -> bool:
        """Whether every tokenisation of every option was evaluated."""
        return bool(self.log_missing.isneginf().all())

    @property
    def probs(self) -> Float[Tensor, " options"]:
        """The probability of each option given that it is one of them: they sum to one.

        Raises :class:`EvidenceError` where all are zero.
        """
        return _possible(self.log_probs).softmax(0)

    @property
    def bounds(self) -> Float[Tensor, "options 2"]:
        """A lower and an upper bound on each of :attr:`probs`, whatever probability the pruned tokenisations have.

        Raises :class:`EvidenceError` where all are zero.
        """
        low, high = self.log_probs, _possible(torch.logaddexp(self.log_probs, self.log_missing))
        top = high.max()
        low, high = (low - top).exp(), (high - top).exp()
        least, greatest = low / (low + _others(high)), high / (high + _others(low))
        return torch.stack([least, greatest], 1)

    @property
    def best(self) -> str:
        """The most probable option."""
        return self.options[int(self.log_probs.argmax())]

    def __repr__(self) -> str:
        shown = ", ".join(
            f"{text!r}: {p:.4f}" for text, p in zip(self.options, self.probs.tolist(), strict=True)
        )
        return f"Choices({shown}{'' if self.exact else ', not exact'})"


def _others(values: Float[Tensor, " options"]) -> Float[Tensor, " options"]:
    """Return for each value the sum of all other values, without subtraction (which would cancel digits)."""
    zero = values.new_zeros(1)
    before = torch.cat([zero, values.cumsum(0)[:-1]])
    after = torch.cat([values.flip(0).cumsum(0)[:-1].flip(0), zero])
    return before + after


def _possible(log_probs: Float[Tensor, " options"]) -> Float[Tensor, " options"]:
    if bool(log_probs.isneginf().all()):
        raise EvidenceError("choose: the language model gives every option probability zero")
    return log_probs


def choose(
    lm: LanguageModel | Any,
    prompt: Prompt,
    options: Sequence[str],
    *,
    end: bool = True,
    tokenizer: Any = None,
    max_contexts: int = 512,
) -> Choices:
    """Compute the probability of each option as the continuation of the prompt, over all its tokenisations.

    With ``end`` an option is the whole continuation: the end-of-sequence token follows it. Without ``end`` the continuation
    only begins with the option, whose last token may go on past its end; no option may then be a prefix of another one.

    All options are evaluated together, with one batch of the language model for each length in tokens. The number of
    tokenisations grows exponentially with the length of a text, so only the ``max_contexts`` most probable token prefixes of
    each length are extended. The total probability of the pruned ones is reported as a bound (``Choices.log_missing``,
    ``Choices.bounds``). :attr:`Choices.exact` is true if none was pruned.

    ``lm``, ``prompt`` and ``tokenizer`` are as in :func:`.smc`. Raises :class:`EvidenceError` for equal options, and without
    ``end`` for an option that is a prefix of another one; :class:`UnsupportedConstraint` for an option that is no text;
    :class:`VocabularyMismatch` if the tokenizer has another number of tokens than the language model.

    >>> import torch
    >>> import tractile as tt
    >>> vocab = tt.Vocabulary([None, b"a", b"b", b"ab"], eos_token_id=0)
    >>> lm = tt.lm.TableLM({(): torch.full((4,), 0.25, dtype=torch.float64).log()}, eos_token_id=0, vocabulary=vocab)
    >>> choices = choose(lm, [], ["a", "ab"])
    >>> choices.log_probs.exp().tolist()  # a: 1/4 · 1/4;  ab: 1/4 · 1/4 as one token, 1/4 · 1/4 · 1/4 as two
    [0.0625, 0.078125]
    >>> choices.exact
    True
    """
    lm, prompt = a_language_model(lm, tokenizer, "choose"), a_prompt(prompt, "choose: prompt")
    check_normalised(lm, "choose")
    most, texts = whole(max_contexts, "choose: max_contexts"), _checked(options, end)
    source = getattr(lm, "tokenizer", None) if tokenizer is None else tokenizer
    if source is None:
        raise EvidenceError("choose: the language model has no tokenizer; give tokenizer=…")
    vocab = vocabulary_of(source, lm.eos_token_id)
    if len(vocab) != lm.vocab_size:
        raise VocabularyMismatch(
            f"choose: the language model has {lm.vocab_size:,} tokens and its tokenizer {len(vocab):,}; {FEWER_OUTPUTS}"
        )
    if end and lm.eos_token_id is None:
        raise EvidenceError("choose: the language model has no end-of-sequence token; give end=False")
    tree = _Tree(vocab, texts, end)
    found, missing = (np.full(len(texts), -np.inf) for _ in range(2))
    reads, mass = [b""], np.zeros(1)
    lm.start([prompt])
    while True:
        moves = [tree.moves(read) for read in reads]
        row = np.repeat(np.arange(len(moves)), [len(move.tokens) for move in moves])
        token = np.concatenate([move.tokens for move in moves])
        option = np.concatenate([move.options for move in moves])
        after = [read for move in moves for read in move.reads]
        table = lm.log_probs().detach()
        cells = (torch.from_numpy(index).to(table.device) for index in (row, token))
        value = mass[row] + table[tuple(cells)].double().cpu().numpy()
        done = option >= 0
        np.logaddexp.at(found, option[done], value[done])
        growing = np.flatnonzero(~done & (value > -np.inf))
        growing = growing[np.argsort(-value[growing], kind="stable")]
        for i in growing[most:].tolist():
            np.logaddexp.at(missing, tree.beginning(after[i]), value[i])
        growing = growing[:most]
        if not len(growing):
            break
        reads, mass = [after[i] for i in growing.tolist()], value[growing]
        lm.select(torch.from_numpy(row[growing]))
        lm.advance(torch.from_numpy(token[growing]))
    return Choices(tuple(options), torch.from_numpy(found), torch.from_numpy(missing))


class _Moves(NamedTuple):
    """The tokens that may follow a byte prefix: token ids, the option each completes (−1: none), the byte prefix after each."""

    tokens: Int[ndarray, " moves"]
    options: Int[ndarray, " moves"]
    reads: list[bytes]


class _Tree:
    """The byte prefixes of the options, and the tokens that lead from one prefix to a longer one."""

    def __init__(self, vocab: Vocabulary, texts: Sequence[bytes], end: bool) -> None:
        self._vocab, self._texts, self._end = vocab, texts, end
        self._moves: dict[bytes, _Moves] = {}

    def beginning(self, read: bytes) -> list[int]:
        """Return the indices of the options that begin with these bytes."""
        return [i for i, text in enumerate(self._texts) if text.startswith(read)]

    def moves(self, read: bytes) -> _Moves:
        """Return the tokens that may follow these bytes; cached for each prefix."""
        if read not in self._moves:
            found: dict[int, tuple[int, bytes]] = {}
            for option in self.beginning(read):
                text = self._texts[option]
                if self._end and text == read:
                    found[self._vocab.eos_token_id] = option, text
                found.update(self._towards(option, read))
            tokens, options = list(found), [option for option, _ in found.values()]
            reads = [after for _, after in found.values()]
            self._moves[read] = _Moves(np.array(tokens, np.int64), np.array(options, np.int64), reads)
        return self._moves[read]

    def _towards(self, option: int, read: bytes) -> Iterator[tuple[int, tuple[int, bytes]]]:
        """Yield (token, (option it completes or −1, prefix after it)) for the tokens that continue ``read`` in one option."""
        trie, text, node = self._vocab.trie, self._texts[option], 0
        for at in range(len(read), len(text)):
            child = trie.children(node).get(text[at])
            if child is None:
                return
            node, low = child, int(trie.low[child])
            completes = not self._end and at + 1 == len(text)
            high = int(trie.high[node]) if completes else low + int(trie.own[node])
            for token in trie.order[low:high].tolist():
                yield token, (option if completes else -1, text[: at + 1])


def _checked(options: Sequence[str], end: bool) -> list[bytes]:
    """Encode the options as bytes. Raises :class:`EvidenceError` for options that :func:`choose` does not take."""
    if isinstance(options, str | bytes) or not isinstance(options, Sequence) or not options:
        raise EvidenceError(f"choose: options must be a list of texts, not {short(options)}")
    texts = [validation.text(option, f"choose: options[{i}]").encode() for i, option in enumerate(options)]
    for (i, one), (j, other) in itertools.combinations(enumerate(texts), 2):
        if one == other:
            raise EvidenceError(f"choose: options[{i}] and options[{j}] are equal; give each text once")
        if not end and (one.startswith(other) or other.startswith(one)):
            i, j = (i, j) if len(one) < len(other) else (j, i)
            raise EvidenceError(
                f"choose: options[{j}] begins with options[{i}], whose probability with end=False includes that of options[{j}]; "
                "give end=True, or options none of which begins another one"
            )
    if not end and b"" in texts:
        raise EvidenceError("choose: every text begins with the empty option; give end=True")
    return texts


def main() -> None:
    """Say how probable three words are after a sentence, and bound the probabilities of two long texts."""
    lm = tt.TransformersLM(*load_lm())
    print(choose(lm, "Lily was so happy. She was not", [" sad", " happy", " afraid"], end=False))
    prompt = "Once upon a time, there was a little girl named Lily. She loved to play"
    long = [" outside in the park with her friends.", " with her dolls and her little brother."]
    found = choose(lm, prompt, long, end=False, max_contexts=16)
    print(found.exact, found.log_probs.tolist())
    print(found.bounds)  # the least and the greatest that each probability can be


if __name__ == "__main__":
    main()
