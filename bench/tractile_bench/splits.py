"""Train and test sides of data sets, by a hash of each item's key."""

import hashlib
import re


def is_train(key: str) -> bool:
    """Return whether an item is on the training side: about half are, by a hash of ``key``."""
    return hashlib.sha256(f"tractile-train|{key}".encode()).digest()[0] < 128


def bfcl_key(id: str) -> str:
    """Return the key of a BFCL case, equal for all cases with the same set of functions.

    ``live_multiple_5-3-0`` (case 5, functions 3, question 0) becomes ``live_multiple_3``; other ids are their own keys."""
    return re.sub(r"_\d+-(\d+)-\d+$", r"_\1", id)


def planetarium_key(goal: str) -> str:
    """Return the key of a Planetarium problem: its goal, ``(and …)`` with single spaces, so that no goal is on both sides."""
    return f"planetarium|{goal}"
