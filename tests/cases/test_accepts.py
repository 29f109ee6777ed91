"""What a constraint says itself: which texts it has, what is narrowed, and with which error it is refused."""

import re

import pytest
from cases import SMALL, asked

import tractile as tt


@pytest.mark.parametrize("cases", asked("errors"))
def test_texts_and_errors(cases):
    for case in cases:
        if case.error is None:
            assert [text for text in case.has if not case.constraint.accepts(text)] == [], case
            assert [text for text in case.lacks if case.constraint.accepts(text)] == [], case
            continue
        with pytest.raises(getattr(tt.errors, case.error)) as told:
            case.build().shortest()
        if case.error == "EmptyLanguage":
            with pytest.raises(tt.errors.EmptyLanguage):
                case.build().compile(SMALL)
        assert re.search(case.says, str(told.value), re.DOTALL), (case, str(told.value))
        assert case.at is None or told.value.path == case.at, case


@pytest.mark.parametrize("cases", asked("narrowed"))
def test_what_is_narrowed(cases):
    for case in cases:
        found = sorted({cut.keyword for cut in case.constraint.narrowed})
        assert case.narrowed is None or found == case.narrowed, case


@pytest.mark.parametrize("cases", asked("bytes"))
def test_written_and_read_back(cases):
    """The bytes are those of what is read back, and its texts are the same."""
    for case in cases:
        data = case.constraint.to_bytes()
        again = tt.constraints.Constraint.from_bytes(data)
        assert again.to_bytes() == data, case
        assert {cut.keyword for cut in again.narrowed} == {cut.keyword for cut in case.constraint.narrowed}, (
            case
        )
        assert [text for text in case.has if not again.accepts(text)] == [], case
        assert [text for text in case.lacks if again.accepts(text)] == [], case
