"""``compile(canonical=True)`` accepts exactly what the tokenizer writes: tokenizers trained here, the embedded one, tekken."""

import itertools
import json
import random
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, trainers
from tokenizers import pre_tokenizers as pt

import tractile as tt
from tractile.constraints.automata import utf8
from tractile.constraints.canonical import marked_text, pretokens
from tractile.constraints.canonical.bpe import Followers, encode

LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
    r"|\s+(?!\S)|\s+"
)
CL100K = (
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]"
    r"|\s+(?!\S)|\s"
)
SPLITS = {
    "gpt2": pt.Split(Regex(pretokens.GPT2), "isolated"),
    "llama3": pt.Split(Regex(LLAMA3), "isolated"),
    "cl100k": pt.Split(Regex(CL100K), "removed", invert=True),
    "digits": pt.Digits(individual_digits=True),
    "numbers": pt.Digits(individual_digits=False),
    "punctuation": pt.Punctuation("merged_with_next"),
    "falcon": pt.Sequence(
        [
            pt.Punctuation("contiguous"),
            pt.Split(Regex(pretokens.GPT2), "isolated"),
            pt.Digits(individual_digits=False),
            pt.Split(Regex("[0-9][0-9][0-9]"), "isolated"),
        ]
    ),
    "prefers": pt.Split(Regex("ab|a|b{2,3}c??b|(?:b|bs)s"), "isolated"),
    "lazy": pt.Split(Regex("a+?b?|(ba){2}"), "merged_with_previous"),
    "inverted": pt.Split(Regex("[ab]{2}|1"), "merged_with_next", invert=True),
    "contiguous": pt.Split(Regex(r"\s|\d"), "contiguous"),
    "spaces": pt.Split(" ", "merged_with_next"),
}


def settings_of(part: object) -> dict:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = part
    return json.loads(tokenizer.to_str())["pre_tokenizer"]


# ---------------------------------------------------------------- which tokens may be neighbours


@st.composite
def merges(draw: st.DrawFn):
    """Symbols as tuples of letters, and merges with ranks of any order, as of training or as tiktoken has them."""
    letters = draw(st.integers(1, 3))
    words = {(i,): i for i in range(letters)}
    found = {}
    for _ in range(draw(st.integers(1, 12))):
        a, b = draw(st.sampled_from(sorted(words))), draw(st.sampled_from(sorted(words)))
        if len(a + b) <= 6:
            token = words.setdefault(a + b, len(words))
            found.setdefault((words[a], words[b]), (len(found), token))
    kind = draw(st.sampled_from(["trained", "shuffled", "by token"]))
    if kind == "by token":
        order = draw(st.permutations(range(len(words))))
        found = {
            (words[w[:i]], words[w[i:]]): (order[token], token)
            for w, token in words.items()
            for i in range(1, len(w))
            if w[:i] in words and w[i:] in words
        }
    elif kind == "shuffled":
        ranks = draw(st.permutations(range(len(found))))
        found = {pair: (rank, found[pair][1]) for pair, rank in zip(found, ranks, strict=True)}
    return list(words), found


@given(merges())
@settings(max_examples=150)
def test_neighbours_are_forbidden_that_the_tokenizer_merges_across(case):
    words, found = case
    followers = Followers(words, found)
    made = [encode(word, found) == [token] for token, word in enumerate(words)]
    assert followers.made.tolist() == made
    for a in itertools.compress(range(len(words)), made):
        wrong = [b for b, word in enumerate(words) if made[b] and encode(words[a] + word, found) != [a, b]]
        assert followers.forbidden(a).tolist() == wrong


# ---------------------------------------------------------------- where text is split


@pytest.mark.long
@pytest.mark.parametrize("name", SPLITS)
def test_pieces_are_those_of_the_pre_tokenizer(name):
    split, rng = SPLITS[name], random.Random(name)
    automaton = marked_text.marked_text(
        tuple(pretokens.stages(settings_of(split), False)), marked_text.SymbolAlphabet(utf8.EVERY, ())
    )
    for _ in range(300):
        letters = rng.choice(["aabbAB  \n\r'stlvre1239.,!/é٣\u00a0ſ\u0301東\x1c", "ab1 ", "abs"])
        text = "".join(rng.choice(letters) for _ in range(rng.randint(0, 9)))
        pieces = [piece for piece, _ in split.pre_tokenize_str(text)]
        if "".join(pieces) == text:  # nothing is removed
            assert automaton.accepts(b"\xff".join(piece.encode() for piece in pieces))
        other = re.sub(".", lambda m: m[0] + rng.choice(["", "", "\x00"]), text, flags=re.S).strip("\x00")
        if other.split("\x00") != pieces and text:
            assert not automaton.accepts(other.encode().replace(b"\x00", b"\xff"))


# ---------------------------------------------------------------- whole tokenizers


def corpus(seed: int, letters: str) -> list[str]:
    rng = random.Random(seed)
    return ["".join(rng.choice(letters) for _ in range(rng.randint(1, 30))) for _ in range(60)]


def byte_level(before: pt.PreTokenizer, seed: int, size: int) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer, tokenizer.decoder = before, decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        special_tokens=["</s>"],
        initial_alphabet=pt.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(corpus(seed, "aaab  b1é'"), trainer)
    return tokenizer


def sentence_piece(split: bool | None, seed: int, size: int) -> Tokenizer:
    """Over characters, with bytes for those that are not in the vocabulary; ``split``: words apart, None: by normalizer."""
    tokenizer = Tokenizer(models.BPE(byte_fallback=True, unk_token="<unk>", fuse_unk=True))
    if split is None:
        tokenizer.normalizer = normalizers.Replace(" ", "▁")
    else:
        tokenizer.pre_tokenizer = pt.Metaspace(prepend_scheme="never", split=split)
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    )
    special = ["<unk>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
    trainer = trainers.BpeTrainer(vocab_size=size, special_tokens=special, show_progress=False)
    tokenizer.train_from_iterator(corpus(seed, "aaab  b1'"), trainer)
    state = json.loads(tokenizer.to_str())
    state["added_tokens"] = [t for t in state["added_tokens"] if not t["content"].startswith("<0x")]
    return Tokenizer.from_str(json.dumps(state))


def plain_bytes(**options: bool) -> pt.PreTokenizer:
    return pt.ByteLevel(**{"add_prefix_space": False, "use_regex": False, **options})


TOKENIZERS = {
    "no splits": lambda seed, size: byte_level(plain_bytes(), seed, size),
    "gpt2": lambda seed, size: byte_level(plain_bytes(use_regex=True), seed, size),
    "llama3": lambda seed, size: byte_level(pt.Sequence([SPLITS["llama3"], plain_bytes()]), seed, size),
    "digits": lambda seed, size: byte_level(
        pt.Sequence([SPLITS["digits"], plain_bytes(use_regex=True)]), seed, size
    ),
    "white space": lambda seed, size: byte_level(
        pt.Sequence([pt.Split(Regex(r"\s+"), "merged_with_previous"), plain_bytes()]), seed, size
    ),
    "normalizer": lambda seed, size: sentence_piece(None, seed, size),
    "metaspace": lambda seed, size: sentence_piece(False, seed, size),
    "metaspace, split": lambda seed, size: sentence_piece(True, seed, size),
}


def sequences(fa: tt.Automaton) -> list[tuple[int, ...]]:
    """All accepted token sequences without EOS, once for each accepting path; for finite languages."""
    moves: dict[int, list[tuple[int, list[int]]]] = {}
    for source, target, tokens in fa.edges():
        moves.setdefault(source, []).append((target, tokens))
    found, stack = [], [(state, ()) for state in fa.start_states]
    while stack:
        state, word = stack.pop()
        for target, tokens in moves.get(state, ()):
            for token in tokens:
                if token == fa.eos_token_id:
                    if fa.eos_token_id not in word:
                        found.append(word)
                elif fa.eos_token_id not in word:
                    stack.append((target, (*word, token)))
    return found


def texts(letters: str, most: int, pattern: str = ".*") -> list[str]:
    words = ("".join(word) for n in range(most + 1) for word in itertools.product(letters, repeat=n))
    return [word for word in words if re.fullmatch(pattern, word, re.DOTALL)]


@pytest.mark.parametrize("name", TOKENIZERS)
@given(
    seed=st.integers(0, 999),
    merged=st.integers(4, 40),
    letters=st.sampled_from(["ab 1", "a '\n", "bé1", "a▁ "]),
)
@settings(max_examples=5)
def test_what_is_accepted_is_what_the_tokenizer_writes(name, seed, merged, letters):
    tokenizer = TOKENIZERS[name](seed, 264 + merged)
    vocab = tt.Vocabulary.from_tokenizer(tokenizer, eos_token_id=tokenizer.token_to_id("</s>"))
    fa = tt.constraints.regex(f"[{letters}]{{1,4}}").compile(vocab, canonical=True)
    found = sequences(fa)
    assert len(set(found)) == len(found)  # unambiguous
    written = {tuple(tokenizer.encode(t).ids): t for t in texts(letters, 4) if t}
    kept = {ids for ids, text in written.items() if text_of(vocab, ids) == text}
    assert set(found) == kept


def text_of(vocab: tt.Vocabulary, tokens: tuple[int, ...]) -> str:
    return b"".join(vocab.token_bytes[token] or b"\xff" for token in tokens).decode(errors="replace")


def test_a_space_put_before_the_text_is_left_out():
    tokenizer = byte_level(plain_bytes(use_regex=True, add_prefix_space=True), 3, 290)
    vocab = tt.Vocabulary.from_tokenizer(tokenizer, eos_token_id=0)
    fa = tt.constraints.regex("[ab ]{1,4}").compile(vocab, canonical=True)
    bare = Tokenizer.from_str(tokenizer.to_str())
    bare.pre_tokenizer = plain_bytes(use_regex=True)
    assert set(sequences(fa)) == {tuple(bare.encode(t).ids) for t in texts("ab ", 4) if t}
    begun = {tuple(tokenizer.encode(t).ids) for t in texts("ab ", 4) if t[:1] == " "}
    assert begun == {s for s in sequences(fa) if text_of(vocab, s).startswith(" ")}


def test_queries_go_on_as_before():
    model, tokenizer = tt.embedded.load_lm()
    vocab = tt.Vocabulary.from_tokenizer(tokenizer)
    c = tt.constraints.regex(r" [a-z]{1,4} (dog|cat)s?\.")
    fa, hmm = c.compile(vocab, canonical=True), tt.embedded.load_hmm()
    least = int(fa.distances[fa.start_states].min())
    with pytest.raises(tt.errors.BudgetTooSmall) as error:
        tt.gcd(fa, least - 1).start()
    assert error.value.needed == least
    for proposal in ("gcd", "pgcd"):
        settings_ = {"hmm": hmm} if proposal == "pgcd" else {}
        post = tt.smc(
            tt.TransformersLM(model, tokenizer),
            "Once upon a time, the",
            fa,
            proposal,
            particles=8,
            max_new_tokens=least + 1,
            seed=0,
            **settings_,
        )
        for text, ids in zip(post.texts, post.token_ids, strict=True):
            assert c.accepts(text)
            assert tokenizer.encode(text[1:], add_special_tokens=False) == [
                t for t in ids if t != fa.eos_token_id
            ]


def test_added_tokens_are_not_written_as_text():
    tokenizer = byte_level(plain_bytes(), 1, 280)
    vocab = tt.Vocabulary.from_tokenizer(tokenizer, eos_token_id=0)
    fa = tt.constraints.any_of("a</s>b", "ab").compile(vocab, canonical=True)
    assert [text_of(vocab, s) for s in sequences(fa)] == ["ab"]
    with pytest.raises(tt.errors.EmptyLanguage):
        tt.constraints.literal("</s>").compile(vocab, canonical=True)


def test_the_cache_tells_canonical_from_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("TRACTILE_CACHE", str(tmp_path))
    tokenizer = byte_level(plain_bytes(), 1, 290)
    vocab = tt.Vocabulary.from_tokenizer(tokenizer, eos_token_id=0)
    c = tt.constraints.literal("aabab")
    for _ in range(2):
        assert len(sequences(c.compile(vocab, cache=True))) > 1
        assert sequences(c.compile(vocab, cache=True, canonical=True)) == [
            tuple(tokenizer.encode("aabab").ids)
        ]


@pytest.mark.long
def test_tekken_writes_dates_in_one_way():
    common = pytest.importorskip("mistral_common")
    from mistral_common.tokens.tokenizers.tekken import Tekkenizer

    tekken = Tekkenizer.from_file(str(Path(common.__file__).parent / "data" / "tekken_240911.json"))
    vocab = tt.Vocabulary.from_tokenizer(tekken)
    c = tt.constraints.regex(r"(yes|no), don't! {1,3}(19|20)[0-9]5\n?")
    found = sequences(c.compile(vocab, canonical=True))
    want = [
        f"{word}, don't!{' ' * spaces}{year}{end}"
        for word in ("yes", "no")
        for spaces in (1, 2, 3)
        for year in range(1905, 2100, 10)
        for end in ("", "\n")
    ]
    assert sorted(found) == sorted(tuple(tekken.encode(text, bos=False, eos=False)) for text in want)
    with pytest.raises(tt.errors.TooManyStates, match="pairs"):
        tt.constraints.regex(r'"[^"]*"').compile(vocab, canonical=True)


# ---------------------------------------------------------------- what is refused


def test_what_is_not_read_is_refused_by_name():
    c = tt.constraints.literal("a")
    with pytest.raises(tt.errors.UnsupportedConstraint, match="without merges"):
        c.compile(tt.Vocabulary([None, b"a"], eos_token_id=0), canonical=True)

    def refuse(tokenizer: Tokenizer, why: str) -> None:
        vocab = tt.Vocabulary.from_tokenizer(tokenizer, eos_token_id=0)
        with pytest.raises(tt.errors.UnsupportedConstraint, match=why):
            c.compile(vocab, canonical=True)

    tokenizer = byte_level(plain_bytes(), 1, 270)
    tokenizer.normalizer = normalizers.NFC()
    refuse(tokenizer, "normalizer NFC")
    refuse(byte_level(pt.Sequence([pt.Split("zz", "removed"), plain_bytes()]), 1, 270), "text is lost")
    refuse(
        byte_level(pt.Sequence([pt.Split(Regex(r"(a)\1"), "isolated"), plain_bytes()]), 1, 270),
        "back-reference",
    )
    refuse(
        byte_level(pt.Sequence([pt.Split(Regex(r"a{2}+"), "isolated"), plain_bytes()]), 1, 270), r"\{2\}\+"
    )
    refuse(
        byte_level(pt.Sequence([pt.Split(Regex(r"b*"), "isolated"), plain_bytes()]), 1, 270), "nothing at all"
    )
    unigram = Tokenizer(models.Unigram([("</s>", 0.0), ("▁", -1.0), ("a", -1.0)], 0, False))
    unigram.pre_tokenizer = pt.Metaspace()
    unigram.decoder = decoders.Metaspace()
    refuse(unigram, "Unigram")
