"""The benchmark's runner: results that can be gone on with, failures that count, intervals, the report, the command."""

import json
import re

import numpy as np
import pytest
import torch
import typer
from typer.testing import CliRunner

import tractile as tt
from tractile.embedded import HMM_PATH, LM_PATH, load_lm
from tractile.errors import FormatError
from tractile.inference.smc import query_cache
from tractile.inference.smc.strength import STRENGTHS
from tractile_bench import TASKS, Example, Task, files
from tractile_bench.chat import chat_prompt
from tractile_bench.cli import SAMPLE, bench_app, command_of
from tractile_bench.intervals import bootstrap, correlation, total_variation
from tractile_bench.methods import METHODS
from tractile_bench.report.document import report
from tractile_bench.results import FORMAT, Results, read, read_times
from tractile_bench.runner import Bench, Settings, choose
from tractile_bench.summary import Summary

PIECES = [b"a", b"b", b"c", None]
VOCAB = tt.Vocabulary(PIECES, eos_token_id=3)


def lm():
    generator = torch.Generator().manual_seed(0)
    rows = torch.randn(4, 4, generator=generator, dtype=torch.float64).log_softmax(1)
    return tt.lm.TableLM({(): rows[3], (0,): rows[0], (1,): rows[1], (2,): rows[2]}, 3, VOCAB)


class Words(Task):
    """Words of a pattern that the example names; right are those with a b."""

    name, metric, max_new_tokens = "words", "accuracy", 4

    def __init__(self, data, *, mark: str = "b", loud: bool = False):
        self.data, self.mark, self.loud = data, mark, loud

    def examples(self, split="test"):
        self.left = []
        for item in files.read_jsonl(files.find(self.data, f"{split}.jsonl")):
            if "pattern" not in item:
                self.left.append(item["id"])
                continue
            yield Example(item["id"], item.get("prompt", ""), "b", {"pattern": item["pattern"]})

    @property
    def dropped(self):
        return {"no pattern [a]": self.left} if self.left else {}

    def aggregate(self, answers):
        """How many different texts the likeliest are, and how many examples have none."""
        best = [max(weights, key=weights.get) if weights else None for _, weights in answers]
        assert all(sum(weights.values()) == pytest.approx(1) for _, weights in answers if weights)
        return {"different_ones": len(set(best)) / 10, "none": best.count(None) / 10}

    def constraint(self, example):
        return tt.constraints.regex(example.facts["pattern"])

    def potential(self, example):
        return tt.inference.smc.FunctionPotential(lambda text: 0.0 if "cc" in text else 1.0)

    def scores(self, example, text):
        return {"accuracy": float(self.mark in text), "length": float(len(text))}

    def meaning(self, example, text):
        return text.replace("c", "")


@pytest.fixture
def data(tmp_path):
    patterns = ["[abc]*b[ac]*", "a[bc]+", "[abc]{1,3}", "[ab]*c", "(a|b|c)*a", "[bc]*"]
    lines = [{"id": f"w{i}", "prompt": "", "pattern": p} for i, p in enumerate(patterns)]
    (tmp_path / "data").mkdir()
    (tmp_path / "data/test.jsonl").write_text("\n".join(map(json.dumps, lines)))
    return tmp_path / "data"


def run(data, out, methods=("rs", "lcd", "gcd", "pgcd", "full-smc"), stop=None, **settings):
    """A whole run, or one that is stopped as Ctrl-C does after so many batches."""
    task, hmm = Words(data), tt.HMM.random(4, 4, seed=0, dtype=torch.float64)
    settings = {"particles": (1, 3), "batch": 4, "max_new_tokens": 4, "draws": 100, **settings}
    bench = Bench(task, lm(), VOCAB, Settings(methods=methods, **settings), hmm)
    left = [stop]

    def tick(runs):
        if left[0] is not None:
            left[0] -= 1
            if left[0] < 0:
                raise KeyboardInterrupt

    examples = choose(task, "test", None, 0)
    head = {"task": "words", "metric": "accuracy", "model": "table"}
    bench.run(examples, Results(out, head), tick)
    return examples


def with_head(folder, **facts):
    """Add to the head of a run what the report reads of the command's runs."""
    head = {"options": {}, "model": {"name": "table", "parameters": 16}, "dtype": "float64", "device": "cpu"}
    head |= {"temperature": 1.0, "data": "data", "split": "test", "max_new_tokens": 4, "batch": 4, **facts}
    path = folder / "runs.jsonl"
    first, *rest = path.read_text().splitlines(keepends=True)
    path.write_text(json.dumps({**json.loads(first), **head}) + "\n" + "".join(rest))


def test_stopped_and_gone_on_with_is_the_same_to_the_byte(data, tmp_path):
    methods = ("rs", "full-smc")
    run(data, tmp_path / "whole", methods)
    whole = (tmp_path / "whole/runs.jsonl").read_bytes()
    for stop in (1, 5):
        out = tmp_path / f"stopped{stop}"
        with pytest.raises(KeyboardInterrupt):
            run(data, out, methods, stop)
        part = (out / "runs.jsonl").read_bytes()
        assert whole.startswith(part)
        assert len(part) < len(whole)
        for cut in (len(part), len(part) - 7, part.rfind(b"\n", 0, -1) + 3):  # whole lines, and two half ones
            (out / "runs.jsonl").write_bytes(part[:cut])
            run(data, out, methods)
            assert (out / "runs.jsonl").read_bytes() == whole
    before = (tmp_path / "whole/times.jsonl").read_bytes()
    run(data, tmp_path / "whole", methods)  # nothing left to do
    assert (tmp_path / "whole/times.jsonl").read_bytes() == before


@pytest.mark.long
def test_other_settings_are_refused_and_named(data, tmp_path):
    run(data, tmp_path / "out")
    with pytest.raises(FormatError, match=r"another run \(model 'table', now 'other'\)"):
        Results(tmp_path / "out", {"task": "words", "metric": "accuracy", "model": "other"})
    (tmp_path / "out/runs.jsonl").write_text('{"a": 1}\n')
    with pytest.raises(FormatError, match="line 1: expected the head"):
        read(tmp_path / "out")
    with pytest.raises(FormatError, match="holds no results"):
        read(tmp_path)
    (tmp_path / "out/runs.jsonl").write_text('{"format": 2}\n{"example": \n')
    with pytest.raises(FormatError, match="line 2: not JSON"):
        read(tmp_path / "out")


@pytest.mark.long
def test_what_fails_is_counted_and_scores_nothing(data, tmp_path):
    more = [
        {"id": "long", "pattern": "a{9}"},
        {"id": "none", "pattern": "z"},
        {"id": "wrong", "pattern": "(a"},
    ]
    with (data / "test.jsonl").open("a") as file:
        file.write("\n" + "\n".join(map(json.dumps, more)))
    run(data, tmp_path / "out", methods=("gcd", "pgcd", "rs"), batch=16)
    summary = Summary(tmp_path / "out")
    assert len(summary.examples) == 9
    expected = {"BudgetTooSmall": 2, "EmptyLanguage": 2, "UnsupportedConstraint": 2}
    assert summary.errors()["gcd"] == expected
    assert summary.errors()["pgcd"] == expected
    scores = dict(zip(summary.examples, summary.scores("gcd", 3), strict=True))
    assert [scores[name] for name in ("long", "none", "wrong")] == [0, 0, 0]
    assert sum(scores.values()) > 1
    # The others are as they are without those that fail.
    run(data, tmp_path / "again", methods=("gcd",), batch=16)
    lines = {
        line["example"]: line
        for line in read(tmp_path / "out")[1]
        if line["method"] == "gcd" and line["k"] == 3
    }
    for line in read(tmp_path / "again")[1]:
        assert line["k"] != 3 or line == lines[line["example"]]


def test_a_method_that_lacks_what_it_needs_is_refused(data, tmp_path):
    with pytest.raises(tt.errors.EvidenceError, match="pgcd needs an HMM"):
        Bench(Words(data), lm(), VOCAB, Settings(methods=("pgcd",), particles=(1,)))

    class Plain(Words):
        def potential(self, example):
            return None

    bench = Bench(Plain(data), lm(), VOCAB, Settings(methods=("full-is",), particles=(1,), max_new_tokens=4))
    with pytest.raises(
        tt.errors.EvidenceError, match="full-is weighs texts by a potential, and the task words has none"
    ):
        bench.run(choose(Plain(data), "test", None, 0), Results(tmp_path / "out", {"metric": "accuracy"}))


# ------------------------------------------------------------ intervals


def test_intervals_cover():
    generator = np.random.default_rng(0)
    for draw, mean in (
        (lambda: generator.random(80) < 0.3, 0.3),
        (lambda: generator.exponential(size=80), 1.0),
        (lambda: generator.normal(size=80) * generator.random(80), 0.0),
    ):
        inside = [
            low <= mean <= high for _, low, high in (bootstrap(draw(), resamples=400) for _ in range(400))
        ]
        assert 0.90 <= np.mean(inside) <= 0.98
    found = bootstrap([0.0, 1.0, 1.0, 0.0], level=0.5)
    assert found == bootstrap([0.0, 1.0, 1.0, 0.0], level=0.5)
    assert 0 < found.low < found.mean == 0.5 < found.high < 1
    with pytest.raises(tt.errors.EvidenceError):
        bootstrap([])


def test_a_paired_difference_is_narrower_than_two_means():
    generator = np.random.default_rng(0)
    hard = generator.random(100)
    one, other = hard + 0.02 + 0.01 * generator.random(100), hard
    paired, apart = bootstrap(one - other), bootstrap(one)
    assert paired.low > 0
    assert paired.high - paired.low < 0.1 * (apart.high - apart.low)


def test_correlation_is_pearsons_over_all_answers():
    generator = np.random.default_rng(0)
    weights = [generator.dirichlet(np.ones(n)).tolist() for n in (1, 2, 3, 4, 5) * 20]
    scores = [[w + 0.1 * generator.normal() for w in one] for one in weights]
    found = correlation(weights, scores)
    flat = np.corrcoef(np.concatenate(weights), np.concatenate(scores))[0, 1]
    assert found.mean == pytest.approx(flat)
    assert found.low < flat < found.high < 1
    assert correlation(weights, [[1.0] * len(one) for one in weights]) is None


def test_total_variation():
    assert total_variation({"a": 0.5, "b": 0.5}, {"b": 0.5, "c": 0.5}) == 0.5
    assert total_variation({"a": 1.0}, {"a": 1.0}) == 0
    assert total_variation({"a": 1.0}, {"b": 1.0}) == 1


# ------------------------------------------------------------ report


def test_runs_without_an_hmm_go_with_those_that_use_one(tmp_path):
    plain, guided = {"task": "words", "hmm": None}, {"task": "words", "hmm": {"name": "hmm", "hidden": 4}}
    line = {"example": "a", "method": "gcd", "k": 1, "seed": 0, "log_z": -0.1}
    Results(tmp_path, plain).add([line])
    assert len(Results(tmp_path, guided).done) == 1
    assert read(tmp_path) == ({"format": FORMAT, **guided}, [line])
    assert len(Results(tmp_path, plain).done) == 1
    with pytest.raises(FormatError, match="another run"):
        Results(tmp_path, {**guided, "hmm": {"name": "hmm", "hidden": 8}})


def test_log_z_is_of_the_most_particles_that_these_methods_have(data, tmp_path):
    run(data, tmp_path / "out", methods=("gcd", "lcd"), particles=(1, 8))
    run(data, tmp_path / "out", methods=("full-is", "full-smc"), particles=(4,))
    summary = Summary(tmp_path / "out")
    number, found = summary.divergences(("full-is", "full-smc"))
    lived = {(name, 4) for name in ("full-is", "full-smc") if not summary.died(name, 4)}
    assert lived < {("full-is", 4), ("full-smc", 4)}
    assert set(found) == lived
    assert number == len(summary.examples)
    assert all(np.isfinite(values).all() for values in found.values())
    assert summary.divergences(("base-lm",)) == (0, {})


@pytest.mark.long
def test_the_report_holds_the_figures(data, tmp_path):
    run(data, tmp_path / "out", methods=tuple(METHODS), particles=(1, 4), draws=400)
    summary = Summary(tmp_path / "out")
    lines = read(tmp_path / "out")[1]
    with_head(tmp_path / "out", hmm={"name": "hmm", "hidden": 4, "transition": "dense"}, w=0.8)
    report([tmp_path / "out"], tmp_path / "deep/report.md", "Letters & words")
    text = (tmp_path / "deep/report.md").read_text()
    page = (tmp_path / "deep/report.html").read_text()
    rows = dict(re.findall(r"^\| ([^|]+) \| (.+) \|$", text, re.MULTILINE)[::-1])  # the first of each name
    by_hand = {
        k: np.mean(
            [line["expected"]["accuracy"] for line in lines if (line["method"], line["k"]) == ("gcd", k)]
        )
        for k in (1, 4)
    }
    assert "HMM: hmm, H = 4, dense. P-GCD's w = 0.8." in text
    found = re.findall(r"([\d.]+) \(", rows["GCD"])
    assert found == [f"{100 * by_hand[k]:.1f}" for k in (1, 4)]
    assert rows["P-GCD"].count("(") == 2
    assert "GCD − LCD" in rows
    assert "Full SMC (GCD) − Full SMC" in rows
    steering = text[text.index("SMC Steering, words, 4 particles") :]
    assert re.findall(r"^\| ([^|]+, k = 4) \|", steering, re.MULTILINE) == [
        f"{METHODS[name].title}, k = 4"
        for name in ("full-smc", "smc-steering", "gcd-full-smc", "gcd-smc-steering")
    ]
    for title in ("Constraint satisfaction", "Distance to rejection sampling", "Latency", "The seven methods, 4 particles",
                  "Correlation of weight and score, 4 particles", "Divergence from p_lm(x | C)"):  # fmt: skip
        assert title in text
        assert title in page
    figures = re.findall(r"!\[[^]]*\]\(([^)]+)\)", text)
    assert len(figures) == 3
    for figure in figures:
        assert (tmp_path / "deep" / figure).read_bytes().startswith(b"\x89PNG")
    assert page.count('src="data:image/png;base64,') == 3
    assert ".png" not in page
    assert "<h1>Letters &amp; words</h1>" in page
    # Exact draws are the nearest to exact draws, and the more particles the nearer.
    assert summary.distances("gcd", 4).mean() < summary.distances("gcd", 1).mean()
    number, bounds = summary.divergences(["gcd", "pgcd"])
    assert number == 6
    assert bounds["gcd", 4].mean() < bounds["gcd", 1].mean()
    paired = summary.divergence_differences("pgcd", "gcd", 4)
    assert paired.tolist() == pytest.approx((bounds["pgcd", 4] - bounds["gcd", 4]).tolist())
    assert "Differences of these bounds" in text
    with pytest.raises(tt.errors.EvidenceError, match=r"FILE\.md"):
        report([tmp_path / "out"], tmp_path / "report.pdf")


@pytest.mark.long
def test_two_hmms_are_one_section(data, tmp_path):
    for hidden in (2, 16):
        run(data, tmp_path / str(hidden), methods=("lcd", "pgcd"))
        with_head(tmp_path / str(hidden), hmm={"name": "hmm", "hidden": hidden, "transition": "dense"})
    report([tmp_path / "16", tmp_path / "2"], tmp_path / "report.md")
    text = (tmp_path / "report.md").read_text()
    assert text.index("P-GCD (H = 2, dense)") < text.index("P-GCD (H = 16, dense)")
    assert text.count("| LCD |") == 1 + 2 * 4  # once where HMMs are compared


@pytest.mark.long
def test_folders_of_other_data_or_without_an_hmm_are_told_apart(data, tmp_path):
    dense = {"name": "hmm", "hidden": 4, "transition": "dense"}
    for folder, of, hmm in (("a", "cats", None), ("b", "cats", dense), ("c", "dogs", None)):
        run(data, tmp_path / folder, methods=("lcd", "pgcd" if hmm else "gcd"))
        with_head(tmp_path / folder, data=of, hmm=hmm)
    report([tmp_path / name for name in "abc"], tmp_path / "report.md")
    text = (tmp_path / "report.md").read_text()
    assert re.findall(r"^## (.*)$", text, re.MULTILINE) == [
        f"words on {one}, table, 4 tokens" for one in ("cats", "dogs")
    ]
    assert re.findall(r"^### (With .*)$", text, re.MULTILINE) == ["With no HMM", "With H = 4, dense"]


def test_methods_may_have_been_repeated_unequally(data, tmp_path):
    run(data, tmp_path / "out", methods=("gcd",))
    run(data, tmp_path / "out", methods=("lcd",), seeds=(0, 1, 2))
    summary = Summary(tmp_path / "out")
    assert (len(summary.examples), summary.left_out, summary.repeats) == (6, 0, "1 to 3")
    run(data, tmp_path / "out", methods=("gcd",), seeds=(1, 2))
    assert Summary(tmp_path / "out").repeats == "3"


@pytest.mark.long
def test_the_strengths_of_the_lookahead_are_found_once_and_kept(data, tmp_path):
    run(data, tmp_path / "out", methods=("pgcd",))
    runs = (tmp_path / "out/runs.jsonl").read_bytes()
    path = tmp_path / "out/strength.json"
    found = json.loads(path.read_text())
    assert found.keys() == {"one particle", "several particles"}
    assert all(dict(pilot["log_evidence"]).keys() == set(STRENGTHS) for pilot in found.values())
    found["one particle"]["strength"] = 0.4
    path.write_text(json.dumps(found))
    run(data, tmp_path / "out", methods=("pgcd", "gcd"))
    assert json.loads(path.read_text()) == found
    assert (tmp_path / "out/runs.jsonl").read_bytes().startswith(runs)
    run(data, tmp_path / "fixed", methods=("pgcd",), strength=1.0)
    assert not (tmp_path / "fixed/strength.json").exists()


@pytest.mark.parametrize(
    ("kept", "one", "several"),
    [
        ({"one particle": {"strength": 0.4}, "several particles": {"strength": 1.0}}, 0.4, 1.0),
        ({"strength": 0.7, "log_evidence": [[0.7, -1.0]]}, 0.7, 0.7),  # of a former version
    ],
)
def test_one_particle_and_several_have_the_strength_that_is_kept_for_them(data, tmp_path, kept, one, several):
    (tmp_path / "out").mkdir()
    (tmp_path / "out/strength.json").write_text(json.dumps(kept))
    run(data, tmp_path / "out", methods=("pgcd",), particles=(1, 4))
    for k, strength in ((1, one), (4, several)):
        ours = [line for line in read(tmp_path / "out")[1] if line["k"] == k]
        for given, same in ((strength, True), (0.1, False)):
            out = tmp_path / f"{k}, {given}"
            run(data, out, methods=("pgcd",), particles=(k,), strength=given)
            assert (ours == read(out)[1]) == same


def test_one_sweep_for_each_prompt_whose_hmm_is_its_own(tmp_path, monkeypatch):
    (tmp_path / "test.jsonl").write_text(
        "\n".join(json.dumps({"id": f"w{i}", "prompt": p, "pattern": "[ab]*c"}) for i, p in enumerate("abc"))
    )
    swept = []
    monkeypatch.setattr(
        query_cache, "pgcd", lambda *given, **options: (swept.append(given), tt.pgcd(*given, **options))[1]
    )
    methods = ("pgcd-mixture-prefix", "pgcd")
    settings = Settings(methods=methods, particles=(1, 3), max_new_tokens=4, strength=1.0)  # without a pilot

    def hmm(prompt):
        return tt.HMM.random(4, 4, seed=ord(prompt), dtype=torch.float64)

    task = Words(tmp_path)
    bench = Bench(task, lm(), VOCAB, settings, hmm)
    bench.run(list(task.examples()), Results(tmp_path / "out", {"task": "words", "metric": "accuracy"}))
    assert len(swept) == 3


def test_answers_of_one_meaning_are_added_up(data, tmp_path):
    run(data, tmp_path / "out", methods=("gcd",), particles=(16,))
    lines = read(tmp_path / "out")[1]
    weights, scores = Summary(tmp_path / "out").answers("gcd", 16)
    for line, one, score in zip(lines, weights, scores, strict=True):
        meanings = {text.replace("c", "") for text in line["texts"]}
        assert len(one) == len(score) == len(meanings)
        assert sum(one) == pytest.approx(1)


# ------------------------------------------------------------ the command


@pytest.fixture
def app():
    made = typer.Typer()
    made.command(name="words")(command_of(Words))
    made.command(name="nothing")(lambda: None)
    return made


def call(app, *arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments], catch_exceptions=False)


@pytest.mark.long
def test_the_command_runs_goes_on_and_reports(app, data, tmp_path):
    models = ["--model", LM_PATH, "--hmm", HMM_PATH]
    lines = [
        {"id": f"s{i}", "prompt": "Once upon a time", "pattern": p}
        for i, p in enumerate((" (red|blue) dog", " cat"))
    ]
    (data / "test.jsonl").write_text("\n".join(map(json.dumps, [*lines, {"id": "s2"}, {"id": "s3"}])))
    settings = ["words", "--data", data, "--out", tmp_path / "out", *models, "--methods", "rs,gcd,pgcd"]
    settings += ["--particles", "1,2", "--max-new-tokens", 6, "--draws", 8, "--mark", "blue"]
    result = call(app, *settings, "--limit", 1)
    assert result.exit_code == 0, result.output
    assert "5 runs in" in result.output
    assert "left out: no pattern [a]: 2" in result.output
    (together,) = {(run["method"], run["k"]) for run in json.loads((tmp_path / "out/together.json").read_text())["runs"]} ^ {
        ("rs", 8), ("gcd", 1), ("gcd", 2), ("pgcd", 1)}  # fmt: skip
    assert together == ("pgcd", 2)
    result = call(app, *settings)
    assert "10 runs in" in result.output
    head, runs = read(tmp_path / "out")
    assert head["options"] == {"mark": "blue", "loud": False}
    assert head["dropped"] == {"no pattern [a]": 2}
    assert head["model"]["name"] == "lm"
    assert head["hmm"]["hidden"] == 512
    assert {line["method"] for line in runs} == {"rs", "gcd", "pgcd"}
    assert all(line["satisfied"] == pytest.approx(1) for line in runs if line["method"] != "rs")
    assert {line["method"] for line in read_times(tmp_path / "out") if "method" in line} == {
        "rs",
        "gcd",
        "pgcd",
    }
    with pytest.raises(FormatError, match=r"temperature 1\.0, now 0\.5"):
        call(app, *settings, "--temperature", 0.5)
    assert call(app, *settings[:3]).exit_code == 2
    assert call(app, *settings, "--particles", "1,x").exit_code == 2
    assert call(bench_app, "report", tmp_path / "out", "--out", tmp_path / "report.md").exit_code == 0
    text = (tmp_path / "report.md").read_text()
    assert "Not among the examples of the data: no pattern [a]: 2." in text
    best = [max(run["weights"]) for run in runs if (run["method"], run["k"]) == ("gcd", 2)]
    assert len(best) == 2
    assert re.search(r"^\| different ones, GCD \| [12]0.0 \| [12]0.0 \|$", text, re.MULTILINE)
    assert re.search(r"^\| none, RS \| (\d+\.0) \| \1 \|$", text, re.MULTILINE)


def test_prompts_are_written_for_distillation(app, data, tmp_path):
    result = call(app, "words", "--data", data, "--write-prompts", tmp_path / "p.jsonl", "--limit", 3)
    assert result.exit_code == 0, result.output
    written = list(files.read_jsonl(tmp_path / "p.jsonl"))
    assert written == [{"prompt": e.prompt} for e in choose(Words(data), "test", 3, 0)]


def test_solved_examples_stand_before_a_prompt(app, data, tmp_path):
    lines = [{"id": f"t{i}", "prompt": f"{i}\n", "pattern": "b"} for i in range(4)]
    (data / "train.jsonl").write_text("\n".join(map(json.dumps, lines)))
    options = ["--data", data, "--split", "train", "--shots", "2", "--write-prompts", tmp_path / "p.jsonl"]
    result = call(app, "words", *options)
    assert result.exit_code == 0, result.output
    written = [line["prompt"] for line in files.read_jsonl(tmp_path / "p.jsonl")]
    assert all(re.fullmatch(r"\d\nb\n\n\d\nb\n\n\d\n", prompt) for prompt in written)
    assert {prompt[-2] for prompt in written} == set("0123")
    assert all(len(set(re.findall(r"\d", prompt))) == 3 for prompt in written)


def test_chat_prompts():
    _, tokenizer = load_lm()
    with pytest.raises(tt.errors.EvidenceError, match="no chat template"):
        chat_prompt(tokenizer, "Hello")
    tokenizer.chat_template = (
        "{{ bos_token }}{% for m in messages %}[{{ m.role }}] {{ m.content }}{% endfor %}"
        "{% if add_generation_prompt %} [assistant] {% endif %}"
    )
    ids = chat_prompt(tokenizer, "Hello\n")
    assert ids[0] == tokenizer.bos_token_id
    assert ids.count(tokenizer.bos_token_id) == 1
    assert tokenizer.decode(ids[1:]) == "[user] Hello [assistant] "


@pytest.mark.parametrize("name", TASKS)
def test_the_samples_are_examples_that_their_references_answer(name):
    """Well-formed by the constraint, right by the scores; on both sides, where the data set has two."""
    options = {"allow_code_execution": True} if name == "data-science" else {}
    task = TASKS[name](SAMPLE / name, **options)
    assert name == "data-science" or list(task.examples("train"))
    examples = list(task.examples("test"))
    assert len(examples) >= 2
    assert not task.dropped
    for example in examples[:4]:
        assert task.constraint(example).accepts(example.reference)
        score = task.scores(example, example.reference)[task.metric]
        assert score > 0 if name == "molecules" else score == pytest.approx(1)


def test_a_task_runs_without_data(tmp_path):
    settings = ["--methods", "gcd", "--particles", "1", "--limit", "1", "--out", str(tmp_path)]
    found = CliRunner().invoke(bench_app, ["commongen", *settings])
    assert found.exit_code == 0, found.output
    head, runs = read(tmp_path)
    assert head["data"] == "sample"
    assert len(runs) == 1
