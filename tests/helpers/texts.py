"""Texts drawn from a constraint, for tests that put them to another reader."""

import random


def random_texts(constraint, seed: int, count: int, longest: int = 120) -> list[str]:
    """Accepted texts by random walks over the automaton that head for acceptance after a while."""
    automaton, rng, found = constraint.bytes_automaton, random.Random(seed), []
    accept, leaving = set(automaton.accept.tolist()), {}
    for edge in automaton.edges.tolist():
        leaving.setdefault(edge[0], []).append(edge)
    distance = dict.fromkeys(accept, 0)
    frontier = list(accept)
    entering = {}
    for source, _, _, target in automaton.edges.tolist():
        entering.setdefault(target, []).append(source)
    for state in frontier:
        for source in entering.get(state, ()):
            if source not in distance:
                distance[source] = distance[state] + 1
                frontier.append(source)
    for _ in range(count):
        state, word = rng.choice(automaton.start.tolist()), bytearray()
        while state not in accept or (leaving.get(state) and rng.random() < 0.5):
            options = leaving[state]
            if len(word) > longest:
                options = [e for e in options if distance[e[3]] < distance[state]]
                if not options:
                    break
            _, low, high, state = rng.choice(options)
            word.append(rng.randint(low, high))
        found.append(word.decode())
    return found
