"""``model.generate(custom_generate=…)``: the folder that ships, loaded by transformers itself."""

import inspect

import pytest
import torch
import transformers.dynamic_module_utils

import tractile as tt
from tractile.decoding import custom_generate_path
from tractile.embedded import load_hmm, load_lm

SUPPORTED = "custom_generate" in inspect.signature(transformers.GenerationMixin.generate).parameters


@pytest.mark.skipif(not SUPPORTED, reason="this transformers has no custom_generate")
@pytest.mark.parametrize(
    "settings", [{}, {"do_sample": True}, {"num_beams": 2}, {"method": "smc"}, {"method": "smc", "hmm": True}]
)
def test_every_text_satisfies_the_constraint_within_the_budget(settings, tmp_path, monkeypatch):
    monkeypatch.setattr(transformers.dynamic_module_utils, "HF_MODULES_CACHE", str(tmp_path))
    model, tokenizer = load_lm()
    tokenizer.padding_side, tokenizer.pad_token = "left", tokenizer.eos_token
    prompts = tokenizer(
        ["The names were", "Anna"], return_tensors="pt", padding=True, return_token_type_ids=False
    )
    constraint = tt.constraints.regex(r" [A-Z][a-z]+( and [A-Z][a-z]+)*\.")
    if settings.get("hmm"):
        settings = {**settings, "hmm": load_hmm()}
    torch.manual_seed(0)
    found = model.generate(
        **prompts, custom_generate=custom_generate_path(), trust_remote_code=True, constraint=constraint, tokenizer=tokenizer,
        max_new_tokens=10, num_return_sequences=2 if {"num_beams", "method", "do_sample"} & set(settings) else 1, **settings,
    )  # fmt: skip
    length = prompts["input_ids"].shape[1]
    assert found.shape[1] <= length + 10
    assert torch.equal(found[0, :length], prompts["input_ids"][0])
    for row in found[:, length:].tolist():
        assert tokenizer.eos_token_id in row
        assert constraint.accepts(" " + tokenizer.decode(row, skip_special_tokens=True).lstrip())


def test_a_transformers_without_it_is_named(monkeypatch):
    monkeypatch.setattr(transformers.GenerationMixin, "generate", lambda self, inputs=None, **settings: None)
    with pytest.raises(tt.errors.TractileError, match=r"custom_generate needs transformers>=4\.52, not \d"):
        custom_generate_path()
