"""Keyword arguments that a function does not have: named, with the one that was meant."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from difflib import get_close_matches

from ..errors import UnknownArgument

MEANT = {
    "max_tokens": "max_new_tokens",
    "max_length": "max_new_tokens",
    "max_completion_tokens": "max_new_tokens",
    "budget": "max_new_tokens",
    "n": "samples",
    "num_return_sequences": "samples",
    "num_samples": "samples",
    "best_of": "particles",
    "num_particles": "particles",
    "n_particles": "particles",
    "do_sample": "greedy",
    "proposal": "method",
    "messages": "prompt",
    "prompts": "prompt",
    "response_format": "output",
    "response_model": "output",
    "output_type": "output",
    "schema": "output",
    "json_schema": "output",
    "regex": "output",
    "constraint": "output",
    "tools": "output",
    "fa": "output",
    "nucleus": "top_p",
    "temp": "temperature",
    "random_state": "seed",
    "streaming": "stream",
}
"""Names that other libraries have for the arguments of :func:`.generate`."""


def check_keywords(given: Iterable[str], known: Collection[str], who: str) -> None:
    """Raise :class:`UnknownArgument` for the first of the given names that is not known, with the name that was meant, if any."""
    for name in given:
        if name not in known:
            meant = MEANT.get(name)
            if meant not in known:
                meant = next(iter(get_close_matches(name, known, 1, 0.7)), None)
            raise UnknownArgument(who, name, meant)
