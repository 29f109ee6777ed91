"""What bounds on counts leave possible, against sequences of members one by one."""

import random

from tractile.constraints.automata import nfa
from tractile.constraints.program import counting, nodes
from tractile.constraints.program.labelled import labelled
from tractile.constraints.program.node import Kind


def completed(bag, bits, count, most):
    """Whether at most ``most`` members more complete a bag."""
    if counting.may_end(bag, bits, count):
        return True
    return most > 0 and any(
        completed(bag, *counting.read_label(bag, bits, count, label), most - 1)
        for label in readable(bag, bits, count)
    )


def readable(bag, bits, count):
    """The labels that the tables, the order, the most members and those read leave, whatever comes later."""
    if bag.high is not None and count >= bag.high:
        return []
    labels = bag.tables[count > 0].labels & (-1 << bag.members | ~bits)
    found = [i for i, part in enumerate(bag.parts) if labels >> i & 1 and not part.is_nothing]
    missing = [i for i in range(bag.members) if (bag.required & ~bits) >> i & 1]
    return [i for i in found if not bag.ordered or i >= bag.members or i <= min(missing, default=i)]


def test_a_bag_may_read_a_label_if_it_can_be_completed_then():
    dice, seen = random.Random(1), set()
    for _ in range(2000):
        members = dice.randint(0, 4)
        size = members + dice.randint(not members, 2)
        names = [nfa.literal(bytes([97 + i])) for i in range(size)]
        first, later = (labelled([n if dice.random() < 0.8 else nfa.empty() for n in names]) for _ in "ab")
        values = [nodes.text(b"x") if dice.random() < 0.85 else nodes.NOTHING for _ in names]
        required = [i for i in range(members) if dice.random() < 0.4]
        low = dice.randint(0, 4)
        high = dice.choice([None, low, low + 1, low + 3])
        if first is None or later is None:
            continue
        bag = nodes.bag(first, later, values, members, required, low, high, dice.random() < 0.5)
        if bag.kind is not Kind.BAG:
            continue
        seen.add((bag.ordered, bag.high is None))
        bits = count = 0
        for _ in range(6):
            labels = counting.allowed(bag, bits, count)
            found = [i for i in range(size) if labels >> i & 1]
            after = {i: counting.read_label(bag, bits, count, i) for i in readable(bag, bits, count)}
            assert found == [i for i, state in after.items() if completed(bag, *state, 4)]
            if not found:
                break
            bits, count = after[dice.choice(found)]
    assert len(seen) == 4
