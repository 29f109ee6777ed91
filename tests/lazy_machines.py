"""Machines with registers and free text, written by hand, for the tests of lazy automata."""

import numpy as np

from tractile.constraints.automata.epsilon import NO_EPSILONS
from tractile.constraints.automata.lazy import Letters
from tractile.constraints.automata.nfa import Nfa
from tractile.constraints.automata.region import LocalBody, Region

UTF8 = [  # (state, low, high, target); 0 is between two letters
    *[(0, 0x20, 0x21, 0), (0, 0x23, 0x5B, 0), (0, 0x5D, 0x7F, 0), (0, 0xC2, 0xDF, 1), (1, 0x80, 0xBF, 0)],
    *[(0, 0xE1, 0xEC, 2), (2, 0x80, 0xBF, 1), (0, 0x5C, 0x5C, 3), (3, 0x22, 0x22, 0), (3, 0x5C, 0x5C, 0)],
    *[(3, 0x6E, 0x6E, 0), (3, 0x75, 0x75, 4), (4, 0x30, 0x31, 5), (5, 0x30, 0x39, 0)],
]


def letters_of(edges, name="text"):
    """Letters by the edges of their automaton."""
    edges = sorted(edges)
    count, ends = 1 + max(e[3] for e in edges), np.zeros(1, np.int64)
    return Letters(Nfa(count, np.array(edges, np.int64), NO_EPSILONS, ends, ends), name)


TEXT = letters_of(UTF8)


class String(Region):
    """``"``, ``least`` to ``most`` letters, ``"``; the local state is None, (state in a letter, letters read), or "end"."""

    def __init__(self, least=0, most=None, letters=TEXT, quote=34):
        self.least, self.most, self.letters, self.quote = least, most, letters, quote
        self.rest = {0: b"", 1: b"\x80", 2: b"\x80\x80", 3: b"n", 4: b"00", 5: b"0"}
        self.table = {}
        for source, low, high, target in letters.nfa.edges.tolist():
            self.table.setdefault(source, []).append((low, high, target))

    def start(self):
        return None

    def capped(self, count):
        return min(count, self.least) if self.most is None else count

    def moves(self, local):
        if local is None:
            return [(34, 34, (0, 0))]
        if local == "end":
            return []
        state, count = local
        out = []
        if state or self.most is None or count < self.most:
            for low, high, target in self.table[state]:
                out.append((low, high, (target, count if target else self.capped(count + 1))))
        if state == 0 and count >= self.least:
            out.append((self.quote, self.quote, "end"))
        return sorted(out)

    def final(self, local):
        return local == "end"

    def completion(self, local):
        if local == "end":
            return b""
        state, count = local or (0, 0)
        letter = bytes([self.table[0][0][0]])
        more = max(0, self.least - count - (state > 0))
        return (b'"' if local is None else b"") + self.rest[state] + letter * more + bytes([self.quote])

    def body(self, local):
        if local in (None, "end") or local[0]:
            return None
        if self.most is None:
            return LocalBody(self.letters, None, b"", max(1, self.least - local[1]))
        return LocalBody(self.letters, self.most - local[1], b"", None)

    def after_letters(self, local, count):
        return (0, self.capped(local[1] + count))

    def view(self, local, reach):
        if local in (None, "end"):
            return local
        state, count = local
        most = None if self.most is None else min(self.most - count, reach)
        return state, min(max(0, self.least - count), reach), most


class Members(Region):
    """``{`` members ``}``: each name of ``named`` at most once with its own value, any other name with the value 1.

    The local state is (place, names seen, what has been read of a name).
    """

    def __init__(self, named, letters=TEXT, within=False):
        self.within = within
        self.named, self.letters = dict(named), letters
        self.inner = String(letters=letters)

    def start(self):
        return ("{", frozenset(), b"")

    def next_bytes(self, read):
        return sorted({n[len(read)] for n in self.named if n.startswith(read) and len(n) > len(read)})

    def moves(self, local):
        place, seen, read = local
        if place == "{":
            return [(123, 123, ("first", seen, b""))]
        if place == "first":
            return [(34, 34, ("name", seen, b"")), (125, 125, ("end", seen, b""))]
        if place == ",":
            return [(34, 34, ("name", seen, b""))]
        if place == "next":
            return [(44, 44, (",", seen, b"")), (125, 125, ("end", seen, b""))]
        if place == "free":
            return [
                (low, high, (":", seen, None) if to == "end" else ("free", seen, to[0]))
                for low, high, to in self.inner.moves((read, 0))
            ]
        if place == ":":
            return [(58, 58, ("value", seen, read))]
        if place != "name":
            return []
        state = self.state_in_letter(read)
        out = {}
        for low, high, to in self.inner.moves((state, 0)):
            for byte in range(low, high + 1):
                out[byte] = ("free", seen, to[0]) if to != "end" else (":", seen, None)
        if state == 0 and read in self.named:
            del out[34]
            if read not in seen:
                out[34] = (":", seen | {read}, read)
        for byte in self.next_bytes(read):
            out[byte] = ("name", seen, read + bytes([byte]))
        return [(byte, byte, to) for byte, to in sorted(out.items())]

    def state_in_letter(self, read):
        state = 0
        for byte in read:
            state = next(t for low, high, t in self.inner.table[state] if low <= byte <= high)
        return state

    def calls(self, local):
        place, seen, read = local
        return [(self.value(read), ("next", seen, b""))] if place == "value" else []

    def value(self, name):
        return self.named.get(name, ONE)

    def final(self, local):
        return local[0] == "end"

    def completion(self, local):
        place, _, read = local
        if place in ("free", "name"):
            state = read if place == "free" else self.state_in_letter(read)
            text = self.inner.rest[state]
            if place == "name":  # some other name
                text += b"~~~~~~~~"
            return text + b'":1}'
        if place in (":", "value"):
            value = self.value(read)
            return b":" * (place == ":") + value.completion(value.start()) + b"}"
        return {"{": b"{}", "first": b"}", ",": b'"~":1}', "next": b"}", "end": b""}[place]

    def body(self, local):
        place, _, read = local
        if place == "free" and read == 0:
            return LocalBody(self.letters, None)
        if place == "name" and self.state_in_letter(read) == 0:
            return LocalBody(self.letters, None, bytes(self.next_bytes(read)), within=self.within)
        return None

    def after_letters(self, local, count):
        return local if count == 0 else ("free", local[1], 0)


class List(Region):
    """``[`` ``least`` to ``most`` values ``]``; the local state is (place, values read)."""

    def __init__(self, item, least=0, most=None):
        self.item, self.least, self.most = item, least, most

    def start(self):
        return ("[", 0)

    def moves(self, local):
        place, count = local
        if place == "[":
            return [(91, 91, ("first", 0))]
        out = []
        if place == "next" and (self.most is None or count < self.most):
            out.append((44, 44, (",", count)))
        if place in ("first", "next") and count >= self.least:
            out.append((93, 93, ("end", 0)))
        return out

    def calls(self, local):
        place, count = local
        if place not in ("first", ",") or self.most == 0:
            return []
        return [(self.item, ("next", min(count + 1, self.least) if self.most is None else count + 1))]

    def final(self, local):
        return local[0] == "end"

    def completion(self, local):
        place, count = local
        if place == "end":
            return b""
        item = self.item.completion(self.item.start())
        more = max(0, self.least - count)
        begin = b"[" if place == "[" else b""
        if place == "next":
            return (b"," + item) * more + b"]"
        return begin + b",".join([item] * max(more, place == ",")) + b"]"

    def view(self, local, reach):
        place, count = local
        most = None if self.most is None else min(self.most - count, reach)
        return place, min(max(0, self.least - count), reach), most


class One(Region):
    """The text 1."""

    def start(self):
        return 0

    def moves(self, local):
        return [(49, 49, 1)] if local == 0 else []

    def final(self, local):
        return local == 1

    def completion(self, local):
        return b"" if local else b"1"


ONE = One()
