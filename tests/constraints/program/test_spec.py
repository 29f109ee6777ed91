"""What a legal program is: programs that are made and rewritten are legal, and each law is broken by some node that is not."""

import os
import subprocess
import sys
from random import Random

import pytest
from random_programs import random_program

from tractile.constraints.program import nodes, spec
from tractile.constraints.program.left_recursion import without_left_recursion
from tractile.constraints.program.node import Kind, Node
from tractile.constraints.program.prune import pruned
from tractile.constraints.program.tables import of_text, table
from tractile.errors import UnsupportedConstraint

A, B = nodes.text(b"a"), nodes.text(b"b")
NAME, ANY = of_text(b"n"), table([(0, 97, 97, 0)], [0])
LONGER, BACK = (
    table([(0, 97, 97, 1), (1, 97, 97, 1)], [-1, 0]),
    table([(0, 97, 97, 0), (0, 98, 98, 1)], [-1, 0]),
)
EITHER = table([(0, 97, 97, 0), (0, 97, 97, 1)], [0, 0], [True, False])
BROKEN = [
    (Node(Kind.LEX), "0 tables"),
    (Node(Kind.LEX, (A,), (NAME,)), "1 parts"),
    (Node(Kind.LEX, (), (NAME,), 1), "low=1"),
    (Node(Kind.LEX, (), nodes.text(b"a").tables), "alive"),
    (Node(Kind.SEQ, (A,)), "more than one part"),
    (Node(Kind.SEQ, (A, nodes.seq(A, B))), "short sequence"),
    (Node(Kind.SEQ, (A, nodes.NOTHING)), "without texts"),
    (Node(Kind.ALT, (A,)), "more than one part"),
    (Node(Kind.ALT, (A, nodes.alt(A, B))), "is a union"),
    (Node(Kind.ALT, (A, A)), "comes twice"),
    (Node(Kind.RULE), "0 parts"),
    (Node(Kind.REPEAT, (A, B), (), 3, 2), "least count"),
    (Node(Kind.REPEAT, (A, B), (), 1, 1), "more or fewer than one item"),
    (Node(Kind.REPEAT, (A, B), (), 0, 0), "may read an item"),
    (Node(Kind.COUNT, (), (ANY,)), "leave some texts out"),
    (Node(Kind.BAG, (), (NAME, NAME)), "label of a name has a value"),
    (Node(Kind.BAG, (A,), (NAME, NAME), members=2), "members are labels"),
    (Node(Kind.BAG, (A,), (NAME, NAME), required=1), "required are members"),
    (Node(Kind.BAG, (A,), (NAME, NAME), required=1, members=1), "counts what is required"),
    (Node(Kind.BAG, (A,), (NAME, NAME), members=1, ordered=True), "several members"),
    (Node(Kind.BAG, (A,), (LONGER, NAME)), "byte of its own"),
    (Node(Kind.BAG, (A,), (BACK, NAME)), "start of its table"),
    (Node(Kind.WITHIN, (A,), (EITHER,)), "deterministic"),
    (Node(Kind.TOKENS, (A,)), "leave some texts out"),
    (Node(Kind.APART, (nodes.NOTHING,)), "without texts"),
    (Node(Kind.ITEM, (A,), (), 2), "texts or JSON values"),
]  # fmt: skip


@pytest.mark.parametrize(("node", "said"), BROKEN, ids=[f"{node.kind.name}, {said}" for node, said in BROKEN])
def test_what_breaks_a_law_is_named(node, said):
    with pytest.raises(AssertionError, match=said):
        spec.check(nodes.define(nodes.rule(), node))


def test_every_law_is_broken_by_a_case():
    laws = {sentence for shape in spec.LEGAL.values() for sentence, _ in shape.laws}
    assert [law for law in laws if not any(said in law for _, said in BROKEN)] == []


def test_random_programs_and_their_rewritings_are_legal():
    for seed in range(300):
        root = random_program(Random(seed), left_recursive=seed % 2 == 1)
        spec.check(root)
        try:
            spec.check(without_left_recursion(pruned(root)))
        except UnsupportedConstraint:
            continue


def test_programs_are_checked_where_it_is_asked_for():
    """As in this process; in one that does not ask they are not."""
    broken = nodes.interned(nodes.Kind.SEQ, (nodes.text(b"a"),))
    with pytest.raises(AssertionError, match="is no legal node"):
        pruned(broken)
    code = (
        "from tractile.constraints.program import nodes, prune\n"
        "prune.pruned(nodes.interned(nodes.Kind.SEQ, (nodes.text(b'a'),)))\n"
    )
    environment = {name: v for name, v in os.environ.items() if name != "TRACTILE_CHECK_PROGRAMS"}
    subprocess.run([sys.executable, "-c", code], env=environment, check=True)
