"""What benchmarks/masks.py says of engines: verdicts by walking texts, and the shares made of them."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
masks = pytest.importorskip("masks")
engines = pytest.importorskip("peers.masks")

TOKENS = engines.Tokens([bytes([b]) for b in range(256)] + [b""], 256, 1, lambda text: list(text.encode()))
SCHEMA = {"type": "array", "items": {"enum": [1, "ä"]}, "maxItems": 2}
INSTANCES = [([1, "ä"], True), ([], True), ([2], False), ([1, 1, 1], False)]


def test_texts_are_accepted_up_to_the_end_token():
    outcome = masks.try_schema(engines.Tractile(TOKENS), TOKENS, SCHEMA, INSTANCES)
    assert outcome.status == "ok"
    assert outcome.accepted == [True, True, False, False]
    # tokens up to the first that is masked: '[1, "ä"]', '[]', '[2', '[1, 1,'
    assert len(outcome.token_us) == 9 + 2 + 2 + 6
    assert outcome.first_ms > 0


def test_shares_are_of_all_schemas_and_verdicts_of_those_compiled():
    good = masks.Outcome("ok", 2.0, [1.0, 3.0], [True, False])
    wrong = masks.Outcome("ok", 4.0, [1.0], [False, True])
    refused = masks.Outcome("SomeError")
    tests = [[(0, True), (1, False)]] * 4
    outcomes = {"a": [good, good, wrong, refused], "b": [good, refused, refused, refused]}
    lines = masks.table(["a", "b"], outcomes, tests, {"a": "1", "b": "2"}).splitlines()
    assert lines[2].startswith("| a 1 | 75.0% | 50.0% | 1 of 3 | 1 of 3 | 2.0 / 3.8 |")
    assert lines[3].startswith(
        "| b 2 | 25.0% | 25.0% | 0 of 1 | 0 of 1 | 2.0 / 2.0 | 2.0 / 3 / 3 / 2.0 | 0.50 |"
    )
