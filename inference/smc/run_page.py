"""The HTML page of a run: ancestry, weights, and the distributions of each token; self-contained, needs no network."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from html import escape
from importlib.resources import files
from typing import Any

from ...circuits.narrowing import Narrowing
from .trace import END


def page(run: dict[str, Any], texts: Mapping[str, float], best: int | None, best_text: str | None) -> str:
    """Return an HTML page of ``run``, a posterior's ``to_dict`` with a trace; ``texts`` has the weight of each text.

    ``best``: the index of the particle of the last step that is marked and shown first, None for the heaviest; ``best_text``:
    its text.
    """
    evidence = "no particle survived" if run["failed"] else f"log Z ≈ {run['log_evidence']:.3f} nats"
    particles = f"{len(run['particles'])} particles, {run['distinct']} distinct texts"
    rows = [
        f'<tr class="{"best" * (text == best_text)}"><td class="n">{w:.3f}</td><td class="t">{escape(text)}</td>'
        f"<td>{'★ best' * (text == best_text)}</td></tr>"
        for text, w in texts.items()
    ]
    lost = [cut for cut in (Narrowing(**one) for one in run["narrowed"]) if cut.loses_values]
    cuts = [
        "<li>" + escape(f"{cut.path or '/'}: {cut.keyword}: {cut.given} instead of {cut.asked}") + "</li>"
        for cut in lost
    ]
    summary = "<details><summary>The constraint accepts less than was asked</summary><ul>"
    data = json.dumps({"trace": run["trace"], "best": best, "end": END}, ensure_ascii=False, allow_nan=False)
    parts = {
        "TITLE": f"{particles}, {evidence}, effective sample size {run['ess']:.1f}",
        "PROMPT": escape(run["trace"]["prompt"]),
        "GUIDE": f"<p>Guide: {escape(run['guide'])}</p>" if run["guide"] else "",
        "CUTS": f"{summary}{''.join(cuts)}</ul></details>" if cuts else "",
        "TEXTS": "".join(rows),
        "DATA": data.replace("<", "\\u003c"),
    }
    template = files(__package__).joinpath("run_page.html").read_text(encoding="utf-8")
    return re.sub("@([A-Z]+)@", lambda part: parts[part[1]], template)
