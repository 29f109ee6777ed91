"""The compiled core as a part of the distribution."""

import ast
import os
import re
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tractile import _core

ROOT = Path(__file__).resolve().parents[2]
STUB = ROOT / "_core.pyi"
WITHOUT_COMPILER = {"CC": "no-such-compiler", "CXX": "no-such-compiler"}


@pytest.fixture
def copy(tmp_path):
    """What the extension is compiled from, in a folder of its own."""
    pytest.importorskip("nanobind", reason="setup.py needs nanobind")
    for name in ("setup.py", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tmp_path)
    shutil.copytree(ROOT / "core", tmp_path / "core")
    return tmp_path


def setup_py(folder, *command, **environment):
    options = {"cwd": folder, "env": os.environ | environment, "capture_output": True, "text": True}
    return subprocess.run([sys.executable, "setup.py", *command], **options, timeout=600)


def test_without_a_compiler_nothing_is_installed_and_a_sentence_says_why(copy):
    done = setup_py(copy, "build_ext", "--inplace", **WITHOUT_COMPILER)
    assert done.returncode != 0
    assert "Install a C++17 compiler" in done.stderr
    assert "no-such-compiler" in done.stdout + done.stderr
    assert not list(copy.glob("_core*"))


def test_without_the_core_the_import_says_what_to_do():
    """Where it is not there, and where it was compiled from other sources."""
    code = f"""
        import sys
        from importlib import import_module
        from types import SimpleNamespace

        sys.path.append({str(Path(_core.__file__).parent)!r})
        for core in (None, SimpleNamespace(**vars(import_module("_core")) | {{"INTERFACE": 0}})):
            sys.modules["tractile._core"] = core
            try:
                import tractile
            except ImportError as error:
                print(type(error).__qualname__, error)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=True
    )
    for said, why in zip(done.stdout.splitlines(), ("halted", "other sources"), strict=True):
        assert said.startswith("CoreMissing tractile has no compiled core")
        assert why in said
        assert "install a C++17 compiler" in said


def described(body):
    """By name what a stub says: the parameters that have names, and all types, that of the result last."""
    found = {}
    for node in body:
        if isinstance(node, ast.ClassDef):
            found |= {node.name: ([], [])} | {f"{node.name}.{k}": v for k, v in described(node.body).items()}
        elif isinstance(node, ast.AnnAssign):
            found[node.target.id] = [], [ast.unparse(node.annotation)]
        elif isinstance(node, ast.FunctionDef):
            named = [each for each in (*node.args.args, *node.args.kwonlyargs) if each.arg != "self"]
            alone = [each for each in node.args.posonlyargs if each.arg != "self"]
            types = [ast.unparse(each) for each in (*(one.annotation for one in alone + named), node.returns)]
            found.setdefault(node.name, ([each.arg for each in named], types))  # a property, then its setter
    return found


def test_the_stub_says_what_is_compiled():
    """Names, parameters, and the types that nanobind knows; the stub may add that a handle is None."""
    stub = pytest.importorskip("nanobind.stubgen").StubGen(_core)
    stub.put(_core)
    built, written = described(ast.parse(stub.get()).body), described(ast.parse(STUB.read_text()).body)
    assert built.keys() - {"Nfa.__reduce__", "Table.__reduce__"} == written.keys()
    known = {"int", "float", "bool", "bytes", "None", *(name for name in written if name[0].isupper())}
    for name, (parameters, types) in written.items():
        assert built[name][0] == parameters, name
        for one, other in zip(built[name][1], types, strict=True):
            assert one not in known or re.fullmatch(rf"(Final\[)?{one}( \| None)?\]?", other), name
