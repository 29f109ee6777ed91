"""Language models: cached and padded rows against a plain full forward pass; circuits and tables against enumeration."""

import inspect
import math

import networks
import pytest
import torch
from smc_reference import random_table
from transformers import (
    AutoModelForCausalLM,
    GPT2Config,
    GPT2LMHeadModel,
    PreTrainedTokenizerFast,
    cache_utils,
)

import tractile as tt

V, EOS = 50, 2
SHARES = hasattr(cache_utils, "DynamicLayer")  # rows share their prompt's keys and values


def llama(**settings):
    return networks.llama(V, max_position_embeddings=24, initializer_range=0.3, **settings)


def gpt2():
    torch.manual_seed(1)
    config = GPT2Config(vocab_size=V, n_embd=32, n_layer=2, n_head=4, n_positions=24, initializer_range=0.3)
    return GPT2LMHeadModel(config).eval()


MODELS = {"llama": llama, "sliding window": lambda: sliding(), "gpt2": gpt2}


def sliding():
    """Attention over a window shorter than the sequences."""
    from transformers import MistralConfig, MistralForCausalLM

    torch.manual_seed(2)
    config = MistralConfig(
        vocab_size=V, max_position_embeddings=24, sliding_window=4, initializer_range=0.3, **networks.SIZES
    )
    return MistralForCausalLM(config).eval()


def plain(model, tokens, temperature=1.0):
    """log p(next token | tokens) by one pass without cache, mask or padding."""
    with torch.no_grad():
        logits = model(input_ids=torch.tensor([tokens]), use_cache=False).logits[0, -1]
    return torch.log_softmax(logits / temperature, dim=-1)


def test_a_cache_whose_rows_cannot_wait_is_an_error():
    lm = tt.TransformersLM(llama(), None, share_prompts=False)
    lm.start([[3], [4]])
    lm._cache.layers[0].keys = None
    with pytest.raises(tt.errors.EvidenceError, match=r"cannot wait for each other .* leave align out"):
        lm.advance(torch.tensor([3, -1]))


def test_rows_that_share_prompts_are_those_that_do_not():
    """Many rows of each prompt in any order, past the room that is taken at first, with forks that go their own way."""
    model, prompts = llama(), [[3, 4, 5], [6], [7, 8]]
    model.config.max_position_embeddings = 100
    lms = [tt.TransformersLM(model, None, share_prompts=share) for share in (True, False)]
    generator, forks = torch.Generator().manual_seed(0), []
    for lm in lms:
        lm.start(prompts)
    assert [lm._shared is not None for lm in lms] == [SHARES, False]
    for step in range(40):
        if step % 3 == 0:
            count = int(torch.randint(1, 9, (), generator=generator))
            rows = torch.randint(len(lms[0].log_probs()), (count,), generator=generator)
            for lm in lms:
                lm.select(rows)
        if step % 10 == 5:
            forks = [lm.fork() for lm in lms]
        tokens = torch.randint(V, (len(lms[0].log_probs()),), generator=generator)
        tokens[tokens < 10 * (step % 2)] = -1
        for pair in (lms, forks):
            for lm in pair:
                lm.advance(tokens)
            if pair:
                torch.testing.assert_close(pair[0].log_probs(), pair[1].log_probs(), rtol=1e-4, atol=1e-4)
        forks = []
    assert model.config._attn_implementation == "sdpa"


@pytest.mark.parametrize("name", MODELS)
def test_equal_prompts_are_read_once(name):
    model, read = MODELS[name](), []
    forward = model.forward
    model.forward = lambda **given: read.append(len(given["input_ids"])) or forward(**given)
    model.forward.__signature__ = inspect.signature(forward)
    lm = tt.TransformersLM(model, None, share_prompts=False)
    rows = [[5, 6, 7], [3], [5, 6, 7], [3]]
    lm.start(rows)
    assert read[-1] == 2
    for token in (8, 9):
        expected = torch.stack([plain(model, row) for row in rows])
        torch.testing.assert_close(lm.log_probs(), expected, rtol=1e-4, atol=1e-4)
        lm.advance(torch.tensor([token, token, token + 1, token]))
        rows = [[*row, token + (i == 2)] for i, row in enumerate(rows)]


@pytest.mark.skipif(not SHARES, reason="this transformers has no cache layers")
def test_prompts_that_are_kept_are_not_read_again():
    model, read = llama(), []
    model.register_forward_pre_hook(
        lambda _, __, given: read.append(given["input_ids"].tolist()), with_kwargs=True
    )
    lm = tt.TransformersLM(model, None, keep_prompts=2)
    lm.start([[3, 4], [5, 6, 7], [3, 4]])
    lm.select(torch.tensor([0, 0, 1]))
    lm.advance(torch.tensor([8, 9, 10]))
    found = lm.log_probs()
    read.clear()
    lm.start([[5, 6, 7], [3, 4]])
    assert not read
    lm.select(torch.tensor([1, 1, 0]))
    lm.advance(torch.tensor([8, 9, 10]))
    torch.testing.assert_close(lm.log_probs(), found)
    read.clear()
    lm.start([[8], [3, 4], [9]])
    assert read == [[[8]], [[9]]]
    read.clear()
    lm.start([[8]])
    assert read == [[[8]]], "the last two alone are kept"


def test_a_model_with_an_attention_of_its_own_shares_nothing(monkeypatch):
    from transformers.integrations.sdpa_attention import sdpa_attention_forward
    from transformers.models.llama import modeling_llama

    class Own(dict):
        def get_interface(self, name, default):
            return sdpa_attention_forward

        def __missing__(self, name):  # before get_interface
            return sdpa_attention_forward

    lm = tt.TransformersLM(llama(), None)
    monkeypatch.setattr(modeling_llama, "ALL_ATTENTION_FUNCTIONS", Own())
    lm.start([[3, 4], [5, 6]])
    lm.advance(torch.tensor([7, 8]))
    assert lm._shared is None
    torch.testing.assert_close(lm.log_probs()[0], plain(llama(), [3, 4, 7]), rtol=1e-4, atol=1e-4)


def test_an_end_of_sequence_token_in_the_prompt_ends_nothing():
    for lm in (
        tt.TransformersLM(llama(), None, eos_token_id=EOS),
        tt.lm.TableLM(random_table(3, 1, seed=0), EOS),
        tt.CircuitLM(tt.HMM.random(3, 3, seed=0), EOS),
    ):
        lm.start([[1, EOS]])
        assert lm.log_probs()[0, EOS] < 0


def test_unused_outputs_are_left_out():
    """Embedding matrices are often padded beyond the tokenizer."""

    class Tokenizer:
        eos_token_id = EOS

        def __len__(self):
            return V - 10

        def __call__(self, text, add_special_tokens=True):
            return type("Encoding", (), {"input_ids": [7]})

        def decode(self, ids, **_):
            return " ".join(map(str, ids))

    lm = tt.TransformersLM(llama(), Tokenizer())
    assert lm.vocab_size == V - 10
    lm.start(["any"])
    assert lm.log_probs().shape == (1, V - 10)
    assert float(lm.log_probs().logsumexp(1)) == pytest.approx(0, abs=1e-5)
    torch.testing.assert_close(
        lm.log_probs()[0], plain(llama(), [7])[: V - 10].log_softmax(0), rtol=1e-4, atol=1e-4
    )


def test_past_the_last_position_is_an_error_that_says_so():
    lm = tt.TransformersLM(llama(), None)
    lm.start([[3] * 23])
    lm.advance(torch.tensor([4]))
    with pytest.raises(
        tt.TractileError, match=r"25 tokens .* 24 positions; shorten the prompt or lower max_new_tokens"
    ):
        lm.advance(torch.tensor([4]))
    with pytest.raises(tt.TractileError, match="30 tokens"):
        lm.start([[3] * 30])


def test_bad_input():
    lm = tt.TransformersLM(llama(), None)
    with pytest.raises(tt.TractileError, match="needs a tokenizer"):
        lm.start(["text"])
    with pytest.raises(tt.TractileError, match="no tokens"):
        lm.start([[]])
    with pytest.raises(tt.TractileError, match="temperature"):
        tt.TransformersLM(llama(), None, 0.0)
    with pytest.raises(tt.errors.EvidenceError, match="temperature"):
        tt.TransformersLM(llama(), None, float("nan"))


@pytest.mark.parametrize("name", ["embedded", "stories260K"])
def test_a_real_model_with_its_tokenizer(name, request):
    if name == "embedded":
        path = tt.embedded.LM_PATH
    else:
        path = request.getfixturevalue("shared_dir") / "models" / name
    model, tokenizer = (
        AutoModelForCausalLM.from_pretrained(path).float(),
        PreTrainedTokenizerFast.from_pretrained(path),
    )
    lm = tt.TransformersLM(model, tokenizer)
    assert (lm.vocab_size, lm.eos_token_id) == (len(tokenizer), tokenizer.eos_token_id)
    prompts = ["Once upon a time, there was a", "The dog", ""]
    lm.start(prompts)
    expected = torch.stack(
        [plain(model, tokenizer(p).input_ids or [tokenizer.bos_token_id]) for p in prompts]
    )
    torch.testing.assert_close(lm.log_probs(), expected, rtol=1e-3, atol=1e-3)
    # A continuation keeps the space that a decoder drops at the beginning of a text.
    text = "Once upon a time, there was a dog."
    whole = tokenizer(text, add_special_tokens=False).input_ids
    texts = [tokenizer.decode(whole[:i]) + lm.decode(whole[i:]) for i in range(1, len(whole))]
    assert texts == [tokenizer.decode(whole)] * len(texts)
    assert any(lm.decode(whole[i:]).startswith(" ") for i in range(len(whole)))
    assert lm.decode([*whole, tokenizer.eos_token_id]) == lm.decode(whole)
    assert lm.decode([]) == ""


def test_circuit_lm_refuses_an_impossible_token():
    eye = torch.eye(2, dtype=torch.float64)
    lm = tt.CircuitLM(tt.HMM(eye[0], eye, eye))
    lm.start([[]])
    with pytest.raises(tt.TractileError, match="probability is zero"):
        lm.advance(torch.tensor([1]))


def test_table_lm_uses_the_longest_known_suffix():
    table = {
        (): torch.tensor([0.2, 0.8]).log(),
        (1,): torch.tensor([0.3, 0.7]).log(),
        (0, 1): torch.tensor([0.6, 0.4]).log(),
    }
    lm = tt.lm.TableLM(table)
    lm.start([[], [0], [1], [0, 1], [1, 0, 1], [1, 1]])
    assert lm.log_probs()[:, 0].exp().tolist() == pytest.approx([0.2, 0.2, 0.3, 0.6, 0.6, 0.3])


def test_table_lm_checks_its_table():
    with pytest.raises(tt.TractileError, match=r"lacks the empty context"):
        tt.lm.TableLM({(1,): [0.0]})
    with pytest.raises(tt.TractileError, match=r"context \(0,\) is not"):
        tt.lm.TableLM({(): [0.0, -math.inf], (0,): [0.0, 0.0]})
    with pytest.raises(tt.errors.VocabularyMismatch):
        tt.lm.TableLM({(): [0.0]}, eos_token_id=3)
    with pytest.raises(tt.TractileError, match="as token ids"):
        tt.lm.TableLM({(): [0.0]}).start(["text"])


def test_text_by_a_vocabulary_and_without_one():
    class Vocabulary:
        token_bytes = (b"a", "é".encode()[:1], None, "é".encode()[1:])

    table = {(): [math.log(0.25)] * 4}
    assert tt.lm.TableLM(table, 2, Vocabulary()).decode([0, 1, 3, 2, 2]) == "aé"
    assert tt.lm.TableLM(table, 2).decode([0, 1, 3, 2]) == "0 1 3"


def test_the_tokenizer_of_another_model_is_refused():
    _, tokenizer = tt.embedded.load_lm()
    size = len(tokenizer)
    assert tt.TransformersLM(networks.llama(2 * size), tokenizer).vocab_size == size  # padded, if a lot
    with pytest.raises(
        tt.errors.VocabularyMismatch, match=r"2,049 outputs, the tokenizer 1,024 ids.*another model's"
    ):
        tt.TransformersLM(networks.llama(2 * size + 1), tokenizer)


@pytest.mark.parametrize("prompt", [[3] * 20, [3] * 23])
def test_a_budget_beyond_the_context_is_refused_before_the_model_is_called(prompt):
    model = llama()
    lm = tt.TransformersLM(model, None, eos_token_id=EOS)
    room = 24 + 1 - len(prompt)  # the last token is not read
    assert tt.smc(lm, prompt, None, particles=2, max_new_tokens=room).texts
    model.register_forward_hook(lambda *_: pytest.fail("the model was called"))
    for given, said in ((prompt, f"give max_new_tokens={room} or less"), ([3] * 25, "shorten the prompt$")):
        with pytest.raises(tt.errors.ContextTooLong, match=said):
            tt.smc(lm, given, None, particles=2, max_new_tokens=room + 1)
