"""The rooms of the house (docs/architecture): what each may import, and no circles between files.

Imports inside functions count as those at the top do. Imports for type checkers alone count in the rooms of ``STRICT``.
"""

import ast
from pathlib import Path

import networkx as nx
import pytest

ROOT = Path(__file__).resolve().parents[2]
OUTSIDE = {"tests", "docs", "benchmarks", "examples", "build"}
BASE = {
    "",
    "argument_checks",
    "errors",
    "fingerprints",
    "storage",
    "token_bytes",
}  # files of the root that every room may import
MAY = {
    "layers": set(), "circuits": {"layers"}, "inference": {"layers", "circuits"}, "lm": {"layers", "circuits", "inference"},
    "inference.smc": {"layers", "circuits", "inference", "lm"}, "constraints": {"layers", "circuits"},
    "decoding": {"layers", "circuits", "inference", "inference.smc", "constraints", "lm"},
    "testing": {"layers", "circuits", "inference", "inference.smc", "lm"},
    "distill": {"layers", "circuits", "inference", "inference.smc", "constraints", "lm"}, "embedded": {"circuits", "lm"},
}  # fmt: skip
STRICT = set(MAY) - {"constraints"}
"""Rooms without circles even of imports for type checkers."""


def name_of(path):
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def package_files():
    for path in ROOT.rglob("*.py"):
        parts = path.relative_to(ROOT).parts
        if parts[0] not in OUTSIDE and not any(p.startswith((".", "__pycache__")) for p in parts):
            yield path


def type_only(node):
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)


def imports(path, modules, types=False):
    """The modules of the package that a file imports, at the top or inside functions; with ``types`` for type checkers, too."""
    package = name_of(path) if path.name == "__init__.py" else name_of(path).rpartition(".")[0]
    waiting = [ast.parse(path.read_text())]
    while waiting:
        node = waiting.pop()
        if type_only(node) and not types:
            waiting += node.orelse
            continue
        waiting += ast.iter_child_nodes(node)
        if not isinstance(node, ast.ImportFrom):
            continue
        if node.level:
            parts = package.split(".") if package else []
            base = ".".join([*parts[: len(parts) - node.level + 1], *filter(None, [node.module])])
        elif node.module.split(".")[0] == "tractile":
            base = node.module.partition(".")[2]
        else:
            continue
        for alias in node.names:
            inner = f"{base}.{alias.name}".lstrip(".")
            yield inner if inner in modules else base


def graph_of(files, types=False):
    """Which of the files imports which."""
    out = nx.DiGraph()
    for name, path in files.items():
        out.add_node(name)
        out.add_edges_from(
            (name, other) for other in imports(path, files, types) if other in files and other != name
        )
    return out


@pytest.fixture(scope="module")
def files():
    return {name_of(path): path for path in package_files()}


@pytest.fixture(scope="module")
def graph(files):
    return graph_of(files)


def room(name):
    return "inference.smc" if name.startswith("inference.smc") else name.partition(".")[0]


def test_nothing_imports_upwards(graph):
    upwards = [
        f"{a} imports {b}"
        for a, b in graph.edges
        if room(a) in MAY and room(b) != room(a) and room(b) not in MAY[room(a)] | BASE
    ]
    assert not upwards


def test_the_package_itself_is_imported_by_nothing_below_the_commands(graph):
    rooms = {room(a) for a, b in graph.edges if b == ""}
    assert not rooms & set(MAY)


def test_files_do_not_import_in_circles(graph):
    circles = [sorted(c) for c in nx.strongly_connected_components(graph) if len(c) > 1]
    assert not circles


@pytest.mark.long
def test_nothing_is_imported_by_a_string(files):
    by_string = {"import_module", "__import__"}
    found = [
        name
        for name, path in files.items()
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Name | ast.Attribute | ast.alias)
        and {getattr(node, part, None) for part in ("id", "attr", "name")} & by_string
    ]
    assert not found


@pytest.mark.parametrize("strict", sorted(STRICT))
def test_strict_rooms_have_no_circles_of_types(files, strict):
    inside = {name: path for name, path in files.items() if room(name) == strict}
    circles = [
        sorted(c) for c in nx.strongly_connected_components(graph_of(inside, types=True)) if len(c) > 1
    ]
    assert not circles
