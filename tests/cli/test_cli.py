"""The command, run in this process; the embedded models stand in for `--model` and `--hmm`."""

import functools
import json
import math
import re
import subprocess
import sys
import types
from importlib.metadata import EntryPoint

import pytest
import typer
from commands import assert_refused, last_json, run
from rich.console import Console

import tractile as tt
from tractile.cli import plugins

PROMPT = "Once upon a time, there was a"


@pytest.fixture(scope="module", autouse=True)
def _read_models_once():
    """The embedded models are not changed by a command: each is read from its folder once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tt.embedded, "load_llama", functools.cache(tt.embedded.load_llama))
        yield


def test_generate_json_is_the_posterior():
    arguments = ["generate", "--prompt", PROMPT, "--regex", " (red|blue) (hat|car)", "--max-new-tokens", 12]
    arguments += ["--particles", 8, "--seed", 3, "--json"]
    for proposal in ("gcd", "pgcd"):
        found = last_json(run(*arguments, "--proposal", proposal))
        assert found["prompt"] == PROMPT
        assert found["text"] in {" red hat", " red car", " blue hat", " blue car"}
        assert len(found["particles"]) == 8
        assert math.isclose(sum(p["weight"] for p in found["particles"]), 1.0, rel_tol=1e-9)
        assert found["log_evidence"] < 0
        assert 1 <= found["ess"] <= 8 + 1e-9


def test_canonical_leaves_one_way_to_write_a_text():
    least, most = (
        last_json(run("compile", "--regex", " the dog", *more, "--json")) for more in ([], ["--canonical"])
    )
    assert least["max_tokens"] > most["max_tokens"] == most["min_tokens"]
    found = last_json(
        run(
            "generate",
            "--prompt",
            PROMPT,
            "--regex",
            " the dog",
            "--canonical",
            "--proposal",
            "gcd",
            "--json",
        )
    )
    assert found["text"] == " the dog"


@pytest.mark.long
def test_generate_is_reproducible_and_follows_the_seed():
    arguments = [
        "generate", "--prompt", PROMPT, "--keywords", "dog", "--max-new-tokens", 40, "--particles", 4, "--json",
    ]  # fmt: skip
    first, again, other = (last_json(run(*arguments, "--seed", seed)) for seed in (1, 1, 2))
    assert first == again
    assert first["particles"] != other["particles"]
    assert all(
        tt.constraints.keywords(["dog"]).accepts(p["text"]) for p in first["particles"] if p["weight"] > 0
    )


def test_generate_prints_text_weights_and_evidence():
    result = run(
        "generate", "--prompt", PROMPT, "--regex", " cat", "--max-new-tokens", 6, "--proposal", "gcd"
    )
    assert result.exit_code == 0, result.stderr
    assert "cat" in result.stdout
    assert "log Z" in result.stdout
    assert "ESS" in result.stdout


def test_budget_too_small_is_refused():
    result = run("generate", "--prompt", PROMPT, "--regex", "[a-z]{60}", "--max-new-tokens", 3)
    assert_refused(result, 1, "budget", "3")


def test_unsupported_constraints_and_files_are_refused(tmp_path):
    assert_refused(run("compile", "--regex", r"(.+)\1"), 1)
    broken = tmp_path / "broken.json"
    broken.write_text("{")
    assert_refused(run("compile", "--json-schema", broken), 1, "broken.json is not JSON")


def test_misspelt_keywords_are_refused_with_strict(tmp_path):
    wrong = tmp_path / "misspelt.json"
    wrong.write_text('{"type": "object", "propertys": {"a": {"type": "integer"}}}')
    assert run("compile", "--json-schema", wrong).exit_code == 0
    assert_refused(run("compile", "--json-schema", wrong, "--strict"), 1, "propertys")
    assert_refused(run("compile", "--regex", "a", "--tokenizer", tmp_path), 1, "does not load")


@pytest.mark.parametrize(
    "arguments",
    [
        ["generate", "--prompt", "x"],
        ["generate", "--regex", "a"],
        ["generate", "--prompt", "x", "--regex", "a", "--proposal", "magic"],
        ["generate", "--prompt", "x", "--regex", "a", "--particles", "0"],
        ["compile", "--json-schema", "no such file"],
        ["nonsense"],
    ],
)
def test_wrong_command_lines_are_refused(arguments):
    assert_refused(run(*arguments), 2)


def test_compile_says_what_the_automaton_is():
    facts = last_json(run("compile", "--regex", "cat", "--json"))
    vocab = tt.Vocabulary.from_tokenizer(tt.embedded.load_lm()[1])
    fa = tt.constraints.regex("cat").compile(vocab)
    assert facts["states"] == fa.num_states
    assert facts["edges"] == fa.num_edges
    assert facts["deterministic"] is fa.is_deterministic
    with pytest.raises(tt.errors.BudgetTooSmall):
        tt.gcd(fa, horizon=facts["min_tokens"] - 1).start()
    tt.gcd(fa, horizon=facts["min_tokens"]).start()
    assert str(fa.num_states) in run("compile", "--regex", "cat").stdout


@pytest.mark.long
def test_compile_counts_and_draws_texts(tmp_path):
    facts = last_json(run("compile", "--regex", "[ab]{1,3}", "--json", "--seed", 1))
    assert facts["texts"] == 2 + 4 + 8
    assert facts["min_tokens"] == 2
    assert facts["max_tokens"] == 4
    assert len(set(facts["samples"])) == 10  # different texts
    assert all(re.fullmatch("[ab]{1,3}", text) for text in facts["samples"])
    facts = last_json(run("compile", "--regex", "(ab)*c|.", "--json"))
    assert facts["max_tokens"] is None
    assert (
        facts["texts"] == 31 + 0x110000 - 0x800 - 1
    )  # c, abc, … of up to 64 bytes; any character but a line break
    assert "no limit" in run("compile", "--regex", "a*").stdout
    assert "about 1.11e+40" in run("compile", "--regex", "[0-9]{1,40}").stdout
    assert "more than 1e+300" in run("compile", "--regex", "[0-9]{1,400}").stdout
    schema = tmp_path / "long.json"
    schema.write_text(json.dumps({"type": "string", "maxLength": 4000}))
    facts = last_json(run("compile", "--json-schema", schema, "--json"))
    assert facts["texts"] == 1e300
    assert facts["max_tokens"] > 1000


def test_diff_prints_what_only_one_constraint_accepts(tmp_path):
    old, new = tmp_path / "old.json", tmp_path / "new.json"
    old.write_text('{"enum": ["red", "green"]}')
    new.write_text('{"enum": ["red", "blue"]}')
    result = run("diff", f"json-schema:{old}", f"json-schema:{new}", "--max-bytes", 10)
    assert result.stdout.splitlines() == [
        "only the first: '\"green\"', 1 texts of at most 10 bytes",
        "only the second: '\"blue\"', 1 texts of at most 10 bytes",
    ]
    facts = last_json(run("diff", "regex:(ab)*|a:b", "regex:(ab)*", "--max-bytes", 4, "--json"))
    assert facts == {
        "differ": True, "only_first": "a:b", "only_second": None, "compared": None, "counts": [1, 0], "max_bytes": 4,
    }  # fmt: skip
    assert run("diff", "keywords:dog", "keywords:dog").stdout == "both accept the same texts\n"
    assert_refused(run("diff", "a", "regex:a"), 2, "'a' names no constraint")
    assert_refused(run("diff", "regex:a", "sql:nothing"), 2, "no file 'nothing'")
    assert_refused(run("diff", "regex:(", "regex:a"), 1)


def test_compile_tools_grammars_and_databases(tmp_path):
    tools, grammar, database = tmp_path / "tools.json", tmp_path / "g.gbnf", tmp_path / "schema.sql"
    tools.write_text(json.dumps([{"name": "f", "parameters": {"x": {"type": "bool"}}}]))
    grammar.write_text('root ::= "a" | "(" root ")"')
    database.write_text("CREATE TABLE song (title TEXT);")
    facts = last_json(run("compile", "--tools", tools, "--call-syntax", "python", "--json"))
    assert facts["texts"] == 2
    assert set(facts["samples"]) <= {"f(x=True)", "f(x=False)"}
    facts = last_json(run("compile", "--functions", tools, "--json"))
    assert {json.loads(text)["name"] for text in facts["samples"]} == {"f"}
    assert last_json(run("compile", "--grammar", grammar, "--json"))["texts"] == 8  # to a depth of 7
    facts = last_json(run("compile", "--sql", database, "--json"))
    assert all(text.startswith("SELECT ") for text in facts["samples"])
    (tmp_path / "g.txt").write_text("")
    assert_refused(run("compile", "--grammar", tmp_path / "g.txt"), 2, "g.txt")


def test_compile_draws(tmp_path):
    picture = tmp_path / "cat.svg"
    assert last_json(run("compile", "--regex", "cat", "--draw", picture, "--json"))["states"] > 1
    assert "<svg" in picture.read_text()
    assert_refused(run("compile", "--regex", "cat", "--draw", tmp_path / "cat.txt"), 2, "cat.txt")


def test_distill_refuses_what_is_no_corpus(tmp_path):
    assert_refused(run("distill", "eval", "--hmm", tmp_path, "--corpus", tmp_path), 1)


def test_version_and_short_help():
    assert run("--version").stdout == f"tractile {tt.__version__}\n"
    for command in ([], ["compile"], ["distill", "train"]):
        assert "Usage" in run(*command, "-h").stdout


def test_other_distributions_add_commands(monkeypatch):
    """By an entry point; `bench`, where it is not installed, says what to install."""
    assert " bench " in run("--help").stdout
    assert "function-calling" in run("bench", "--help").stdout
    point = EntryPoint("hello", "hello_for_tractile:app", plugins.GROUP)
    module = types.ModuleType("hello_for_tractile")
    module.app = typer.Typer()
    module.app.command()(lambda: print("hello"))
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setattr(plugins, "entry_points", lambda group: [point])
    assert run("hello").stdout == "hello\n"
    monkeypatch.setattr(plugins, "entry_points", lambda group: [])
    monkeypatch.setattr(plugins, "find_spec", lambda name: None)
    assert " bench " not in run("--help").stdout
    assert_refused(run("bench", "commongen"), 2, "not installed", "pip install -e bench")
    assert_refused(run("hello"), 2, "hello")


def test_the_playground_is_at_the_address_that_is_printed(monkeypatch):
    """With a model and no HMM there is none; Ctrl-C ends the server."""
    from tractile.cli.playground import command

    made, pages = [], []

    def serve(server):
        made.append(server.session)
        raise KeyboardInterrupt

    monkeypatch.setattr(command.PlaygroundServer, "serve_forever", serve)
    monkeypatch.setattr(command.webbrowser, "open", pages.append)
    result = run("playground")
    assert result.exit_code == 0
    assert pages[0] in result.stdout
    assert result.stdout.endswith("stopped\n")
    assert run("playground", "--no-browser", "--model", tt.embedded.LM_PATH).exit_code == 0
    assert len(pages) == 1
    assert [session.hmm is None for session in made] == [False, True]


def test_ctrl_c_is_one_line_and_status_130(monkeypatch):
    def interrupted(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr("tractile.cli.compile.Vocabulary.from_tokenizer", interrupted)
    result = run("compile", "--regex", "a")
    assert result.exit_code == 130
    assert result.stderr.strip() == "tractile: interrupted"


def test_generate_shows_its_progress_on_a_terminal(monkeypatch):
    arguments = ["generate", "--prompt", PROMPT, "--regex", " red hat", "--proposal", "gcd", "--particles", 2]
    assert "particles grow" not in run(*arguments).stdout
    monkeypatch.setattr(Console, "is_terminal", True)
    assert "particles grow" in run(*arguments).stdout
    assert "particles grow" not in run(*arguments, "--json").stdout


def test_constraints_are_combined(tmp_path):
    schema = tmp_path / "schema.json"
    schema.write_text(
        '{"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"], "maxProperties": 1}'
    )
    arguments = ["--json-schema", schema, "--keywords", "dog", "--forbid", "cat, big", "--max-new-tokens", 24]
    result = run("generate", "--prompt", PROMPT, *arguments, "--particles", 6, "--proposal", "gcd", "--json")
    for particle in last_json(result)["particles"]:
        said = json.loads(particle["text"])["a"]
        assert re.search(r"\bdog\b", said)
        assert not re.search(r"\b(cat|big)\b", said)
    refused = run("generate", "--prompt", PROMPT, "--regex", "a+", "--keywords", "dog")
    assert_refused(refused, 1, "no text satisfies")
    refused = run("generate", "--prompt", PROMPT, "--regex", " cat| big", "--forbid", "cat, big")
    assert_refused(refused, 1, "no text satisfies")
    assert_refused(run("generate", "--prompt", PROMPT), 2, "give a constraint")


def test_generate_writes_a_page_of_the_run(tmp_path):
    page = tmp_path / "run.html"
    result = run(
        "generate", "--prompt", PROMPT, "--regex", " (red|blue) hat", "--proposal", "gcd", "--html", page
    )
    assert result.exit_code == 0, result.stderr
    assert " hat" in page.read_text(encoding="utf-8")


def test_models_of_the_hub_are_asked_for_by_name(monkeypatch):
    """Nothing is fetched here: what transformers is asked for is looked at."""
    import transformers

    asked = []

    def refuse(name, **options):
        asked.append((name, options))
        raise OSError("no connection")

    monkeypatch.setattr(transformers.AutoModelForCausalLM, "from_pretrained", refuse)
    result = run("generate", "--prompt", PROMPT, "--regex", "a", "--model", "nobody/nothing")
    assert_refused(result, 1, "nobody/nothing does not load", "no connection")
    assert asked == [("nobody/nothing", {"local_files_only": False, "use_safetensors": True})]
    assert_refused(
        run("generate", "--prompt", PROMPT, "--regex", "a", "--model", "/no/such/folder"), 1, "does not exist"
    )


def test_generate_names_a_device_that_is_not_there():
    arguments = ["generate", "--prompt", PROMPT, "--regex", "a", "--device"]
    assert_refused(run(*arguments, "abacus"), 2, "is no device")


def test_the_package_runs_as_the_command():
    command = [sys.executable, "-m", "tractile", "compile", "--regex", "("]
    refused = subprocess.run(command, capture_output=True, text=True, check=False)
    assert refused.returncode == 1
    assert "Traceback" not in refused.stderr
