"""Outlines' generators with our back end, on each of its steerable models: ``make test-others``."""

import json
from typing import Literal

import pytest
from pydantic import BaseModel

import tractile as tt
from tractile.embedded import LM_PATH, load_lm

outlines = pytest.importorskip("outlines", reason="Outlines is not installed")

from outlines.backends.base import BaseBackend  # noqa: E402

from tractile.decoding.outlines import OutlinesBackend  # noqa: E402

BUDGET = 40


class Pet(BaseModel):
    name: str
    kind: Literal["cat", "dog"]


@pytest.fixture(scope="module")
def model():
    lm, tokenizer = load_lm()
    tokenizer.pad_token = tokenizer.eos_token
    lm.generation_config.pad_token_id = tokenizer.eos_token_id
    return outlines.from_transformers(lm, tokenizer)


def test_each_kind_is_finished_within_the_budget(model):
    backend = OutlinesBackend(model, max_new_tokens=BUDGET)
    assert isinstance(backend, BaseBackend)
    schema = backend.get_json_schema_logits_processor(json.dumps(Pet.model_json_schema()))
    generator = outlines.Generator(model, processor=schema)
    for _ in range(2):  # the processor is used again
        Pet.model_validate_json(generator("Tom has a pet.", max_new_tokens=BUDGET, do_sample=True))
    texts = generator.batch(["Tom has a pet.", "A cat"], max_new_tokens=BUDGET, do_sample=True)
    assert len([Pet.model_validate_json(text) for text in texts]) == 2

    names = outlines.Generator(
        model, processor=backend.get_regex_logits_processor("[A-Z][a-z]+( [A-Z][a-z]+)*")
    )
    assert tt.constraints.regex("[A-Z][a-z]+( [A-Z][a-z]+)*").accepts(
        names("My name is", max_new_tokens=BUDGET)
    )

    sums = 'start: NUMBER ("+" NUMBER)*\nNUMBER: /[0-9]+/'
    generator = outlines.Generator(model, processor=backend.get_cfg_logits_processor(sums))
    assert tt.constraints.grammar(sums).accepts(generator("Two and two:", max_new_tokens=BUDGET))


def test_a_type_of_python_and_an_hmm(model):
    processor = tt.ConstraintLogitsProcessor(
        tt.constraints.output_type(Pet), tt.embedded.load_hmm(), BUDGET, tokenizer=model.hf_tokenizer
    )
    text = outlines.Generator(model, processor=processor)("Tom has a pet.", max_new_tokens=BUDGET)
    assert isinstance(tt.constraints.output_type(Pet).parse(text), Pet)


def test_what_cannot_be_kept_is_refused(model):
    backend = OutlinesBackend(model, max_new_tokens=3)
    with pytest.raises(tt.errors.UnsupportedConstraint, match="white space"):
        backend.get_json_schema_logits_processor("{}", r"[ ]?")
    generator = outlines.Generator(model, processor=backend.get_regex_logits_processor("[a-z]{90}"))
    with pytest.raises(tt.errors.BudgetTooSmall):
        generator("Tom", max_new_tokens=3)


@pytest.mark.parametrize("library", ["llama_cpp", "mlx_lm"])
def test_models_of_other_libraries(library, tmp_path):
    there = pytest.importorskip(library)
    if library == "mlx_lm":
        model = outlines.from_mlxlm(*there.load(str(LM_PATH)))
    else:
        path = pytest.importorskip("gguf_file").write(tmp_path / "small.gguf")
        model = outlines.from_llamacpp(there.Llama(str(path), n_ctx=256, verbose=False, n_threads=1))
    backend = OutlinesBackend(model, max_new_tokens=BUDGET)
    schema = backend.get_json_schema_logits_processor(json.dumps(Pet.model_json_schema()))
    generator = outlines.Generator(model, processor=schema)
    for _ in range(2):
        Pet.model_validate_json(generator("Tom has a pet.", max_tokens=BUDGET))
