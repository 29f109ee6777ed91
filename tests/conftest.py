"""Shared fixtures: one torch thread, seeded property tests, and data that a checkout may not have.

Property tests draw the same cases every time; the profile ``nightly`` draws others:

    pytest --hypothesis-profile=nightly [--hypothesis-seed=N]

The tests in ``tests/fuzz`` compare with slow, independent oracles on cases that Hypothesis draws, and shrinks where they fail:

    pytest tests/fuzz                                    a seeded 100 cases for each promise, the same every time
    pytest tests/fuzz --cases 50000 --fuzz-seed 7        any number, from another seed ("random": printed at the top)
"""

import os
import random
from pathlib import Path
from types import SimpleNamespace

for threads in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(
        threads, "1"
    )  # before numpy and torch: waiting threads took as much CPU time as the tests

os.environ.setdefault("TRACTILE_CHECK_PROGRAMS", "1")  # each rewritten program: constraints/program/spec.py

import hypothesis
import pytest
import torch

torch.set_num_threads(1)

hypothesis.settings.register_profile("seeded", deadline=None, derandomize=True)
hypothesis.settings.register_profile("nightly", deadline=None)
hypothesis.settings.load_profile("seeded")

REPOSITORY = Path(__file__).resolve().parent.parent
# `tractile_bench` in processes that tests start, where it is not installed; pyproject.toml does it for the tests themselves.
os.environ["PYTHONPATH"] = os.pathsep.join(
    filter(None, [str(REPOSITORY / "bench"), os.environ.get("PYTHONPATH")])
)
FUZZ_CASES = 100


@pytest.fixture(scope="session")
def shared_dir() -> Path:
    """Data kept beside the repository: `TRACTILE_SHARED`, else `../shared`; without it tests skip."""
    path = Path(os.environ.get("TRACTILE_SHARED", REPOSITORY.parent / "shared"))
    if not path.is_dir():
        pytest.skip(f"no shared data at {path}: set TRACTILE_SHARED to its folder")
    return path


@pytest.fixture(scope="session", autouse=True)
def no_seconds_pass():
    """A construction runs out of its seconds only where a test moves the clock, on a busy machine too."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            "tractile.constraints.automata.request_limits.time", SimpleNamespace(monotonic=lambda: 0.0)
        )
        yield


def pytest_addoption(parser):
    group = parser.getgroup("fuzz")
    group.addoption("--cases", type=int, default=FUZZ_CASES, help="cases for each promise in tests/fuzz")
    group.addoption("--fuzz-seed", default="0", help="of tests/fuzz: a whole number, or 'random'")


def pytest_configure(config):
    seed = config.getoption("--fuzz-seed")
    config.fuzz_seed = random.SystemRandom().randrange(1 << 32) if seed == "random" else int(seed)
    config.pluginmanager.register(RootIsNoTestPackage())


class RootIsNoTestPackage:
    """Without it pytest imports the root `__init__.py`, and with it the whole package a second time under another name."""

    def pytest_collect_directory(self, path, parent):
        return pytest.Dir.from_parent(parent, path=path) if path == REPOSITORY else None


def pytest_report_header(config):
    return f"fuzz: {config.getoption('--cases')} cases for each promise, --fuzz-seed {config.fuzz_seed}"


def pytest_collection_modifyitems(config, items):
    """Mark tests/fuzz as long, seed its property tests and set their number of cases."""
    found = {}
    for item in items:
        if item.path.parent.name == "fuzz":
            item.add_marker(pytest.mark.long)
        test = getattr(item, "obj", None)
        if item.path.parent.name == "fuzz" and hypothesis.is_hypothesis_test(test):
            found[id(test)] = test
    for test in found.values():
        hypothesis.settings(
            max_examples=config.getoption("--cases"),
            deadline=None,
            database=None,
            derandomize=False,
            suppress_health_check=list(hypothesis.HealthCheck),
        )(test)
        hypothesis.seed(config.fuzz_seed)(test)
