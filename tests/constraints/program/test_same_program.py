"""A constraint is one program in every process, whatever the seed of Python's hashes."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "helpers" / "same_program.py"
SEEDS = ("1", "2")


def programs(*arguments):
    """What the script prints under each seed, both processes at once."""
    running = [
        subprocess.Popen(
            [sys.executable, str(SCRIPT), *map(str, arguments)],
            stdout=subprocess.PIPE,
            env=os.environ | {"PYTHONHASHSEED": seed},
        )
        for seed in SEEDS
    ]
    outputs = [process.communicate()[0] for process in running]
    assert all(process.returncode == 0 for process in running)
    return [json.loads(output) for output in outputs]


def differing(one, other):
    assert one.keys() == other.keys()
    return [name for name in one if one[name] != other[name]]


def test_constraints_are_the_same_program():
    one, other = programs()
    assert len(one) > 10
    assert not [name for name in one if "Error" in one[name]]
    assert differing(one, other) == []


def test_schemas_of_a_benchmark_are_the_same_program(shared_dir):
    path = shared_dir / "data" / "jsonschemabench" / "jsonschemabench_dev.jsonl.gz"
    if not path.is_file():
        pytest.skip(f"no schemas at {path}")
    one, other = programs(path, 0, 4)
    assert len(one) > 200
    assert differing(one, other) == []
