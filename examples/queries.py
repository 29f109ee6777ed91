"""One object, many questions: an HMM, an automaton and their product.

python examples/queries.py
"""

import torch

import tractile as tt

WALK, SHOP, UMBRELLA = range(3)
NAMES = ["walk", "shop", "umbrella"]
DAYS = 6


def week(days: torch.Tensor) -> str:
    """A sequence of tokens in words."""
    return " ".join(NAMES[int(day)] for day in days)


def main() -> None:
    """The weather as an HMM, the constraint "the umbrella on two days in a row", and what the two can be asked."""
    hmm = tt.HMM(
        initial=torch.tensor([0.6, 0.4]),  # sun, rain
        transition=torch.tensor([[0.8, 0.2], [0.4, 0.6]]),
        emission=torch.tensor([[0.6, 0.3, 0.1], [0.1, 0.3, 0.6]]),
    )
    anything = [WALK, SHOP, UMBRELLA]
    fa = tt.Automaton.from_edges(
        [(0, [WALK, SHOP], 0), (0, UMBRELLA, 1), (1, [WALK, SHOP], 0), (1, UMBRELLA, 2), (2, anything, 2)],
        start=0,
        accept=[2],
        vocab_size=3,
    )
    product = hmm * fa  # the HMM's distribution on the accepted sequences; nothing is materialised

    print(f"accepted sequences of {DAYS} days: {tt.count(fa, n=DAYS)} of {3**DAYS}")
    print(f"p(constraint): {tt.partition(product, n=DAYS).exp():.4f}")
    print(f"Viterbi path:  {week(tt.mpe(product, n=DAYS)[0][0])}")

    generator = torch.Generator().manual_seed(0)
    for days in tt.sample(product, 3, n=DAYS, generator=generator):
        print(f"a sample:      {week(days)}")

    # Evidence: a walk on the first day, no walk on the last; nothing is known of the others.
    evidence = {0: WALK, DAYS - 1: {SHOP, UMBRELLA}}
    for day in range(1, DAYS - 1):
        probs = tt.conditional(product, evidence, day, n=DAYS)[0].exp()
        print(f"day {day + 1}: " + ", ".join(f"{name} {p:.3f}" for name, p in zip(NAMES, probs, strict=True)))

    # Token by token: what may come next, and how probably, given the constraint and the days left.
    query = tt.pgcd(hmm, fa, horizon=DAYS).start(batch=1)
    for day, token in enumerate([WALK, SHOP, SHOP, WALK, UMBRELLA, UMBRELLA]):
        probs = query.scores()[0].exp()
        print(f"day {day + 1}, next: " + ", ".join(f"{n} {p:.3f}" for n, p in zip(NAMES, probs, strict=True)))
        query.advance(torch.tensor([token]))


if __name__ == "__main__":
    main()
