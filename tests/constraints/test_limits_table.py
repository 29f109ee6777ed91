"""`limits.py` lists every constant that can change an answer."""

import re
from importlib import import_module
from pathlib import Path

import tractile
from tractile.constraints import limits

ROOM = Path(tractile.__file__).parent / "constraints"
SAME_ANSWER = {
    "canonical.bpe.ALWAYS",
    "explicit.MOST_LIFTED",
    "json.conflicts.MOST_TRIED",  # the end of a message is left out
    "json.type_decimals.MOST",  # a bound below the greatest float
    "json.nodes.values.MOST_OPEN",  # others are written later
    "json.vocabulary.EVER",
    "sql.constraint.DEPTH",  # the default of an argument
    "grammar.nodes.MOST_PARTS",
    "grammar.nodes.MOST_REPEATED",
    "json.tagged.MOST_TAGS",
    "program.nodes.MOST_INLINED",
    "regex.anchors.ALL_MARKS",  # bytes
}
"""Constants that size a cache or choose between two ways to the same answer, though their names say a bound."""
CONSTANT = re.compile(
    r"^((?:MOST|MAX|ALL|PAGES|DEPTH|LENGTH|COUNT|STATES|WORK)\w*)(?:: [\w\[\]., ]+)? = [\d(]", re.M
)


def value_of(name):
    """The value of a constant of the constraints; an attribute of it after a colon."""
    path, _, attribute = name.partition(":")
    module, _, constant = path.rpartition(".")
    found = getattr(import_module(f"tractile.constraints.{module}"), constant)
    return getattr(found, attribute) if attribute else found


def test_each_limit_is_a_constant_that_is_there():
    assert len(limits.TABLE) > 20
    for each in limits.TABLE:
        assert value_of(each.name)
        assert each.bounds
        assert each.beyond
    assert len({each.name for each in limits.TABLE}) == len(limits.TABLE)


def test_each_constant_that_bounds_something_is_listed():
    found = set()
    for file in ROOM.rglob("*.py"):
        module = ".".join(file.relative_to(ROOM).with_suffix("").parts)
        if not module.startswith(("engine.", "cache.")):  # the engines' and the disk's own
            found |= {f"{module}.{name}" for name in CONSTANT.findall(file.read_text(encoding="utf-8"))}
    assert "json.nodes.objects.MOST_PLACES" in found
    assert found - {each.name for each in limits.TABLE} <= SAME_ANSWER


def test_the_table_is_printed():
    printed = limits.table(value_of)
    assert "| `limits.WORK` | 1,350,000 | units of work of one constraint |" in printed
    assert len(printed.splitlines()) == len(limits.TABLE) + 2
    assert "{{limits}}" in (ROOM.parent / "docs" / "howto" / "serving.md").read_text(encoding="utf-8")
