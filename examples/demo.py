"""Text with given words, and JSON within a budget: three ways to keep a language model to a constraint, side by side.

Runs on the language model of a million parameters that ships with Tractile and the HMM distilled from it. It explains its
words as it goes, and saves a plot of how far each way is from the true distribution.

    python examples/demo.py [--out out/demo.png] [--quick]
"""

import argparse
from pathlib import Path

from matplotlib.figure import Figure
from transformers.utils.logging import disable_progress_bar

import tractile as tt
from tractile.inference.smc import Posterior, importance_sampling

PROMPT, BUDGET, WORDS = "Once upon a time, there was a", 32, ["dog", "park"]
METHODS = {"LCD": "lcd", "GCD": "gcd", "P-GCD": "pgcd"}
MEANINGS = """
A language model writes token by token. Three ways to make its text satisfy a constraint within a budget of tokens:

  LCD    leaves out each token that breaks the constraint at once. It may run out of tokens, or of ways on.
  GCD    leaves out each token after which the constraint cannot be met in the tokens that are left.
  P-GCD  also prefers tokens by how probably they lead there, which a hidden Markov model (HMM) of the model's text says.

  particle  one text on the way; particles are weighted, and copied or dropped by their weights, so that together they
            are samples of p(text | constraint): of what the model itself would write, given the constraint
  log Z     the logarithm of p(constraint): how probable it is that the model satisfies it by itself
"""
MEMBERS = {"name": {"type": "string"}, "age": {"type": "integer"}, "likes": {"enum": ["cats", "dogs"]}}
SCHEMA = {"type": "object", "properties": MEMBERS, "required": list(MEMBERS), "additionalProperties": False}


def words(lm: tt.TransformersLM, hmm: tt.HMM, fa: tt.Automaton) -> None:
    """What each way writes where the text must contain the words."""
    print(f"The words {' and '.join(WORDS)} in any form, within {BUDGET} tokens after {PROMPT!r}:\n")
    masked = importance_sampling(lm, PROMPT, fa, "lcd", particles=100, max_new_tokens=BUDGET)
    misses, first = sum(p.weight == 0 for p in masked.particles), " ".join(masked.particles[0].text.split())
    print(f"LCD    misses the words in {misses} of 100 texts; the first: … {first}")
    for name in ("GCD", "P-GCD"):
        found = tt.smc(lm, PROMPT, fa, METHODS[name], hmm, particles=16, max_new_tokens=BUDGET)
        print(
            f"{name:6} log Z ≈ {found.log_evidence:.2f} nats, {found.distinct} different texts of 16 particles:"
        )
        for text, weight in list(found.group_by(lambda particle: particle.text).items())[:3]:
            print(f"         {weight:.3f}  … {' '.join(text.split())}")


def kind(particle: tt.inference.smc.Particle) -> tuple[str, int]:
    """A text's cell in the plot: which word comes first, and in which third of the text the last one begins."""
    places = {word: particle.text.find(word) for word in WORDS}
    return min(places, key=lambda word: places[word]), int(3 * max(places.values()) / len(particle.text))


def distance(found: Posterior, truth: dict[tuple[str, int], float]) -> float:
    """Total variation ½ Σ |weight − truth| over the cells; 1 for a run in which no particle satisfies the constraint."""
    cells = {} if found.failed else found.group_by(kind)
    return 0.5 * sum(abs(cells.get(c, 0) - truth.get(c, 0)) for c in cells.keys() | truth) if cells else 1.0


def plot(lm: tt.TransformersLM, hmm: tt.HMM, fa: tt.Automaton, quick: bool, out: Path) -> None:
    """The mean distance of each way to the truth, a large run of P-GCD, by the number of particles."""
    sizes, runs, many = ([1, 4, 16], 2, 128) if quick else ([1, 4, 16, 64], 8, 1024)
    print(f"\nHow far are k particles from p(text | constraint)? 0: the same, 1: apart; {runs} runs:\n")
    truth = tt.smc(lm, PROMPT, fa, "pgcd", hmm, many, max_new_tokens=BUDGET, seed=1000).group_by(kind)
    axes = Figure(figsize=(6.4, 4.2), layout="constrained").subplots()
    for name, proposal in METHODS.items():
        found = [
            [tt.smc(lm, PROMPT, fa, proposal, hmm, k, max_new_tokens=BUDGET, seed=s) for s in range(runs)]
            for k in sizes
        ]
        means = [sum(distance(one, truth) for one in each) / runs for each in found]
        print(f"{name:6} {'   '.join(f'k = {k}: {mean:.2f}' for k, mean in zip(sizes, means, strict=True))}")
        axes.plot(sizes, means, marker="o", label=name)
    axes.set(xscale="log", ylim=(0, 1.02), xlabel="particles k", ylabel="total variation")
    axes.set_title(f"{' and '.join(WORDS)}: distance to p(text | constraint), by their order and place")
    axes.set_xticks(sizes, [str(k) for k in sizes])
    axes.minorticks_off()
    axes.legend(loc="lower left")
    out.parent.mkdir(parents=True, exist_ok=True)
    axes.figure.savefig(out, dpi=150)
    print(f"\nThe plot is in {out}.")


def json_within_a_budget(lm: tt.TransformersLM, vocab: tt.Vocabulary) -> None:
    """A case that LCD loses: it keeps each step valid, and the text is cut all the same."""
    fa, prompt = tt.constraints.json_schema(SCHEMA).compile(vocab), "There was a girl: "
    print("\nJSON with a name, an age and what she likes, from a model that has read nothing but stories:\n")
    least = fa.fewest_after([])
    for budget in (96, 48, least):
        lcd = importance_sampling(lm, prompt, fa, "lcd", particles=50, max_new_tokens=budget)
        ended = sum(particle.weight > 0 for particle in lcd.particles)
        gcd = tt.smc(lm, prompt, fa, "gcd", particles=50, max_new_tokens=budget)
        assert all(gcd.weights > 0)
        print(f"{budget} tokens: LCD ends {ended} of 50 texts, GCD all of them: {gcd.best.text}")
    try:
        tt.smc(lm, prompt, fa, "gcd", max_new_tokens=least - 1)
    except tt.errors.BudgetTooSmall as error:
        print(f"{least - 1} tokens: {error}")


def main() -> None:
    parser = argparse.ArgumentParser(description="LCD, GCD and P-GCD on the model that ships.")
    parser.add_argument("--out", type=Path, default=Path("out/demo.png"), help="where the plot goes")
    parser.add_argument("--quick", action="store_true", help="a coarse plot")
    arguments = parser.parse_args()
    disable_progress_bar()
    print(MEANINGS)
    (model, tokenizer), hmm = tt.embedded.load_lm(), tt.embedded.load_hmm()
    lm, vocab = tt.TransformersLM(model, tokenizer), tt.Vocabulary.from_tokenizer(tokenizer)
    fa = tt.constraints.keywords(WORDS).compile(vocab, require_eos=False)
    words(lm, hmm, fa)
    plot(lm, hmm, fa, arguments.quick, arguments.out)
    json_within_a_budget(lm, vocab)


if __name__ == "__main__":
    main()
