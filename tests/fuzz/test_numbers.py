"""Numbers of JSON with exponents and digits of any size, against arithmetic on whole numbers."""

import json
from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

import tractile as tt

BYTES = [bytes([b]) for b in range(256)]
VOCAB = tt.Vocabulary([*BYTES, None], eos_token_id=256)
DISTINCT = tt.constraints.json_schema({"type": "array", "uniqueItems": True}, whitespace="none")
DISTINCT_TOKENS = DISTINCT.compile(VOCAB)
SIZES = st.integers(-30, 30) | st.integers(-(10**25), 10**25)


def value(sign, mantissa, exponent):
    """A number as (sign, whole number that 10 does not divide, exponent)."""
    while mantissa and not mantissa % 10:
        mantissa, exponent = mantissa // 10, exponent + 1
    return (sign, mantissa, exponent) if mantissa else (False, 0, 0)


@st.composite
def numbers(draw):
    """A number's value and several texts of it."""
    sign, mantissa = (
        draw(st.booleans()),
        draw(st.sampled_from([0, 1, 12, 10**40, 10**40 + 1, 999]) | st.integers(0, 10**6)),
    )
    exponent = draw(SIZES)
    texts = []
    for _ in range(2):
        places = draw(st.integers(0, 4))
        zeros = draw(st.integers(0, 3)) if mantissa else 0
        digits = (str(mantissa) + "0" * zeros).rjust(places + 1, "0")
        whole, fraction = digits[: len(digits) - places], digits[len(digits) - places :]
        written = whole + ("." + fraction if places else "")
        shift = exponent + places - zeros
        plus = draw(st.sampled_from(["", "+", "0", "+00"])) if shift >= 0 else ""
        texts.append("-" * sign + written + (f"{draw(st.sampled_from('eE'))}{plus}{shift}" if shift else ""))
    return value(sign, mantissa, exponent), texts


@given(st.lists(numbers(), min_size=1, max_size=3), st.data())
def test_numbers_are_distinct_exactly_if_their_values_are(some, data):
    chosen = [(meant, data.draw(st.sampled_from(texts))) for meant, texts in some]
    if data.draw(st.booleans()):
        chosen.append((some[0][0], some[0][1][1]))
    wraps = data.draw(st.sampled_from([("", ""), ("[", "]"), ('{"a":', "}")]))
    text = "[" + ",".join(wraps[0] + each + wraps[1] for _, each in chosen) + "]"
    distinct = len({meant for meant, _ in chosen}) == len(chosen)
    assert DISTINCT.accepts(text) == distinct, text
    query = tt.gcd(DISTINCT_TOKENS, 10**6).start()
    for byte in text.encode():
        if not query.mask()[0, byte]:
            assert not distinct, text
            return
        query.advance([byte])
    assert distinct, text


WHOLE = st.integers(-(10**40), 10**40) | st.integers(-20, 20)
REAL = WHOLE | st.sampled_from([1e28, 1e300, -1e300, 1e-300, 0.1, 2.5, 1e22, 1e-7, 5e-324])


@given(
    st.lists(REAL, min_size=1, max_size=4),
    REAL,
    REAL,
    st.sampled_from([1, 2, 0.5, 10**30 + 1, 1e-300, 1e28, 3]),
    WHOLE,
)
def test_conditions_on_listed_numbers_are_exact(listed, low, high, step, other):
    exact = Fraction
    schema = {"enum": listed, "minimum": low, "maximum": high, "multipleOf": step}
    constraint = tt.constraints.json_schema(schema)
    for number in [*listed, other, 0]:
        as_read = exact(repr(number)) if isinstance(number, float) else exact(number)
        bounds = [exact(repr(each)) if isinstance(each, float) else exact(each) for each in (low, high, step)]
        valid = any(exact(repr(each)) == as_read for each in listed)
        valid = valid and bounds[0] <= as_read <= bounds[1] and as_read % bounds[2] == 0
        assert constraint.accepts(json.dumps(number)) == valid, (schema, number)


@given(
    WHOLE, st.integers(-2, 5), st.sampled_from(["minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum"])
)
def test_bounds_of_any_digits_are_exact(bound, off, keyword):
    constraint = tt.constraints.json_schema({"type": "integer", keyword: bound})
    number = bound + off
    valid = {
        "minimum": off >= 0,
        "exclusiveMinimum": off > 0,
        "maximum": off <= 0,
        "exclusiveMaximum": off < 0,
    }[keyword]
    assert constraint.accepts(str(number)) == valid
    assert constraint.accepts(f"{number}.00") == valid
