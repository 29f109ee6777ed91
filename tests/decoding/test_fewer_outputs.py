"""Tokenizers with more tokens than the language model has outputs: Gemma 3's text models, tokens added without a resize."""

from functools import cache
from types import SimpleNamespace

import networks
import pytest
import torch
from trained import byte_level
from transformers import PreTrainedTokenizerFast

import tractile as tt
from tractile.constraints import Vocabulary, regex
from tractile.decoding.grammar_rows import Grammars
from tractile.decoding.sglang import make_backend
from tractile.decoding.vllm import VLLMLogitsProcessor
from tractile.decoding.vllm.structured_output import Spec, TractileBackend
from tractile.errors import BudgetTooSmall, VocabularyMismatch


@cache
def long_tokenizer() -> PreTrainedTokenizerFast:
    """A byte-level tokenizer with two tokens more than the model has outputs: a special one, and one that spells text."""
    made = PreTrainedTokenizerFast(tokenizer_object=byte_level(), eos_token="</s>", pad_token="<pad>")
    made.add_tokens(["<image>"], special_tokens=True)
    made.add_tokens(["abracadabra"])
    return made


OUTPUTS = len(long_tokenizer()) - 2
ONE = "abracadabra"


@cache
def network(outputs: int = OUTPUTS):
    return networks.llama(outputs, networks.TINY)


def least(**options) -> int:
    """The fewest tokens of the word, the end included, where the model cannot write it as one."""
    return regex(ONE).compile(Vocabulary.from_tokenizer(long_tokenizer(), **options)).fewest_after([])


@pytest.mark.parametrize("compiled", ["not", "tokenizer", "size"])
def test_generate_and_smc(compiled):
    """The text fits where the model's own tokens spell it, and not where only a token without an output would."""
    constraint, needed = regex(ONE), least(size=OUTPUTS)
    fa = {
        "not": constraint,
        "tokenizer": constraint.compile(long_tokenizer()),
        "size": constraint.compile(Vocabulary.from_tokenizer(long_tokenizer(), size=OUTPUTS)),
    }[compiled]
    found = tt.smc(
        network(), "yes", fa, "gcd", tokenizer=long_tokenizer(), particles=2, max_new_tokens=needed
    )
    assert set(found.texts) == {ONE}
    with pytest.raises(BudgetTooSmall, match=str(needed)):
        tt.smc(network(), "yes", fa, "gcd", tokenizer=long_tokenizer(), max_new_tokens=needed - 1)
    if compiled == "not":
        text = tt.generate(network(), long_tokenizer(), "yes", constraint, max_new_tokens=needed)
        assert text == ONE
        lm = tt.TransformersLM(network(), long_tokenizer())
        best = tt.decoding.beam_search(lm, "yes", constraint, needed, 2)[0]
        assert best.text == lm.decode(best.token_ids) == ONE


def test_masks_are_those_of_the_first_tokens():
    vocab = Vocabulary.from_tokenizer(long_tokenizer(), size=OUTPUTS)
    for constraint in (regex("a.{2,9}"), tt.constraints.json_schema({"type": "array"})):
        cut = constraint.compile(long_tokenizer()).cut(OUTPUTS)
        assert cut.vocabulary_fingerprint == vocab.fingerprint
        one, two = (
            tt.gcd(fa, 9).start(batch=1).mask()[0].tolist() for fa in (cut, constraint.compile(vocab))
        )
        assert one == two
    raw = tt.Automaton.from_edges([(0, [0, 2], 1), (1, 3, 2), (0, 3, 1)], 0, [1], 4)
    assert raw.cut(3).accepts([2])
    assert raw.cut(9) is raw
    with pytest.raises(VocabularyMismatch, match="accepts nothing"):
        tt.Automaton.from_edges([(0, 3, 1)], 0, [1], 4).cut(3)


def test_an_hmm_of_the_model():
    """Distilled from the model, it has the model's outputs; a compiled constraint of the tokenizer goes with it."""
    lm = tt.TransformersLM(network(), long_tokenizer())
    hmm = tt.HMM.random(3, OUTPUTS, seed=0).for_vocabulary(lm.vocabulary_fingerprint)
    for fa in (regex("[a-z]+"), regex("[a-z]+").compile(long_tokenizer())):
        processor = tt.ConstraintLogitsProcessor(fa, hmm, 6, tokenizer=long_tokenizer())
        assert processor(torch.tensor([[5]]), torch.zeros(1, OUTPUTS)).shape == (1, OUTPUTS)
    found = tt.smc(lm, "yes", regex("[a-z]+"), "pgcd", hmm, particles=2, max_new_tokens=6)
    assert all(text.isalpha() for text in found.texts)


def config(outputs: int) -> SimpleNamespace:
    return SimpleNamespace(
        model_config=SimpleNamespace(max_model_len=64, get_vocab_size=lambda: outputs),
        parallel_config=SimpleNamespace(),
    )


def test_serving_engines():
    """Masks and tables are of the model's outputs, where the engine tells how many there are."""
    text, words = "[ab]+", -(-OUTPUTS // 32)
    backend = TractileBackend(config(OUTPUTS), long_tokenizer(), OUTPUTS)
    assert len(backend.vocabulary) == OUTPUTS
    grammar = backend.grammar(Spec("REGEX", text), (), lambda: 8)
    mask = backend.allocate_token_bitmask(1)
    assert mask.shape == (1, words)
    grammar.fill_bitmask(mask, 0)
    assert mask.any()
    short = make_backend(SimpleNamespace(), long_tokenizer(), OUTPUTS)
    assert len(short.grammars.vocabulary) == OUTPUTS

    class Masks(VLLMLogitsProcessor):
        tokenizer = long_tokenizer()

    Masks(config(OUTPUTS), torch.device("cpu"), False)
    assert len(Masks.vocabulary()) == OUTPUTS
    Masks(config(OUTPUTS + 500), torch.device("cpu"), False)
    assert len(Masks.vocabulary()) == OUTPUTS

    class Beyond(VLLMLogitsProcessor):
        tokenizer = PreTrainedTokenizerFast(tokenizer_object=byte_level(), eos_token="<the end>")

    with pytest.raises(VocabularyMismatch, match="the end token is"):
        Beyond(config(OUTPUTS), torch.device("cpu"), False)


def test_stop_tokens_keep_the_special_texts():
    vocab = Vocabulary.from_tokenizer(long_tokenizer()).with_special({"<image>": OUTPUTS})
    stop = long_tokenizer().convert_tokens_to_ids(ONE)
    kept = Grammars(vocab, [stop]).vocabulary
    assert kept.token_bytes[OUTPUTS] == b"<image>"
    assert kept.token_bytes[stop] is None


def test_a_model_with_fewer_outputs_than_its_configuration_says():
    model = networks.llama(OUTPUTS, networks.TINY)
    model.config.vocab_size = OUTPUTS + 2
    with pytest.raises(VocabularyMismatch, match=r"set model\.config\.vocab_size"):
        tt.generate(model, long_tokenizer(), "yes", regex("no"), max_new_tokens=4)
