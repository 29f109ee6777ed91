"""The file with the automata of formats has what the patterns of formats make.

python tests/constraints/json/test_formats_file.py    write it anew
"""

import numpy as np
import pytest
from numpy import ndarray
from safetensors.numpy import save_file

from tractile.constraints.automata.nfa import Nfa
from tractile.constraints.json.formats import FILE, PATTERNS, compiled, read
from tractile.constraints.json.text import JSON


def arrays(name: str) -> dict[str, ndarray]:
    """The arrays of a format."""
    made = compiled(PATTERNS[name], JSON.alphabet)
    ends = [made.num_states, *made.start.tolist(), *made.accept.tolist()]
    return {name: made.edges.astype(np.int32), f"{name} ends": np.array(ends, np.int32)}


def parts(nfa: Nfa) -> tuple[object, ...]:
    return nfa.num_states, nfa.rows, nfa.start.tolist(), nfa.accept.tolist(), nfa.minimal


@pytest.mark.parametrize("name", PATTERNS)
def test_what_was_kept_is_what_the_pattern_makes(name: str) -> None:
    assert parts(read(name)) == parts(compiled(PATTERNS[name], JSON.alphabet))


def test_the_file_is_small() -> None:
    assert FILE.stat().st_size < 300_000


if __name__ == "__main__":
    save_file({key: value for name in sorted(PATTERNS) for key, value in arrays(name).items()}, FILE)
