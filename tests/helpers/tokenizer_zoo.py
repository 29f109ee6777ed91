"""A small tokenizer of each family, trained here: by name, with its encoder and its end token."""

import io
import json
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from trained import CORPUS, byte_level

RANKS = {bytes([n]): n for n in range(256)} | {b"th": 256, b" th": 257, b"the": 259}
"""Ranks of tiktoken with a hole at 258."""


class Known(NamedTuple):
    tokenizer: Any
    encode: Callable[[str], list[int]]
    decode: Callable[[list[int]], str]
    eos: int


def backend(tokenizer: Tokenizer, eos: str) -> Known:
    return Known(
        tokenizer,
        lambda text: tokenizer.encode(text, add_special_tokens=False).ids,
        lambda ids: tokenizer.decode(ids, skip_special_tokens=False),
        tokenizer.token_to_id(eos),
    )


def added() -> Known:
    tokenizer = byte_level()
    tokenizer.add_tokens(
        ["dog.", AddedToken("a time", lstrip=True, rstrip=True), AddedToken("Once", normalized=False)]
    )
    tokenizer.add_tokens([AddedToken("東京", single_word=True)])
    tokenizer.add_special_tokens([AddedToken("<|x|>", lstrip=True, rstrip=True)])
    return backend(tokenizer, "</s>")


def lower_case() -> Known:
    tokenizer = byte_level()
    tokenizer.normalizer = normalizers.Lowercase()
    return backend(tokenizer, "</s>")


def with_holes() -> Known:
    """Byte-level, its ids spread out."""
    settings = json.loads(byte_level().to_str())
    settings["model"]["vocab"] = {token: 2 * index for token, index in settings["model"]["vocab"].items()}
    for token in settings["added_tokens"]:
        token["id"] *= 2
    return backend(Tokenizer.from_str(json.dumps(settings)), "</s>")


def word_pieces(cleanup: bool = False) -> Known:
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece(cleanup=cleanup)
    special = ["[UNK]", "[SEP]"]
    trainer = trainers.WordPieceTrainer(vocab_size=150, special_tokens=special, show_progress=False)
    tokenizer.train_from_iterator(CORPUS, trainer)
    return backend(tokenizer, "[SEP]")


def tiktoken(special: str = "<|endoftext|>") -> Known:
    package = pytest.importorskip("tiktoken")
    made = package.Encoding("own", pat_str=r" ?\S+|\s+", mergeable_ranks=RANKS, special_tokens={special: 262})
    return Known(made, made.encode_ordinary, made.decode, 262)


def sentencepiece_model(**options: Any) -> bytes:
    """Return a model of SentencePiece, trained on the corpus."""
    package, out = pytest.importorskip("sentencepiece"), io.BytesIO()
    package.SentencePieceTrainer.train(
        sentence_iterator=iter(CORPUS * 5), model_writer=out, hard_vocab_limit=False, minloglevel=2, **options
    )
    return out.getvalue()


def sentencepiece(**options: Any) -> Known:
    data = sentencepiece_model(**options)
    made = pytest.importorskip("sentencepiece").SentencePieceProcessor(model_proto=data)
    return Known(made, made.encode, made.decode, made.eos_id())


EXACT = {"normalization_rule_name": "identity", "remove_extra_whitespaces": False, "byte_fallback": True}
ZOO: dict[str, Callable[[], Known]] = {
    "byte-level": lambda: backend(byte_level(), "</s>"),
    "added": added,
    "lower case": lower_case,
    "holes": with_holes,
    "word pieces": word_pieces,
    "tiktoken": tiktoken,
    "SentencePiece, BPE": lambda: sentencepiece(model_type="bpe", vocab_size=400, **EXACT),
    "SentencePiece, no prefix": lambda: sentencepiece(
        model_type="bpe", vocab_size=400, add_dummy_prefix=False, **EXACT
    ),
    "SentencePiece, unigram": lambda: sentencepiece(model_type="unigram", vocab_size=80),
    "SentencePiece, symbols": lambda: sentencepiece(
        model_type="unigram",
        vocab_size=400,
        byte_fallback=True,
        user_defined_symbols=["<call>", "a time"],
        control_symbols=["<c>"],
    ),
}
