"""Keyword arguments that a function does not have: named, with the one that was meant."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from difflib import get_close_matches

from ..errors import UnknownArgument

MEANT = {
    name: meant
    for meant, names in {
        "max_new_tokens": "max_tokens max_length max_completion_tokens budget",
        "samples": "n num_return_sequences num_samples",
        "particles": "best_of num_particles n_particles",
        "greedy": "do_sample",
        "method": "proposal",
        "prompt": "messages prompts",
        "output": "response_format response_model output_type schema json_schema regex constraint tools fa",
        "top_p": "nucleus",
        "temperature": "temp",
        "seed": "random_state",
        "stream": "streaming",
    }.items()
    for name in names.split()
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
