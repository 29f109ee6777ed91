"""Planning problems to learn from: Planetarium's training side and problems of our own, with their goals in PDDL."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

from tractile_bench import prompts, splits
from tractile_bench.files import find, read_jsonl
from tractile_bench.goal_inference.strips import read_problem, written

Facts = list[tuple[str, ...]]


def planetarium(folder: Path) -> Iterator[tuple[str, str]]:
    """The training side of the problems."""
    for row in read_jsonl(find(folder, "problems.half.jsonl")):
        goal = written(read_problem(row["problem_pddl"]).goal)
        if splits.is_train(splits.planetarium_key(goal)):
            yield prompts.goal_inference(row["natural_language"]), goal


def goals(rng: random.Random, count: int) -> Iterator[tuple[str, str]]:
    """Problems of our own on towers of blocks and on balls in rooms."""
    for _ in range(count):
        description, goal = blocks(rng) if rng.random() < 0.5 else balls(rng)
        yield prompts.goal_inference(description), f"(and {' '.join(goal)})"


def heights(total: int, rng: random.Random) -> list[int]:
    found = []
    while total:
        found.append(rng.randint(1, total) if rng.random() < 0.7 else 1)
        total -= found[-1]
    return sorted(found)


def towers(sizes: Sequence[int], up: bool) -> Facts:
    """The facts of towers on the table, block by block, numbered upwards or downwards in each."""
    facts: Facts = []
    first = 1
    for size in sizes:
        names = [f"b{first + i}" for i in range(size)]
        first += size
        on = [("on", b, a) if up else ("on", a, b) for a, b in pairwise(names)]
        if up:
            facts += [("on-table", names[0]), *on, ("clear", names[-1])]
        else:
            facts += [("clear", names[0]), *on, ("on-table", names[-1])]
    return facts


def said_fact(fact: tuple[str, ...], should: bool) -> str:
    """A fact as a sentence, of what is or of what should be."""
    be = "should be" if should else "is"
    sentences = {
        "arm-empty": f"Your arm {be} empty.",
        "on-table": "{1} " + be + " on the table.",
        "on": "{1} " + be + " on {2}.",
        "clear": "{1} " + be + " clear.",
        "holding": "You should be holding {1}." if should else "You are holding {1}.",
        "free": "{1} " + be + " free.",
        "at": "{1} " + be + " at {2}.",
        "carry": "Gripper {2} " + be + " carrying {1}.",
        "at-robby": "The robby " + be + " in {1}.",
    }
    return sentences[fact[0]].format(*fact)


def explicit(facts: Facts, rng: random.Random) -> str:
    opening = (
        rng.choice(("Your goal is to have the following:", "The goal is this:", "In the end,"))
        if rng.random() < 0.3
        else "Your goal is to have the following:"
    )
    return "\n".join([opening, *(said_fact(fact, True) for fact in facts)])


def atoms(facts: Facts) -> list[str]:
    return [f"({' '.join(fact)})" for fact in facts]


def blocks(rng: random.Random) -> tuple[str, list[str]]:
    """A problem of the blocks world and the facts of its goal."""
    count = rng.randint(1, 12)
    start, up = heights(count, rng), rng.random() < 0.5
    begin = towers(start, up)
    if rng.random() < 0.5:
        shape = ", ".join(map(str, start))
        opening = rng.choice((
            f"You have {count} blocks, b1 through b{count}, stacked into towers of heights {shape}, and your arm is empty.",
            f"You have {count} blocks, b1 through b{count}, and your arm is empty.",
            f"There are {count} blocks, b1 to b{count}, in towers of heights {shape}. Your arm is empty.",
        ))  # fmt: skip
    else:
        opening = "\n".join(
            [f"You have {count} blocks.", "Your arm is empty.", *(said_fact(f, False) for f in begin)]
        )
    kind = rng.choice(("heights", "table", "stack", "hold", "free", "staircase", "equal", "invert"))
    words = ""
    goal: Facts = [("arm-empty",)]
    if kind == "heights":
        end = heights(count, rng)
        goal += towers(end, False)
        words = f"Your goal is to stack the blocks into a towers of heights {', '.join(map(str, end))}."
    elif kind == "table":
        for i in range(1, count + 1):
            goal += [("clear", f"b{i}"), ("on-table", f"b{i}")]
        words = "Your goal is to unstack the blocks into individual blocks on the table."
    elif kind == "stack":
        goal += [("on", f"b{i + 1}", f"b{i}") for i in range(1, count)] + [
            ("clear", f"b{count}"),
            ("on-table", "b1"),
        ]
        words = "Your goal is to stack the blocks into a single stack."
    elif kind == "hold":
        goal = [("holding", "b1")]
        for i in range(2, count + 1):
            goal += [("clear", f"b{i}"), ("on-table", f"b{i}")]
        words = (
            f"You have {count} blocks, b1 through b{count}. Your goal is to unstack the blocks into individual blocks on the "
            "table, and to hold one of the blocks."
        )
    elif kind == "staircase":
        steps = rng.randint(1, 4)
        count = steps * (steps + 1) // 2
        start = heights(count, rng)
        shape = ", ".join(map(str, start))
        opening = (
            f"You have {count} blocks, b1 through b{count}, stacked into towers of heights {shape}, and your arm is "
            "empty."
        )
        goal += towers(range(1, steps + 1), False)
        words = f"Your goal is to stack the blocks into {steps} stacks of increasing heights, starting with a stack of height 1."
    elif kind == "equal":
        number = rng.choice([n for n in range(1, count + 1) if count % n == 0])
        goal += towers([count // number] * number, True)
        words = f"Your goal is to stack the blocks into {number} towers of equal heights."
    elif kind == "invert":
        begin = towers(start, False)
        opening = "\n".join(
            [f"You have {count} blocks.", "Your arm is empty.", *(said_fact(f, False) for f in begin)]
        )
        for fact in reversed(begin):
            name = fact[1]
            goal.append(
                {"on-table": ("clear", name), "clear": ("on-table", name), "on": ("on", fact[-1], name)}[
                    fact[0]
                ]
            )
        if rng.random() < 0.5:
            shape = ", ".join(map(str, start))
            opening = f"You have {count} blocks, stacked into {len(start)} towers of heights {shape}, and your arm is empty."
        words = (
            "Your goal is to invert each individual stack of blocks, such that the block that in each tower that was "
            "originally on the bottom will be on the top."
        )
    else:  # any facts
        names = rng.sample([f"b{i}" for i in range(1, count + 1)], count)
        end = heights(count, rng)
        renaming = {f"b{i + 1}": name for i, name in enumerate(names)}
        facts = [(fact[0], *(renaming[one] for one in fact[1:])) for fact in towers(end, rng.random() < 0.5)]
        goal = rng.sample(facts, rng.randint(1, len(facts))) if rng.random() < 0.5 else goal + facts
    if not words or rng.random() < 0.5:
        words = explicit(goal, rng)
    return f"{opening}\n{words}", atoms(goal)


def balls(rng: random.Random) -> tuple[str, list[str]]:
    """A problem of the gripper domain and the facts of its goal."""
    rooms, count, hands = rng.randint(1, 6), rng.randint(1, 6), rng.randint(1, 6)
    held = rng.randint(0, min(count, hands)) if rng.random() < 0.4 else 0
    place = sorted(rng.randint(1, rooms) for _ in range(count - held))
    begin: Facts = [("carry", f"ball{i}", f"gripper{i}") for i in range(1, held + 1)]
    begin += [("free", f"gripper{i}") for i in range(held + 1, hands + 1)]
    begin += [("at", f"ball{held + 1 + i}", f"room{room}") for i, room in enumerate(place)]
    opening = "\n".join(
        [
            f"You have {rooms} rooms.",
            f"You have {count} balls.",
            f"You have {hands} grippers.",
            *(said_fact(f, False) for f in begin),
        ]
    )
    free: Facts = [("free", f"gripper{i}") for i in range(1, hands + 1)]
    kind = rng.choice(("spread", "one", "hold", "pickup", "max", "swap", "juggle", "any"))
    words = ""
    if kind == "spread":
        room = [1 + i * rooms // count for i in range(count)] if count >= rooms else list(range(1, count + 1))
        goal = free + [("at", f"ball{i + 1}", f"room{r}") for i, r in enumerate(room)]
    elif kind == "one":
        goal = free + [("at", f"ball{i}", "room1") for i in range(1, count + 1)]
        words = "Your goal is to gather all balls into one room."
    elif kind == "hold":
        number = rng.randint(1, min(count, hands))
        goal = [("carry", f"ball{i}", f"gripper{i}") for i in range(1, number + 1)] + free[number:]
        words = f"Your goal is to make sure robby is holding {number} balls."
    elif kind == "pickup" and hands >= count:
        goal = [("carry", f"ball{i}", f"gripper{i}") for i in range(1, count + 1)]
        words = "Your goal is to pick up all the balls with grippers."
    elif kind == "max" and place:
        most = rng.random() < 0.5
        number = {room: place.count(room) for room in range(1, rooms + 1)}
        best = (max if most else min)(number, key=lambda room: number[room])
        goal = free + [("at", f"ball{i}", f"room{best}") for i in range(1, count + 1)]
        words = f"Your goal is to bring all the balls into the room which already has the {'most' if most else 'least'} balls."
    elif kind == "juggle" and held:
        goal = [("carry", f"ball{i % held + 1}", f"gripper{i}") for i in range(1, held + 1)] + free[held:]
        goal += [fact for fact in begin if fact[0] == "at"]
        words = (
            'Your goal is to "juggle" the balls between the grippers that started with balls, such that the balls are in the '
            "same grippers as before, but shifted by one. The remaining balls should remain untouched."
        )
    else:
        goal = [("at", f"ball{i}", f"room{rng.randint(1, rooms)}") for i in range(1, count + 1)]
        goal = (free if rng.random() < 0.6 else []) + (
            rng.sample(goal, len(goal)) if rng.random() < 0.5 else goal
        )
    if held and rng.random() < 0.5:
        opening = (
            f"You have {rooms} rooms, {count} balls, and {hands} grippers. {held} balls are distributed across the same number "
            "of grippers, and the rest are in the first room. The robby is in the first room."
        )
        words = "" if kind in ("max", "juggle") else words
    if not words or rng.random() < 0.5:
        words = explicit(goal, rng)
    return f"{opening}\n{words}", atoms(goal)
