"""Shared fixtures: one torch thread, reproducible property tests, and data that a checkout may not have."""

import os
from pathlib import Path

import hypothesis
import pytest
import torch

torch.set_num_threads(1)

hypothesis.settings.register_profile("default", deadline=None)
hypothesis.settings.register_profile("ci", deadline=None, derandomize=True)
hypothesis.settings.load_profile("ci" if os.environ.get("CI") else "default")

REPOSITORY = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def shared_dir() -> Path:
    """Data kept beside the repository: `TRACTILE_SHARED`, else `../shared`; without it tests skip."""
    path = Path(os.environ.get("TRACTILE_SHARED", REPOSITORY.parent / "shared"))
    if not path.is_dir():
        pytest.skip(f"no shared data at {path}: set TRACTILE_SHARED to its folder")
    return path
