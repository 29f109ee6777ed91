"""The compiled engine as a part of the distribution."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

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


@pytest.mark.skipif(
    not any(map(shutil.which, ("c++", "g++", "clang++", "cl"))), reason="no C++ compiler here"
)
def test_where_there_is_a_compiler_the_engine_is_there():
    """Without it: python setup.py build_ext --inplace."""
    from tractile import _core

    assert isinstance(_core.Core, type)


def test_without_a_compiler_the_package_is_installed(copy):
    done = setup_py(copy, "build_ext", "--inplace", **WITHOUT_COMPILER)
    assert done.returncode == 0, done.stderr
    assert "no-such-compiler" in done.stdout + done.stderr
    assert not list(copy.glob("_core*"))


def test_a_changed_header_is_compiled_again(copy):
    """All that bind.cpp includes is among the files that setuptools looks at."""
    code = (
        "from distutils.core import run_setup; "
        "extension, = run_setup('setup.py', stop_after='init').ext_modules; "
        "print(extension.optional, *extension.depends)"
    )
    done = subprocess.run(
        [sys.executable, "-c", f"import setuptools; {code}"],
        cwd=copy,
        capture_output=True,
        text=True,
        check=True,
    )
    optional, *depends = done.stdout.split()
    assert optional == "True"
    assert set(depends) == {f"core/{path.name}" for path in (ROOT / "core").glob("*.h")}
