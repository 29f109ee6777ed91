"""Run the tests with other versions of Python, torch, transformers and numpy, each in a fresh environment.

    python .ci/compatibility.py [NAME ...] [--folder DIR] [--keep] [--tests "tests/test_hmm.py -k masks"]

Without names all environments run, one after another. Each prints a row of the table in docs/install.md. An environment whose
Python is not installed here is left out, and its row says so. Exits with 1 if any tests fail.
"""

import argparse
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("torch", "transformers", "numpy")


class Environment(NamedTuple):
    """A Python and what pip is asked for; "" for the newest version it finds."""

    python: str
    torch: str = ""
    transformers: str = ""
    numpy: str = ""


ENVIRONMENTS = {
    "oldest": Environment("3.11", "==2.6.0", "==4.50.0", "==1.26.0"),
    "oldest-transformers": Environment("3.11", "==2.13.0", "==4.50.0"),
    "oldest-torch": Environment("3.12", "==2.6.0"),
    "oldest-numpy": Environment("3.12", "==2.13.0", "", "==1.26.4"),
    "3.11": Environment("3.11"),
    "3.12": Environment("3.12"),
    "3.13": Environment("3.13"),
    "3.14": Environment("3.14"),
}


def interpreter(version: str) -> str | None:
    """The command of a Python version: on the path, or among pyenv's; None if there is none."""
    found = shutil.which(f"python{version}")
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    runs = found and subprocess.run([found, "--version"], capture_output=True).returncode == 0
    others = sorted(str(path) for path in pyenv.glob(f"{version}.*/bin/python"))
    return found if runs else (others or [None])[-1]


def make(folder: Path, python: str, wanted: Environment) -> Path:
    """Make an environment with the package, its tests' requirements and the wanted versions; its Python."""
    shutil.rmtree(folder, ignore_errors=True)
    subprocess.run([python, "-m", "venv", folder], check=True)
    program = folder / "bin" / "python"
    versions = [f"{name}{getattr(wanted, name)}" for name in PACKAGES]
    project = ["-e", f"{ROOT}[test]", "-e", f"{ROOT / 'bench'}[tasks]"]
    subprocess.run([program, "-m", "pip", "install", "--quiet", *versions, *project], check=True)
    return program


def run(program: Path, tests: list[str]) -> tuple[bool, str]:
    """Run tests: whether all passed, and pytest's last line."""
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    command = [program, "-m", "pytest", "-q", "-n", "2", "--dist", "loadfile", "-p", "no:cacheprovider"]
    environment |= {"TOKENIZERS_PARALLELISM": "false", "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run([*command, *tests], cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True)
    print(done.stdout, flush=True)
    last = done.stdout.strip().splitlines()[-1]
    return done.returncode == 0, re.sub(r"^=+ | in [\d.]+s.*$| =+$", "", last)


def installed(program: Path) -> list[str]:
    """The versions of Python and of the packages in an environment."""
    code = "import importlib.metadata as m, platform; print(platform.python_version(), *map(m.version, {!r}))"
    done = subprocess.run(
        [program, "-c", code.format(PACKAGES)], check=True, stdout=subprocess.PIPE, text=True
    )
    return done.stdout.split()


def main() -> None:
    """Make and run the environments that are asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "names", nargs="*", choices=[[], *ENVIRONMENTS], metavar="NAME", help=", ".join(ENVIRONMENTS)
    )
    parser.add_argument(
        "--folder", type=Path, default=ROOT / "build" / "compatibility", help="of the environments"
    )
    parser.add_argument("--keep", action="store_true", help="keep the environments: each has up to 7 GB")
    parser.add_argument("--tests", default="", help="arguments of pytest; everything by default")
    arguments = parser.parse_args()
    rows, failed = [], False
    for name in arguments.names or ENVIRONMENTS:
        wanted, folder = ENVIRONMENTS[name], arguments.folder / name
        python = interpreter(wanted.python)
        if python is None:
            rows.append(f"| {name} | {wanted.python} | | | | not run: no Python {wanted.python} here |")
        else:
            program = make(folder, python, wanted)
            passed, outcome = run(program, shlex.split(arguments.tests))
            failed |= not passed
            rows.append(f"| {name} | {' | '.join(installed(program))} | {outcome} |")
            if not arguments.keep:
                shutil.rmtree(folder)
        print(rows[-1], flush=True)
    print(
        "\n| environment | Python | torch | transformers | numpy | tests |\n| --- | --- | --- | --- | --- | --- |"
    )
    print("\n".join(rows))
    sys.exit(failed)


if __name__ == "__main__":
    main()
