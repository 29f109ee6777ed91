"""Every architecture family of transformers as a language model: step by step as in one pass, or refused by name."""

import warnings

import pytest
import torch
import transformers

import tractile as tt
from tractile.lm import caches

V, EOS = 50, 2
SIZES = {
    "vocab_size": V, "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 2,
    "max_position_embeddings": 64,
}  # fmt: skip
GROUPED = SIZES | {"num_key_value_heads": 1, "head_dim": 8}
STATES = {"vocab_size": V, "hidden_size": 16, "num_hidden_layers": 2, "state_size": 4}
JAMBA = {"attn_layer_period": 2, "attn_layer_offset": 1, "num_experts": 2, "mamba_d_state": 4}
T5 = {"vocab_size": V, "d_model": 16, "d_kv": 8, "d_ff": 24, "num_layers": 1, "num_heads": 2}
BART = {"vocab_size": V, "d_model": 16, "max_position_embeddings": 64} | {
    f"{part}_{what}": number
    for part in ("encoder", "decoder")
    for what, number in (("layers", 1), ("attention_heads", 2), ("ffn_dim", 24))
}
RUN = {
    "Llama": GROUPED, "Qwen2": GROUPED, "Qwen3": GROUPED,
    "GPT2": {"vocab_size": V, "n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": 64}, "GPTNeoX": SIZES, "Gemma": GROUPED,
    "Gemma2": GROUPED | {"sliding_window": 4},
    "Gemma3": GROUPED | {"sliding_window": 4, "layer_types": ["sliding_attention", "full_attention"]},
    "Mistral": GROUPED | {"sliding_window": 4}, "Mixtral": GROUPED | {"num_local_experts": 4},
    "GptOss": GROUPED | {"num_local_experts": 4, "num_experts_per_tok": 2, "sliding_window": 4},
    "OPT": SIZES | {"ffn_dim": 24, "word_embed_proj_dim": 16}, "Mamba": STATES,
    "Mamba2": STATES | {"num_heads": 4, "head_dim": 8, "n_groups": 1, "chunk_size": 4},
    "Jamba": GROUPED | JAMBA | {"use_mamba_kernels": False},
}  # fmt: skip
STATEFUL = ("Mamba", "Mamba2", "Jamba")
COPIED_SINCE_LAYERS = (*STATEFUL, "Gemma2", "Gemma3")
REFUSED = {
    "T5ForConditionalGeneration": (T5, "T5ForConditionalGeneration is an encoder–decoder"),
    "BartForConditionalGeneration": (BART, "BartForConditionalGeneration is an encoder–decoder"),
    "BertForMaskedLM": (SIZES, "BertForMaskedLM lacks a"),
    "RwkvForCausalLM": (STATES | {"context_length": 64}, "RwkvForCausalLM lacks a cache"),
    "LlamaModel": (GROUPED, "LlamaModel lacks logits of the next token"),
    "LlamaForSequenceClassification": (GROUPED, "LlamaForSequenceClassification lacks logits"),
}


def made(name, settings):
    """A model with random weights that make its every position count."""
    if not hasattr(transformers, name):
        pytest.skip(f"transformers {transformers.__version__} has no {name}")
    torch.manual_seed(0)
    kind = getattr(transformers, name)
    ids = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": EOS}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        config = getattr(transformers, CONFIGS.get(name, kind.config_class.__name__))
        model = kind(config(**ids | settings))
    for weight in model.parameters():
        if weight.ndim == 2:
            torch.nn.init.normal_(weight, std=0.3)
    return model.eval()


CONFIGS = {"Gemma3ForCausalLM": "Gemma3TextConfig"}


def causal(family):
    return made("GPT2LMHeadModel" if family == "GPT2" else f"{family}ForCausalLM", RUN[family])


def in_one_pass(model, rows):
    with torch.no_grad():
        logits = [model(input_ids=torch.tensor([row]), use_cache=False).logits[0, -1] for row in rows]
    return torch.stack(logits).log_softmax(-1)


@pytest.mark.parametrize("family", RUN)
def test_step_by_step_as_in_one_pass(family):
    model = causal(family)
    lm, rows = tt.TransformersLM(model, None, eos_token_id=EOS), [[3], [4, 5, 6, 7, 8, 9]]
    if family in COPIED_SINCE_LAYERS and not hasattr(transformers.cache_utils, "DynamicLayer"):
        with pytest.raises(
            tt.errors.EvidenceError, match=r"rows cannot be copied \(with transformers .* can be with 5\.23"
        ):
            lm.start(rows)
        pytest.skip(f"transformers {transformers.__version__} cannot copy the rows of the cache of {family}")
    lm.start(rows)

    def check(lm, rows):
        torch.testing.assert_close(lm.log_probs(), in_one_pass(model, rows), rtol=1e-4, atol=1e-4)

    check(lm, rows)
    for indices, tokens in (([0, 1], [10, 11]), ([1, 0, 0], [12, 13, 14]), ([2, 1], [15, 16])):
        lm.select(torch.tensor(indices))
        lm.advance(torch.tensor(tokens))
        rows = [[*rows[i], token] for i, token in zip(indices, tokens, strict=True)]
    check(lm, rows)
    fork = lm.fork()
    fork.advance(torch.tensor([17, 18]))
    lm.advance(torch.tensor([19, 20]))
    check(fork, [[*rows[0], 17], [*rows[1], 18]])
    check(lm, [[*rows[0], 19], [*rows[1], 20]])
    wait = torch.tensor([-1, 21])
    if family in STATEFUL:
        with pytest.raises(tt.errors.EvidenceError, match="cannot wait for each other"):
            lm.advance(wait)
    else:
        lm.advance(wait)
        check(lm, [[*rows[0], 19], [*rows[1], 20, 21]])
    fa = tt.Automaton.from_edges([(0, list(range(3, V)), 1), (1, EOS, 2), (2, EOS, 2)], 0, [2], V, EOS)
    post = tt.smc(lm, [3, 4], fa, "gcd", particles=8, max_new_tokens=3)
    expected = in_one_pass(model, [[3, 4, ids[0]] for ids in post.token_ids])[:, EOS]
    expected = expected + in_one_pass(model, [[3, 4]])[0][[ids[0] for ids in post.token_ids]]
    torch.testing.assert_close(post.log_probs.float(), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_causal_language_model_is_refused(name):
    settings, message = REFUSED[name]
    with pytest.raises(tt.errors.EvidenceError, match=message):
        tt.TransformersLM(made(name, settings), None).start([[3], [4]])
    with pytest.raises(tt.errors.EvidenceError, match="model is a str; give a model of transformers"):
        tt.TransformersLM(name, None)


def test_a_model_that_misreads_padding_takes_prompts_of_one_length():
    """Its positions are counted from the first column, padding or not."""
    model = made("BartForCausalLM", BART)
    lm = tt.TransformersLM(model, None)
    lm.start([[3, 4], [5, 6]])
    torch.testing.assert_close(lm.log_probs(), in_one_pass(model, [[3, 4], [5, 6]]), rtol=1e-4, atol=1e-4)
    with pytest.raises(tt.errors.EvidenceError, match=r"takes no position_ids .* give prompts of one length"):
        lm.start([[3, 4], [5]])


def test_a_cache_of_pairs_has_the_interface_of_one_with_layers(monkeypatch):
    """Models of transformers before 4.54 return these."""
    monkeypatch.setattr(caches, "DYNAMIC_LAYER", None)
    pairs = tuple(tuple(torch.rand(2, 3, 5, 4) for _ in range(2)) for _ in range(2))
    cache = caches.layered(pairs)
    assert caches.can_be_cut(cache)
    assert caches.input_cache(cache) == pairs
    cache.reorder_cache(torch.tensor([1, 1, 0]))
    cache.crop(-2)
    for old, new in zip(pairs, caches.input_cache(cache), strict=True):
        for a, b in zip(old, new, strict=True):
            assert torch.equal(b, a[[1, 1, 0], :, :3])
    assert caches.layered((pairs[0], (pairs[0][0],))) is None
    assert caches.layered(object()) is None


def test_a_wrapper_gets_the_cache_under_the_name_of_the_installed_version():
    """One that passes arguments on tells no name, as those of adapters do; a wrong one is a warning, or no cache."""
    model = causal("Llama")

    class Wrapper(torch.nn.Module):
        config, device = model.config, model.device

        def forward(self, **arguments):
            return model(**arguments)

    lm, rows = tt.TransformersLM(Wrapper(), None, eos_token_id=EOS), [[3, 4, 5], [6, 7, 8]]
    lm.start(rows)
    lm.advance(torch.tensor([9, 10]))
    rows = [[*row, token] for row, token in zip(rows, (9, 10), strict=True)]
    torch.testing.assert_close(lm.log_probs(), in_one_pass(model, rows), rtol=1e-4, atol=1e-4)
