"""The data-science task on problems written here: the sandbox against hostile programs, prefixes of whole statements against
every program they begin, and SMC that prefers code that runs."""

import ast
import json
import math
import socket
import textwrap
import time
from importlib.util import find_spec
from pathlib import Path

import hypothesis
import pytest
import torch
from counting import HANGS
from hypothesis import given, settings
from hypothesis import strategies as st

import tractile as tt
from tractile_bench.data_science import sandbox
from tractile_bench.data_science.sandbox import Limits, run
from tractile_bench.data_science.statements import whole_statements
from tractile_bench.data_science.task import END_MARKS, DataScience, solution

# ---------------------------------------------------------------- the sandbox

QUICK = Limits(seconds=HANGS, memory=1 << 30, file_size=1 << 20)


HOSTILE = {
    "a memory bomb": ("x = []\nwhile True:\n    x.append(bytearray(1 << 24))", "MemoryError"),
    "one large allocation": ("x = bytearray(1 << 40)", "MemoryError"),
    "a large file": ("open('x', 'wb').write(b'x' * (1 << 22))", "OSError"),
    "many open files": ("files = [open('/dev/null') for _ in range(1000)]", "OSError"),
    "exit": ("import sys\nsys.exit(0)", "SystemExit"),
    "exit at once": ("import os\nos._exit(0)", ""),
    "a signal to itself": ("import os\nos.kill(os.getpid(), 9)", "PermissionError"),
    "a crash": ("import ctypes\nctypes.string_at(0)", ""),
    "input": ("input()", "EOFError"),
    "deep recursion": ("def f(): f()\nf()", "RecursionError"),
    "a fork": ("import os\nos.fork()", "PermissionError"),
    "a command": ("import os\nos.system('true')", "PermissionError"),
    "a program": ("import subprocess\nsubprocess.run(['true'])", "PermissionError"),
    "a socket": ("import socket\nsocket.socket()", "PermissionError"),
    "a request": ("import urllib.request\nurllib.request.urlopen('http://127.0.0.1')", "URLError"),
    "an error that lies": ("class E(Exception):\n    def __str__(self): raise self\nraise E", ""),
    "words for the report": (
        "import os\nfor fd in range(3, 50):\n    try: os.write(fd, b'{\"done\": 0}\\n')\n    except OSError: pass\nos._exit(0)",
        "",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_programs_end_in_a_problem(name):
    code, raised = HOSTILE[name]
    outcome = run(["pass", code, "pass"], QUICK)
    assert outcome.problem
    assert (outcome.done, outcome.raised) == (1, raised)


@pytest.mark.parametrize(
    "code", ["while True: pass", f"import time; time.sleep({HANGS})", "try:\n    while True: pass\nexcept BaseException: pass",
             "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); signal.pause()"],
)  # fmt: skip
def test_time_is_limited(code):
    outcome = run([code], Limits(seconds=0.01))
    assert (outcome.done, outcome.problem) == (0, "did not end within 0.01 s")


def test_no_secrets_and_no_output(monkeypatch, capfd):
    monkeypatch.setenv("SECRET", "x")
    code = "import os, sys\nassert 'SECRET' not in os.environ and not sys.stdin.read()\nprint(1, flush=True)\nos.write(2, b'2')"
    assert run([code], QUICK).problem == ""
    assert capfd.readouterr() == ("", "")


def test_files_outside_its_folder_stay_as_they_are(tmp_path):
    kept = tmp_path / "kept.txt"
    kept.write_text("as it was")
    for code in (
        f"open({str(kept)!r}, 'w')",
        f"import os; os.open({str(kept)!r}, os.O_RDWR)",
        f"import os; os.remove({str(kept)!r})",
        f"import os; os.symlink({str(kept)!r}, 'link'); open('link', 'a')",
        f"import os; os.rename({str(kept)!r}, 'mine')",
        f"import shutil; shutil.rmtree({str(tmp_path)!r})",
        f"import pathlib; pathlib.Path({str(tmp_path / 'new')!r}).mkdir()",
    ):
        assert run([code], QUICK).raised == "PermissionError", code
    assert kept.read_text() == "as it was"
    assert list(tmp_path.iterdir()) == [kept]
    inside = """
        import os, shutil, tempfile
        os.mkdir("a"); open("a/b", "w").write("c"); os.rename("a/b", "d"); os.remove("d"); shutil.rmtree("a")
        with tempfile.TemporaryDirectory() as folder: open(os.path.join(folder, "e"), "w").write("f")
        assert not os.listdir()
        here = os.getcwd()
    """
    assert run([textwrap.dedent(inside)], QUICK).problem == ""


def test_without_namespaces_the_rest_still_holds(tmp_path, monkeypatch):
    child = sandbox.CHILD.read_text().replace('sys.platform.startswith("linux")', "False")
    assert child != sandbox.CHILD.read_text()
    (tmp_path / "child.py").write_text(child)
    monkeypatch.setattr(sandbox, "CHILD", tmp_path / "child.py")
    assert run(["x = 1"], QUICK) == sandbox.Outcome(1, "", "", isolated=False)
    for name in ("one large allocation", "a large file", "exit at once", "a fork", "a socket"):
        code, raised = HOSTILE[name]
        outcome = run([code], QUICK)
        assert (outcome.done, outcome.raised, outcome.isolated) == (0, raised, False)
        assert outcome.problem
    assert run(["while True: pass"], Limits(seconds=0.01)).problem == "did not end within 0.01 s"


def test_a_sandbox_that_does_not_start_is_an_error(tmp_path, monkeypatch):
    monkeypatch.setattr(sandbox, "CHILD", tmp_path / "nowhere.py")
    with pytest.raises(tt.TractileError, match="did not start"):
        run(["x = 1"], QUICK)


NATIVE = "import ctypes\nlibc = ctypes.CDLL(None)\n"


def test_native_code_reaches_no_network_and_leaves_no_process_where_there_are_namespaces():
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        address = (2).to_bytes(2, "little") + port.to_bytes(2, "big") + bytes([127, 0, 0, 1]) + bytes(8)
        connect = f"found = libc.connect(libc.socket(2, 1, 0), {address!r}, 16)\nassert found == 0"
        orphan = (
            "if libc.fork() == 0:\n    libc.setsid()\n    libc.prctl(15, b'left-behind')\n"
            f"    import time\n    time.sleep({2 * HANGS})\n"
        )
        outcome = run([NATIVE, orphan, connect], QUICK)
        if not outcome.isolated:
            pytest.skip("the kernel lets this user make no namespaces")
        assert (outcome.done, outcome.raised) == (2, "AssertionError")
        server.settimeout(0.1)
        with pytest.raises(TimeoutError):
            server.accept()
    for _ in range(20 * HANGS):
        if "left-behind" not in names_of_processes():
            break
        time.sleep(0.05)
    else:
        pytest.fail("a process is left")


def names_of_processes():
    found = []
    for path in Path("/proc").glob("[0-9]*/comm"):
        try:
            found.append(path.read_text().strip())
        except OSError:
            continue
    return found


# ---------------------------------------------------------------- whole statements


@pytest.mark.parametrize(
    ("code", "whole"),
    [
        ("", ""),
        ("x = 1\ny =", "x = 1\n"),
        ("x = (1,\n", ""),
        ("x = 1 + \\\n", ""),
        ("x = 1\nfor a in x:\n    y = a\n", "x = 1\n"),
        ("for a in x:\n    y = a\nz = 1\n", "for a in x:\n    y = a\nz = 1\n"),
        ("try:\n    x\n", ""),
        ("try:\n    x\nexcept E:\n    y\n", ""),
        ("# only words\n", ""),
        (
            "    x = 1\n    if x:\n        y\n    z = 2\n    while",
            "    x = 1\n    if x:\n        y\n    z = 2\n",
        ),
        ("x = 1\n  y = 2\n", "x = 1\n"),
        ("s = '''a\nb'''\nt = '''", "s = '''a\nb'''\n"),
        ("x = 1; y = 2;", ""),
        ("x = 1; y = 2;\n", "x = 1; y = 2;\n"),
        ("@f\n", ""),
        ("\0", ""),
        ("    return x\n", "    return x\n"),
        ("match x:\n    case 1:\n        y\n", ""),
    ],
)
def test_whole_statements(code, whole):
    assert whole_statements(code) == whole


LINES = st.sampled_from(
    ["n += 1", "n += missing", "for i in range(2):", "    n += 1 // (1 - i)", "    if n: break", "    n += missing", "try:",
     "except NameError:", "    pass", "else:", "if n:", "x = [n,", "]", "# words", ""]
)  # fmt: skip


def raises(code):
    try:
        exec(compile(code, "<code>", "exec"), {"n": 0})
    except Exception:
        return True
    return False


@settings(max_examples=300)
@given(st.lists(LINES, max_size=4), st.lists(LINES, max_size=4))
@hypothesis.example(["for i in range(2):", "    n += 1 // (1 - i)"], ["    if n: break"])
@hypothesis.example(["try:", "    n += missing"], ["except NameError:", "    pass"])
def test_a_prefix_that_raises_has_no_continuation_that_does_not(first, rest):
    """The one thing a potential must not get wrong: zero means that nothing that follows will do."""
    prefix = "".join(f"{line}\n" for line in first)
    if raises(whole_statements(prefix)):
        assert raises(prefix + "".join(f"{line}\n" for line in rest))


# ---------------------------------------------------------------- the task

PROBLEM = """
import copy
def generate_test_case(test_case_id):
    data = {{1: {first}, 2: {second}}}[test_case_id]
    return data, {answer}(copy.deepcopy(data))
def exec_test(result, ans):
    try:
        assert list(result) == list(ans)
        return 1
    except Exception:
        return 0
exec_context = r'''
{context}
'''
def test_execution(solution: str):
    code = exec_context.replace("[insert]", solution)
    for i in range(2):
        test_input, expected_result = generate_test_case(i + 1)
        test_env = {{"test_input": test_input}}
        exec(code, test_env)
        assert exec_test(test_env["result"], expected_result)
"""
NO_LOOP = """
def test_string(solution: str):
    assert "for" not in solution
"""


def problem(id, library, prompt, reference, context, answer, first, second, more=""):
    text = PROBLEM.format(context=context, answer=answer, first=first, second=second) + more
    metadata = {"problem_id": id, "library": library, "test_case_cnt": 2, "perturbation_type": "Origin"}
    return {"prompt": prompt, "reference_code": reference, "metadata": metadata, "code_context": text}


PROBLEMS = [
    problem(0, "Numpy", "Sort `values`, smallest first.\nA:\n<code>\n", "result = sorted(values)",
            "values = test_input\n[insert]", "sorted", [3, 1, 2], [9, 8]),
    problem(1, "Numpy", "Double each number of the array `a`.\nBEGIN SOLUTION\n<code>\n", "result = 2 * a",
            "import numpy as np\na = np.array(test_input)\n[insert]", "(lambda d: [2 * x for x in d])", [1, 2], [], NO_LOOP),
    problem(2, "Numpy", "def longest(words):\n    ### BEGIN SOLUTION\n",
            "    best = sorted(words, key=len)[-1:]\n    return best",
            "def longest(words):\n[insert]\nresult = longest(test_input)", "(lambda d: [max(d, key=len)])",
            ["a", "abc"], ["xy", "x"]),
    problem(3, "Pandas", "Add the inverse of each column of `df`.\nA:\n<code>\n",
            "result = df.assign(**{f'inv_{c}': 1 / df[c] for c in df})['inv_x']",
            "import pandas as pd\ndf = pd.DataFrame({'x': test_input})\n[insert]", "(lambda d: [1 / x for x in d])", [1, 2], [4]),
    problem(4, "Astropy", "", "", "", "sorted", [], []),
]  # fmt: skip


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    path = tmp_path_factory.mktemp("ds") / "ds1000.jsonl"
    path.write_text("".join(json.dumps(one) + "\n" for one in PROBLEMS))
    return path


@pytest.fixture(scope="module")
def task(data):
    return DataScience(data, allow_code_execution=True, seconds=HANGS, memory=2 << 30)


@pytest.fixture(scope="module")
def problems(task):
    return list(task.examples())


def test_nothing_is_run_unless_allowed(data):
    for options in ({}, {"allow_code_execution": False}, {"allow_code_execution": "yes"}):
        with pytest.raises(sandbox.ExecutionNotAllowed, match="allow-code-execution"):
            DataScience(data, **options)


def test_problems_are_read(data, task, problems):
    pandas = find_spec("pandas") is not None
    assert [example.id for example in problems] == ["0", "1", "2", *(["3"] if pandas else [])]
    missing = {} if pandas else {"Pandas is not installed": ["3"]}
    assert task.dropped == {**missing, "Astropy is not among the libraries asked for": ["4"]}
    assert problems[0].prompt == PROBLEMS[0]["prompt"]
    assert list(task.examples("train")) == []
    of_folder = DataScience(data.parent, allow_code_execution=True, libraries="pandas, astropy")
    assert "4" in [example.id for example in of_folder.examples()]
    assert {id for ids in of_folder.dropped.values() for id in ids} == {
        "0",
        "1",
        "2",
        *([] if pandas else ["3"]),
    }


def test_references_pass(task, problems):
    for example in problems:
        for text in (example.reference, example.reference + "\n</code>"):
            assert task.constraint(example).accepts(text)
            assert task.scores(example, text) == {"accuracy": 1.0, "runs": 1.0}
        assert task.part_runs(example, example.reference) == 1.0


@pytest.mark.parametrize(
    ("index", "text", "accuracy", "runs"),
    [
        (0, "result = values\n```\nwords", 0, 1),
        (0, "result = sorted(value)", 0, 0),
        (0, "import sys\nsys.exit()", 0, 0),
        (0, "", 0, 1),
        (1, "result = [2 * x for x in a]", 0, 1),
        (1, "result = a + a  # twice", 1, 1),
        (2, "result = 3", 0, 0),
        (2, "    return sorted(words, key=len)[-1]", 0, 1),
        (2, "\ud800", 0, 0),
    ],
)
def test_scores(task, problems, index, text, accuracy, runs):
    assert task.scores(problems[index], text) == {"accuracy": accuracy, "runs": runs}


@pytest.mark.parametrize(
    ("index", "text", "value"),
    [
        (0, "", 1), (0, "x = values[0]\ny = va", 1), (0, "x = values[5]\n", 0), (0, "x = 1 / 0\nresult", 0),
        (0, "while True:\n    x = 1\n", 1), (0, "try:\n    x = 1 / 0\n", 1), (0, "result = = 1\nx = 2\n", 1),
        (1, "b = np.dott(a)\n", 0), (2, "    x = words[7]\n", 1), (2, "x = 1\n", 0),
    ],
)  # fmt: skip
def test_the_potential_of_partial_code(task, problems, index, text, value):
    """A body whose function is not called yet only has to be one; what does not parse may not be whole."""
    assert task.part_runs(problems[index], text) == value


def test_a_test_that_fails_by_itself_is_an_error(data, tmp_path):
    broken = PROBLEMS[0] | {"code_context": "import no_such_module\n" + PROBLEMS[0]["code_context"]}
    path = tmp_path / "test.jsonl"
    path.write_text(json.dumps(broken))
    task = DataScience(tmp_path, allow_code_execution=True, seconds=HANGS)
    (example,) = task.examples()
    with pytest.raises(tt.TractileError, match="problem 0 does not run here: it raised ModuleNotFoundError"):
        task.scores(example, "result = 1")


def test_well_formed_is_text_up_to_a_mark(task, problems):
    constraint = task.constraint(problems[0])
    for text in ("", "x = 'é'\n\ty", "x\n</code>", "x```", "# END SOLUTION", "``", "</code"):
        assert constraint.accepts(text), text
    for text in ("\0", "\r\n", "\x7f", "x</code>\n", "```x", "````", "END SOLUTION```"):
        assert not constraint.accepts(text), text
    assert solution("x = 1\n# SOLUTION END\ny") == "x = 1\n# "
    assert all(solution(f"x{mark}") == "x" for mark in END_MARKS)


def test_meaning_is_the_syntax_tree(task, problems):
    texts = ["x = 1", "x=1  # one\n", "    x = 1\n</code>", "x = (1)"]
    assert len({task.meaning(problems[0], text) for text in texts}) == 1
    assert task.meaning(problems[0], "x = 2") != task.meaning(problems[0], "x = 1")
    assert task.meaning(problems[0], "x =") == "x ="
    assert ast.dump(ast.parse("x = 1")) == task.meaning(problems[0], "x = 1")


def test_particles_live_whose_code_runs(task, problems):
    example, snippets = problems[0], [b"v = sorted(values)\n", b"v = sort(values)"]
    vocab = tt.Vocabulary([*snippets, None], eos_token_id=2)
    lm = tt.lm.TableLM({(): torch.full((3,), 1 / 3, dtype=torch.float64).log()}, 2, vocab)
    assert task.align(example)("x = 1\ny =") == len("x = 1\n")
    post = tt.smc(
        lm, "", task.constraint(example).compile(vocab), "gcd", particles=8, max_new_tokens=2, seed=1,
        potential=task.potential(example), align=task.align(example), ess_threshold=0.0,
    )  # fmt: skip
    alive = [particle.log_weight > -math.inf for particle in post.particles]
    assert alive == [bool(task.runs(example, particle.text)) for particle in post.particles]
    assert 0 < sum(alive) < 8
