"""MLX-LM with our logits processor, on the embedded model: ``make test-others``."""

import re

import pytest

import tractile as tt
from tractile.embedded import LM_PATH, load_hmm

mlx_lm = pytest.importorskip("mlx_lm", reason="MLX-LM is not installed")

from mlx_lm.sample_utils import make_sampler  # noqa: E402

from tractile.decoding.mlx_lm import MLXProcessor  # noqa: E402

PATTERN = r" [A-Z][a-z]+( and [A-Z][a-z]+)+\."


@pytest.mark.parametrize("hmm", [None, load_hmm()], ids=["gcd", "pgcd"])
def test_texts_are_finished_within_the_budget(hmm):
    model, tokenizer = mlx_lm.load(str(LM_PATH))
    vocab = tt.Vocabulary.from_tokenizer(tokenizer._tokenizer)
    processor = MLXProcessor(
        tt.ConstraintLogitsProcessor(tt.constraints.regex(PATTERN).compile(vocab), hmm, 12)
    )
    for prompt in ("The names of the girls were", "The girls were"):
        text = mlx_lm.generate(
            model,
            tokenizer,
            prompt,
            max_tokens=12,
            logits_processors=[processor],
            sampler=make_sampler(temp=1.0),
        )
        assert re.fullmatch(PATTERN, f" {text.lstrip()}")
