"""Tokenizers of every family as they ship: what each token spells, and that texts come back from their masks."""

import io
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from trained import CORPUS, byte_level

import tractile as tt
from tractile.constraints import Vocabulary, literal, regex
from tractile.errors import FormatError, UnsupportedConstraint

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


TEXTS = [
    *dict.fromkeys(CORPUS),
    "Once upon a time, a cat",
    ' said  12.5%\n\tok: {"a": [1]}',
    "don't",
    "naïve café — 東京 🙂 ты",
    "the other thing<call>",
]


def random_texts(count: int) -> list[str]:
    draw = random.Random(0)
    letters = "the dog ated,.\n\t{}\"'éß東京🙂\u200d"
    return ["".join(draw.choices(letters, k=draw.randrange(1, 30))) for _ in range(count)]


@pytest.mark.parametrize("name", ZOO)
def test_texts_come_back(name: str) -> None:
    """Each token of an encoded text is in its mask, the end is in the last, and the bytes are what the decoder writes."""
    known = ZOO[name]()
    vocab = Vocabulary.from_tokenizer(known.tokenizer, eos_token_id=known.eos)
    anything, tried = regex("(?s).*").compile(vocab), 0
    for text in TEXTS + random_texts(60):
        ids = known.encode(text)
        words = [vocab.token_bytes[i] for i in ids]
        if None in words or not words:  # characters that the tokenizer does not know
            continue
        spelled = b"".join(words).decode()
        assert known.decode(ids).strip() == spelled.strip()
        for constraint in (anything, literal(spelled).compile(vocab)):
            rows = tt.gcd(constraint, len(ids) + 1).start(batch=1)
            for token in [*ids, known.eos]:
                assert bool(rows.mask()[0, token]), (text, token)
                rows.advance([token])
        tried += 1
    assert tried >= (10 if name in ("word pieces", "SentencePiece, unigram") else len(TEXTS))


@pytest.mark.parametrize("name", ["byte-level", "added", "holes", "tiktoken"])
def test_bytes_are_those_of_the_text(name: str) -> None:
    known = ZOO[name]()
    vocab = Vocabulary.from_tokenizer(known.tokenizer, eos_token_id=known.eos)
    for text in ("Once, the dog", "naïve 🙂\n", "then  the"):
        assert b"".join(vocab.token_bytes[i] or b"?" for i in known.encode(text)) == text.encode()


def test_holes_are_tokens_that_nothing_reads() -> None:
    known = tiktoken()
    vocab = Vocabulary.from_tokenizer(known.tokenizer)
    assert len(vocab) == 263
    assert vocab.eos_token_id == 262
    assert [i for i, word in enumerate(vocab.token_bytes) if word is None] == [258, 260, 261, 262]
    mask = tt.gcd(regex("(?s).+").compile(vocab), 4).start(batch=1).mask()[0]
    assert mask[258:].tolist() == [False, True, False, False, False]


def test_an_encoding_without_the_usual_end_token() -> None:
    encoding = tiktoken("<end>").tokenizer
    with pytest.raises(FormatError, match="eos_token_id"):
        Vocabulary.from_tokenizer(encoding)
    vocab = Vocabulary.from_tokenizer(encoding, eos_token_id=262)
    assert vocab.token_bytes[262] is None
    assert {word for word in vocab.token_bytes if word} == set(RANKS)
    with pytest.raises(UnsupportedConstraint, match="leaves out"):
        regex("the").compile(Vocabulary.from_tokenizer(encoding, eos_token_id=0, size=259), canonical=True)
    ends = regex("the").compile(vocab, canonical=True)
    assert ends.accepts([259, 262])
    assert not ends.accepts([256, 101, 262])


def test_word_pieces() -> None:
    """Read where the decoder only joins them by spaces; with cleanup refused by name, with what to do."""
    tokenizer = word_pieces().tokenizer
    vocab, vocabulary = Vocabulary.from_tokenizer(tokenizer, eos_token_id=1), tokenizer.get_vocab()
    assert vocab.token_bytes[vocabulary["a"]] == b" a"
    assert vocab.token_bytes[vocabulary["##a"]] == b"a"
    with pytest.raises(FormatError, match=r"WordPiece.*cleanup=False"):
        Vocabulary.from_tokenizer(word_pieces(cleanup=True).tokenizer, eos_token_id=1)


def test_a_decoder_that_writes_something_else_is_refused() -> None:
    from tokenizers import decoders

    tokenizer = byte_level()
    tokenizer.decoder = decoders.Sequence([decoders.ByteLevel(), decoders.Replace("dog", "cat")])
    with pytest.raises(FormatError, match=r"the token \d+ reads as '.*dog"):
        Vocabulary.from_tokenizer(tokenizer, eos_token_id=0)


def test_pieces_of_sentencepiece() -> None:
    known = ZOO["SentencePiece, symbols"]()
    model = known.tokenizer
    vocab = Vocabulary.from_tokenizer(model)
    assert vocab.eos_token_id == model.eos_id()
    assert vocab.tokenizer is model
    words = vocab.token_bytes
    for special in ("<unk>", "<s>", "</s>", "<c>"):
        assert words[model.piece_to_id(special)] is None
    assert words[model.piece_to_id("<call>")] == b"<call>"
    assert words[model.piece_to_id("a time")] == b"a time"
    assert [words[model.piece_to_id(f"<0x{n:02X}>")] for n in range(256)] == [bytes([n]) for n in range(256)]
    with pytest.raises(UnsupportedConstraint, match="SentencePieceProcessor"):
        regex("a").compile(vocab, canonical=True)


def test_slow_tokenizers_of_transformers(tmp_path: Path) -> None:
    from transformers import ByT5Tokenizer, CanineTokenizer

    slow = ByT5Tokenizer()
    slow.add_tokens(["dog."])
    vocab = Vocabulary.from_tokenizer(slow)
    assert vocab.token_bytes[3:259] == [bytes([n]) for n in range(256)]
    assert [word for word in vocab.token_bytes[259:] if word] == [b"dog."]
    assert vocab.token_bytes[slow.convert_tokens_to_ids("dog.")] == b"dog."
    with pytest.raises(FormatError, match="CanineTokenizer"):
        Vocabulary.from_tokenizer(CanineTokenizer(), eos_token_id=0)
    backends = pytest.importorskip("transformers.tokenization_utils_sentencepiece")
    path = tmp_path / "tokenizer.model"
    path.write_bytes(sentencepiece_model(model_type="bpe", vocab_size=400, **EXACT))
    slow = backends.SentencePieceBackend(
        vocab_file=str(path), unk_token="<unk>", bos_token="<s>", eos_token="</s>"
    )
    slow.add_tokens(["a dog"])
    vocab = Vocabulary.from_tokenizer(slow)
    assert len(vocab) == len(slow)
    assert vocab.token_bytes[-1] == b"a dog"
    assert vocab.token_bytes[slow.convert_tokens_to_ids("<0x41>")] == b"<0x41>"  # its decoder writes it so
    ids = slow.encode("Once upon a dog", add_special_tokens=False)
    assert b"".join(vocab.token_bytes[i] for i in ids).strip() == slow.decode(ids).encode()


@pytest.mark.parametrize("wrapped", [False, True])
def test_sentencepiece_of_mistral_common(wrapped: bool) -> None:
    package = pytest.importorskip("mistral_common")
    pytest.importorskip("sentencepiece")
    from mistral_common.tokens.tokenizers.mistral import MistralTokenizer
    from mistral_common.tokens.tokenizers.sentencepiece import SentencePieceTokenizer

    path = Path(package.__file__).parent / "data/mistral_instruct_tokenizer_240323.model.v3"
    own = SentencePieceTokenizer(str(path))
    vocab = Vocabulary.from_tokenizer(MistralTokenizer.from_file(str(path)) if wrapped else own)
    assert len(vocab) == own.n_words
    assert vocab.eos_token_id == own.eos_id
    assert vocab.token_bytes[own.get_special_token("[TOOL_CALLS]")] is None
    for text in TEXTS:
        ids = own.encode(text, bos=False, eos=False)
        assert b"".join(vocab.token_bytes[i] or b"?" for i in ids) == b" " + text.encode()


def test_mistral_common_inside_transformers() -> None:
    package = pytest.importorskip("mistral_common")
    backend = pytest.importorskip("transformers.tokenization_mistral_common").MistralCommonBackend
    data = Path(package.__file__).parent / "data/tekken_240911.json"
    vocab = Vocabulary.from_tokenizer(backend(tokenizer_path=str(data)))
    assert len(vocab) == 131_072
    assert vocab.tokenizer.__class__.__name__ == "Tekkenizer"
