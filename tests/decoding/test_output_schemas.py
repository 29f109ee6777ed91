"""JSON Schemas as the output of ``tt.generate``: integers are integers, mistakes named, what Python cannot read is refused."""

import pytest

import tractile as tt


def test_strict_refuses_keywords_that_no_draft_has():
    misspelt = {"type": "object", "propertys": {"a": {"type": "integer"}}}
    assert tt.constraints.output_type(misspelt).constraint.accepts("{}")
    model, tokenizer = tt.embedded.load_lm()
    for call in (
        tt.constraints.output_type,
        lambda output, **how: tt.generate(model, tokenizer, "x", output, **how),
    ):
        with pytest.raises(tt.errors.UnsupportedConstraint, match="propertys"):
            call(misspelt, strict=True)


@pytest.mark.parametrize("text", ["[" * 100_000 + "]" * 100_000, "1" * 5_000])
def test_a_text_that_python_cannot_read_is_refused(text):
    found = tt.constraints.output_type({})
    assert not found.accepts(text)
    with pytest.raises(tt.errors.FormatError, match="cannot read"):
        found.parse(text)
