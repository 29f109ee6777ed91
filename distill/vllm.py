"""Corpora drawn by vLLM, for language models that need its speed: ``distill.sample(VLLM(llm), …)``.

vLLM is not needed to import this: ``pip install vllm``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..errors import FormatError, ShapeError
from ..token_bytes import tokenizer_fingerprint


class VLLM:
    """A ``vllm.LLM`` for :func:`.sample`: sequences at temperature 1, with log-probabilities and most probable tokens.

    ``eos_token_id`` is the tokenizer's if not given. Each sequence has a seed of its own, so a corpus does not depend on
    the order of the requests; vLLM's own arithmetic may differ in the last bits between batches.
    """

    def __init__(self, llm: Any, eos_token_id: int | None = None) -> None:
        tokenizer = llm.get_tokenizer()
        self.llm, self.tokenizer = llm, tokenizer
        self.vocab_size = len(tokenizer)
        self.eos_token_id: int | None = tokenizer.eos_token_id if eos_token_id is None else eos_token_id

    @classmethod
    def load(cls, model: str | Path, seed: int = 0) -> VLLM:
        """Start vLLM's engine for a model (its folder); raises :class:`FormatError` if vLLM is missing or does not start it."""
        try:
            from vllm import LLM

            return cls(LLM(str(model), seed=seed))
        except ImportError as error:
            raise FormatError(f"vLLM cannot be imported ({error}); pip install vllm") from error
        except (OSError, ValueError, RuntimeError) as error:
            raise FormatError(f"vLLM does not start {model}: {error}") from error

    @cached_property
    def vocabulary_fingerprint(self) -> str | None:
        """The fingerprint of the tokenizer's vocabulary with this end token; None if the tokenizer cannot be read."""
        if self.eos_token_id is None:
            return None
        return tokenizer_fingerprint(self.tokenizer, self.eos_token_id, self.vocab_size)

    def continuations(
        self, prompts: Sequence[str | list[int]], max_new_tokens: int, seeds: Sequence[int]
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Sample a sequence for each pair of prompt and seed: (tokens, their log-probabilities in nats, most probable tokens).

        Each is (prompts, max_new_tokens), padded with the end-of-sequence token.

        Raises :class:`ShapeError` if a text ended without an end-of-sequence token, or the engine kept no log-probabilities.
        """
        from vllm import SamplingParams

        settings = [
            SamplingParams(
                temperature=1.0, max_tokens=max_new_tokens, logprobs=1, detokenize=False, seed=seed
            )
            for seed in seeds
        ]
        requests = [p if isinstance(p, str) else {"prompt_token_ids": list(p)} for p in prompts]
        found = self.llm.generate(requests, settings, use_tqdm=False)
        assert self.eos_token_id is not None
        tokens = torch.full((len(prompts), max_new_tokens), self.eos_token_id, dtype=torch.int32)
        log_probs, best = torch.zeros(tokens.shape), tokens.clone()
        for row, request in enumerate(found):
            text = request.outputs[0]
            ids, n = list(text.token_ids), len(text.token_ids)
            if n < max_new_tokens and (n == 0 or ids[-1] != self.eos_token_id):
                raise ShapeError(
                    f"VLLM: sequence {row} ended after {n} of {max_new_tokens} tokens without the end-of-sequence token "
                    f"{self.eos_token_id} (finish reason: {text.finish_reason}); is it the model's? Is the context full?"
                )
            if text.logprobs is None:
                raise ShapeError(
                    "VLLM: the engine returned no log-probabilities; start it with max_logprobs ≥ 1"
                )
            tokens[row, :n] = torch.tensor(ids, dtype=torch.int32)
            log_probs[row, :n] = torch.tensor(
                [at[i].logprob for at, i in zip(text.logprobs, ids, strict=True)]
            )
            best[row, :n] = torch.tensor([_first(at) for at in text.logprobs], dtype=torch.int32)
        return tokens, log_probs, best


def _first(at: Mapping[int, Any]) -> int:
    """Return the most probable of the tokens that vLLM lists."""
    return max(at, key=lambda token: float(at[token].logprob))
