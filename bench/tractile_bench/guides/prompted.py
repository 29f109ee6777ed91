"""HMMs adapted to a prompt by further files in their folder: a context head, copying, or a part of your own."""

from __future__ import annotations

import weakref
from collections import OrderedDict
from collections.abc import Callable, Collection
from contextlib import suppress
from pathlib import Path

from tractile.circuits.hmm import HMM
from tractile.lm.base import LanguageModel, Prompt

from .context import FILE as CONTEXT
from .context import with_context
from .copying import FILE as COPYING
from .copying import with_copying

Reader = Callable[[HMM, Path, LanguageModel, Prompt], HMM]

READERS: dict[str, Reader] = {CONTEXT: with_context, COPYING: with_copying}
"""For each file name in an HMM's folder, in the order of application: a function of HMM, folder, language model and prompt that
returns the HMM for this prompt."""

KEPT = 16  # prompts per HMM whose adapted HMMs are cached
_kept: weakref.WeakKeyDictionary[HMM, OrderedDict[object, tuple[weakref.ref[LanguageModel], HMM]]]
_kept = weakref.WeakKeyDictionary()


def prompted(
    hmm: HMM, folder: Path, lm: LanguageModel, prompt: Prompt, files: Collection[str] | None = None
) -> HMM:
    """Return the HMM adapted to a prompt by the ``files`` in its folder that :data:`READERS` knows (default: all).

    Without such files the HMM is returned as it is. The latest results are cached with the HMM.
    """
    chosen = [name for name in READERS if files is None or name in files]
    there = [name for name in chosen if (folder / name).exists()]
    if not there:
        return hmm
    asked = prompt if isinstance(prompt, str) else tuple(int(token) for token in prompt)
    key = (id(lm), asked, folder, *there)
    kept = _kept.setdefault(hmm, OrderedDict())
    if key in kept and kept[key][0]() is lm:
        kept.move_to_end(key)
        return kept[key][1]
    made = hmm
    for name in there:
        made = READERS[name](made, folder, lm, prompt)
    with suppress(TypeError):  # a language model without weak references
        kept[key] = weakref.ref(lm), made
    while len(kept) > KEPT:
        kept.popitem(last=False)
    return made
