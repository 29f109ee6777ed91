"""Arguments as people give them: what was meant where that is plain, else an error that names the argument and what to do."""

from __future__ import annotations

from functools import reduce
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from ..argument_checks import each_whole as each_whole
from ..argument_checks import not_negative as not_negative
from ..argument_checks import short as short
from ..argument_checks import whole as whole
from ..circuits.automaton import Automaton
from ..circuits.chain import Chain
from ..circuits.hmm import HMM
from ..circuits.intersection import intersect
from ..errors import EvidenceError


@runtime_checkable
class Compilable(Protocol):
    """A constraint: it makes an automaton for the tokens of a language model."""

    def compiled_for(self, vocab: Any, eos_token_id: int | None = None, size: int | None = None) -> Automaton:
        """Compile for the first ``size`` tokens of a vocabulary or tokenizer (default: all); called again, return the same."""


def an_automaton(fa: Any, name: str) -> Automaton:
    """The automaton, or the intersection of automata that were multiplied.

    Constraints must have been compiled, since no tokenizer is known where this is asked.
    """
    if isinstance(fa, Automaton):
        return fa
    if isinstance(fa, Chain) and (automata := [one for one in fa.factors if isinstance(one, Automaton)]) == [
        *fa.factors
    ]:
        return reduce(intersect, automata)
    if isinstance(fa, Compilable):
        raise EvidenceError(
            f"{name} is a constraint that has not been compiled; give constraint.compile(tokenizer)"
        )
    raise EvidenceError(
        f"{name} must be an automaton, such as constraint.compile(tokenizer), not {short(fa)}"
    )


def cut_to(fa: Automaton, other: Any) -> Automaton:
    """The automaton without the tokens that a language model or HMM lacks, if its vocabulary is otherwise that of the other.

    That is known by fingerprints; an automaton for which it is not is returned as it is.
    """
    if fa.vocab_size <= other.vocab_size or fa.vocabulary_fingerprint is None:
        return fa
    known = getattr(other, "vocabulary_fingerprint", None)
    if known is None or not 0 <= (fa.eos_token_id or 0) < other.vocab_size:
        return fa
    cut = fa.cut(other.vocab_size)
    return cut if cut.vocabulary_fingerprint == known else fa


def an_hmm(hmm: Any, name: str) -> HMM:
    """The HMM, or that of a folder or repository: see :meth:`.HMM.from_pretrained`, whose errors it raises."""
    if isinstance(hmm, HMM):
        return hmm
    if isinstance(hmm, str | Path):
        return HMM.from_pretrained(hmm)
    raise EvidenceError(f"{name} must be a tt.HMM or the folder of one, not {short(hmm)}")


def a_chain(chain: Any, name: str) -> Chain:
    """Return a chain, such as an HMM, as it is; load the HMM of a folder or repository (:meth:`.HMM.from_pretrained`)."""
    return chain if isinstance(chain, Chain) else an_hmm(chain, name)
