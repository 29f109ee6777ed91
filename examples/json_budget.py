"""JSON within a budget: what a story model writes under a schema as the budget shrinks, with LCD and with GCD.

The model knows nothing of JSON. LCD keeps every step valid and often doesn't finish; GCD always does, down to the
smallest budget for which there is a valid text, and below it refuses before the model runs.

    python examples/json_budget.py
"""

from transformers.utils.logging import disable_progress_bar

import tractile as tt
from tractile.embedded import load_lm
from tractile.inference.smc import importance_sampling

SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "age": {"type": "integer"},
        "likes": {"enum": ["cats", "dogs"]},
    },
    "required": ["name", "age", "likes"],
    "additionalProperties": False,
}
PROMPT = "Once upon a time, there was a girl: "


def main() -> None:
    """Print a line for each budget and method."""
    disable_progress_bar()
    model, tokenizer = load_lm()
    lm = tt.TransformersLM(model, tokenizer)
    fa = tt.constraints.json_schema(SCHEMA).compile(tt.Vocabulary.from_tokenizer(tokenizer))
    try:
        tt.gcd(fa, horizon=96).start(budgets=1)
    except tt.errors.BudgetTooSmall as error:
        needed = error.needed
        print(f"a budget of 1 token: {error}")
    assert needed is not None
    for budget in (96, 48, needed):
        lcd = importance_sampling(lm, PROMPT, fa, "lcd", particles=50, max_new_tokens=budget)
        finished = sum(particle.weight > 0 for particle in lcd.particles)
        gcd = tt.smc(lm, PROMPT, fa, proposal="gcd", particles=8, max_new_tokens=budget)
        print(f"{budget} tokens: LCD finishes {finished} of 50; GCD writes {gcd.best.text!r}")


if __name__ == "__main__":
    main()
