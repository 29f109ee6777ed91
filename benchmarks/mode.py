"""How often is greedy decoding under a mask not the most probable answer, and how often can `tt.mode` prove which one is?

Gemma 3 270M (float32) writes values of small schemas (`small` in ``peers/questions.py``) behind three solved ones; a newline ends
the answer. *Certified*: no valid sequence of tokens is more probable, proved within 200 passes of 16 rows. *Lost*: where the
greedy text is less probable than the best one found, by how many nats; *gap*: where nothing is proved, by how many nats another
text can be better at most; both are medians.

    python benchmarks/mode.py [--schemas 200] [--smoke]
"""

import argparse
from collections import defaultdict
from itertools import islice
from statistics import mean, median

import torch
from peers.questions import small

import tractile as tt
from tractile_bench.real import load_gemma
from tractile_bench.stop_at_newline import NewlineStopLM


def main() -> None:
    """Search for each schema, and print a line for each kind."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--schemas", type=int, default=200)
    parser.add_argument("--smoke", action="store_true", help="the embedded model on three schemas")
    args = parser.parse_args()
    torch.set_num_threads(1)
    model, tokenizer = tt.embedded.load_lm() if args.smoke else load_gemma()
    lm = NewlineStopLM(tt.TransformersLM(model, tokenizer), tt.Vocabulary.from_tokenizer(tokenizer))
    found = defaultdict[str, list[tt.decoding.MostProbable]](list)
    count, shots, passes = (3, 0, 20) if args.smoke else (args.schemas, 3, 200)
    settings = {"max_new_tokens": 48, "width": 16, "passes": passes}
    for question in islice(small(shots), count):
        try:
            best = tt.mode(lm, tokenizer, question.prompt, question.schema, **settings)
        except (tt.errors.EmptyLanguage, tt.errors.BudgetTooSmall) as error:
            print(f"{question.id}: {error}")
            continue
        found[question.kind].append(best)
        found["all"].append(best)
    for kind, each in found.items():
        lost = [one.lost_by_greedy for one in each if one.lost_by_greedy > 1e-3]
        gaps = [one.gap for one in each if not one.certified]
        print(
            f"{kind}: {len(each)}, {len(each) - len(gaps)} certified in {mean(one.passes for one in each):.0f} passes, "
            f"gap {median(gaps or [0.0]):.1f}; greedy is not the best in {len(lost)}, lost {median(lost or [0.0]):.1f}"
        )


if __name__ == "__main__":
    main()
