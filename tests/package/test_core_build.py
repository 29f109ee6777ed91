"""The compiled core as a part of the distribution."""

import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tractile import _core

ROOT = Path(__file__).resolve().parents[2]
WITHOUT_COMPILER = {"CC": "no-such-compiler", "CXX": "no-such-compiler"}


@pytest.fixture
def copy(tmp_path):
    """What the extension is compiled from, in a folder of its own."""
    pytest.importorskip("pybind11", reason="setup.py needs pybind11")
    for name in ("setup.py", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tmp_path)
    shutil.copytree(ROOT / "core", tmp_path / "core")
    return tmp_path


def setup_py(folder, *command, **environment):
    return subprocess.run(
        [sys.executable, "setup.py", *command],
        cwd=folder,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=600,
    )


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


def test_a_changed_header_is_compiled_again(copy):
    """All that bind.cpp includes is among the files that setuptools looks at."""
    code = (
        "from distutils.core import run_setup; "
        "extension, = run_setup('setup.py', stop_after='init').ext_modules; "
        "print(*extension.depends)"
    )
    done = subprocess.run(
        [sys.executable, "-c", f"import setuptools; {code}"],
        cwd=copy,
        capture_output=True,
        text=True,
        check=True,
    )
    assert set(done.stdout.split()) == {f"core/{path.name}" for path in (ROOT / "core").glob("*.h")}
