"""The picture of *Constrain a diffusion model*, drawn from a run of the embedded model: ``python docs/pictures/canvas.py``.

The picture is written beside this file, or into the folder that is given.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import torch
from drawing import GREY, INK, PALE, PALE_ORANGE, WHITE, Picture
from matplotlib.patches import Rectangle

import tractile as tt
from tractile.decoding.diffusion import top

WIDTH, HEIGHT = 1.25, 1.0
ANIMAL = tt.constraints.regex(r"( [a-z]+)* (cat|dog)( [a-z]+)*")


class Recording:
    """A masked model that keeps the canvases that it is shown."""

    def __init__(self, lm: tt.lm.MaskedLM) -> None:
        self.lm, self.canvases = lm, list[list[int]]()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.lm, name)

    def log_probs(self, ids: torch.Tensor) -> torch.Tensor:
        """Keep the canvas, and ask the model."""
        self.canvases.append(ids[0].tolist())
        return self.lm.log_probs(ids)


def filled(picture: Picture) -> None:
    """A row for each step: tokens that are there, those drawn in the step before, and the surest token of each open position."""
    lm = Recording(tt.lm.MaskedLM(*tt.embedded.load_masked_lm()))
    ids = lm.ids("a girl saw a", 8, "in the park")
    opened = (ids == lm.mask_token_id).nonzero()[:, 0].tolist()
    guesses = list[torch.Tensor]()

    def sure(marginals: torch.Tensor) -> torch.Tensor:
        guesses.append(marginals[0])
        return top(marginals)

    found = tt.decoding.denoise(lm, ids, ANIMAL, steps=4, confidence=sure, temperature=0.5, seed=2)
    assert ANIMAL.accepts(found.texts[0])
    vocab = tt.Vocabulary.from_tokenizer(lm.tokenizer)
    rows = [*lm.canvases, found.tokens[0].tolist()]
    assert len(rows) == 5
    for r, row in enumerate(rows):
        y = -r * HEIGHT
        picture.text(-0.2, y + 0.5, f"step {r}" if r else "given", across="right")
        for t, token in enumerate(row):
            x = t * WIDTH
            before = rows[r - 1][t] if r else token
            is_open = token == lm.mask_token_id
            colour = WHITE if is_open else PALE_ORANGE if before == lm.mask_token_id else PALE
            picture.axes.add_patch(Rectangle((x, y), WIDTH, HEIGHT, facecolor=colour, edgecolor=GREY, lw=0.6))
            if not is_open:
                text = (vocab.token_bytes[token] or b"").decode().strip()
                picture.text(x + WIDTH / 2, y + 0.5, text, across="center", mono=True, colour=INK, size=8)
                continue
            share, best = guesses[r][opened.index(t)].max(0)
            text = (vocab.token_bytes[int(best)] or b"").decode().strip()
            picture.text(
                x + WIDTH / 2, y + 0.64, text, across="center", mono=True, colour="#8a919a", size=7.5
            )
            picture.text(
                x + WIDTH / 2, y + 0.24, f"{share.exp():.2f}", across="center", colour="#8a919a", size=6.5
            )


def main() -> None:
    """Write the picture."""
    out = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parent
    picture = Picture(0.42)
    filled(picture)
    picture.save(out / "canvas.png")


if __name__ == "__main__":
    main()
