"""Does a constraint hold within the budget? LCD, GCD and P-GCD on a real model, down to the smallest feasible budget.

For each (constraint, budget) pair: one run of K particles without resampling for each method; the figure is the share of
particles that satisfy the constraint within the budget. One token less than the smallest feasible budget must raise
``BudgetTooSmall`` before the language model is called.

    python benchmarks/guarantee.py [--pairs 200] [--particles 4] [--smoke]
"""

from __future__ import annotations

import argparse
from typing import Any

import torch

import tractile as tt

PATTERNS = [
    r" (yes|no|maybe)\.",
    r" [0-9]{3}-[0-9]{4}",
    r"( [a-z]{2,6}){4}\.",
    r" \w+, \w+ and \w+!",
    r" (red|green|blue) (ball|box|bird)s?",
    r" [A-Z][a-z]+ said, \"[^\"]*\"",
    r" the (big )*dog\.",
    r"( ha){3,}!",
    r"[^.!?]*\.",
    r" 20[0-9]{2}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])",
]
SCHEMAS: list[dict[str, Any]] = [
    {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]},
    {"type": "array", "items": {"enum": ["cat", "dog", "bird"]}, "minItems": 1, "maxItems": 3},
    {
        "type": "object",
        "properties": {"name": {"type": "string", "maxLength": 12}, "happy": {"type": "boolean"}},
        "required": ["name", "happy"],
        "additionalProperties": False,
    },
    {"anyOf": [{"type": "null"}, {"type": "number"}]},
]
WORDS = [
    ["dog"],
    ["park"],
    ["cat", "tree"],
    ["ball", "red"],
    ["mom", "smile"],
    ["bird", "sing"],
    ["dog", "run", "park"],
]


def constraints() -> list[tuple[str, tt.constraints.Constraint]]:
    """Named constraints: patterns, JSON Schemas, keyword sets with a full stop at the end, and compositions."""
    c = tt.constraints
    found = [(f"regex {p}", c.regex(p)) for p in PATTERNS]
    found += [(f"schema {i}", c.json_schema(s)) for i, s in enumerate(SCHEMAS)]
    sentence = c.regex(r"[^.!?]*\.")
    found += [(f"words {'+'.join(w)}", c.keywords(w, inflections=False) & sentence) for w in WORDS]
    found += [(f"no {w[0]}", ~c.keywords(w, inflections=False) & sentence) for w in WORDS[:3]]
    return found


class CountedCalls:
    """A language model that counts how often it is asked for probabilities."""

    def __init__(self, lm: tt.TransformersLM) -> None:
        self.lm, self.calls = lm, 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self.lm, name)

    def log_probs(self) -> torch.Tensor:
        self.calls += 1
        return self.lm.log_probs()


def smallest_budget(fa: tt.Automaton, horizon: int) -> int:
    """The length in tokens of the shortest accepted sequence."""
    return int(tt.gcd(fa, horizon).feasible_lengths().nonzero()[0])


def refuses(
    lm: Any, prompt: str, name: str, fa: tt.Automaton, method: str, least: int, settings: dict[str, Any]
) -> None:
    """Raise unless one token less than ``least`` is refused, with the right need, before the model is called."""
    before, needed = lm.calls, None
    try:
        tt.smc(lm, prompt, fa, method, particles=1, max_new_tokens=least - 1, **settings)
    except tt.errors.BudgetTooSmall as error:
        needed = error.needed
    if needed != least or lm.calls != before:
        raise RuntimeError(
            f"{name}, a budget of {least - 1}: needed={needed}, {lm.calls - before} calls of the model"
        )


def run(pairs: int, particles: int, prompt: str = "Once upon a time,") -> dict[str, list[float]]:
    """The share of satisfied particles for each pair and method; raises if a budget too small is not refused."""
    model, tokenizer = tt.embedded.load_lm()
    hmm, vocab = tt.embedded.load_hmm(), tt.Vocabulary.from_tokenizer(tokenizer)
    lm: Any = CountedCalls(tt.TransformersLM(model, tokenizer))
    cases = []
    compiled = [(name, c, c.compile(vocab)) for name, c in constraints()]
    for extra in (0, 1, 2, 3, 4, 6, 8, 12, 16):
        cases += [(name, c, fa, extra) for name, c, fa in compiled]
    shares: dict[str, list[float]] = {"lcd": [], "gcd": [], "pgcd": []}
    for seed, (name, c, fa, extra) in enumerate(cases[:pairs]):
        least = smallest_budget(fa, 96)
        for method, found in shares.items():
            settings: dict[str, Any] = {"hmm": hmm} if method == "pgcd" else {}
            if extra == 0 and method != "lcd":
                refuses(lm, prompt, name, fa, method, least, settings)
            post = tt.smc(
                lm,
                prompt,
                fa,
                method,
                particles=particles,
                max_new_tokens=least + extra,
                seed=seed,
                ess_threshold=0,
                **settings,
            )
            good = [
                w > -torch.inf and c.accepts(text) and len(ids) <= least + extra
                for w, text, ids in zip(post.log_weights.tolist(), post.texts, post.token_ids, strict=True)
            ]
            found.append(sum(good) / particles)
    return shares


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pairs", type=int, default=200)
    parser.add_argument("--particles", type=int, default=4)
    parser.add_argument("--smoke", action="store_true", help="a few pairs, to see that it runs")
    args = parser.parse_args()
    torch.set_num_threads(1)
    shares = run(6 if args.smoke else args.pairs, args.particles)
    print(
        f"| method | satisfied within the budget, % of particles | pairs with every particle satisfied, of {len(shares['gcd'])} |"
    )
    print("| --- | --- | --- |")
    for method, found in shares.items():
        print(f"| {method} | {100 * sum(found) / len(found):.1f} | {sum(s == 1 for s in found)} |")
    print(f"\n{args.particles} particles a run, no resampling")


if __name__ == "__main__":
    main()
