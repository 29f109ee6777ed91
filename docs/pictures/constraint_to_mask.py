"""The pictures of *How a constraint becomes a mask*, drawn from the running code: ``python docs/pictures/constraint_to_mask.py``.

Each picture is written beside this file, or into the folder that is given.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from drawing import BLUE, GREEN, GREY, INK, ORANGE, PALE, PALE_ORANGE, RED, WHITE, Picture
from example import (
    CONTROL,
    FIRST,
    SCHEMA,
    WORDS,
    Example,
    approximated,
    described,
    frame_in_words,
    object_machine,
)

from tractile.constraints.json.lazy.objects import AFTER, BEFORE, COLON, COMMA, END, KEY, OPEN, START, VALUE

TEXT = '{"name": "Ada Love'
MORE = '{"name": "Ada", "'


# ---------------------------------------------------------------- sets of values


def values(example: Example, picture: Picture) -> None:
    """Step 1: the needs of the schema, and the set of values of each."""
    text = (
        '{\n  "type": "object",\n  "properties": {\n    "name": {"type": "string",\n             "maxLength": 20},\n'
        '    "tags": {"type": "array",\n             "items": {"enum": ["new", "old"]},\n'
        '             "uniqueItems": true}\n  },\n  "required": ["name"]\n}'
    )
    assert json.loads(text) == SCHEMA
    picture.text(0.0, 2.45, text, mono=True, size=8.5)
    root = example.machines.keywords.root()
    places = {"": (4.9, 1.9), "/properties/name": (9.0, 3.5), "/properties/tags": (9.0, 1.9)}
    places["/properties/tags/items"] = (9.0, 0.3)
    todo, seen = [root], set()
    while todo:
        need = todo.pop()
        path, value = example.machines.where(need), example.machines.value(need)
        seen.add(path)
        x, y = places[path]
        picture.box(x, y, 3.0, 1.1, [f"need {path or '/'}", *described(value)], PALE)
        below = [pair for objects in value.object for pair in objects.names]
        below += [("items", arrays.rest) for arrays in value.array]
        for label, inner in below:
            a, b = places[example.machines.where(inner)]
            if a == x:
                picture.arrow((x + 1.5, y), (a + 1.5, b + 1.1), label, shift=(0.35, 0.0))
            else:
                picture.arrow((x + 3.0, y + 0.55), (a, b + 0.55), label, shift=(-0.15 if b > y else 0.0, 0.2))
            todo.append(inner)
    assert seen == set(places)
    picture.arrow((4.05, 2.45), (4.8, 2.45))


# ---------------------------------------------------------------- machines


def machines(example: Example, picture: Picture) -> None:
    """Step 2: the control states of the object's machine, and the machines that it calls."""
    machine = example.machine
    at = {START: (0.4, 2.0), OPEN: (1.7, 2.0), KEY: (3.1, 2.0), COLON: (4.5, 2.0), VALUE: (6.7, 2.0)}
    at |= {AFTER: (6.7, 0.5), COMMA: (4.9, 0.5), BEFORE: (3.1, 0.5), END: (8.7, 0.5)}
    edges, called = object_machine(machine, example)
    picture.text(0.0, 3.6, "The machine of objects. Its register: the set of members seen.")
    for (a, b), chars in edges.items():
        label = "space" if chars == {" "} else "".join(sorted(chars))
        shift = (0.0, 0.17)
        if a == b == KEY:
            picture.loop(at[KEY], 0.4, "letters of a name\nthat may come")
            continue
        if a == b:
            continue
        if a == VALUE:
            label, shift = "called machine ends", (-0.95, 0.0)
        elif a == COLON:
            label = "colon, space"
        elif b == END:
            picture.text(7.68, 0.3, "name seen", size=8.5, across="center")
        elif at[a][0] == at[b][0]:
            shift = (0.2, 0.0)
        picture.arrow(at[a], at[b], label, shift=shift, gap=0.52 if b == END else 0.42)
    for kind, (x, y) in at.items():
        picture.circle(x, y, 0.4, CONTROL[kind], ORANGE if kind == VALUE else WHITE, double=kind == END)
    boxes = {
        "/properties/name": ("name", 2.7, ["string of at most 20 letters", "register: letters so far"]),
        "/properties/tags": (
            "tags",
            1.5,
            ['array of distinct "new", "old"', "registers: items seen,", "what this item may be"],
        ),
        "/": (
            "others",
            0.3,
            ["any value", "null, numbers, strings, arrays,", "objects: these call it again"],
        ),
    }
    assert called == set(boxes)
    for label, y, lines in boxes.values():
        picture.box(9.9, y, 2.75, 0.9, lines, PALE_ORANGE)
        picture.arrow((7.1, 2.0), (9.9, y + 0.45), dashed=True, colour=ORANGE)
        picture.text(9.3, 2.0 + (y - 1.55) * 0.79 + 0.2, label, size=8.5, colour=ORANGE, across="center")


# ---------------------------------------------------------------- configurations


def configurations(example: Example, picture: Picture) -> None:
    """Step 3: the configuration after some prefixes."""
    prefixes = [
        '{"na',
        TEXT,
        '{"name": "Ada", "tags": ["ne',
        '{"tags": ["new", "',
        '{"x": [[3',
    ]
    for column, text in enumerate(prefixes):
        x, y = 2.4 * column, 0.75
        stack: Any = example.states.configurations[example.state(text)]
        frames = []
        while stack is not None:
            frames.append(stack)
            stack = stack.parent
        for frame in reversed(frames):
            lines = frame_in_words(frame)
            height = 0.3 + 0.25 * len(lines)
            picture.box(x, y, 2.2, height, lines, PALE if frame is not frames[0] else PALE_ORANGE)
            y += height + 0.08
        picture.text(x + 1.1, 0.35, text.replace(', "t', ',\n"t'), mono=True, size=8, across="center")


# ---------------------------------------------------------------- the trie


def trie(example: Example, picture: Picture) -> None:
    """Step 4: the trie of the tokens, and what a configuration in free text makes of it."""
    state = example.state(TEXT)
    table = example.lazy.texts.table(example.automaton.body(example.states.configurations[state]).letters)
    allowed = example.allowed(state)
    words = sorted(WORDS)
    leaves = [word for word in words if not any(other != word and other.startswith(word) for other in words)]
    rows = {word: -0.95 * i for i, word in enumerate(leaves)}
    kinds: dict[str, str] = {}
    for prefix in sorted({word[: i + 1] for word in words for i in range(len(word))}):
        inside = table.count(prefix.encode())[1] == len(prefix)
        alive = example.states.run(state, prefix.encode()) >= 0
        kinds[prefix] = BLUE if inside and alive else GREEN if alive else RED
    children: dict[str, list[str]] = {}
    for prefix in kinds:
        children.setdefault(prefix[:-1], []).append(prefix)

    def height(prefix: str) -> float:
        below = [height(child) for child in children.get(prefix, ())]
        return sum(below) / len(below) if below else rows[prefix]

    for prefix, colour in kinds.items():
        x, y, length = len(prefix), height(prefix), len(prefix)
        above = height(prefix[:-1])
        picture.line((length - 1, above), (x, y), colour if colour != RED else GREY)
    picture.circle(0, height(""), 0.25, "", WHITE)
    for prefix, colour in kinds.items():
        x, y = len(prefix), height(prefix)
        picture.circle(x, y, 0.36, prefix[-1].replace(" ", "␣"), colour, double=prefix in words, size=8)
        if prefix in words:
            assert (colour != RED) == (FIRST + WORDS.index(prefix) in allowed)
        if prefix in rows:
            picture.text(x + 0.6, y, "allowed" if colour != RED else "refused", size=7.5, colour=colour)
    whole, _ = example.lazy.texts.below(table, example.vocab.trie, 0)
    legend = [
        (f"made of letters: one set of {len(whole.tokens(20))} tokens,", BLUE),
        ("single bytes among them, which is not walked", BLUE),
        ("leaves the text: walked, and allowed so far", GREEN),
        ("cannot be read: the walk stops here", RED),
        ("double rim: a token ends here", INK),
        ("single bytes are tokens too, and not drawn", INK),
    ]
    for i, (line, colour) in enumerate(legend):
        picture.text(7.4, -0.9 * i, line, colour=colour)


# ---------------------------------------------------------------- masks


def masks(example: Example, picture: Picture) -> None:
    """Step 5: the masks after some prefixes."""
    prefixes = [
        "",
        '{"',
        TEXT,
        '{"name": "' + "a" * 20,
        '{"name": "Ada"',
        '{"name": "Ada"}',
        '{"tags": ["new", "',
        '{"tags": ["new", "old',
    ]
    shown = [*range(FIRST, FIRST + len(WORDS)), 1 + ord('"'), 1 + ord(","), 1 + ord("}"), 1 + ord("a"), 0]
    labels = [*WORDS, '"', ",", "}", "a", "EOS"]
    rows = []
    for text in prefixes:
        allowed = example.allowed(example.state(text))
        rows.append([BLUE if token in allowed else WHITE for token in shown])
    names = [text.replace("a" * 20, "aaa … a (20)") or "(nothing)" for text in prefixes]
    picture.table(names, [label.replace(" ", "␣") for label in labels], rows)


def budget(example: Example, picture: Picture) -> None:
    """Step 6: the mask within each number of tokens left."""
    lazy, state = example.lazy, example.state(MORE)
    shown = [*range(FIRST, FIRST + len(WORDS)), 1 + ord("a")]
    rows = []
    for left in range(7, 1, -1):
        row = []
        for token in shown:
            target = lazy.step(state, token)
            if target < 0:
                row.append(GREY)
            elif lazy.completions.bound(target) <= left - 1:
                row.append(BLUE)
            else:
                row.append(ORANGE if lazy.fewest(target) <= left - 1 else WHITE)
            assert (row[-1] in (BLUE, ORANGE)) == bool(
                lazy.words_within(state, left - 1)[token >> 5] >> (token & 31) & 1
            )
        rows.append(row)
    picture.table(
        [f"{left} tokens left" for left in range(7, 1, -1)],
        [w.replace(" ", "␣") for w in [*WORDS, "a"]],
        rows,
    )
    for x, colour, label in (
        (0.0, BLUE, "allowed: the bound says so"),
        (6.8, ORANGE, "allowed: only the search knows"),
        (14.6, WHITE, "cannot end in time"),
        (20.0, GREY, "cannot be read"),
    ):
        picture.key(x - 3.5, -6.7, colour, label)


# ---------------------------------------------------------------- guides


def guides(example: Example, picture: Picture) -> None:
    """Step 7: finite automata of several sizes, and wrong texts that they accept."""
    texts = {
        "a name of\n30 letters": '{"name": "' + "a" * 30 + '"}',
        "new, new": '{"name": "Ada", "tags": ["new", "new"]}',
        "name\ntwice": '{"name": "Ada", "name": "Ada"}',
        "no name": '{"tags": ["new"]}',
        "[ … }": '{"name": "Ada", "x": [1}',
        "[[[[[ … ]]]]": '{"name": "Ada", "x": [[[[[1]]]]}',
    }
    kinds = ("all registers", "no counters", "few registers")
    names = ["the lazy automaton itself: as many as are met"]
    rows = [[BLUE if not example.constraint.accepts(text) else ORANGE for text in texts.values()]]
    for depth, level in ((3, 0), (3, 1), (3, 2), (1, 1), (1, 2), (0, 2)):
        found = approximated(example, depth, level)
        frames = f"{depth} frame" + "s" * (depth != 1)
        names.append(f"{frames}, {kinds[level]}: {found.num_states:,} states")
        rows.append([BLUE if not found.accepts(text.encode()) else ORANGE for text in texts.values()])
    picture.table(names, list(texts), rows, width=2.6, turned=0, mono=False)
    picture.key(-4.0, -7.7, BLUE, "refused, as by the schema")
    picture.key(4.0, -7.7, ORANGE, "accepted: the mask has to refuse it")


PICTURES: dict[str, tuple[Callable[[Example, Picture], None], float]] = {
    "values": (values, 0.85),
    "machines": (machines, 0.8),
    "configurations": (configurations, 0.85),
    "trie": (trie, 0.42),
    "masks": (masks, 0.3),
    "budget": (budget, 0.3),
    "guides": (guides, 0.36),
}
"""How to draw each picture, and the inches of its unit."""


def main(folder: Path) -> None:
    """Draw all pictures."""
    example = Example()
    for name, (draw, inches) in PICTURES.items():
        picture = Picture(inches)
        draw(example, picture)
        picture.save(folder / f"constraint-to-mask-{name}.png")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent)
