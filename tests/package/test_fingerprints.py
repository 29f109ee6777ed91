"""Which vocabulary something was made for: the same for one tokenizer however it is read, and another one is refused."""

import json
import logging
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import networks
import pytest
import torch
from commands import assert_refused, run
from trained import byte_level
from transformers import LlamaForCausalLM, PreTrainedTokenizerFast

import tractile as tt
from tractile import distill, embedded
from tractile.constraints import Constraint, Vocabulary, json_schema, regex
from tractile.decoding.vllm import VLLMLogitsProcessor
from tractile.fingerprints import fingerprint
from tractile.inference.smc import ConstraintPotential
from tractile.lm import CircuitLM
from tractile.token_bytes import tokenizer_fingerprint
from tractile_bench import guides, models

VOCAB = Vocabulary([b"a", b"b", b"ab", None, None], eos_token_id=3)
OTHER = Vocabulary([b"b", b"a", b"ab", None, None], eos_token_id=3)  # of the same size
RIGHT, WRONG = VOCAB.fingerprint, OTHER.fingerprint
BOTH = rf"{RIGHT[:12]}.*{WRONG[:12]}|{WRONG[:12]}.*{RIGHT[:12]}"


def hmm(of: str | None = None) -> tt.HMM:
    return tt.HMM.random(4, 5, seed=1).for_vocabulary(of)


@cache
def tokenizer(swapped: bool = False, eos: str = "</s>") -> PreTrainedTokenizerFast:
    """A byte-level tokenizer; ``swapped``: one of as many tokens, of which two have changed places."""
    backend = byte_level()
    if swapped:
        settings = json.loads(backend.to_str())
        vocab = settings["model"]["vocab"]
        vocab["x"], vocab["y"] = vocab["y"], vocab["x"]
        backend = type(backend).from_str(json.dumps(settings))
    return PreTrainedTokenizerFast(tokenizer_object=backend, eos_token=eos, pad_token="<pad>")


@cache
def network(outputs: int) -> LlamaForCausalLM:
    return networks.llama(outputs, networks.TINY)


@pytest.fixture(scope="module")
def model_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A language model of 1,024 tokens, as many as the embedded one has, but others."""
    folder = tmp_path_factory.mktemp("model")
    other = PreTrainedTokenizerFast(tokenizer_object=byte_level(), eos_token="</s>")
    other.add_tokens([f"<{i}>" for i in range(1024 - len(other))])
    other.save_pretrained(folder)
    network(1024).save_pretrained(folder)
    return folder


# ---------------------------------------------------------------- what a fingerprint says


def test_it_is_the_bytes_the_specials_and_the_end() -> None:
    tokens = [b"a", b"b", None, b"c"]
    known = {
        fingerprint(tokens, 2),
        fingerprint([b"b", b"a", None, b"c"], 2),
        fingerprint([b"ab", b"", None, b"c"], 2),  # a special token more, the bytes in a row the same
        fingerprint([None, b"b", None, b"c"], 2),
        fingerprint(tokens, 3),
        fingerprint([b"a", b"b", None, b"c", b"d"], 2),
    }
    assert len(known) == 6
    assert fingerprint(tokens, 2) == fingerprint([b"a", b"b", b"</s>", b"c"], 2)  # the end has no bytes
    assert fingerprint([b"a", b"", None, b"c"], 2) == fingerprint([b"a", None, None, b"c"], 2)
    assert Vocabulary(tokens, 2).fingerprint == fingerprint(tokens, 2)
    # The same in every version: files hold it.
    assert fingerprint(tokens, 2) == "3dd7dd4a69ce87623c5f250f477e6b82da65ea2e8311807a29f8eb657ed43213"


def test_padding_is_no_part_of_it() -> None:
    """Outputs of a model beyond its tokenizer's tokens change the size, not what the tokens are."""
    assert Vocabulary([b"a", None], 1).fingerprint == Vocabulary([b"a", None, None, None], 1).fingerprint
    assert Vocabulary([b"a", None], 1).fingerprint != Vocabulary([b"a", None, None, None], 2).fingerprint
    # sizes are not mixed up on disk
    assert Vocabulary([b"a", None], 1).cache_name != Vocabulary([b"a", None, None, None], 1).cache_name


def test_however_a_tokenizer_is_read() -> None:
    fast = tokenizer()
    own = fast.eos_token_id
    read = Vocabulary.from_tokenizer(fast)
    found = {
        read.fingerprint,
        Vocabulary.from_tokenizer(fast.backend_tokenizer, eos_token_id=own).fingerprint,
        Vocabulary.from_tokenizer(fast, size=512).fingerprint,
        Vocabulary(list(read.token_bytes), own).fingerprint,
        tokenizer_fingerprint(fast),
        tokenizer_fingerprint(fast.backend_tokenizer, own),
        tt.TransformersLM(network(len(fast)), fast).vocabulary_fingerprint,
        tt.TransformersLM(network(512), fast).vocabulary_fingerprint,  # padded
    }
    assert len(found) == 1
    assert tokenizer_fingerprint(tokenizer(swapped=True)) not in found
    assert tokenizer_fingerprint(fast, eos_token_id=7) not in found
    # A model that ends with another of several end tokens.
    lm = tt.TransformersLM(network(512), fast, eos_token_id=7)
    assert lm.vocabulary_fingerprint == Vocabulary.from_tokenizer(fast, eos_token_id=7).fingerprint


def test_what_is_not_known() -> None:
    from tokenizers import Tokenizer, models

    assert tokenizer_fingerprint(Tokenizer(models.WordLevel({"a": 0})), 0) is None
    assert tt.TransformersLM(network(512), None).vocabulary_fingerprint is None
    raw = tt.Automaton.from_edges([(0, 1, 0)], 0, [0], 5)
    assert raw.vocabulary_fingerprint is None
    tt.pgcd(hmm(RIGHT), raw, 4)
    assert (hmm(RIGHT) * raw).vocabulary_fingerprint == RIGHT
    tt.smc(CircuitLM(hmm(RIGHT)), [], regex("ab*").compile(VOCAB), "gcd", particles=2, max_new_tokens=4)
    tt.smc(CircuitLM(hmm()), [], regex("ab*").compile(OTHER), "gcd", particles=2, max_new_tokens=4)


# ---------------------------------------------------------------- what carries it


def test_automata_keep_it(tmp_path: Path) -> None:
    many = regex("(a|b)*a(a|b){3}").compile(VOCAB)
    cached = [regex("(a|ab)*b").compile(VOCAB, cache=True) for _ in range(2)]
    lifted = regex("ab*").compile(VOCAB)
    explicit = lifted.map(lambda t: t.double())
    assert explicit.transitions is not None  # written out
    tt.save(lifted.trim(), tmp_path)
    made = [
        many, *cached, lifted, explicit, many.determinize(), many.minimize(), many.trim(), many.partitioned,
        many.to(torch.device("cpu")), lifted, tt.load(tmp_path), tt.Automaton.from_networkx(many.to_networkx()),
        hmm() * lifted, lifted * hmm(RIGHT), (hmm(RIGHT) * lifted).to("cpu"),
    ]  # fmt: skip
    assert {one.vocabulary_fingerprint for one in made} == {RIGHT}
    assert regex("ab*").compile(VOCAB, require_eos=False).vocabulary_fingerprint == RIGHT
    vocab = Vocabulary.from_tokenizer(tokenizer())
    assert regex("yes|no").compile(vocab, canonical=True).vocabulary_fingerprint == vocab.fingerprint


def test_hmms_keep_it(tmp_path: Path) -> None:
    one = hmm(RIGHT)
    one.save_pretrained(tmp_path)
    read = tt.HMM.from_pretrained(tmp_path)
    tt.save(tt.HMM.random(4, 5, "monarch").for_vocabulary(RIGHT), tmp_path / "monarch")
    corpus = distill.Corpus.of(torch.tensor([[0, 1, 3], [2, 3, 3]]), 5, 3, vocabulary_fingerprint=RIGHT)
    made = [
        read, read.to(dtype=torch.float64), tt.load(tmp_path), tt.load(tmp_path / "monarch"),
        distill.split(one, 6), distill.kronecker(one, hmm()), guides.cache_model(one, [1]),
        tt.inference.em_step(one, corpus.tokens)[0], distill.random_start(corpus, 4), guides.ngram(corpus, 5),
        distill.train(corpus, 3, epochs=1, held_out=0), distill.train(corpus, 4, epochs=0, initial=hmm(), held_out=0),
    ]  # fmt: skip
    assert {one.vocabulary_fingerprint for one in made} == {RIGHT}


def test_a_folder_without_one_loads_with_one_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    hmm(RIGHT).save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    del config["vocabulary_fingerprint"], config["tensors_sha256"]
    (tmp_path / "config.json").write_text(json.dumps(config))  # as former versions wrote it
    with caplog.at_level(logging.WARNING, "tractile"):
        for _ in range(3):
            assert tt.HMM.from_pretrained(tmp_path).vocabulary_fingerprint is None
    assert len(caplog.messages) == 1
    assert str(tmp_path) in caplog.text
    assert "from_tokenizer(tokenizer).fingerprint" in caplog.text
    # What it says to do.
    (tmp_path / "config.json").write_text(json.dumps(config | {"vocabulary_fingerprint": RIGHT}))
    assert tt.HMM.from_pretrained(tmp_path).vocabulary_fingerprint == RIGHT
    assert len(caplog.messages) == 1


def test_the_embedded_hmms_are_of_the_embedded_tokenizers() -> None:
    stories, tasks = (
        Vocabulary.from_tokenizer(load()[1]).fingerprint for load in (embedded.load_lm, models.load_small_lm)
    )
    assert embedded.load_hmm().vocabulary_fingerprint == stories
    folders = [path for path in models.SMALL_HMM_PATH.iterdir() if path.is_dir()]
    assert len(folders) == 5
    assert {tt.HMM.from_pretrained(path).vocabulary_fingerprint for path in folders} == {tasks}
    for path in (embedded.HMM_PATH, *folders):
        assert json.loads((path / "config.json").read_text())["tensors_sha256"]


def test_corpora_have_it_and_hmms_get_it(tmp_path: Path) -> None:
    fast = tokenizer()
    expected = Vocabulary.from_tokenizer(fast).fingerprint
    lm = tt.TransformersLM(network(len(fast)), fast)
    drawn = distill.sample(lm, tmp_path / "drawn", 4, 3, ["yes"])
    text = distill.from_text(["yes no maybe"], fast, tmp_path / "text", 3)
    for corpus in (drawn, text):
        assert corpus.vocabulary_fingerprint == expected
        corpus.check_tokenizer(fast)
        with pytest.raises(tt.errors.VocabularyMismatch, match=expected[:12]):
            corpus.check_tokenizer(tokenizer(swapped=True))
    distill.train(drawn, 3, epochs=1, held_out=0, out=tmp_path / "hmm")
    assert tt.HMM.from_pretrained(tmp_path / "hmm").vocabulary_fingerprint == expected
    with pytest.raises(tt.errors.VocabularyMismatch, match="tokenizer"):
        distill.sample(lm, tmp_path / "other", 4, 3, ["yes"], tokenizer=tokenizer(swapped=True))


# ---------------------------------------------------------------- who refuses another


def two_vocabularies() -> Iterator[tuple[str, Callable[[], Any]]]:
    """Calls with parts of two vocabularies, each with words of its error."""
    right, few = CircuitLM(hmm(RIGHT), eos_token_id=3), {"particles": 2, "max_new_tokens": 4}
    good, bad = (regex("ab*").compile(vocab) for vocab in (VOCAB, OTHER))
    raw = tt.Automaton.from_edges([(0, 0, 0)], 0, [0], 5)
    corpus = distill.Corpus.of(torch.tensor([[0, 1, 3]]), 5, 3, vocabulary_fingerprint=WRONG)
    yield r"\bthe automaton\b.*\bthe language model\b", lambda: tt.smc(right, [], bad, "gcd", **few)
    yield "compile the constraint", lambda: tt.smc(right, [], bad, "gcd", **few)
    yield (
        r"\bthe HMM\b.*\bthe automaton\b",
        lambda: tt.smc(CircuitLM(hmm()), [], bad, "pgcd", hmm(RIGHT), **few),
    )
    yield "", lambda: tt.smc(right, [], good, "gcd", potential=ConstraintPotential(bad), **few)
    yield "", lambda: tt.decoding.beam_search(right, [], bad, 4)
    for given in (good, raw, None):
        yield "HMM", lambda given=given: tt.smc(right, [], given, "pgcd", hmm(WRONG), **few)
        yield "HMM", lambda given=given: tt.decoding.beam_search(right, [], given, 4, hmm=hmm(WRONG))
    yield "", lambda: tt.pgcd(hmm(RIGHT), bad, 4)
    yield "", lambda: hmm(RIGHT) * bad
    yield "", lambda: bad * hmm(RIGHT)
    yield "", lambda: distill.kronecker(hmm(RIGHT), hmm(WRONG))
    yield "", lambda: distill.evaluate(hmm(RIGHT), corpus)
    yield "", lambda: distill.train(corpus, 4, initial=hmm(RIGHT), held_out=0)


def test_parts_of_two_vocabularies_are_refused() -> None:
    for words, ask in two_vocabularies():
        with pytest.raises(tt.errors.VocabularyMismatch, match=BOTH) as said:
            ask()
        assert re.search(words, str(said.value))


@pytest.mark.parametrize("size", [4, 6])
@pytest.mark.parametrize("constraint", [regex("ab*"), json_schema({"type": "array"})], ids=["finite", "lazy"])
def test_an_hmm_of_another_size_is_refused(size: int, constraint: Constraint) -> None:
    """Of no known vocabulary, by all that takes an HMM beside a constraint, before it computes anything."""
    vocab = Vocabulary([b"a", b"b", b"[", b"]", None], eos_token_id=4)
    lm = tt.lm.TableLM({(): torch.full((5,), 0.2).log()}, 4, vocab)
    fa, guide = constraint.compile(vocab), tt.HMM.random(3, size, seed=0)
    few: dict[str, Any] = {"hmm": guide, "max_new_tokens": 4}
    sampling = tt.inference.smc
    asked = {
        "generate": lambda: tt.generate(lm, None, [0], constraint, particles=2, **few),
        "generate, gcd": lambda: tt.generate(lm, None, [0], constraint, particles=2, method="gcd", **few),
        "pgcd": lambda: tt.pgcd(guide, fa, 4),
        "pgcd, tolerance": lambda: tt.pgcd(guide, fa, 4, tolerance=0.1),
        "smc": lambda: tt.smc(lm, [0], fa, particles=2, **few),
        "smc, mixture": lambda: tt.smc(lm, [0], fa, "pgcd-mixture", particles=2, **few),
        "smc, prompts": lambda: tt.smc(lm, prompts=[[0], [1]], fa=fa, particles=2, **few),
        "importance": lambda: sampling.importance_sampling(lm, [0], fa, particles=2, **few),
        "mcmc": lambda: sampling.mcmc(lm, [0], fa, samples=2, **few),
        "beams": lambda: tt.decoding.beam_search(lm, [0], fa, **few),
        "speculative": lambda: tt.decoding.speculative(lm, [0], fa, particles=2, **few),
        "processor": lambda: tt.ConstraintLogitsProcessor(fa, **few),
        "product": lambda: guide * fa,
    }  # fmt: skip
    for name, ask in asked.items():
        with pytest.raises(tt.errors.VocabularyMismatch, match=f"the HMM has {size} tokens, the .* 5;"):
            raise AssertionError(f"{name} gave {ask()}")


def test_a_model_with_too_few_outputs_for_the_end(tmp_path: Path) -> None:
    """Nobody compiled anything here: the cure is the tokenizer or the model."""
    fast = tokenizer(eos="<the end>")
    few = network(fast.eos_token_id)
    processor = tt.ConstraintLogitsProcessor(regex("yes"), max_new_tokens=8, tokenizer=fast)
    for ask in (
        lambda: tt.generate(few, fast, "yes", regex("yes"), max_new_tokens=8),
        lambda: tt.smc(few, "yes", regex("yes"), "gcd", tokenizer=fast),
        lambda: processor(torch.tensor([[1]]), torch.zeros(1, fast.eos_token_id)),
        lambda: Vocabulary.from_tokenizer(fast, size=fast.eos_token_id),
    ):
        with pytest.raises(
            tt.errors.VocabularyMismatch, match=r"model\.resize_token_embeddings\(len\(tokenizer\)\)"
        ) as said:
            ask()
        assert str(fast.eos_token_id) in str(said.value)
        assert "eos_token_id" in str(said.value)
    few.save_pretrained(tmp_path)
    fast.save_pretrained(tmp_path)
    asked = ["generate", "--prompt", "yes", "--regex", "yes", "--max-new-tokens", 8, "--proposal", "gcd"]
    assert_refused(run(*asked, "--model", tmp_path), 1, "tokens that the model cannot write")
    other = regex("yes").compile(Vocabulary([b"y", b"es", None], 2))
    with pytest.raises(tt.errors.VocabularyMismatch, match="compile the constraint with"):
        tt.smc(network(320), "yes", other, "gcd", tokenizer=tokenizer())


def test_logits_processors_refuse() -> None:
    fast = tokenizer()
    good, bad = (regex("yes").compile(Vocabulary.from_tokenizer(t)) for t in (fast, tokenizer(swapped=True)))
    guide = tt.HMM.random(3, len(fast))
    wrong, right = bad.vocabulary_fingerprint, good.vocabulary_fingerprint
    for fa, given in ((bad, None), (good, guide.to().for_vocabulary(wrong))):
        with pytest.raises(tt.errors.VocabularyMismatch, match=wrong[:12]):
            tt.ConstraintLogitsProcessor(fa, given, tokenizer=fast)
    tt.ConstraintLogitsProcessor(good, guide.to().for_vocabulary(right), tokenizer=fast)

    class Wrong(VLLMLogitsProcessor):
        tokenizer = fast
        hmm = guide.to().for_vocabulary(wrong)

    with pytest.raises(tt.errors.VocabularyMismatch, match=wrong[:12]):
        Wrong(None, torch.device("cpu"), False)


def test_heads_are_refused(tmp_path: Path) -> None:
    fast = tokenizer()
    right, wrong = (tokenizer_fingerprint(t) for t in (fast, tokenizer(swapped=True)))
    model, guide = network(len(fast)), tt.HMM.random(3, len(fast))
    head = guides.ContextHead(torch.zeros(3, 8), torch.zeros(3), right)
    head.save_pretrained(tmp_path)
    head = guides.ContextHead.from_pretrained(tmp_path)
    assert head.vocabulary_fingerprint == right
    begun = head.begin(guide.to().for_vocabulary(right), model, fast, "yes")
    assert begun.vocabulary_fingerprint == right
    for one, given in (
        (head, guide.to().for_vocabulary(wrong)),
        (replace(head, vocabulary_fingerprint=wrong), begun),
    ):
        with pytest.raises(tt.errors.VocabularyMismatch, match=wrong[:12]):
            one.begin(given, model, fast, "yes")
    ones, no = torch.ones(len(fast)), torch.tensor(0.5)
    copying = guides.Copying(begun, no, torch.full((3,), 0.5), ones / 2, ones, no, torch.ones(3))
    assert copying.read("yes no", fast).vocabulary_fingerprint == right
    with pytest.raises(tt.errors.VocabularyMismatch, match=wrong[:12]):
        copying.read("yes no", tokenizer(swapped=True))


def test_the_command_refuses_the_embedded_hmm_for_another_model(model_folder: Path, tmp_path: Path) -> None:
    asked = ["generate", "--prompt", "Once", "--regex", "[a-z]+", "--max-new-tokens", 8, "--particles", 2]
    asked += ["--model", model_folder]
    assert_refused(run(*asked), 1, "the embedded HMM")
    assert_refused(run(*asked), 1, str(model_folder))
    embedded.load_hmm().save_pretrained(tmp_path)
    assert_refused(run(*asked, "--hmm", tmp_path), 1, str(tmp_path))
    assert run(*asked, "--proposal", "gcd").exit_code == 0
    tt.HMM.random(3, 50, seed=0).save_pretrained(tmp_path / "small")
    words = "has 50 tokens, the tokenizer of", "1,024", "--hmm"
    assert_refused(run(*asked, "--hmm", tmp_path / "small"), 1, *words)
    assert_refused(run(*asked[:-2], "--hmm", tmp_path / "small"), 1, *words)
