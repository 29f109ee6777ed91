"""The token budget of a running ``model.generate``, which shows its logits processors nothing but token ids and scores."""

from __future__ import annotations

import sys

DECODES = ("logits_processor", "stopping_criteria", "generation_config")
"""The arguments of the decoding methods of transformers (``_sample``, ``_beam_search``, …), by which their frames are known."""


def tokens_of_generate(length: int) -> int | None:
    """Return how many tokens ``model.generate`` may append to rows of ``length`` tokens; None outside of it.

    That is the difference to its ``max_length``, which ``generate`` has computed from ``max_new_tokens`` or its default. An
    assistant model runs in a ``generate`` inside the other: the outermost one counts.
    """
    frame, found = sys._getframe(1).f_back, None
    while frame is not None:
        # In ``generate`` itself the configuration may not be the one that is used.
        if frame.f_code.co_name != "generate" and frame.f_globals.get("__name__", "").startswith(
            "transformers"
        ):
            arguments = frame.f_locals
            most = getattr(arguments.get("generation_config"), "max_length", None)
            if isinstance(most, int) and all(name in arguments for name in DECODES):
                found = most - length
        frame = frame.f_back
    return found
