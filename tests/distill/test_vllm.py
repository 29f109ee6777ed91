"""Corpora drawn by vLLM, of which only what is used of its interface is imitated here."""

import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
import torch

import tractile as tt
from tractile import distill
from tractile.errors import ShapeError

EOS, VOCAB = 0, 5
NEXT = torch.tensor(
    [[1.0, 0, 0, 0, 0], [0.1, 0.2, 0.3, 0.2, 0.2], [0.4, 0.1, 0.1, 0.1, 0.3]] + [[0.2] * 5] * 2
).log()


class Engine:
    """A bigram model behind the interface of ``vllm.LLM``."""

    def __init__(self, finish: str = "stop", keep: bool = True) -> None:
        self.finish, self.keep, self.calls = finish, keep, 0

    def get_tokenizer(self):
        return type("Tokenizer", (), {"eos_token_id": EOS, "__len__": lambda _: VOCAB})()

    def generate(self, prompts, settings, use_tqdm):
        assert not use_tqdm
        self.calls += 1
        return [self._one(p, s) for p, s in zip(prompts, settings, strict=True)]

    def _one(self, prompt, settings):
        assert (settings.temperature, settings.logprobs) == (1.0, 1)
        generator = torch.Generator().manual_seed(settings.seed)
        last = len(prompt) % VOCAB if isinstance(prompt, str) else prompt["prompt_token_ids"][-1]
        ids, logprobs = [], []
        while len(ids) < settings.max_tokens and not (ids and ids[-1] == EOS):
            row = NEXT[last]
            last = int(torch.multinomial(row.exp(), 1, generator=generator))
            ids.append(last)
            listed = {int(row.argmax()), last}
            logprobs.append({i: SimpleNamespace(logprob=float(row[i])) for i in listed})
        if self.finish != "stop":
            ids, logprobs = ids[:1], logprobs[:1]
        text = SimpleNamespace(
            token_ids=ids, logprobs=logprobs if self.keep else None, finish_reason=self.finish
        )
        return SimpleNamespace(outputs=[text])


@pytest.fixture(autouse=True)
def vllm(monkeypatch):
    module = ModuleType("vllm")
    module.SamplingParams = lambda **given: SimpleNamespace(**given)
    monkeypatch.setitem(sys.modules, "vllm", module)


def test_a_corpus_is_the_models_and_can_be_finished(tmp_path: Path) -> None:
    prompts = [[1], "ab", [3]]
    whole = distill.sample(
        distill.VLLM(Engine()), tmp_path / "a", 2000, 6, prompts, shard_size=500, model="x"
    )
    tokens, log_probs = whole.tokens, whole.token_log_probs
    before = torch.cat([torch.tensor([1, 2, 3])[whole.prompt][:, None], tokens[:, :-1]], 1)
    ended = (tokens == EOS).int().cumsum(1) - (tokens == EOS).int() > 0
    assert torch.equal(log_probs, torch.where(ended, 0.0, NEXT[before, tokens]))
    assert torch.equal(whole.best[~ended], NEXT.argmax(1)[before][~ended].to(whole.best))
    seen = torch.bincount(tokens[before == 2], minlength=VOCAB)
    # three standard errors of the largest share, and more for each of the others
    assert (seen / seen.sum() - NEXT[2].exp()).abs().max() < 3 * (0.24 / seen.sum()) ** 0.5
    (tmp_path / "a" / "shard-00002.safetensors").unlink()
    engine = Engine()
    again = distill.sample(distill.VLLM(engine), tmp_path / "a", 2000, 6, prompts, shard_size=500, model="x")
    assert engine.calls == 2  # the probe of the model, and the shard
    assert torch.equal(again.tokens, tokens)


def test_what_the_engine_must_give(tmp_path: Path) -> None:
    with pytest.raises(ShapeError, match="finish reason: length"):
        distill.sample(distill.VLLM(Engine("length")), tmp_path / "a", 50, 6, [[1]])
    with pytest.raises(ShapeError, match="log-probabilities"):
        distill.sample(distill.VLLM(Engine(keep=False)), tmp_path / "b", 5, 6, [[1]])
    assert tt.distill.VLLM(Engine(), eos_token_id=4).eos_token_id == 4
