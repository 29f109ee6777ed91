"""Texts drawn from a constraint, for tests that put them to another reader."""

import random

import tractile as tt


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


BYTES = tt.Vocabulary([*[bytes([b]) for b in range(256)], None], eos_token_id=256)


def masked_texts(constraint, seed: int, count: int, longest: int = 100) -> list[str]:
    """Accepted texts, byte by byte from the masks; every third may have any character, the others have those of a keyboard."""
    automaton, rng, found = constraint.compile(BYTES), random.Random(seed), []
    least = len(constraint.shortest().encode()) + 2
    for number in range(count):
        query, text = tt.gcd(automaton, least + rng.choice([0, longest // 10, longest])).start(), b""
        while True:
            tokens = query.mask()[0].nonzero().flatten().tolist()
            readable = [t for t in tokens if 32 <= t < 127 and t != 92] if number % 3 else tokens
            token = rng.choice((readable or tokens) if 256 not in tokens or rng.random() < 0.7 else [256])
            if token == 256:
                break
            text += bytes([token])
            query.advance([token])
        found.append(text.decode())
    return found
