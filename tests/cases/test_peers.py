"""The readers that others have written: on all short texts of a case's letters, and on its own texts, they say the same."""

import itertools
import json
import re
import sqlite3
import warnings
from contextlib import closing
from functools import partial

import jsonschema
import lark
import pytest
import regex as unicode_regex
from cases import asked

MOST = 150
"""Short texts for each case."""


def short_texts(case, extra=""):
    """All texts of the case's first letters that are short enough for their number."""
    letters = "".join(
        dict.fromkeys("".join(each for each in case.has + case.lacks if len(each) < 20) + extra)
    )[:5]
    size = next((n for n in range(1, 9) if len(letters) ** (n + 1) > MOST), 8) if letters else 0
    return ["".join(word) for n in range(size + 1) for word in itertools.product(letters, repeat=n)]


def matcher(pattern, flags=0):
    """Whether ``re`` matches a whole text, or ``regex`` where ``re`` cannot read the pattern; None if neither can."""
    flags = eval(flags, vars(re)) if flags else 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return re.compile(pattern, flags).fullmatch
        except re.error:
            pass
        try:
            return unicode_regex.compile(pattern, flags | unicode_regex.V1).fullmatch
        except (unicode_regex.error, ValueError):
            return None


@pytest.mark.parametrize("cases", asked("re", "regex"))
def test_patterns_mean_what_they_do_to_re(cases):
    for case in cases:
        if match := matcher(case.given, **case.options):
            for text in [*short_texts(case, "ab"), *case.has, *case.lacks]:
                assert case.constraint.accepts(text) == (match(text) is not None), (case, text)


def parses(parser, text):
    try:
        parser.parse(text)
    except lark.exceptions.LarkError:
        return False
    return True


@pytest.mark.parametrize("cases", asked("lark", "lark"))
def test_grammars_mean_what_they_do_to_lark(cases):
    """Its Earley parser with all ways to cut a text into terminals; what only llguidance reads, Lark refuses."""
    for case in (case for case in cases if not case.options):
        try:
            parser = lark.Lark(
                case.given, parser="earley", lexer="dynamic_complete", regex=True, ambiguity="forest"
            )
        except (lark.exceptions.LarkError, unicode_regex.error):
            continue
        for text in [*short_texts(case)[:60], *(each for each in case.has + case.lacks if len(each) < 30)]:
            assert case.constraint.accepts(text) == parses(parser, text), (case, text)


def is_plain(case, text):
    """Whether a text that a constraint lacks is a value in the usual spelling, so that it must be for the schema."""
    try:
        usual = json.dumps(json.loads(text), ensure_ascii=False) == text
    except ValueError:
        return False
    return usual and not case.options and "format" not in case.given


@pytest.mark.parametrize("cases", asked("jsonschema", "json_schema"))
def test_schemas_mean_what_they_do_to_jsonschema(cases):
    """Texts that a schema has are valid, and values that it has not are not."""
    for case in cases:
        schema = json.loads(case.given)
        if isinstance(schema, bool) or "documents" in case.options:
            continue
        is_valid = jsonschema.validators.validator_for(schema, jsonschema.Draft202012Validator)(
            schema
        ).is_valid
        for text in case.has:
            assert is_valid(json.loads(text)), (case, text)
        for text in (each for each in case.lacks if is_plain(case, each)):
            assert not is_valid(json.loads(text)), (case, text)


@pytest.mark.parametrize("cases", asked("xgrammar", "structural_tag"))
def test_structural_tags_mean_what_they_do_to_xgrammar(cases):
    xgrammar = pytest.importorskip("xgrammar")
    accepts = pytest.importorskip("xgrammar.testing")._is_grammar_accept_string
    for case in cases:
        spec = json.loads(case.given)
        spec = spec if spec.get("type") == "structural_tag" else {"type": "structural_tag", "format": spec}
        read = partial(accepts, xgrammar.Grammar.from_structural_tag(spec))
        assert [text for text in case.has if not read(text)] == [], case
        assert [text for text in case.lacks if read(text)] == [], case


@pytest.mark.parametrize("cases", asked("sqlite", "sql"))
def test_sqlite_prepares_queries_over_the_tables_in_use(cases):
    for case in (case for case in cases if case.options.get("columns") == "tables"):
        with closing(sqlite3.connect(":memory:")) as connection:
            connection.executescript(case.given)
            for query in case.has:
                connection.execute(f"EXPLAIN {query}")
