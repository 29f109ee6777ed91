"""Tests inside a real vLLM, on a CPU, with the embedded language model: ``make test-vllm``. Skipped where there is no vLLM."""

import gc
import importlib.util
import os
import sys
from pathlib import Path

import pytest
from engines import started

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE.parent / "helpers"))  # imitations of engines
ENVIRONMENT = {
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "VLLM_ALLOW_LONG_MAX_MODEL_LEN": "1",  # the embedded model was trained on 256 tokens
    "VLLM_LOGGING_LEVEL": "ERROR",
    "VLLM_NO_USAGE_STATS": "1",
    "HF_HUB_OFFLINE": "1",
}
os.environ.update(ENVIRONMENT)  # before vllm is imported


def pytest_collection_modifyitems(items):
    absent = importlib.util.find_spec("vllm") is None
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.filterwarnings("default"))  # vLLM's own
            if absent:
                item.add_marker(pytest.mark.skip(reason="vLLM is not installed: make test-vllm installs it"))


@pytest.fixture(scope="module")
def start():
    """``started``, for one engine at a time: the one before is ended."""
    engines = []

    def one(**settings):
        while engines:
            engines.pop().llm_engine.engine_core.shutdown()
            gc.collect()
        engines.append(started(**settings))
        return engines[0]

    yield one
    while engines:
        engines.pop().llm_engine.engine_core.shutdown()
