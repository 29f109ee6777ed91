"""llama-cpp-python with our logits processor, on the embedded model as a GGUF file: ``make test-others``."""

import json

import numpy as np
import pytest
import torch

import tractile as tt
from tractile.embedded import load_lm

llama_cpp = pytest.importorskip("llama_cpp", reason="llama-cpp-python is not installed")
gguf_file = pytest.importorskip("gguf_file", reason="gguf is not installed")

from tractile.decoding.llama_cpp import LlamaProcessor, llama_vocabulary  # noqa: E402

SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
    "required": ["name", "age"],
    "additionalProperties": False,
}
PROMPT = "The girl was"


@pytest.fixture(scope="module")
def llama(tmp_path_factory):
    path = gguf_file.write(tmp_path_factory.mktemp("gguf") / "small.gguf")
    return llama_cpp.Llama(str(path), n_ctx=256, verbose=False, n_threads=1, logits_all=True)


def test_the_file_is_the_embedded_model_with_its_vocabulary(llama):
    model, tokenizer = load_lm()
    own, theirs = llama_vocabulary(llama), tt.Vocabulary.from_tokenizer(tokenizer)
    assert own.token_bytes == theirs.token_bytes
    assert own.eos_token_id == theirs.eos_token_id
    ids = tokenizer.encode(PROMPT)
    assert llama.tokenize(PROMPT.encode()) == ids
    llama.eval(ids)
    with torch.no_grad():
        expected = model(torch.tensor([ids])).logits[0, -1].log_softmax(0).numpy()
    found = torch.tensor(np.array(llama.scores[len(ids) - 1])).log_softmax(0).numpy()
    assert np.abs(found - expected).max() < 0.05
    llama.reset()


def processors(llama, budget):
    fa = tt.constraints.json_schema(SCHEMA).compile(llama_vocabulary(llama))
    ours = LlamaProcessor(llama, tt.ConstraintLogitsProcessor(fa, max_new_tokens=budget))
    return llama_cpp.LogitsProcessorList([ours])


@pytest.mark.parametrize("budget", [17, 24, 60])
def test_texts_are_finished_within_the_budget(llama, budget):
    processor = processors(llama, budget)
    for seed in range(3):  # the processor is used again
        found = llama(PROMPT, max_tokens=budget, logits_processor=processor, seed=seed, temperature=1.0)
        assert {*json.loads(found["choices"][0]["text"])} == {"name", "age"}
        assert found["choices"][0]["finish_reason"] == "stop"


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_an_error_does_not_lead_to_text_without_the_constraint(llama):
    found = llama(PROMPT, max_tokens=16, logits_processor=processors(llama, 16))
    assert found["choices"][0]["text"] == ""
