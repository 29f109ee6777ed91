"""An automaton over tokens as its edges say, followed one token at a time."""

from tractile.constraints import Constraint, Vocabulary
from tractile.constraints.lift import TokenTransitions, lift


def lifted(constraint: Constraint, vocab: Vocabulary, require_eos: bool = True) -> TokenTransitions:
    return lift(constraint.bytes_automaton, vocab, require_eos)


class Simulation:
    """Runs the arrays as a set of states for each prefix, one token at a time."""

    def __init__(self, arrays: TokenTransitions) -> None:
        self.arrays, self.moves = arrays, {}
        rows = zip(
            arrays.source.tolist(), arrays.token_class_of_edge.tolist(), arrays.target.tolist(), strict=True
        )
        for source, klass, target in rows:
            self.moves.setdefault((source, klass), []).append(target)

    def paths(self, tokens) -> int:
        """How many accepting paths read the tokens."""
        weight = dict.fromkeys(self.arrays.start.tolist(), 1)
        for token in tokens:
            klass = int(self.arrays.token_class[token])
            after: dict[int, int] = {}
            for state, count in weight.items():
                for target in self.moves.get((state, klass), []) if klass >= 0 else []:
                    after[target] = after.get(target, 0) + count
            weight = after
        accept = set(self.arrays.accept.tolist())
        return sum(count for state, count in weight.items() if state in accept)
