"""The bytes of every token, for each family of tokenizer: real ones, and small ones trained here."""

import itertools
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from trained import CORPUS, byte_level

import tractile as tt
from tractile import constraints, token_bytes
from tractile.constraints import Vocabulary, regex
from tractile.constraints.vocabulary.reading import vocabulary_of

TEXTS = [
    "Once upon a time.", ' {"name": "Zoë", "age": 7}', "tabs\tand\n\nnewlines  ", "東京 🙂 façade", "it's 12.5%",
]  # fmt: skip


def gpt2(shared: Path) -> Tokenizer:
    folder = shared / "data/tokenizers/gpt2"
    tokenizer = Tokenizer(models.BPE.from_file(str(folder / "vocab.json"), str(folder / "merges.txt")))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(["<|endoftext|>"])
    return tokenizer


def neox(shared: Path) -> Tokenizer:
    return Tokenizer.from_file(str(shared / "data/tokenizers/gpt_neox_20b/tokenizer.json"))


def sentencepiece_bpe() -> Tokenizer:
    """As Llama 2's: ``▁`` for a space, ``<0xNN>`` for bytes, one ``▁`` put before the text."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=True))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    special = ["<unk>", "<s>", "</s>", *(f"<0x{i:02X}>" for i in range(256))]
    tokenizer.train_from_iterator(
        ["▁" + line.replace(" ", "▁") for line in CORPUS],
        trainers.BpeTrainer(vocab_size=500, special_tokens=special),
    )
    settings = json.loads(tokenizer.to_str())  # the byte tokens are ordinary ones
    settings["added_tokens"] = settings["added_tokens"][:3]
    return Tokenizer.from_str(json.dumps(settings))


def unigram() -> Tokenizer:
    """As T5's: Metaspace, no bytes."""
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    tokenizer.train_from_iterator(
        CORPUS,
        trainers.UnigramTrainer(
            vocab_size=120, special_tokens=["<unk>", "</s>"], unk_token="<unk>", show_progress=False
        ),
    )
    return tokenizer


def backend_cases(shared: Path) -> dict[str, tuple[Tokenizer, int]]:
    return {
        "gpt2": (gpt2(shared), 50256),
        "neox": (neox(shared), 0),
        "stories260K": (Tokenizer.from_file(str(shared / "models/stories260K/tokenizer.json")), 2),
        "byte-level": (byte_level(), 0),
        "sentencepiece": (sentencepiece_bpe(), 2),
        "unigram": (unigram(), 1),
    }


@pytest.fixture(
    scope="session", params=["gpt2", "neox", "stories260K", "byte-level", "sentencepiece", "unigram"]
)
def backend(request, shared_dir) -> tuple[str, Tokenizer, Vocabulary]:
    tokenizer, eos = backend_cases(shared_dir)[request.param]
    return request.param, tokenizer, Vocabulary.from_tokenizer(tokenizer, eos_token_id=eos)


@pytest.fixture(scope="session")
def tekken():
    module = pytest.importorskip("mistral_common")
    from mistral_common.tokens.tokenizers.tekken import Tekkenizer

    return Tekkenizer.from_file(str(Path(module.__file__).parent / "data/tekken_240911.json"))


def bytes_of(vocab: Vocabulary, ids: list[int]) -> bytes:
    pieces = [vocab.token_bytes[i] for i in ids]
    assert None not in pieces
    return b"".join(pieces)


def test_every_token_reads_as_the_decoder_writes_it(backend):
    """Each token between two letters that fence it off from the decoder's treatment of the beginning."""
    _, tokenizer, vocab = backend
    fence = tokenizer.token_to_id("a")
    special = 0
    for index, data in enumerate(vocab.token_bytes):
        if data is None:
            special += 1
            continue
        written = tokenizer.decode([fence, index, fence], skip_special_tokens=False)
        around = tokenizer.decode([fence, fence], skip_special_tokens=False)
        middle = written[len(around) // 2 : len(written) - len(around) // 2]
        # The decoder shows what is not UTF-8 as U+FFFD, once for the piece or once for each byte.
        if "\ufffd" in middle:
            assert "\ufffd" in data.decode(errors="replace")
        else:
            assert middle.encode() == data, index
    assert 1 <= special <= 30
    assert vocab.token_bytes[vocab.eos_token_id] is None
    assert len(vocab) == tokenizer.get_vocab_size(with_added_tokens=True)


def test_tekken(tekken):
    vocab = Vocabulary.from_tokenizer(tekken)
    assert len(vocab) == 131_072
    assert vocab.eos_token_id == tekken.eos_id
    assert sum(b is None for b in vocab.token_bytes) == tekken.num_special_tokens
    for text in TEXTS:
        assert bytes_of(vocab, tekken.encode(text, bos=False, eos=False)) == text.encode()
    for index in range(tekken.num_special_tokens, len(vocab), 101):
        assert vocab.token_bytes[index] == tekken.id_to_byte_piece(index)


def test_transformers_tokenizer(shared_dir):
    from transformers import PreTrainedTokenizerFast

    tokenizer = PreTrainedTokenizerFast.from_pretrained(shared_dir / "models/stories260K")
    vocab = Vocabulary.from_tokenizer(tokenizer)
    assert vocab.eos_token_id == tokenizer.eos_token_id
    assert vocab.token_bytes[0] is vocab.token_bytes[1] is vocab.token_bytes[2] is None
    assert vocab.token_bytes[3:259] == [bytes([i]) for i in range(256)]
    assert (
        bytes_of(vocab, tokenizer.encode("Once upon a time", add_special_tokens=False))
        == b" Once upon a time"
    )
    wrapped = PreTrainedTokenizerFast(tokenizer_object=byte_level(), eos_token="</s>")
    assert len(Vocabulary.from_tokenizer(wrapped, size=512)) == 512
    with pytest.raises(tt.errors.ShapeError, match="size"):
        Vocabulary.from_tokenizer(wrapped, size=0)


def test_families_that_are_refused():
    from transformers import PreTrainedTokenizerFast

    with pytest.raises(tt.errors.FormatError, match="end-of-sequence"):
        Vocabulary.from_tokenizer(byte_level())
    with pytest.raises(tt.errors.FormatError, match="end-of-sequence"):
        Vocabulary.from_tokenizer(PreTrainedTokenizerFast(tokenizer_object=byte_level()))
    with pytest.raises(tt.errors.FormatError, match="int"):
        Vocabulary.from_tokenizer(7)
    with pytest.raises(tt.errors.ShapeError):
        Vocabulary([b"a"], eos_token_id=1)


@given(st.lists(st.one_of(st.none(), st.binary(max_size=5)), min_size=1, max_size=30))
def test_trie(tokens):
    """Every node spells a prefix; every token ends at the node that spells it; no node is there twice."""
    vocab = Vocabulary([*tokens, None], eos_token_id=len(tokens))
    trie, spelled = vocab.trie, [b""]
    for parent, byte in zip(trie.parent.tolist()[1:], trie.byte.tolist()[1:], strict=True):
        spelled.append(spelled[parent] + bytes([byte]))
    for depth, (low, high) in enumerate(itertools.pairwise(trie.bounds)):
        assert {len(word) for word in spelled[low:high]} == {depth}
    assert len(set(spelled)) == len(spelled)
    assert set(spelled) == {b""} | {t[:i] for t in tokens if t for i in range(len(t) + 1)}
    for token, node in zip(vocab.token_bytes, vocab.trie.node.tolist(), strict=True):
        assert node == -1 if token is None else spelled[node] == token


def test_a_tokenizer_is_read_once_until_its_tokens_change(monkeypatch):
    """For its vocabulary, and for the fingerprint that a language model and an automaton are compared by."""
    from transformers import PreTrainedTokenizerFast

    reads, backend_of = [], token_bytes.read_backend
    monkeypatch.setattr(token_bytes, "read_backend", lambda *given: reads.append(0) or backend_of(*given))
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=byte_level(), eos_token="</s>")
    vocab = Vocabulary.from_tokenizer(tokenizer)
    assert token_bytes.tokenizer_fingerprint(tokenizer) == vocab.fingerprint
    assert regex("a+").compiled_for(tokenizer).vocabulary_fingerprint == vocab.fingerprint
    assert len(reads) == 1
    tokenizer.add_tokens(["zzz"])
    assert Vocabulary.from_tokenizer(tokenizer).token_bytes[-1] == b"zzz"
    assert token_bytes.tokenizer_fingerprint(tokenizer) != vocab.fingerprint
    assert len(reads) == 2


@pytest.mark.parametrize(
    "model",
    [
        models.BPE({"?": 0, "a": 1, "<e>": 2}, [], unk_token="?"),
        models.Unigram([("?", -1.0), ("a", -1.0), ("<e>", -1.0)], unk_id=0),
    ],
)
def test_the_token_for_unknown_characters_spells_nothing(model):
    tokenizer = Tokenizer(model)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(["<e>"])
    assert Vocabulary.from_tokenizer(tokenizer, eos_token_id=2).token_bytes == [None, b"a", None]


def spoken(eos: int = 4) -> Vocabulary:
    """Six tokens, of which two special ones were given a text."""
    plain = Vocabulary([b"a", b"b", None, None, None, b"ab"], eos)
    return plain.with_special({"<call>": 2, "<end>": 3})


def test_another_end_token_keeps_the_special_texts():
    given = spoken()
    other = vocabulary_of(given, 1)
    assert other.token_bytes == [b"a", None, b"<call>", b"<end>", None, b"ab"]
    assert other.fingerprint == Vocabulary([b"a", b"b", None, None, None, b"ab"], 1).fingerprint
    again = vocabulary_of(other, 4)
    assert again.token_bytes == given.token_bytes
    assert again.fingerprint == given.fingerprint
    assert again.cache_name == given.cache_name
    assert vocabulary_of(given, 4) is given
    assert vocabulary_of(given, 1) is other
    with pytest.raises(tt.errors.ShapeError, match="<end>"):
        vocabulary_of(given, 3)
    tokens = tt.gcd(constraints.grammar('start: "<call>"').compile(given, eos_token_id=1), 3)
    assert tokens.start(batch=1).mask()[0].tolist() == [False, False, True, False, False, False]
