"""Compiled constraints as arrays for the disk cache."""

from __future__ import annotations

import numpy as np
from jaxtyping import Int
from numpy import ndarray

from ...circuits.automaton import Automaton
from ..automata.nfa import Nfa
from ..lifting.token_dfa import TokenDfa
from ..vocabulary.vocabulary import Vocabulary


def to_arrays(automaton: Automaton) -> dict[str, Int[ndarray, "..."]]:
    """Return the arrays of a compiled constraint.

    A :class:`TokenDfa` is stored as its byte transitions, any other automaton as its token transitions with its distances.
    """
    arrays: dict[str, Int[ndarray, "..."]] = {"states": np.array([automaton.num_states])}
    if isinstance(automaton, TokenDfa):
        source, low, high, target = automaton.nfa.edges.T
        arrays |= {
            "source": source.astype(np.int32),
            "low": low.astype(np.uint8),
            "high": high.astype(np.uint8),
        }
        arrays |= {
            "target": target.astype(np.int32),
            "start": automaton.nfa.start,
            "accept": automaton.nfa.accept,
        }
        return arrays
    else:
        whole = automaton.partitioned  # with one class for each token
        arrays |= {"transitions": whole.transitions.numpy(), "token_class": whole.labels.tokens.numpy()}  # type: ignore[union-attr]
        arrays |= {"start": np.array(automaton.start_states), "accept": np.array(automaton.accept_states)}
    return arrays | {"distances": automaton.distances}


def from_arrays(arrays: dict[str, Int[ndarray, "..."]], vocab: Vocabulary, require_eos: bool) -> Automaton:
    """Restore the automaton from the arrays of :func:`to_arrays`."""
    states = int(arrays["states"][0])
    if "source" in arrays:
        edges = np.column_stack(
            [arrays[name].astype(np.int64) for name in ("source", "low", "high", "target")]
        )
        plain = Nfa(states - 1, edges, np.empty((0, 2), np.int64), arrays["start"], arrays["accept"])
        automaton: Automaton = TokenDfa(plain, vocab, require_eos)
    else:
        rows, classes, eos = arrays["transitions"], arrays["token_class"], vocab.eos_token_id
        automaton = Automaton(rows, classes, arrays["start"].tolist(), arrays["accept"].tolist(), states, eos)
        automaton.for_vocabulary(vocab.fingerprint)
    if "distances" in arrays:
        automaton.__dict__["distances"] = arrays["distances"]
    return automaton
