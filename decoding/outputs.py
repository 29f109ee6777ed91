"""The outputs of :func:`.generate`: how they are read, and the values of the texts that were drawn."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NoReturn, TypedDict, Unpack, cast

from ..circuits.chain import Chain
from ..constraints.output_type import OutputType, output_type
from ..errors import FormatError, NoParticleSurvived
from ..inference.smc.posterior import Posterior

_log = logging.getLogger(__name__)


class JSONOptions(TypedDict, total=False):
    """How outputs in JSON are read and written: the arguments of :func:`.output_type` of these names."""

    strict: bool
    order: Literal["auto", "declared", "any"]
    whitespace: Literal["none", "space", "flexible"]
    max_whitespace: int | None
    documents: Mapping[str, Any]
    thinking: str | None


def read_outputs(outputs: Sequence[Any], **json: Unpack[JSONOptions]) -> list[OutputType[Any]]:
    """Return the :func:`.output_type` of each output; an object that stands there several times is read once.

    The texts of a compiled automaton are their own values. Raises :class:`FormatError` for one with ``thinking``.
    """
    if json.get("thinking") is not None and any(isinstance(one, Chain) for one in outputs):
        raise FormatError("thinking: a compiled automaton has no text before it; give the constraint")
    made = {
        key: OutputType(cast(Any, one), str) if isinstance(one, Chain) else output_type(one, **json)
        for key, one in {id(one): one for one in outputs}.items()
    }
    return [made[id(one)] for one in outputs]


def refuse(kind: OutputType[Any], texts: Sequence[str], who: str = "generate") -> NoReturn:
    """Raise :class:`NoParticleSurvived` with the reason that the type gives for one of the texts, all of which it refuses."""
    why = ""
    try:
        kind.parse(texts[-1])
    except FormatError as error:
        why = f"; {error}"
    raise NoParticleSurvived(f"{who}: output refused all {len(texts)} texts that were generated{why}")


def drawn(run: Posterior, kind: OutputType[Any], samples: int | None, seed: int) -> Any:
    """Parse the text of the heaviest particle, or those of ``samples`` particles drawn by weight.

    Raises :class:`NoParticleSurvived`, with the reason that the type gives where it refused all texts.
    """
    if run.failed and run.refused:
        refuse(kind, run.refused)
    if samples is None:
        return kind.parse(run.best.text)
    if samples > 1 and run.collapsed:
        _log.warning(
            "generate: all %d particles go back to one, so that samples are alike (different texts: %d); give more particles, an "
            "hmm, or a list of the same prompt, each with a seed of its own",
            len(run.texts),
            run.distinct,
        )
    return [kind.parse(particle.text) for particle in run.sample(samples, seed)]
