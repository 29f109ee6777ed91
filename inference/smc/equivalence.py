"""A key for :meth:`.Posterior.group_by` that is equal for texts of the same JSON value."""

from __future__ import annotations

import json
from collections.abc import Hashable

from .field import key_of
from .posterior import Particle


def json_value(particle: Particle) -> Hashable:
    """Return a key for the JSON value of a text: white space, member order, and 1 or 1.0 make no difference.

    Examples
    --------
    >>> from tractile.inference.smc import Particle, json_value
    >>> one, two = (Particle((), text, 0.5, 0.0, 0.0) for text in ('{"a": 1, "b": 2}', '{"b":2,"a":1.0}'))
    >>> json_value(one) == json_value(two)
    True
    """
    try:
        return "json", key_of(json.loads(particle.text))
    except (ValueError, RecursionError):
        return "text", particle.text
