"""A request that waits in vLLM's scheduler for its constraint's tables, with imitations of both."""

from concurrent.futures import Future
from types import SimpleNamespace

import pytest

from tractile.decoding.vllm import preparation


def scheduler_step(waited, running):
    """One look of the scheduler at a request; vLLM's own method lets it go once it has a grammar."""
    request = SimpleNamespace(structured_output_request=waited)
    goes = preparation.release(
        lambda self, asked: asked.structured_output_request.grammar is not None,
        SimpleNamespace(running=running),
        request,
    )
    return goes, request


@pytest.mark.parametrize(("running", "waits"), [([], 3), (["a text"], 0)])
def test_steps_that_have_nothing_else_to_do_leave_the_interpreter_to_the_tables(monkeypatch, running, waits):
    asked = []
    monkeypatch.setattr(preparation, "wait", lambda futures, timeout: asked.append((*futures, timeout)))
    tables = Future()
    for _ in range(3):
        goes, request = scheduler_step(preparation.Preparation(tables), running)
        assert not goes
        assert isinstance(request.structured_output_request, preparation.Preparation)
    assert len(asked) == waits
    assert all(future is tables and timeout > 0 for future, timeout in asked)
    tables.set_result("tables")
    goes, request = scheduler_step(preparation.Preparation(tables), running)
    assert goes
    assert request.structured_output_request is None
    assert request.tractile_tables == "tables"
    assert len(asked) == waits
