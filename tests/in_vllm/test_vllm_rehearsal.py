"""Masks computed beside the engine's steps: the texts are the same, and finished within the same budgets."""

import pytest
from test_vllm_engine import SCHEMA, answers, params, structured, texts

from tractile.decoding import grammar_rows

SECONDS = 5


@pytest.fixture
def rehearsed(monkeypatch):
    """The number of masks of each rehearsal."""
    found, rehearse = [], grammar_rows.rehearse

    def counted(*args, **options):
        found.append(0)
        at = len(found) - 1
        for step in rehearse(*args, **options):
            found[at] += 1
            yield step

    monkeypatch.setattr(grammar_rows, "rehearse", counted)
    return found


def test_texts_are_the_same_with_and_without(start, rehearsed):
    from tractile.decoding.vllm import plugin, structured_output

    requests = [
        params(
            max_tokens=budget, seed=i, structured_outputs=structured(json={**SCHEMA, "title": f"{budget}"})
        )
        for i, budget in enumerate((28, 33, 64, 200))
    ]
    found = {}
    for seconds in (0, SECONDS):
        structured_output._grammars.cache_clear()
        llm = start(additional_config={"tractile": {"rehearsal_seconds": seconds}})
        found[seconds] = [output.text for output in texts(llm, requests)]
        assert plugin.REHEARSALS.join(60)
        assert bool(rehearsed) == bool(seconds)
    assert found[0] == found[SECONDS]
    assert all(map(answers, found[0]))
    assert max(rehearsed) > 10
    before = len(rehearsed)
    texts(llm, requests)
    assert len(rehearsed) == before  # each constraint is rehearsed once


def test_on_a_cpu_they_are_off_by_default(start, rehearsed):
    from tractile.decoding.vllm import structured_output

    structured_output._grammars.cache_clear()
    assert answers(
        texts(start(), [params(max_tokens=40, structured_outputs=structured(json=SCHEMA))])[0].text
    )
    assert not rehearsed
