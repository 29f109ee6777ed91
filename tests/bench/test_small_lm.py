"""The script that trains the small model: where its pairs come from, its tokens, and a run that is interrupted."""

import importlib.util
import json
import random
import sys
from argparse import Namespace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import LlamaForCausalLM, PreTrainedTokenizerFast

import tractile as tt
from tractile.constraints.sql.constraint import sql
from tractile_bench import models, prompts, splits

TRAINING = Path(__file__).resolve().parents[2] / "bench" / "training"


def load(name: str) -> ModuleType:
    sys.path.insert(0, str(TRAINING))
    spec = importlib.util.spec_from_file_location(name, TRAINING / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def script() -> ModuleType:
    return load("train_small_lm")


@pytest.fixture(scope="module")
def calls() -> ModuleType:
    return load("small_lm_calls")


@pytest.fixture(scope="module")
def requests() -> ModuleType:
    return load("small_lm_requests")


@pytest.fixture(scope="module")
def goals() -> ModuleType:
    return load("small_lm_goals")


@pytest.fixture(scope="module")
def text() -> ModuleType:
    return load("small_lm_text")


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


def test_calls_read_back(calls: ModuleType) -> None:
    given = {"a": 'x "y"', "b": [1, {"c": None}], "d": True, "e": -2.5, "f": "é"}
    for syntax in ("json", "python"):
        assert arguments_of(calls.call_text("f.g", given, syntax), syntax) == ("f.g", given)


def test_a_document_offers_the_tool_that_it_calls(calls: ModuleType, requests: ModuleType) -> None:
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


def test_invented_queries_say_their_values(requests: ModuleType) -> None:
    rng = random.Random(1)
    made = [requests.invented_query(TOOL, rng) for _ in range(100)]
    assert len({call.query for call in made}) > 90
    for call in made:
        assert {"city", "seats"} <= call.arguments.keys()
        for value in call.arguments.values():
            assert isinstance(value, bool) or str(value) in call.query


def test_new_numbers_change_query_and_call_alike(calls: ModuleType, requests: ModuleType) -> None:
    call = calls.Call("Seats for 12 in Rome, 3 times", TOOL, {"city": "Rome", "seats": 12})
    changed = {requests.new_numbers(call, random.Random(seed)).query for seed in range(20)}
    assert len(changed) > 5
    for seed in range(20):
        new = requests.new_numbers(call, random.Random(seed))
        assert f"for {new.arguments['seats']} in Rome, 3 times" in new.query


def write(path: Path, rows: list[Any]) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def test_leaderboard_cases_of_the_test_side_stay_out(calls: ModuleType, tmp_path: Path) -> None:
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


def test_sql_of_tables_with_strange_columns(text: ModuleType, tmp_path: Path) -> None:
    where = 'WHERE 2004_WINS_FIELD = "a b" AND Y_FIELD > 3'
    write(
        tmp_path / "train.jsonl",
        [
            {"table_id": "1", "question": "How many ?", "query": f"SELECT COUNT FLEET_(NO)_FIELD FROM TABLE {where} ;"},
            {"table_id": "1", "question": "Which ?", "query": "SELECT Y_FIELD FROM TABLE WHERE 2004_WINS_FIELD = D'Or ;"},
        ],
    )  # fmt: skip
    (prompt, query), (_, other) = text.wikisql(tmp_path, random.Random(0))
    table = prompt.split("\n")[1].split("(")[0]
    columns = prompt.split("\n")[1].split("(")[1].rstrip(")").split(", ")
    assert sorted(column.lower() for column in columns) == ['"2004_wins"', "fleet_no", "y"]
    assert query.lower() == f"select count(fleet_no) from {table} where \"2004_wins\" = 'a b' and y > 3"
    assert other.lower() == f"select y from {table} where \"2004_wins\" = 'd''or'"
    language = sql({"tables": {table: [column.strip('"') for column in columns]}, "foreign_keys": []})
    assert language.accepts(query)
    assert language.accepts(other)


def test_goals_are_states_that_can_be(goals: ModuleType) -> None:
    """Every fact of a goal is about an object of the problem, once; a block lies on one thing and carries one."""
    for description, goal in [goals.blocks(random.Random(seed)) for seed in range(300)]:
        facts = [fact.strip("()").split() for fact in goal]
        assert len(set(goal)) == len(goal) > 0
        below = [fact[1] for fact in facts if fact[0] in ("on", "on-table", "holding")]
        above = [fact[2] for fact in facts if fact[0] == "on"] + [f[1] for f in facts if f[0] == "clear"]
        assert len(set(below)) == len(below)
        assert len(set(above)) == len(above)
        assert description.count("\n") >= 1
    for description, goal in [goals.balls(random.Random(seed)) for seed in range(300)]:
        facts = [fact.strip("()").split() for fact in goal]
        balls = [fact[1] for fact in facts if fact[0] in ("at", "carry")]
        hands = [fact[-1] for fact in facts if fact[0] in ("free", "carry")]
        assert len(set(balls)) == len(balls)
        assert len(set(hands)) == len(hands)
        assert "ball" in description


def test_planetarium_s_training_side(goals: ModuleType, tmp_path: Path) -> None:
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


def pairs(goals: ModuleType, count: int = 40) -> list[tuple[str, str]]:
    rng = random.Random(0)
    found = list(goals.goals(rng, count))
    found += [(prompts.commongen(["dog", "ball"]), f"A dog has {n} balls.") for n in range(count)]
    return [*found, ("", "Plain text é.")]


def test_tokens_are_the_same_in_list_and_answer(script: ModuleType, goals: ModuleType) -> None:
    tokenizer = script.train_tokenizer(part for pair in pairs(goals) for part in pair)
    for sample in ("f(party_size: integer)\n", ' é😀\t "x": {"y": -1.5}', "(and (on b12 b1))", "  two\r\n\n"):
        assert tokenizer.decode(tokenizer(sample).input_ids, skip_special_tokens=True) == sample
    within = lambda sample: tokenizer(sample, add_special_tokens=False).input_ids  # noqa: E731
    for name in ("New", "zebra", "getValue", "b12"):
        for before, after in ((" Zoo ", " x"), ('"', '"'), ("(", ": x"), (", ", "=")):
            found = within(f"{before}{name}{after}")
            assert "".join(tokenizer.batch_decode(found)) == f"{before}{name}{after}"
            assert str(within(name))[1:-1] in str(found) or name == "b12"
    document = script.encode(tokenizer, [("Concepts: dog\nSentence:\n", "A dog.")], whole=False)[0]
    assert tokenizer.decode(document.tokens[document.start :]) == "A dog.</s>"
    assert document.tokens == [*tokenizer("Concepts: dog\nSentence:\nA dog.").input_ids, script.EOS]


def test_batches_and_what_counts(script: ModuleType, goals: ModuleType) -> None:
    tokenizer = script.train_tokenizer(part for pair in pairs(goals) for part in pair)
    documents = script.encode(tokenizer, pairs(goals), whole=False) + script.encode(
        tokenizer, pairs(goals), whole=True
    )
    assert script.unpack(script.pack(documents)) == documents
    found = script.batches(documents, 1024, random.Random(0))
    key = lambda one: (one.tokens, one.whole)  # noqa: E731
    assert sorted((one for batch in found for one in batch), key=key) == sorted(documents, key=key)
    for batch in found:
        inputs, targets = script.tensors(batch, None)
        assert inputs.shape[1] in script.WIDTHS
        for row, document in enumerate(batch):
            counted = (targets[row] != -100).nonzero()[:, 0].tolist()
            assert counted == list(range(document.start - 1, len(document.tokens) - 1))
            assert targets[row, counted].tolist() == document.tokens[document.start :]
        some = script.tensors(batch, random.Random(0))[1]
        for row, document in enumerate(batch):
            assert (
                document.whole == ((some[row] != -100).sum() == len(document.tokens) - 1)
                or document.start == 1
            )


@pytest.mark.skipif(not hasattr(torch.optim, "Muon"), reason="this torch has no Muon, which the script uses")
def test_an_interrupted_run_ends_in_the_same_model(
    script: ModuleType, goals: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Broken off at its second checkpoint and taken up again: the same weights, which `from_pretrained` reads."""
    monkeypatch.setattr(script, "VOCABULARY", 300)
    tokenizer = script.train_tokenizer(part for pair in pairs(goals) for part in pair)
    documents = script.encode(tokenizer, pairs(goals), whole=False)
    ticks = iter(range(0, 10**7, 70))  # seconds: every look at the clock is late, so checkpoints are frequent
    monkeypatch.setattr(script.time, "monotonic", lambda: next(ticks))
    save = script.save_checkpoint

    def run(name: str, checkpoints: int) -> dict[str, Tensor]:
        left = iter(range(checkpoints))
        work = tmp_path / name
        work.mkdir(exist_ok=True)
        args = Namespace(
            lr=0.3, steps=6, minutes=1e6, work=work, batch=1024, seed=0, compile=False, device="cpu", bf16=True,
            log_every=3, checkpoint_minutes=1,
        )  # fmt: skip

        def save_or_stop(*arguments: Any) -> None:
            save(*arguments)
            if next(left, None) is None:
                raise KeyboardInterrupt

        monkeypatch.setattr(script, "save_checkpoint", save_or_stop)
        model = script.build_model(0, 64, 1)
        assert script.train(model, tokenizer, documents, args).step == 6
        script.save_model(model, tokenizer, work / "out")
        return dict(model.state_dict())

    whole = run("whole", 100)
    with pytest.raises(KeyboardInterrupt):
        run("again", 1)
    again = run("again", 100)
    start = script.build_model(0, 64, 1).state_dict()
    for name, value in whole.items():
        torch.testing.assert_close(again[name], value, rtol=0, atol=1e-4)
    assert any((start[name] - value).abs().max() > 1e-3 for name, value in whole.items())
    loaded = LlamaForCausalLM.from_pretrained(tmp_path / "whole/out")
    assert loaded.dtype == torch.float16
    torch.testing.assert_close(
        loaded.lm_head.weight.float(), whole["model.embed_tokens.weight"], rtol=1e-2, atol=1e-4
    )
    read = PreTrainedTokenizerFast.from_pretrained(tmp_path / "whole/out")
    assert read("A dog.").input_ids == tokenizer("A dog.").input_ids
    before = script.evaluate(script.build_model(0, 64, 1), documents, "cpu")
    after = script.evaluate(loaded.float(), documents, "cpu")
    assert after.nats_per_token < before.nats_per_token - 0.3
    assert after.tokens == sum(len(one.tokens) - one.start for one in documents)
    assert 0 <= after.probability <= 1


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
