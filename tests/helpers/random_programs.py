"""Random programs with all kinds of nodes, and their short texts by enumeration: the oracle of every engine.

    node = random_program(random.Random(seed))
    texts = Enumeration(most=5).texts(node)

The enumeration reads the meaning of the kinds as ``program/nodes.py`` states it and shares no code with the engines.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from random import Random
from typing import NamedTuple

import numpy as np

from tractile.constraints.automata.nfa import Nfa
from tractile.constraints.program import nodes
from tractile.constraints.program.node import Kind, Node
from tractile.constraints.program.tables import Table, of_nfa, table

ALPHABET = b"abc"
LEAVES = ("text", "lex", "count")
INNER = ("seq", "alt", "repeat", "bag", "within", "tokens", "apart", "item", "rule")


def random_program(
    rng: Random, depth: int = 3, kinds: Iterable[str] = INNER, rules: int = 2, left_recursive: bool = False
) -> Node:
    """Return a random program over :data:`ALPHABET`.

    ``left_recursive=False``: each rule begins with a byte, so that no rule begins with itself.
    """
    names = [nodes.rule() for _ in range(rules)]
    made = Maker(rng, tuple(kinds), names)
    for name in names:
        body = made.node(depth - 1)
        nodes.define(name, body if left_recursive else nodes.seq(made.letter(), body))
        if left_recursive or rng.random() < 0.6:  # most rules have a text
            nodes.define(name, nodes.alt(*name.parts, made.leaf()))
    return made.node(depth)


class Maker:
    """Makes random nodes; ``rules`` may be called."""

    def __init__(self, rng: Random, kinds: tuple[str, ...], rules: list[Node]) -> None:
        self.rng, self.kinds, self.rules = rng, kinds, rules

    def letter(self) -> Node:
        return nodes.text(bytes([self.rng.choice(ALPHABET)]))

    def word(self, most: int = 2) -> bytes:
        return bytes(self.rng.choices(ALPHABET, k=self.rng.randint(0, most)))

    def bounds(self) -> tuple[int, int | None]:
        low = self.rng.choice((0, 0, 1, 2, 3))
        return low, self.rng.choice((None, low, low + 1, low + 2))

    def leaf(self) -> Node:
        match self.rng.choice(LEAVES):
            case "text":
                return nodes.text(self.word())
            case "lex":
                return nodes.lex(random_table(self.rng))
        return nodes.count(random_table(self.rng, counted=True), *self.bounds())

    def node(self, depth: int) -> Node:
        rng = self.rng
        if depth == 0 or rng.random() < 0.15:
            return self.leaf()
        parts = [self.node(depth - 1) for _ in range(rng.randint(1, 3))]
        match rng.choice(self.kinds):
            case "seq":
                return nodes.seq(*parts)
            case "alt":
                return nodes.alt(*parts)
            case "repeat":
                separator = self.letter() if rng.random() < 0.4 else nodes.EMPTY
                separator = parts[-1] if rng.random() < 0.1 else separator
                return nodes.repeat(parts[0], *self.bounds(), separator)
            case "bag":
                return self.bag(parts)
            case "within":
                return nodes.within(parts[0], random_table(rng))
            case "tokens":
                return nodes.tokens(nodes.seq(*parts), *self.bounds())
            case "apart":
                separator = self.letter() if rng.random() < 0.5 else nodes.EMPTY
                some = nodes.alt(*(nodes.item(part) for part in parts))
                return nodes.apart(nodes.repeat(some, *self.bounds(), separator))
            case "item":
                return nodes.item(parts[0])
        return rng.choice(self.rules) if self.rules else nodes.alt(*parts)

    def bag(self, values: list[Node]) -> Node:
        """Return a random bag; the label of a name is that of the value which follows."""
        rng = self.rng
        members = rng.randint(0, len(values))
        separator = rng.choice((b"", b"a", b"b"))
        words = list(itertools.islice(_names(rng), len(values) + rng.randint(0, 2)))
        names = {word: place for place, word in enumerate(words)}
        for word in words[len(values) :]:  # a label may have several names
            names[word] = rng.randrange(len(values))
        first = names_table(names, b"", loop=rng.random() < 0.2)
        later = names_table(names, separator, loop=not separator and rng.random() < 0.2)
        required = [label for label in range(members) if rng.random() < 0.3]
        return nodes.bag(first, later, values, members, required, *self.bounds(), ordered=rng.random() < 0.5)


def _names(rng: Random) -> Iterator[bytes]:
    words = [bytes(some) for size in range(3) for some in itertools.product(b"ab", repeat=size)]
    rng.shuffle(words)
    return (word + b"c" for word in words)


def names_table(names: dict[bytes, int], before: bytes, loop: bool = False) -> Table:
    """Return the table of ``before`` and a name, by label; with ``loop`` any number of c may come first."""
    states: dict[bytes, int] = {b"": 0}
    label, edges = [-1], []
    for name, number in names.items():
        word = before + name
        for end in range(1, len(word) + 1):
            if word[:end] not in states:
                states[word[:end]] = len(label)
                label.append(-1)
                edges.append((states[word[: end - 1]], word[end - 1], word[end - 1], states[word[:end]]))
        label[states[word]] = number
    if loop and b"c" not in states:
        edges.append((0, ord("c"), ord("c"), 0))
    return table(edges, label)


def random_table(rng: Random, counted: bool = False) -> Table | None:
    """Return a random table of a few states, None without texts.

    Deterministic, unless it is ``counted``: then some states lie between two characters, and it may not be.
    """
    size = rng.randint(1, 3)
    edges = [
        (rng.randrange(size), low, max(low, rng.choice(ALPHABET)), rng.randrange(size))
        for low in rng.choices(ALPHABET, k=rng.randint(1, 4))
    ]
    accept = rng.sample(range(size), rng.randint(1, size))
    nfa = Nfa(size, np.array(edges), (), np.array([0]), np.array(accept))
    if not counted:
        return of_nfa(nfa)
    nfa = nfa.plain
    if not nfa.num_states or nfa.start.tolist() != [0]:
        return None
    label = np.full(nfa.num_states, -1)
    label[nfa.accept] = 0
    return table(nfa.edges, label, [rng.random() < 0.6 for _ in range(nfa.num_states)])


# ---------------------------------------------------------------- enumeration


class Text(NamedTuple):
    """A text, the items of the nearest ``APART`` around it, and where budgets of tokens begin and end."""

    data: bytes
    items: frozenset[bytes] = frozenset()
    spans: frozenset[tuple[int, int, int, int | None]] = frozenset()  # begin, end, least, most

    def fits(self, tokens: Iterable[bytes]) -> bool:
        """Return whether the budgets hold if the text is written by these tokens."""
        ends = list(itertools.accumulate(map(len, tokens), initial=0))
        pairs = list(itertools.pairwise(ends))
        for begin, end, least, most in self.spans:
            count = sum(low < end and begin < high for low, high in pairs)
            if count < least or (most is not None and count > most):
                return False
        return True


class Enumeration:
    """All texts of at most ``most`` bytes, by induction: sets of texts are joined until none is new."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._found: dict[tuple[Node, bool], frozenset[Text]] = {}

    def texts(self, node: Node) -> frozenset[Text]:
        """Return the texts of a node."""
        self._found = {(node, False): frozenset()}
        changed = True
        while changed:
            changed, size = False, len(self._found)
            for key in list(self._found):
                now = frozenset(self._of(*key))
                changed |= now != self._found[key]
                self._found[key] = now
            changed |= len(self._found) > size
        return self._found[node, False]

    def _part(self, node: Node, apart: bool) -> frozenset[Text]:
        return self._found.setdefault((node, apart), frozenset())

    def _joined(self, first: Iterable[Text], second: Iterable[Text]) -> set[Text]:
        found, rest = set(), list(second)
        for a in first:
            for b in rest:
                if len(a.data) + len(b.data) <= self.most and not a.items & b.items:
                    moved = {(x + len(a.data), y + len(a.data), low, high) for x, y, low, high in b.spans}
                    found.add(Text(a.data + b.data, a.items | b.items, a.spans | moved))
        return found

    def _of(self, node: Node, apart: bool) -> Iterable[Text]:
        """Return the texts of a node from what is known of its parts; ``apart``: inside ``APART``."""
        parts = [self._part(part, apart) for part in node.parts if node.kind is not Kind.APART]
        match node.kind:
            case Kind.LEX:
                return {Text(data) for data, *_ in table_texts(node.tables[0], self.most)}
            case Kind.COUNT:
                return {
                    Text(data)
                    for data, _, characters in table_texts(node.tables[0], self.most)
                    if characters >= node.low and (node.high is None or characters <= node.high)
                }
            case Kind.SEQ:
                found = {Text(b"")}
                for part in parts:
                    found = self._joined(found, part)
                return found
            case Kind.ALT | Kind.RULE:
                return set().union(*parts)
            case Kind.REPEAT:
                return self._repeated(node, *parts)
            case Kind.BAG:
                return self._members(node, parts)
            case Kind.WITHIN:
                known = {data for data, *_ in table_texts(node.tables[0], self.most)}
                return {text for text in parts[0] if text.data in known}
            case Kind.TOKENS:
                return {
                    text._replace(spans=text.spans | {(0, len(text.data), node.low, node.high)})
                    if text.data
                    else text
                    for text in parts[0]
                    if text.data or node.low == 0
                }
            case Kind.APART:
                return {text._replace(items=frozenset()) for text in self._part(node.parts[0], True)}
            case Kind.ITEM:
                return {
                    text._replace(items=text.items | {text.data}) if apart else text
                    for text in parts[0]
                    if text.data not in text.items
                }
        raise AssertionError(node.kind)

    def _repeated(self, node: Node, item: Iterable[Text], separator: Iterable[Text]) -> set[Text]:
        none = {Text(b"")} if node.low == 0 else set()
        found: set[Text] = set()
        more, now = self._joined(separator, item), set(item)
        for count in itertools.count(1):
            if node.high is not None and count > node.high:
                break
            if count >= node.low:
                if now <= found:  # what follows has been found as well
                    break
                found |= now
            now = self._joined(now, more)
        return found | none

    def _members(self, node: Node, values: list[frozenset[Text]]) -> set[Text]:
        names = [list(table_texts(found, self.most)) for found in node.tables]
        found: set[Text] = set()
        todo: list[tuple[Text, tuple[int, ...]]] = [(Text(b""), ())]
        while todo:
            text, labels = todo.pop()
            if (
                len(labels) >= node.low
                and (node.high is None or len(labels) <= node.high)
                and all(label in labels for label in range(node.members) if node.required >> label & 1)
            ):
                found.add(text)
            for name, label, _ in names[1 if labels else 0]:
                once = label < node.members and label in labels
                falls = node.ordered and any(label < other < node.members for other in labels)
                if not once and not falls:
                    begun = self._joined([text], [Text(name)])
                    todo += [(each, (*labels, label)) for each in self._joined(begun, values[label])]
        return found


def table_texts(found: Table, most: int) -> set[tuple[bytes, int, int]]:
    """Return (text, label, characters) of each text of at most ``most`` bytes and each path that reads it."""
    texts, paths = set(), {(b"", 0, 0)}
    for _ in range(most + 1):
        texts |= {(data, int(found.label[at]), count) for data, at, count in paths if found.label[at] >= 0}
        paths = {
            (data + bytes([byte]), target, count + bool(found.between[target]))
            for data, at, count in paths
            for source, low, high, target in found.edges.tolist()
            if source == at
            for byte in range(low, high + 1)
        }
    return texts


def random_tokens(rng: Random) -> list[bytes]:
    """Return tokens over :data:`ALPHABET`, some of several bytes; now and then a byte is no token by itself."""
    single = [bytes([byte]) for byte in ALPHABET if rng.random() < 0.9]
    longer = {bytes(rng.choices(ALPHABET, k=rng.randint(2, 3))) for _ in range(rng.randint(1, 5))}
    return [*single, *sorted(longer)]


def tokenizations(data: bytes, tokens: Iterable[bytes]) -> Iterator[tuple[bytes, ...]]:
    """Yield each way to write a text by tokens."""
    if not data:
        yield ()
    for token in tokens:
        if data.startswith(token):
            for rest in tokenizations(data[len(token) :], tokens):
                yield (token, *rest)
