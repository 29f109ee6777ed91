"""The small model: what it is trained on stays out of the tests, and what ships."""

import json
import random
from pathlib import Path
from typing import Any

import pytest
import torch
from scripts import load

import tractile as tt
from tractile_bench import models, prompts, splits

calls, requests, goals = (
    load(f"bench/training/{name}.py") for name in ("small_lm_calls", "small_lm_requests", "small_lm_goals")
)

TOOL = {
    "name": "find_table",
    "description": "Finds a table in a restaurant",
    "parameters": {
        "type": "object",
        "properties": {
            "city": {"type": "string"},
            "seats": {"type": "integer"},
            "outside": {"type": "boolean"},
            "kind": {"type": "string", "enum": ["bar", "cafe", "diner"]},
        },
        "required": ["city", "seats"],
    },
}


def arguments_of(answer: str, syntax: str) -> tuple[str, dict[str, Any]]:
    """Name and arguments of a call, read back by Python itself."""
    if syntax == "json":
        found = json.loads(answer)
        return found["name"], found["arguments"]
    name, _, rest = answer.partition("(")
    return name, eval(f"dict({rest}", {"dict": dict})


def test_a_document_offers_the_tool_that_it_calls() -> None:
    rng = random.Random(0)
    call = calls.Call("Two seats in Rome, at a cafe", TOOL, {"city": "Rome", "seats": 2, "kind": "cafe"})
    others = [TOOL | {"name": f"other_{i}"} for i in range(4)]
    for _ in range(200):
        prompt, answer = requests.document(call, others, rng)
        syntax = "json" if prompt.endswith("JSON call:\n") else "python"
        name, arguments = arguments_of(answer, syntax)
        lines = prompt.split("Functions:\n")[1].split("\nUser: ")[0].split("\n")
        [line] = [line for line in lines if line.startswith(f"{name}(")]
        places = [line.index(f"{key}{'' if value != 'cafe' else '?'}: ") for key, value in arguments.items()]
        assert places == sorted(places)  # the order of the declaration
        assert sorted(map(str, arguments.values())) == ["2", "Rome", "cafe"]
        assert '"cafe"' in line
        assert 1 <= len(lines) <= 4


def write(path: Path, rows: list[Any]) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def test_leaderboard_cases_of_the_test_side_stay_out(tmp_path: Path) -> None:
    ids = [f"live_simple_{case}-{case // 3}-{case % 3}" for case in range(120)]
    rows = [
        {"id": id, "question": [[{"role": "user", "content": f"{id} in Rome for 2"}]], "function": [TOOL],
         "possible_answer": [{"find_table": {"city": ["Rome"], "seats": [2], "outside": ["", False]}}]}
        for id in ids
    ]  # fmt: skip
    for kind in ("simple_python", "live_simple", "multiple", "live_multiple"):
        write(tmp_path / f"BFCL_v4_{kind}.jsonl", rows if kind == "live_simple" else [])
    found = {call.query.split()[0] for call in calls.bfcl_calls(tmp_path)}
    assert found == {id for id in ids if splits.is_train(splits.bfcl_key(id))}
    assert 20 < len(found) < 100
    groups: dict[str, list[bool]] = {}
    for id in ids:
        groups.setdefault(splits.bfcl_key(id), []).append(id in found)
    assert len(groups) == 40
    assert all(len(set(sides)) == 1 and len(sides) == 3 for sides in groups.values())


def test_planetarium_s_training_side(tmp_path: Path) -> None:
    problem = "(define (problem p) (:domain blocksworld) (:objects b1 b2) (:init (holding b1)) (:goal (and (on b2\n b{}))))"
    rows = [{"natural_language": f"{n} ", "problem_pddl": problem.format(n)} for n in range(20)]
    write(tmp_path / "problems.half.jsonl", rows)
    found = dict(goals.planetarium(tmp_path))
    assert found == {
        prompts.goal_inference(str(n)): goal
        for n in range(20)
        if splits.is_train(splits.planetarium_key(goal := f"(and (on b2 b{n}))"))
    }
    assert 0 < len(found) < 20


# ------------------------------------------------------------------------------------------------- what ships


def size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def test_the_small_model_and_its_card() -> None:
    model, tokenizer = models.load_small_lm()
    assert model.dtype == torch.float32
    assert not model.training
    assert 3e6 < sum(p.numel() for p in model.parameters()) < 15e6
    assert size(models.SMALL_LM_PATH) <= 12_000_000
    card = (models.SMALL_LM_PATH / "README.md").read_text(encoding="utf-8")
    for licence in (
        "Apache-2.0",
        "CC BY-SA 4.0",
        "MIT",
        "CC0",
        "CC BY 4.0",
        "CC BY 2.0 FR",
        "CDLA-Sharing-1.0",
        "BSD-3",
    ):
        assert licence in card
    vocab = tt.Vocabulary.from_tokenizer(tokenizer)
    for sample in ('{"a": "é 😀"}\n', "  x_y\t(and (on b12 b1))"):
        ids = tokenizer(sample, add_special_tokens=False).input_ids
        assert b"".join(vocab.token_bytes[token] or b"" for token in ids) == sample.encode()


def test_the_small_model_prefers_what_was_asked_for() -> None:
    """Log-probabilities of whole answers: the right one before its neighbours."""
    model, tokenizer = models.load_small_lm()

    def score(prompt: str, answer: str) -> float:
        asked = tokenizer(prompt).input_ids
        ids = torch.tensor(
            [[*asked, *tokenizer(answer, add_special_tokens=False).input_ids, tokenizer.eos_token_id]]
        )
        with torch.no_grad():
            found = model(ids).logits[0, :-1].log_softmax(-1).gather(1, ids[0, 1:, None])[len(asked) - 1 :, 0]
        return float(found.sum())

    other = TOOL | {"name": "find_doctor", "description": "Finds a doctor"}
    for syntax, right, wrong in (
        (
            "json",
            '{"name": "find_table", "arguments": {"city": "Rome", "seats": 2}}',
            ("Paris", "7", "find_doctor"),
        ),
        ("python", 'find_table(city="Rome", seats=2)', ("Paris", "7", "find_doctor")),
    ):
        prompt = prompts.function_calling("Find a table with 2 seats in Rome", [TOOL, other], syntax)
        for old, new in zip(("Rome", "2", "find_table"), wrong, strict=True):
            assert score(prompt, right) > score(prompt, right.replace(old, new))
    problem = "You have 3 blocks.\nYour goal is to have the following:\nb2 should be on b3."
    prompt = prompts.goal_inference(f"{problem}\nb2 should be clear.")
    assert score(prompt, "(and (on b2 b3) (clear b2))") > score(prompt, "(and (on b3 b2) (clear b2))")
    prompt = prompts.text_to_sql(
        "How many singers are there?", {"singer": ["id", "name"], "song": ["id", "title"]}
    )
    assert score(prompt, "SELECT count(*) FROM singer") > score(prompt, "SELECT count(*) FROM song")


def test_every_task_has_an_hmm_of_the_model_s_tokens() -> None:
    tokenizer = models.load_small_lm()[1]
    for task, names in models.SMALL_HMMS.items():
        for syntax in names:
            hmm = models.load_small_hmm(task, syntax)
            assert hmm.vocab_size == len(tokenizer)
            assert bool((hmm.emission_probs.sum(0) > 0).all())  # no token is impossible
    assert size(models.SMALL_HMM_PATH) <= 8_000_000
    with pytest.raises(ValueError, match="there is one for function-calling, commongen"):
        models.load_small_hmm("poetry")
    with pytest.raises(ValueError, match="function-calling in lisp"):
        models.load_small_hmm("function-calling", "lisp")
