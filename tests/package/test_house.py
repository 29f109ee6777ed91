import ast
import pkgutil
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from scripts import load

import tractile

ROOT = Path(__file__).resolve().parents[2]


def modules_after(statement):
    """The modules that a fresh interpreter has loaded after a statement."""
    code = f"import sys; {statement}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


@pytest.mark.long
@pytest.mark.parametrize("module", ["tractile", "tractile.cli"])
def test_import_leaves_heavy_packages_out(module):
    """Packages that take long to import are imported by the functions that need them."""
    heavy = {"scipy", "networkx", "transformers", "torch._dynamo", "torch._inductor", "sympy", "matplotlib"}
    heavy |= {
        "lemminflect", "lark", "automata", "huggingface_hub", "vllm", "pandas", "sklearn", "jsonschema", "sqlglot",
    }  # fmt: skip
    heavy -= modules_after("import torch.utils.checkpoint")  # of torch 2.6: sympy
    assert heavy & modules_after(f"import {module}") == set()


def test_every_package_is_listed():
    """A folder that pyproject.toml doesn't list would be missing from a wheel."""
    listed = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]
    found = {"tractile"} | {m.name for m in pkgutil.walk_packages(tractile.__path__, "tractile.") if m.ispkg}
    assert set(listed) == found


def test_the_library_does_without_the_tasks():
    """`tractile-bench` stands on the library, never the other way round; only the command line names it."""
    text = "tractile" + "_bench"
    folders = [Path(folder).resolve() for folder in tractile.__path__]
    files = {path.relative_to(ROOT) for folder in folders for path in folder.glob("*/**/*.py")}
    outside = {"bench", "tests", "examples", "benchmarks", "docs", "build", ".venv", ".venv-vllm"}
    naming = {p.as_posix() for p in files if p.parts[0] not in outside and text in (ROOT / p).read_text()}
    assert naming <= {"cli/__init__.py", "cli/plugins.py"}


def test_weights_are_safe_files():
    """Parameters are safetensors and JSON, never pickles."""
    folders = ROOT / "embedded", ROOT / "bench" / "tractile_bench"
    kinds = {
        path.suffix
        for folder in folders
        for path in folder.rglob("*")
        if path.is_file() and path.name != "py.typed" and "sample" not in path.parts
    }
    assert kinds <= {".py", ".md", ".json", ".safetensors", ".pyc"}


def test_every_benchmark_has_a_smoke():
    """`make smoke` runs each script that can be run alone with --smoke."""
    for folder in ("benchmarks", "tests/conformance"):
        for script in (ROOT / folder).glob("*.py"):
            text = script.read_text()
            assert "--smoke" in text or "ArgumentParser" not in text, script.name


def test_every_class_says_what_it_is():
    """One sentence in the first line, of every class of the constraints."""
    for path in sorted((ROOT / "constraints").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                first = (ast.get_docstring(node) or "").partition("\n")[0]
                assert re.search(r"[.:;)]$|[.:]\s", first), f"{path.name}: {node.name}: {first!r}"


def test_no_room_has_more_lines_than_its_ceiling(tmp_path):
    """The table of .ci/lines.py; a line too many and a folder without a room are said."""
    lines = load(".ci/lines.py")
    assert lines.faults() == []
    (tmp_path / "lm").mkdir()
    (tmp_path / "lm" / "long.py").write_text("\n" * (lines.CEILINGS["lm"] + 1))
    (tmp_path / "attic").mkdir()
    (tmp_path / "attic" / "old.py").write_text("")
    assert lines.faults(tmp_path) == [
        f"lm has {lines.CEILINGS['lm'] + 1:,} lines, 1 more than its ceiling",
        "attic/old.py is in no room of .ci/lines.py",
    ]
    assert lines.lowered(
        f'"lm": {lines.CEILINGS["lm"]:_}, "core": {lines.CEILINGS["core"]:_},', tmp_path
    ) == (f'"lm": {lines.CEILINGS["lm"]:_}, "core": 0,')
