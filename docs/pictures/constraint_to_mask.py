"""The pictures of *How a constraint becomes a mask*, drawn from the running code: ``python docs/pictures/constraint_to_mask.py``.

Each picture is written beside this file, or into the folder that is given.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

from drawing import BLUE, GREEN, GREY, ORANGE, PALE, PALE_ORANGE, RED, WHITE, Picture, Point
from example import FIRST, WORDS, Example, in_words, kind_of, label_in_words, leaf_in_words
from frames import Frame, ended, reads  # the example knows where they are

from tractile.constraints.program.node import Kind, Node
from tractile.constraints.program.nodes import EMPTY, reachable

TEXT = '{"name": "Ada Love'
MORE = '{"name": "Ada", "'


# ---------------------------------------------------------------- a program

NODES: dict[tuple[int, ...], Point] = {
    (): (0.9, 2.4),
    (0,): (4.2, -2.05),
    (1,): (3.3, 2.4),
    (2,): (3.9, -2.75),
    (1, 0): (3.3, 4.9),
    (1, 1): (6.9, 4.9),
    (1, 1, 0): (7.7, 3.95),
    (1, 1, 1): (9.5, 4.9),
    (1, 1, 1, 0): (12.0, 4.9),
    (1, 1, 2): (8.6, 3.95),
    (1, 2): (6.9, 1.2),
    (1, 2, 0): (9.5, 1.2),
    **{(1, 2, 0, i): (12.0, 2.2 - 0.5 * i) for i in range(5)},
    (1, 2, 0, 5): (9.5, 3.0),
    (1, 2, 0, 5, 1): (6.9, 3.0),
    (1, 2, 0, 5, 1, 1): (5.2, 3.0),
    (1, 2, 0, 6): (9.5, -0.6),
    (1, 2, 0, 6, 1): (6.9, -0.6),
}
"""The place of each node of the program, by a path to it."""


def program(example: Example, picture: Picture) -> None:
    """Step 2: the nodes of the schema, each once."""
    places: dict[Node, Point] = {}
    for path, place in NODES.items():
        node = example.program
        for part in path:
            node = node.parts[part]
        places[node] = place
    assert set(places) == set(reachable(example.program))
    sizes = {node: draw_node(picture, node, *place) for node, place in places.items()}
    for node in places:
        for label, part in enumerate(node.parts):
            if part in node.parts[:label]:
                continue
            name = label_in_words(node, label) if node.kind is Kind.BAG and part is not EMPTY else ""
            start, end = (edge(places[a], sizes[a], places[b]) for a, b in ((node, part), (part, node)))
            across = 0.35 if start[0] == end[0] else 0.25 if end[1] < start[1] else -0.25
            picture.arrow(start, end, name, shift=(across, 0.12))


def draw_node(picture: Picture, node: Node, x: float, y: float) -> Point:
    """Draw a node, and return half its width and height."""
    counts = node.kind in (Kind.COUNT, Kind.BAG, Kind.REPEAT)
    if node.kind is Kind.LEX:
        lines = [leaf_in_words(node)]
    else:
        lines = [kind_of(node), *node_in_words(node)]
    wide = max(len(line) for line in lines) > 6
    width, height = (1.9 if len(lines) > 1 else 1.1) if wide else 0.7, 0.1 + 0.3 * len(lines)
    colour = PALE_ORANGE if counts else WHITE if node.kind is Kind.LEX else PALE
    picture.box(x - width / 2, y - height / 2, width, height, lines, colour)
    return width / 2, height / 2


def node_in_words(node: Node) -> list[str]:
    """What a node reads."""
    match node.kind:
        case Kind.COUNT:
            return [f"{node.low} to {node.high} characters"]
        case Kind.BAG:
            names = [
                label_in_words(node, label) for label in range(node.members) if node.required >> label & 1
            ]
            found = f"required: {', '.join(names) or 'none'}"
            return ['"new", "old"' if EMPTY in node.parts else found]
        case Kind.SEQ:
            inside = leaf_in_words(node.parts[0]) if node.parts else ""
            return [{"{": "an object", "[": "an array", "": "the empty text"}[inside]]
    return [{Kind.RULE: "any value", Kind.ALT: "one of", Kind.REPEAT: "any number of"}[node.kind]]


def edge(here: Point, size: Point, there: Point) -> Point:
    """Where a line from the middle of a box to another point leaves the box."""
    across, up = there[0] - here[0], there[1] - here[1]
    part = min(size[0] / abs(across) if across else 9.0, size[1] / abs(up) if up else 9.0)
    return here[0] + part * across, here[1] + part * up


# ---------------------------------------------------------------- configurations


def configurations(example: Example, picture: Picture) -> None:
    """Step 3: the configuration after some prefixes; equal frames on equal frames are one box."""
    x = 0.0
    for text in (TEXT, '{"name": "Ada"', '{"tags": ["new", "', '{"x": [3'):
        stacks = [in_words(stack) for stack in example.stacks(text)]
        draw_stacks(picture, stacks, x, 0.8)
        picture.text(x + len(stacks) * 1.0 - 0.1, 0.4, text, mono=True, size=8, across="center")
        x += 2.0 * len(stacks) + 0.3


def draw_stacks(picture: Picture, stacks: list[list[list[str]]], x: float, y: float) -> None:
    """Draw frames from their lower left corner; each stack is two units wide."""
    todo = [stack for stack in stacks if stack]
    if not todo:
        return
    same = [stack for stack in stacks if stack and stack[0] == todo[0][0]]
    height = 0.25 + 0.25 * len(todo[0][0])
    colour = PALE_ORANGE if all(len(stack) == 1 for stack in same) else PALE
    picture.box(x, y, 2.0 * len(same) - 0.15, height, todo[0][0], colour)
    draw_stacks(picture, [stack[1:] for stack in same], x, y + height + 0.08)
    draw_stacks(picture, [stack for stack in stacks if stack not in same], x + 2.0 * len(same), y)


# ---------------------------------------------------------------- the trie


def trie(example: Example, picture: Picture) -> None:
    """Step 4: the trie of the tokens, read by the top frame, and on from where its text may end by those below."""
    (stack,) = example.stacks(TEXT)
    inside, ends = dict[str, str](), list[str]()
    for prefix in sorted({word[: i + 1] for word in WORDS for i in range(len(word))}):
        found = registers(stack, prefix.encode())
        goes_on = any(word != prefix and word.startswith(prefix) for word in WORDS)
        if found:
            ends += [prefix] * (
                goes_on and any(True for each in found for _ in ended(stack._replace(register=each)))
            )
            inside[prefix] = ORANGE if prefix in ends else BLUE
    below, tokens = dict[str, str](), dict[str, list[str]]()
    for end, word in [(end, word) for end in ends for word in WORDS if word != end and word.startswith(end)]:
        for size in range(len(end) + 1, len(word) + 1):
            rest, is_alive = word[len(end) : size], example.state(TEXT + word[:size]) >= 0
            below[rest] = GREEN if is_alive else RED
            if size == len(word) or not is_alive:
                tokens.setdefault(rest, []).append(shown(word))
                break
        assert is_alive == (example.tokens.step(example.state(TEXT), FIRST + WORDS.index(word)) >= 0)
    top, under, _ = (", ".join(frame) for frame in in_words(stack)[::-1])
    count = sum(bool(word and registers(stack, word)) for word in example.vocab.token_bytes)
    said = {
        rest: f"{'allowed' if below[rest] == GREEN else 'refused'}: {'   '.join(found)}"
        for rest, found in tokens.items()
    }
    picture.text(-0.3, 2.0, f"the top frame: {top}")
    picture.text(-0.3, 1.2, f"blue: {count} tokens end inside it", colour=BLUE)
    draw_trie(picture, inside, dict.fromkeys(inside.keys() - set(ends), "allowed"), (0.0, 0.0), set(WORDS))
    picture.text(8.3, 2.0, f"below it: {under}")
    picture.text(8.3, 1.2, "orange: where the upper text may end,", colour=ORANGE)
    picture.text(8.3, 0.5, "one set, which is read on from as one", colour=ORANGE)
    draw_trie(picture, below, said, (8.7, -1.5), set(tokens), '"')
    picture.text(8.3, -7.2, "double rim: a token ends here")
    picture.text(8.3, -8.0, "single bytes are tokens too, and not drawn")


def draw_trie(
    picture: Picture,
    colours: dict[str, str],
    labels: dict[str, str],
    at: Point,
    ends: set[str],
    root: str = "",
) -> None:
    """Draw a trie, its first leaf in the row of ``at``, with a label at each leaf."""
    leaves = [prefix for prefix in sorted(colours) if all(other[:-1] != prefix for other in colours)]
    rows = {prefix: at[1] - 0.95 * i for i, prefix in enumerate(leaves)}

    def height(prefix: str) -> float:
        below = [height(other) for other in colours if other[:-1] == prefix]
        return sum(below) / len(below) if below else rows[prefix]

    for prefix, colour in colours.items():
        here, above = (at[0] + len(prefix), height(prefix)), (at[0] + len(prefix) - 1, height(prefix[:-1]))
        picture.line(above, here, {RED: GREY, ORANGE: BLUE}.get(colour, colour))
    picture.circle(at[0], height(""), 0.36 if root else 0.25, root, ORANGE if root else WHITE)
    for prefix, colour in colours.items():
        x, y = at[0] + len(prefix), height(prefix)
        is_end = prefix in ends and colour != RED
        picture.circle(x, y, 0.36, shown(prefix[-1]), colour, double=is_end, size=8)
        if prefix in rows:
            picture.text(x + 0.6, y, labels.get(prefix, ""), size=7.5, colour=colour)


def registers(stack: Frame, text: bytes) -> list[object]:
    """The registers of the top frame when it has read a text itself."""
    found = [stack.register]
    for byte in text:
        rows = [row for register in found for row in reads(stack.node, register)]
        found = [after for low, high, after in rows if low <= byte <= high]
    return found


def shown(word: str) -> str:
    """A token as it is printed."""
    return word.replace(" ", "␣")


# ---------------------------------------------------------------- a budget


def budget(example: Example, picture: Picture) -> None:
    """Step 5: the mask within each number of tokens left."""
    state, numbers = example.state(MORE), range(7, 1, -1)
    asked = [*range(FIRST, FIRST + len(WORDS)), 1 + ord("a")]
    targets = [example.tokens.step(state, token) for token in asked]
    needed = [example.tokens.fewest(target) + 1 if target >= 0 else 0 for target in targets]
    rows = [[GREY if not each else BLUE if each <= left else WHITE for each in needed] for left in numbers]
    picture.table([f"{left} tokens left" for left in numbers], [*map(shown, WORDS), "a"], rows)
    for x, colour, label in (
        (0.0, BLUE, "allowed"),
        (5.0, WHITE, "cannot end in time"),
        (13.0, GREY, "cannot be read"),
    ):
        picture.key(x, -6.7, colour, label)


PICTURES: dict[str, tuple[Callable[[Example, Picture], None], float]] = {
    "program": (program, 0.7),
    "configurations": (configurations, 0.63),
    "trie": (trie, 0.42),
    "budget": (budget, 0.3),
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
