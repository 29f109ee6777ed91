"""Automata over tokens with all their states: written out from byte automata, and kept on disk."""

from __future__ import annotations

import numpy as np
from jaxtyping import Int
from numpy import ndarray

from ..circuits.automaton import Automaton
from . import limits
from .automata.dfa import resolved
from .automata.nfa import Nfa
from .cache import store
from .canonical.automaton import canonical_automaton
from .canonical.segmentation import segmentation_of
from .lift import lift
from .vocabulary.vocabulary import Vocabulary

MOST_LIFTED = 50_000
"""Most states of an NFA that is lifted to tokens as it is; a larger one is determinized first."""


def written_out(texts: Nfa, vocab: Vocabulary, require_eos: bool, canonical: bool = False) -> Automaton:
    """Return the automaton over tokens of some texts. Raises ``EmptyLanguage`` and ``TooManyStates``.

    ``texts``: without epsilon transitions, trimmed. ``canonical``: each text only in the tokenizer's own segmentation.
    """
    if canonical:
        return canonical_automaton(texts, vocab, require_eos).for_vocabulary(vocab.fingerprint)
    if texts.num_states > MOST_LIFTED and not texts.is_deterministic:
        texts = resolved(texts, 4 * limits.WORK)  # cheaper than lifting it to tokens as it is
    found = Automaton.from_transitions(*lift(texts, vocab, require_eos), vocab.eos_token_id)
    return found.for_vocabulary(vocab.fingerprint)


def written_and_kept(texts: Nfa, vocab: Vocabulary, require_eos: bool, canonical: bool = False) -> Automaton:
    """Return :func:`written_out`'s result, read from the disk cache, or written to it."""
    parts: list[bytes | ndarray] = [store.code(), texts.edges, texts.start, texts.accept]
    parts += [vocab.cache_name.encode(), b"%d" % require_eos]
    parts += [segmentation_of(vocab).name] if canonical else []
    name = store.digest(parts)
    arrays = store.read("automaton", name)
    if arrays is not None:
        return _from_arrays(arrays, vocab)
    found = written_out(texts, vocab, require_eos, canonical)
    store.write("automaton", name, _to_arrays(found))
    return found


def _to_arrays(automaton: Automaton) -> dict[str, Int[ndarray, "..."]]:
    whole = automaton.partitioned  # with one class for each token
    return {
        "states": np.array([automaton.num_states]),
        "transitions": whole.transitions.numpy(),
        "token_class": whole.labels.tokens.numpy(),  # type: ignore[union-attr]
        "start": np.array(automaton.start_states),
        "accept": np.array(automaton.accept_states),
        "distances": automaton.distances,
    }


def _from_arrays(arrays: dict[str, Int[ndarray, "..."]], vocab: Vocabulary) -> Automaton:
    automaton = Automaton(
        arrays["transitions"],
        arrays["token_class"],
        arrays["start"].tolist(),
        arrays["accept"].tolist(),
        int(arrays["states"][0]),
        vocab.eos_token_id,
    )
    automaton.__dict__["distances"] = arrays["distances"]
    return automaton.for_vocabulary(vocab.fingerprint)
