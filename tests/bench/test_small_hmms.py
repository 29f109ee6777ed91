"""The HMMs of the small model: the script that distils them, and what ships reads its prompts."""

import json
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from scripts import load

import tractile as tt
from tractile import distill
from tractile_bench import guides, models, prompts

script = load("bench/training/distill_small_lm.py")
WORDS = ("dog", "cat", "park", "ball", "house", "river", "tree", "song")


def documents() -> list:
    """Sentences of pairs of concepts, as the training script packs them."""
    tokenizer, found = models.load_small_lm()[1], []
    for one in WORDS:
        for other in WORDS:
            prompt = tokenizer(prompts.commongen([one, other])).input_ids
            answer = tokenizer(f"A {one} and a {other}.", add_special_tokens=False).input_ids
            found.append(script.Document([*prompt, *answer, tokenizer.eos_token_id], len(prompt), False))
    return found


def test_there_is_a_recipe_for_every_hmm() -> None:
    folders = {name for names in models.SMALL_HMMS.values() for name in names.values()}
    assert set(script.RECIPES) == set(script.SOURCES) == folders


def test_references_keep_their_prompts() -> None:
    some = documents()[:5]
    drawn = distill.Corpus.of(torch.tensor([[5, 6, 1], [7, 1, 1]]), 4096, 1, [[8], [9]])
    pool = script.with_references(drawn, some, seed=3)
    assert len(pool) == 7
    pairs = {
        (tuple(pool.manifest.prompts[p]), tuple(row))
        for p, row in zip(pool.prompt.tolist(), pool.tokens.tolist(), strict=True)
    }
    assert ((8,), (5, 6, 1)) in pairs
    for one in some:  # cut to three tokens
        assert (tuple(one.tokens[: one.start]), tuple(one.tokens[one.start : one.start + 3])) in pairs


@pytest.mark.parametrize("start", ["ngram", "latent"])
def test_the_script_leaves_an_hmm_that_copies(
    start: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    from train_small_lm import pack

    every = documents()
    packed = {"train.commongen": pack(every[:56]), "test.commongen": pack(every[56:])}
    save_file(packed, tmp_path / "documents.safetensors")
    options = {
        "task": "commongen", "hidden": 40, "start": start, "sequences": 12, "prompts": 6, "references": 56, "test": 4,
        "passes": 8,
        "documents": tmp_path / "documents.safetensors", "work": tmp_path / "work", "out": tmp_path / "hmm",
        "threads": 1,
    }  # fmt: skip
    arguments = [text for name, value in options.items() for text in (f"--{name}", str(value))]
    monkeypatch.setattr(sys, "argv", ["distill_small_lm.py", *arguments])
    script.main()
    facts = json.loads(capsys.readouterr().out.strip().splitlines()[-1])
    assert (facts["sequences"], facts["start"], facts["hidden"]) == (12, start, 40)
    assert facts["tokens_with_references"] > facts["tokens"] > 0
    assert 0 < facts["lm_nats_per_token"] < facts["without_prompt"]
    copying = guides.Copying.from_pretrained(tmp_path / "hmm")
    assert copying.hmm.hidden == 40
    last = every[-1]  # it was not fitted to this one
    answer = torch.tensor([last.tokens[last.start :]])
    assert tt.log_marginal(copying.read(last.tokens[1 : last.start]), answer) > tt.log_marginal(
        copying.hmm, answer
    )


@pytest.mark.parametrize(
    ("task", "prompt", "answer"),
    [
        (
            "function-calling",
            prompts.function_calling(
                "Find a table in Rome",
                [
                    {
                        "name": "find_table",
                        "description": "Find a table",
                        "parameters": {
                            "type": "object",
                            "properties": {"city": {"type": "string"}},
                            "required": ["city"],
                        },
                    }
                ],
            ),
            '{"name": "find_table", "arguments": {"city": "Rome"}}',
        ),
        (
            "spider",
            prompts.text_to_sql("How many singers are there?", {"singer": ["id", "name"]}),
            "SELECT count(*) FROM singer",
        ),
    ],
)
def test_what_ships_reads_its_prompt(task: str, prompt: str, answer: str) -> None:
    tokenizer = models.load_small_lm()[1]
    copying = guides.Copying.from_pretrained(models.small_hmm_path(task))
    ids = [token for token in tokenizer(prompt).input_ids if token not in tokenizer.all_special_ids]
    text = [*tokenizer(answer, add_special_tokens=False).input_ids, tokenizer.eos_token_id]
    read, before = (
        float(tt.log_marginal(hmm, torch.tensor([text])))
        for hmm in (copying.read(ids), models.load_small_hmm(task))
    )
    assert read > before + 0.5 * len(text)
