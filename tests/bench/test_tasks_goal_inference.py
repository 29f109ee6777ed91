"""Goal inference: STRIPS problems read, simulated and solved; which goals are well-formed, reached, and the same."""

import itertools
import json
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tractile as tt
from tractile_bench.files import find, read_json
from tractile_bench.goal_inference.domains import BLOCKSWORLD, GRIPPER
from tractile_bench.goal_inference.equivalence import equivalent
from tractile_bench.goal_inference.plans import find_plan, run
from tractile_bench.goal_inference.strips import (
    Problem,
    read_domain,
    read_goal,
    read_problem,
    written,
)
from tractile_bench.goal_inference.task import GoalInference, after_atoms, goals
from tractile_bench.splits import is_train, planetarium_key

BLOCKS, GRIPPERS = read_domain(BLOCKSWORLD), read_domain(GRIPPER)
TYPED = """
(define (domain post) ; letters are carried
  (:requirements :strips :typing :negative-preconditions)
  (:types van cart - vehicle letter vehicle)
  (:predicates (at ?v - vehicle) (in ?l - letter ?v - van) (closed))
  (:action load :parameters (?l - letter ?v - van) :precondition (and (at ?v) (not (closed))) :effect (in ?l ?v))
  (:action shut :parameters () :effect (and (closed))))
"""
TOWER = """(define (problem tower) (:domain blocksworld) (:requirements :strips) (:objects b1 b2 b3)
  (:init (arm-empty) (on-table b1) (ON b2 b1) (clear b2) (on-table b3) (clear b3))
  (:goal (and (on b1 b2) (clear b1))))"""
ROBOT = """(define (problem robot) (:domain gripper) (:objects r1 r2 a b g h)
  (:init (room r1) (room r2) (ball a) (ball b) (gripper g) (gripper h) (at-robby r1) (at a r1) (at b r2) (free g) (free h))
  (:goal (and (carry b g) (at a r2))))"""


def states(problem, domain=BLOCKS):
    """All that can be reached, by the simulator."""
    actions, found = list(domain.actions_on(problem)), {problem.init}
    frontier = [problem.init]
    while frontier:
        state = frontier.pop()
        after = {a.after(state) for a in actions if a.applies(state)} - found
        found |= after
        frontier += after
    return found


def on_table(count, goal=()):
    names = [f"b{i + 1}" for i in range(count)]
    init = {("arm-empty",), *(("clear", b) for b in names), *(("on-table", b) for b in names)}
    return Problem("blocksworld", dict.fromkeys(names, "object"), frozenset(init), tuple(goal))


THREE = on_table(3)
STATES = sorted(states(THREE), key=sorted)


# ---------------------------------------------------------------- PDDL


def test_domains_are_read():
    post = read_domain(TYPED)
    assert post.predicates == {"at": ("vehicle",), "in": ("letter", "van"), "closed": ()}
    assert post.is_a("van", "vehicle")
    assert post.is_a("cart", "object")
    assert not post.is_a("cart", "van")
    problem = read_problem("(define (problem p) (:domain post) (:objects x y - letter v - van c - cart)"
                           "(:init (at v) (at c)) (:goal (in x v)))")  # fmt: skip
    assert problem.objects == {"x": "letter", "y": "letter", "v": "van", "c": "cart"}
    assert problem.goal == (("in", "x", "v"),)
    assert {(a.name, *(n for n, _ in a.parameters)) for a in post.actions_on(problem)} == {
        ("load", "x", "v"), ("load", "y", "v"), ("shut",)
    }  # fmt: skip
    shut = next(a for a in post.actions_on(problem) if a.name == "shut")
    load = next(a for a in post.actions_on(problem) if a.name == "load")
    assert run(problem.init, [load, shut]) == problem.init | {("in", "x", "v"), ("closed",)}
    assert run(problem.init, [shut, load]) is None
    assert [a.name for a in find_plan(post, problem)] == ["load"]


def test_a_plan_leads_around_what_cannot_be_undone():
    """The first action that is tried uses up what the other needs, and both are needed."""
    shop = read_domain("""(define (domain shop) (:requirements :strips) (:predicates (coin) (bread) (milk))
      (:action a-bread :parameters () :precondition (and (coin)) :effect (and (bread) (not (coin))))
      (:action b-milk :parameters () :precondition (and (coin)) :effect (and (milk))))""")
    problem = Problem("shop", {}, frozenset({("coin",)}), (("bread",), ("milk",)))
    assert [action.name for action in find_plan(shop, problem)] == ["b-milk", "a-bread"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("(define (domain x)", "1 parentheses are not closed"),
        ("(define (domain x)))", "never opened"),
        ("(define (problem x))", "define"),
        ("(define (domain x) (:functions (f)))", "beyond STRIPS"),
        ("(define (domain x) (:predicates (p ?x)) (:action a :effect (q)))", "q is not of the domain's predicates"),
        ("(define (domain x) (:predicates (p ?x)) (:action a :effect (when (p ?x) (p ?x))))", "no atom"),
        ("(define (domain x) (:predicates (p ?x - )))", "no list of names"),
    ],
)  # fmt: skip
def test_broken_domains(text, message):
    with pytest.raises(tt.errors.FormatError, match=message):
        read_domain(text)


# ---------------------------------------------------------------- simulation and plans


def do(domain, problem, *steps):
    named = {(a.name, *(n for n, _ in a.parameters)): a for a in domain.actions_on(problem)}
    return run(problem.init, [named[tuple(step.split())] for step in steps])


def test_plans_worked_by_hand():
    tower = read_problem(TOWER)
    assert do(BLOCKS, tower, "unstack b2 b1", "putdown b2", "pickup b1", "stack b1 b2") == set(
        read_goal("(and (arm-empty) (on-table b2) (on b1 b2) (clear b1) (on-table b3) (clear b3))")
    )
    assert do(BLOCKS, tower, "pickup b1") is None
    assert do(BLOCKS, tower, "unstack b2 b1", "stack b2 b3", "putdown b2") is None
    robot = read_problem(ROBOT)
    carried = do(GRIPPERS, robot, "pick a r1 h", "move r1 r2", "pick b r2 g", "drop a r2 h")
    assert carried - robot.init == set(read_goal("(and (at-robby r2) (at a r2) (carry b g))"))
    assert do(GRIPPERS, robot, "pick b r2 g") is None
    assert do(GRIPPERS, robot, "move r1 r1") == robot.init  # what an action both deletes and adds holds
    assert do(GRIPPERS, robot, "pick a r1 g", "pick a r1 h") is None
    for problem, domain in ((tower, BLOCKS), (robot, GRIPPERS)):
        assert set(problem.goal) <= run(problem.init, find_plan(domain, problem))


def test_plans_are_found_exactly_where_there_are_some():
    rng = random.Random(3)
    atoms = [("arm-empty",), *((p, b) for p in ("clear", "on-table", "holding") for b in THREE.objects)]
    atoms += [("on", a, b) for a in THREE.objects for b in THREE.objects]
    for _ in range(60):
        goal = tuple(rng.sample(atoms, rng.randint(1, 4)))
        problem = Problem("blocksworld", THREE.objects, rng.choice(STATES), goal)
        plan = find_plan(BLOCKS, problem)
        assert (plan is not None) == any(state.issuperset(goal) for state in STATES)
        if plan is not None:
            assert run(problem.init, plan).issuperset(goal)
    assert find_plan(BLOCKS, read_problem(TOWER), max_states=1) is None


# ---------------------------------------------------------------- well-formed goals


def test_the_language_is_what_the_domain_allows():
    problem = read_problem("(define (problem p) (:domain post) (:objects x - letter v-1 w - van c - cart)"
                           "(:init) (:goal (closed)))")  # fmt: skip
    post = read_domain(TYPED)
    constraint = goals(post, problem)
    names = [*problem.objects, "other"]
    atoms = [
        (p, *arguments)
        for p in (*post.predicates, "by")
        for n in range(3)
        for arguments in itertools.product(names, repeat=n)
    ]
    good = {("at", "v-1"), ("at", "w"), ("at", "c"), ("in", "x", "v-1"), ("in", "x", "w"), ("closed",)}
    for atom in atoms:
        assert constraint.accepts(written([atom])) == (atom in good), atom
    for pair in itertools.product(good, repeat=2):
        assert constraint.accepts(written(pair))
    for text in (
        "(and)", "(and )", "(closed)", "(and (closed) )", "(and  (closed))", "(and (closed)(closed))", "(and (at v_1))",
        "(and (not (closed)))", "(and (closed)) ",
    ):  # fmt: skip
        assert not constraint.accepts(text), text
    assert constraint.accepts(written(sorted(good) * 5))
    with pytest.raises(tt.errors.EmptyLanguage):
        goals(read_domain("(define (domain d) (:predicates (p ?x)))"), Problem("d", {}, frozenset(), ()))


# ---------------------------------------------------------------- equivalence


def moved(atoms, names):
    return frozenset((atom[0], *(names[one] for one in atom[1:])) for atom in atoms)


@given(st.sampled_from(STATES), st.sampled_from(STATES), st.booleans(), st.data())
def test_equivalent_goals_are_those_of_the_same_states(init, state, free, data):
    problem = Problem("blocksworld", THREE.objects, init, ())
    goal = frozenset(data.draw(st.lists(st.sampled_from(sorted(state)), min_size=1, max_size=5)))
    if data.draw(st.booleans()):
        other = moved(
            goal, dict(zip(THREE.objects, data.draw(st.permutations(list(THREE.objects))), strict=True))
        )
        other -= frozenset(data.draw(st.lists(st.sampled_from(sorted(other)), max_size=1)))
    else:
        other = frozenset(
            data.draw(st.lists(st.sampled_from(sorted(data.draw(st.sampled_from(STATES)))), max_size=5))
        )
    same = any(
        {moved(s, names) for s in STATES if s >= goal} == {s for s in STATES if s >= other}
        for names in (
            dict(zip(THREE.objects, order, strict=True)) for order in itertools.permutations(THREE.objects)
        )
        if free or moved(init, names) == init
    )
    assert equivalent(problem, goal, other, free) == same


def test_equivalence_in_gripper():
    problem = read_problem(ROBOT)

    def same(goal, other, free=False):
        return equivalent(problem, read_goal(goal), read_goal(other), free)

    assert same("(and (at a r2) (at b r2))", "(and (room r1) (at b r2) (at a r2) (free g) (free h))")
    assert not same("(and (at a r2) (at b r2))", "(and (at a r2))")
    assert not same("(and (at a r2) (at b r2))", "(and (at a r1) (at b r1))")
    assert same("(and (at a r2) (at b r2))", "(and (at a r1) (at b r1))", free=True)
    assert same(
        "(and (carry a g) (at b r1))", "(and (carry a h) (at b r1) (free g))"
    )  # which gripper is all the same
    assert not same("(and (carry a g) (at b r1))", "(and (carry b g) (at a r1))")
    assert not same("(and (at a r2))", "(and (at r2 a))", free=True)
    other = Problem("post", {}, frozenset(), ())
    assert equivalent(other, [("p", "a"), ("q",)], [("q",), ("p", "a"), ("q",)])
    assert not equivalent(other, [("p", "a")], [("p", "b")], free=True)


def test_symmetric_goals_are_quick():
    """Pairs that change places, or go round in a ring: neighbourhoods tell nothing apart."""
    pairs = frozenset(("on", f"b{i}", f"b{i ^ 1}") for i in range(12))
    ring = frozenset(("on", f"b{i}", f"b{(i + 1) % 12}") for i in range(12))
    objects = {f"b{i}": "object" for i in range(12)}
    problem = Problem("blocksworld", objects, frozenset(("clear", b) for b in objects), ())
    assert not equivalent(problem, pairs, ring)
    assert equivalent(problem, ring, frozenset(("on", f"b{(i + 7) % 12}", f"b{i}") for i in range(12)))


# ---------------------------------------------------------------- the task


def rows():
    ours = {
        "domain": "blocksworld",
        "goal": "tower",
        "natural_language": " Three blocks. ",
        "problem_pddl": TOWER,
    }
    public = {"domain": "gripper", "goal": "swap", "natural_language": "A robot.", "problem_pddl": ROBOT}
    for i in range(8):
        yield ours | {"name": f"t{i}", "init_desc": "explicit", "goal_desc": "abstract"}
        yield public | {
            "id": f"p{i}", "name": f"p{i}", "init_is_abstract": 1, "goal_is_abstract": False, "is_placeholder": 1,
        }  # fmt: skip
        yield public | {"name": f"q{i}", "init_desc": "abstract", "goal_desc": "abstract"}


@pytest.fixture
def task(tmp_path):
    (tmp_path / "problems.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows()))
    return GoalInference(tmp_path)


def test_examples(task):
    train, test = list(task.examples("train")), list(task.examples())
    assert (len(train), len(test)) == (8, 16)
    assert not {e.id for e in train} & {e.id for e in test}
    assert [e.id for e in test] == [e.id for e in task.examples("test")]
    for side, found in ((True, train), (False, test)):
        assert all(is_train(planetarium_key(e.reference)) == side for e in found)
    for example in train + test:
        assert json.loads(json.dumps(example.facts)) == example.facts
        assert example.facts["free"] == (
            example.id.startswith("p") or "blocksworld" in example.facts["problem"]
        )
        assert set(task.scores(example, example.reference).values()) == {1.0}
        assert task.potential(example) is not None
        assert task.reached(example) >= set(read_goal(example.reference))
    blocks = next(e for e in train + test if "blocksworld" in e.facts["problem"])
    assert blocks.prompt == "Problem: Three blocks.\nGoal in PDDL:\n"
    assert blocks.reference == "(and (on b1 b2) (clear b1))"
    only = GoalInference(task.data, domain="gripper", max_objects=5)
    assert list(only.examples()) == []
    assert set(only.dropped) == {"more than 5 objects"}
    with pytest.raises(tt.errors.FormatError, match="the splits are"):
        next(task.examples("dev"))


def test_scores(task):
    example = next(e for e in task.examples("train") if "blocksworld" in e.facts["problem"])

    def scores(text):
        return tuple(task.scores(example, text).values())

    assert scores("(and (clear b1) (on b1 b2))") == (1.0, 1.0, 1.0)
    assert scores("(AND (on b1 b2)  (clear b1))") == (1.0, 0.0, 1.0)
    assert scores("(and (on b3 b2) (clear b3))") == (1.0, 1.0, 0.0)  # abstract: any two blocks
    assert scores("(and (on b1 b2))") == (0.0, 1.0, 2 / 3)
    assert scores("(and (on b1 b2) (clear b1) (on b1))")[:2] == (0.0, 0.0)
    assert scores("(and (on b1 b2) (clear b1) (on b3 b4))")[:2] == (0.0, 0.0)
    for text in ("", "(and", "(and )", "\0", "(((((", ")", "(and (not (clear b1)))", "\ud800"):
        assert scores(text) == (0.0, 0.0, 0.0), text
    assert task.meaning(example, "(and (on b1 b2) (clear b1))") == task.meaning(
        example, "(and (clear b1)(on b1 b2))"
    )
    assert task.meaning(example, "(and") == "(and"


def test_the_potential_is_zero_when_no_completion_holds(task):
    example = next(e for e in task.examples("train") if "blocksworld" in e.facts["problem"])
    reached = task.reached(example)
    potential = task.potential(example)
    partial, whole = potential._function._functions
    vocabulary = [written([atom])[5:-1] for atom in sorted(reached)] + [
        "(holding b1)",
        "(on b2 b1)",
        "(not (clear b1))",
    ]
    for count in (1, 2):
        for parts in itertools.product(vocabulary, repeat=count):
            text = f"(and {' '.join(parts)}"
            inside = all(part in vocabulary[: len(reached)] for part in parts)
            assert after_atoms(text) == len(text)
            assert partial(text) == whole(text + ")") == inside
    assert [after_atoms("(and (clear b1) (on b2 b1))"[:i]) for i in (0, 4, 14, 15, 20, 26, 27)] == [
        0, 0, 0, 15, 15, 26, 26,
    ]  # fmt: skip
    assert not whole("(and (clear b1)")
    assert not whole("")
    short = GoalInference(task.data, max_states=0)
    with pytest.raises(tt.TractileError, match="raise max_states"):
        short.potential(example)


def test_files(tmp_path):
    path = tmp_path / "test.jsonl"
    post = "(define (problem p) (:domain post) (:objects v - van) (:init) (:goal (at v)))"
    row = {"name": "x", "natural_language": "", "init_desc": "", "goal_desc": "", "goal": ""}
    path.write_text(json.dumps(row | {"problem_pddl": post}))
    task = GoalInference(tmp_path)
    assert list(task.examples()) == []
    assert task.dropped == {"no domain file of post": ["0"]}
    (tmp_path / "domains").mkdir()
    (tmp_path / "domains/post.pddl").write_text(TYPED)
    assert [e.reference for e in GoalInference(tmp_path).examples()] == ["(and (at v))"]
    path.write_text(json.dumps(row | {"problem_pddl": post[:-1]}))
    with pytest.raises(tt.errors.FormatError, match=r"test\.jsonl, item 0: PDDL: 1 parentheses"):
        list(GoalInference(tmp_path).examples())
    path.write_text("\n".join(json.dumps(row | {"problem_pddl": text}) for text in (post, post[:-1])))
    task = GoalInference(tmp_path)
    assert len(list(task.examples())) == 1
    assert task.dropped == {"its problem cannot be read": ["1"]}


def test_parquet(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    (tmp_path / "data").mkdir()
    path = tmp_path / "data" / "test-00000-of-00001.parquet"
    parquet.write_table(pyarrow.Table.from_pylist([row for row in rows() if "id" in row]), path)
    assert [e.id for e in GoalInference(tmp_path).examples()] == [f"p{i}" for i in range(8)]
    path.write_bytes(b"PAR1")
    with pytest.raises(tt.errors.FormatError, match="is not a parquet file"):
        list(GoalInference(tmp_path).examples())


def test_gold_goals(shared_dir):
    path = shared_dir / "data" / "planetarium"
    if not path.is_dir():
        pytest.skip(f"no {path}")
    task = GoalInference(path)
    examples = list(task.examples())
    assert len(examples) > 1000
    for own, domain in ((BLOCKSWORLD, "blocksworld"), (GRIPPER, "gripper")):  # ours do the same as theirs
        theirs = read_domain((path / f"domains/{domain}.pddl").read_text())
        problem = next(p for p in (read_problem(e.facts["problem"]) for e in examples) if p.domain == domain)
        effects = [
            {(a.needs, a.forbids, a.adds, a.deletes) for a in d.actions_on(problem)}
            for d in (read_domain(own), theirs)
        ]
        assert effects[0] == effects[1]
    for example in examples[::80]:
        assert set(task.scores(example, example.reference).values()) == {1.0}
        atoms = list(read_goal(example.reference))
        assert task.reached(example) >= set(atoms)
        assert task.scores(example, written(atoms[::-1]))["equivalent"] == 1.0


EQUIVALENT = [
    ["blocksworld_fully_specified", "blocksworld_missing_clears", "blocksworld_missing_ontables"],
    ["blocksworld_underspecified"],
    ["gripper_fully_specified", "gripper_no_goal_types", "gripper_fully_specified_not_strict"],
    ["gripper_no_robby"],
    ["gripper_underspecified_1"],
]


@pytest.mark.parametrize("free", [False, True])
def test_planetarium_fixtures(shared_dir, free):
    """Goals of one domain are equivalent within a group, and not beyond it."""
    folder = shared_dir / "data" / "planetarium"
    if not folder.is_dir():
        pytest.skip(f"no {folder}")
    texts = read_json(find(folder, "equivalence_fixtures.json"))
    problems = {name: read_problem(texts[name]) for group in EQUIVALENT for name in group}
    for (name, one), (other, two) in itertools.product(problems.items(), repeat=2):
        if one.domain == two.domain:
            same = any({name, other} <= set(group) for group in EQUIVALENT)
            assert equivalent(one, one.goal, two.goal, free) == same, (name, other)
