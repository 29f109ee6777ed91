"""Arguments as people give them: what was meant where that is plain, else an error that names the argument and what to do."""

from __future__ import annotations

import math
from operator import index
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import torch
from jaxtyping import Int
from torch import Tensor

from ..circuits.automaton import Automaton
from ..circuits.hmm import HMM
from ..errors import EvidenceError, ShapeError


@runtime_checkable
class Compilable(Protocol):
    """A constraint: it makes an automaton for the tokens of a language model."""

    def compiled_for(self, vocab: Any, eos_token_id: int | None = None) -> Automaton:
        """The automaton for a vocabulary or tokenizer, made once."""


def whole(value: Any, name: str, least: int | None = 1) -> int:
    """The whole number, at least ``least``; ``name`` says whose argument it is ("smc: particles")."""
    try:
        number = None if isinstance(value, bool) else index(value)
    except TypeError:
        number = None
    if number is None or (least is not None and number < least):
        more = "" if least is None else f", {least} or more"
        raise EvidenceError(f"{name} must be a whole number{more}, not {short(value)}")
    return number


def not_negative(value: Any, name: str) -> float:
    """The number, 0 or more; it may be infinite."""
    try:
        number = math.nan if isinstance(value, bool | str) else float(value)
    except (TypeError, ValueError, RuntimeError):
        number = math.nan
    if not number >= 0:
        raise EvidenceError(f"{name} must be a number, 0 or more, not {short(value)}")
    return number


def each_whole(values: Any, count: int, name: str) -> Int[Tensor, " count"]:
    """A whole number for each of ``count`` rows, from one for all or one for each."""
    try:
        given = torch.as_tensor(values)
    except (TypeError, ValueError, RuntimeError):
        given = torch.empty(0)
    if given.is_floating_point() or given.dtype == torch.bool or given.is_complex():
        raise ShapeError(f"{name} must be whole numbers, not {short(values)}")
    if given.ndim > 1 or given.numel() not in (1, count):
        raise ShapeError(f"{name} has {given.numel()} entries for {count} rows; give one, or one for each")
    return given.long().expand(count).clone()


def an_automaton(fa: Any, name: str) -> Automaton:
    """The automaton; constraints must have been compiled, since no tokenizer is known where this is asked."""
    if isinstance(fa, Automaton):
        return fa
    if isinstance(fa, Compilable):
        raise EvidenceError(
            f"{name} is a constraint that has not been compiled; give constraint.compile(tokenizer)"
        )
    raise EvidenceError(
        f"{name} must be an automaton, such as constraint.compile(tokenizer), not {short(fa)}"
    )


def an_hmm(hmm: Any, name: str) -> HMM:
    """The HMM, or that of a folder or repository: see :meth:`.HMM.from_pretrained`, whose errors it raises."""
    if isinstance(hmm, HMM):
        return hmm
    if isinstance(hmm, str | Path):
        return HMM.from_pretrained(hmm)
    raise EvidenceError(f"{name} must be a tt.HMM or the folder of one, not {short(hmm)}")


def short(value: Any) -> str:
    """A value for a message: in one line, and never all numbers of a tensor."""
    shown = repr(value)
    if len(shown) > 60 or "\n" in shown:
        return f"a {type(value).__name__}"
    return f"{shown} ({type(value).__name__})"
