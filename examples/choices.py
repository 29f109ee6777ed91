"""Exact probabilities of texts under a language model, over all their tokenisations.

    p(text) = Σ over token sequences s that spell the text of Π_t p_lm(s_t | prompt, s_<t) · p_lm(EOS | prompt, s)

Without the last factor this is the probability that the continuation begins with the text. The last token of s may then go on
past the end of the text; all tokens before it lie inside (Vieira et al. 2024, "From Language Models over Tokens to Language
Models over Characters", Prop. 1). The token sequences of all options form one tree, read level by level, with one batch of
the language model for each depth. Their number grows exponentially with the length of a text: meant for short ones.

    python examples/choices.py
"""

import itertools
from collections.abc import Iterator, Sequence

import torch
from jaxtyping import Float
from torch import Tensor

import tractile as tt


def choose(
    lm: tt.lm.LanguageModel, prompt: str | list[int], options: Sequence[str], end: bool = True
) -> Float[Tensor, " options"]:
    """Log probability of each option as the continuation of the prompt, in nats, over all its tokenisations.

    With ``end`` an option is the whole continuation: the end of the sequence follows it. Without it the continuation begins
    with the option; no option may then begin another one. ``lm`` needs a tokenizer. Divide by the sum
    (``.softmax(0)``) for the probability of each option given that it is one of them.

    >>> vocab = tt.Vocabulary([None, b"a", b"b", b"ab"], eos_token_id=0)
    >>> lm = tt.lm.TableLM({(): torch.full((4,), 0.25, dtype=torch.float64).log()}, eos_token_id=0, vocabulary=vocab)
    >>> choose(lm, [], ["a", "ab"]).exp().tolist()  # a: 1/4 · 1/4;  ab: 1/4 · 1/4 as one token, 1/4 · 1/4 · 1/4 as two
    [0.0625, 0.078125]
    """
    texts = [option.encode() for option in options]
    if len(set(texts)) < len(texts):
        raise ValueError("choose: give each option once")
    if not end and any(b.startswith(a) for a, b in itertools.permutations(texts, 2)):
        raise ValueError("choose: an option begins another one; give end=True, or only the shorter")
    source = lm.tokenizer  # type: ignore[attr-defined]
    vocab = source if isinstance(source, tt.Vocabulary) else tt.Vocabulary.from_tokenizer(source)
    found = torch.full((len(texts),), -torch.inf, dtype=torch.float64)
    read, mass = (
        [b""],
        torch.zeros(1, dtype=torch.float64),
    )  # the bytes of each context, and its log probability
    lm.start([prompt])
    while read:
        log_p = lm.log_probs().detach().double().cpu()
        rows, tokens, longer, reached = list[int](), list[int](), list[bytes](), list[Tensor]()
        for row, begin in enumerate(read):
            for token, option, after in following(vocab, texts, begin, end):
                value = mass[row] + log_p[row, token]
                if option is not None:
                    found[option] = torch.logaddexp(found[option], value)
                elif value > -torch.inf:
                    rows.append(row), tokens.append(token), longer.append(after), reached.append(value)
        read = longer
        if read:
            mass = torch.stack(reached)
            lm.select(torch.tensor(rows))
            lm.advance(torch.tensor(tokens))
    return found


def following(
    vocab: tt.Vocabulary, texts: list[bytes], begin: bytes, end: bool
) -> Iterator[tuple[int, int | None, bytes]]:
    """The tokens after the bytes ``begin`` on the way to some text: (token, the text that it completes or None, bytes read)."""
    rest = {i: text[len(begin) :] for i, text in enumerate(texts) if text.startswith(begin)}
    if end:
        yield from ((vocab.eos_token_id, i, begin) for i, left in rest.items() if not left)
    for token, piece in enumerate(vocab.token_bytes):
        if piece:
            done = [i for i, left in rest.items() if not end and piece.startswith(left)]
            if done or any(left.startswith(piece) for left in rest.values()):
                yield token, done[0] if done else None, begin + piece


def main() -> None:
    """How probable are three words after a sentence?"""
    lm = tt.TransformersLM(*tt.embedded.load_lm())
    words = [" sad", " happy", " afraid"]
    log_p = choose(lm, "Lily was so happy. She was not", words, end=False)
    for word, p, share in zip(words, log_p.exp().tolist(), log_p.softmax(0).tolist(), strict=True):
        print(f"{word:8} p = {p:.4f}, {share:.1%} of the three")


if __name__ == "__main__":
    main()
