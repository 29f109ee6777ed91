"""The picture of *How sure is each field*, drawn from a run of the embedded model: ``python docs/pictures/confidence.py``.

The picture is written beside this file, or into the folder that is given.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from drawing import BLUE, GREY, INK, PALE, Picture
from matplotlib.patches import Rectangle

import tractile as tt

STORY = "Once upon a time, there was a little girl named Lily. She went to the park with her mom. They saw a big dog."
FORM = re.compile(
    r" (?P<who>Tom|Lily|Ben|Sue) and the (?P<animal>dog|cat|bird|bear) played in the (?P<place>park|garden|house|sand|water)\."
)
WIDTH, BAR = 9.4, 2.0


def main() -> None:
    """Draw a column for each field: a bar for each of its values, the one of the answer in blue."""
    out = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parent
    model, tokenizer = tt.embedded.load_lm()
    answer, sure = tt.generate(model, tokenizer, STORY, FORM, max_new_tokens=24, seed=0, confidence=True)
    picture = Picture(0.78)
    first, second = STORY.split(" She")
    picture.text(0, 1.1, first, size=9)
    picture.text(0, 0.75, "She" + second, size=9)
    for column, (path, field) in enumerate(sure.items()):
        assert field.exact
        x = column * WIDTH / 3
        picture.text(x, 0.2, path, size=9.5, colour=INK)
        for row, (value, p) in enumerate(field):
            y = -0.2 - 0.36 * row
            picture.text(x + 0.72, y, value, size=8.5, mono=True, across="right")
            for share, colour in ((1.0, PALE), (p.value, BLUE if value == answer[path] else GREY)):
                picture.axes.add_patch(
                    Rectangle((x + 0.8, y - 0.12), share * BAR * 0.75, 0.24, facecolor=colour, lw=0)
                )
            picture.text(x + 0.8 + BAR * 0.75 + 0.08, y, f"{p.value:.3f}", size=8.5)
    picture.save(out / "confidence.png")


if __name__ == "__main__":
    main()
