"""The HTML page of a run: ancestry, weights, and the distributions of each token; self-contained, needs no network."""

from __future__ import annotations

import json
from html import escape
from typing import Any

from ...circuits.narrowing import Narrowing
from .trace import END


def page(run: dict[str, Any], best: int | None, best_text: str | None) -> str:
    """Return an HTML page of ``run``, a posterior's ``to_dict`` with a trace.

    ``best``: the index of the particle of the last step that is marked and shown first, None for the heaviest; ``best_text``:
    its text.
    """
    evidence = "no particle survived" if run["failed"] else f"log Z ≈ {run['log_evidence']:.3f} nats"
    texts: dict[str, float] = {}
    for particle in run["particles"]:
        texts[particle["text"]] = texts.get(particle["text"], 0.0) + particle["weight"]
    ranked = sorted(((w, text) for text, w in texts.items() if w), reverse=True)
    rows = "".join(
        f'<tr class="{"best" * (text == best_text)}"><td class="n">{w:.3f}</td><td class="t">{escape(text)}</td>'
        f"<td>{'★ best' * (text == best_text)}</td></tr>"
        for w, text in ranked
    )
    cuts = "".join(
        f"<li>{escape(str(c['path'] or '/'))}: {escape(str(c['keyword']))}: {escape(str(c['given']))} instead of "
        f"{escape(str(c['asked']))}</li>"
        for c in run["narrowed"]
        if Narrowing(**c).loses_values
    )
    if cuts:
        cuts = (
            f"<details><summary>The constraint accepts less than was asked</summary><ul>{cuts}</ul></details>"
        )
    guide = f"<p>Guide: {escape(run['guide'])}</p>" if run["guide"] else ""
    data = json.dumps({"trace": run["trace"], "best": best, "end": END}, ensure_ascii=False, allow_nan=False)
    data = data.replace("<", "\\u003c")
    return f"""<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1"><title>Particles</title><style>{STYLE}</style></head><body>
<h1>{len(run["particles"])} particles, {run["distinct"]} distinct texts, {evidence}, effective sample size {run["ess"]:.1f}</h1>
<p>Prompt: <code>{escape(run["trace"]["prompt"])}</code></p>{guide}{cuts}
<p>Each column is a step, each dot a particle; its size is its weight, lines join it to the particle it continues. After the
shaded steps ancestors were drawn. Green: ended, red: dead, yellow: waits, ★: the best text. Click
a dot to see what was allowed and believed.</p>
<main><div class="tree"></div><aside></aside></main>
<h2>Texts by weight</h2><table class="texts">{rows}</table>
<script type="application/json" id="run">{data}</script><script>{SCRIPT}</script>
</body></html>
"""


STYLE = """
:root { color-scheme: light dark; --line: #8886; --soft: #8882; --lm: #4878a8; --q: #c8722c; --dead: #c33; --ended: #2a8a4a; }
* { box-sizing: border-box } body { font: 14px/1.45 system-ui, sans-serif; margin: 1.5rem; max-width: 90rem }
h1 { font-size: 1.1rem; margin: 0 0 .3rem } h2 { font-size: .95rem; margin: 1.2rem 0 .3rem } p { margin: .2rem 0 }
main { display: grid; grid-template-columns: minmax(0, 3fr) minmax(18rem, 2fr); gap: 1.5rem; align-items: start }
.tree { overflow: auto; border: 1px solid var(--line); border-radius: 6px; max-height: 75vh }
svg text { font: 10px ui-monospace, monospace; fill: currentColor; pointer-events: none }
.edge { stroke: var(--line); fill: none } .edge.on { stroke: var(--q); stroke-width: 2.5 }
.node { cursor: pointer; stroke: canvas; fill: var(--lm) } .node.dead { fill: var(--dead) } .node.ended { fill: var(--ended) }
.node.waits { fill: #a88a2a } .node.on, .node.on.best { stroke: currentColor; stroke-width: 2 } .band { fill: var(--soft) }
code, td.t { font-family: ui-monospace, monospace; white-space: pre-wrap; overflow-wrap: anywhere }
code span { border-radius: 3px; background: var(--soft); margin-right: 1px } code span:nth-child(odd) { background: transparent }
table { border-collapse: collapse; width: 100% } td, th { text-align: left; padding: .1rem .5rem .1rem 0; vertical-align: top }
td.n { font-variant-numeric: tabular-nums; text-align: right; white-space: nowrap } tr.no td { opacity: .45 }
tr.drawn td.t, tr.best td { font-weight: 700 } .texts { width: auto }
.texts td:last-child { color: var(--q); white-space: nowrap }
.node.best { stroke: var(--q); stroke-width: 1.5 } svg .star { fill: var(--q); font-size: 14px }
.bar { height: .4rem; border-radius: 2px; min-width: 1px } .lm { background: var(--lm) } .q { background: var(--q) }
h1, p { overflow-wrap: anywhere }
@media (max-width: 60rem) { main { grid-template-columns: minmax(0, 1fr) } body { margin: .8rem } }
"""

SCRIPT = """
const run = JSON.parse(document.getElementById("run").textContent), steps = run.trace.steps;
const SVG = "http://www.w3.org/2000/svg", X = 62, Y = 22;
function make(parent, name, text, attributes) {
  const svg = parent.namespaceURI === SVG || name === "svg";
  const it = svg ? document.createElementNS(SVG, name) : document.createElement(name);
  if (text !== null && text !== undefined) it.textContent = text;
  for (const key in attributes || {}) it.setAttribute(key, attributes[key]);
  return parent.appendChild(it);
}
const shown = text => text.replace(/\\n/g, "⏎").replace(/ /g, "·")
  .replace(/[\\x00-\\x1f\\x7f]/g, c => "\\\\x" + c.charCodeAt(0).toString(16).padStart(2, "0"));
const number = x => x === null ? "–" : x === 0 ? "0" : x < 1e-3 ? x.toExponential(1) : x.toFixed(3);
const at = (step, i) => [30 + X * step, 30 + Y * i];
function lineage(step, i) {
  const found = [];
  for (; step >= 0; step--) { found.unshift([step, i]); i = steps[step].parent[i]; }
  return found;
}
function draw() {
  const rows = Math.max(...steps.map(s => s.parent.length)), [w, h] = at(steps.length, rows);
  const about = {width: w, height: h, role: "img", "aria-label": "ancestry of the particles"};
  const svg = make(document.querySelector(".tree"), "svg", null, about);
  const starred = run.best === null ? [] : lineage(steps.length - 1, run.best).map(([, i]) => i);
  steps.forEach((s, t) => {
    if (s.resampled) make(svg, "rect", null, {class: "band", x: at(t, 0)[0] + 8, y: 0, width: X - 16, height: h});
    make(svg, "text", t + 1, {x: at(t, 0)[0] - 4, y: 14});
  });
  steps.forEach((s, t) => s.parent.forEach((p, i) => {
    if (!t) return;
    const [a, b] = at(t - 1, p), [c, d] = at(t, i), m = (a + c) / 2;
    make(svg, "path", null, {class: "edge", id: `e${t}.${i}`, d: `M${a} ${b}C${m} ${b} ${m} ${d} ${c} ${d}`});
  }));
  steps.forEach((s, t) => s.parent.forEach((p, i) => {
    const [x, y] = at(t, i), r = 2.5 + 6 * Math.sqrt(s.weight[i]);
    const node = make(svg, "circle", null, {class: "node " + s.status[i], id: `n${t}.${i}`, cx: x, cy: y, r: r});
    make(node, "title", `step ${t + 1}, particle ${i}: weight ${number(s.weight[i])}`);
    node.addEventListener("click", () => { location.hash = `${t}.${i}`; });
    if (starred[t] === i) node.classList.add("best");
    if (starred[t] === i && t === steps.length - 1) make(svg, "text", "★", {x: x + 9, y: y + 4, class: "star"});
    if (s.text[i]) make(svg, "text", shown(s.text[i]).slice(0, 8), {x: x + 9, y: y - 3});
  }));
}
function look() {
  const [t, i] = location.hash ? location.hash.slice(1).split(".").map(Number) : best();
  if (!steps[t] || i >= steps[t].parent.length) return;
  document.querySelectorAll(".on").forEach(it => it.classList.remove("on"));
  const line = lineage(t, i), s = steps[t], panel = document.querySelector("aside");
  line.forEach(([a, b]) => { const e = document.getElementById(`e${a}.${b}`); if (e) e.classList.add("on"); });
  document.getElementById(`n${t}.${i}`).classList.add("on");
  const tree = document.querySelector(".tree"), x = at(t, i)[0];
  if (x < tree.scrollLeft || x > tree.scrollLeft + tree.clientWidth) tree.scrollLeft = x - tree.clientWidth / 2;
  panel.replaceChildren();
  make(panel, "h2", `Step ${t + 1}, particle ${i}: ${s.status[i]}, weight ${number(s.weight[i])}`);
  const text = make(panel, "code");
  line.forEach(([a, b]) => { if (steps[a].text[b]) make(text, "span", steps[a].text[b]); });
  if (s.belief[i] === null) { make(panel, "p", "No token was drawn for it here."); return; }
  const belief = s.beliefs[s.belief[i]];
  make(panel, "p", `The constraint allowed ${belief.allowed} of ${belief.vocab} tokens.`);
  const table = make(panel, "table"), head = make(table, "tr");
  ["token", "language model", "proposal", ""].forEach(name => make(head, "th", name));
  const top = Math.max(...belief.candidates.flatMap(c => [c.lm, c.proposal || 0]));
  for (const c of belief.candidates) {
    const drawn = shown(c.text) === shown(s.text[i]) || (c.text === run.end && s.status[i] === "ended" && !s.text[i]);
    const row = make(table, "tr", null, {class: (c.allowed ? "" : "no ") + (drawn ? "drawn" : "")});
    make(row, "td", shown(c.text) || "∅", {class: "t"});
    make(row, "td", number(c.lm), {class: "n"});
    make(row, "td", number(c.proposal), {class: "n"});
    const bars = make(row, "td", null, {style: "width: 40%"});
    make(bars, "div", null, {class: "bar lm", style: `width: ${100 * c.lm / top}%`});
    make(bars, "div", null, {class: "bar q", style: `width: ${100 * (c.proposal || 0) / top}%`});
  }
}
function best() {  // where the best text (the heaviest particle if all died) got its last token
  const last = steps.length - 1, w = steps[last].weight;
  const line = lineage(last, run.best === null ? w.indexOf(Math.max(...w)) : run.best);
  return line.reverse().find(([t, i]) => steps[t].belief[i] !== null);
}
draw(); look(); addEventListener("hashchange", look);
document.body.dataset.ready = "yes";
"""
