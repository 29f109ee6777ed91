"""The fewest tokens of a text that a JSON Schema accepts: exact, and counted terminal by terminal.

A bound that adds up the tokens of one grammar terminal after another (a string, a number, a brace, a comma), as an LL(1) parser's
stack allows (TruncProof, arXiv 2605.13076), does without tokens that go over from one terminal to the next, such as `":` or
`"},{"`. Here it is the exact minimum over a vocabulary without them, which is the least that such a bound can be: all orders of
members, all choices and all shortest strings are still searched. A budget between the two numbers has a text, and a sampler
with the bound refuses it, or ends a text sooner than it must.

    python benchmarks/minimum.py [--smoke] [--size N] [--tokenizer FILE]

Without ``--tokenizer``, a ``tokenizer.json`` with ``<|endoftext|>``, the tokens are those of the embedded model. Schemas: the
first ``--size`` of the sample beside the repository in the order of a hash, or, without it and with ``--smoke``, those of
``schemas.py``.
"""

import argparse
import statistics
import sys
from typing import Any

from masks_sample import rows
from transformers import PreTrainedTokenizerFast

import tractile as tt

STRUCTURE = b"{}[]:,"


def within_a_terminal(token: bytes) -> bool:
    """Whether a token can be part of one JSON terminal with nothing of the next.

    A token that may be either counts as the latter: ``,"`` is the end of a string, or a comma and a string's beginning.
    """
    bare = token.strip(b" \n\t\r")
    if len(bare) == 1:
        return True
    quote = bare.find(b'"')
    if quote < 0:
        return not any(byte in STRUCTURE for byte in bare)
    if quote == 0:
        rest = bare[1:]
        return b'"' not in rest[:-1]
    return quote == len(bare) - 1 and not any(byte in STRUCTURE for byte in bare)


def fewest(schema: Any, vocab: tt.Vocabulary) -> int:
    """The length in tokens of the shortest text. Raises :class:`TractileError` where the schema has none or does not compile."""
    fa = tt.constraints.json_schema(schema).compile(vocab)
    try:
        tt.gcd(fa, 1).start(1).mask()
    except tt.errors.BudgetTooSmall as error:
        if error.needed is None:
            raise
        return error.needed
    return 1


def main(arguments: list[str] | None = None) -> list[tuple[int, int]]:
    """Print the table; returns (exact, terminal by terminal) for each schema."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--smoke", action="store_true", help="as little as shows that it works")
    parser.add_argument("--size", type=int, default=333, help="so many schemas")
    parser.add_argument(
        "--tokenizer", metavar="FILE", help="a tokenizer.json instead of the embedded model's"
    )
    asked = parser.parse_args(arguments)
    if asked.tokenizer:
        tokenizer = PreTrainedTokenizerFast(tokenizer_file=asked.tokenizer, eos_token="<|endoftext|>")
    else:
        tokenizer = tt.embedded.load_lm()[1]
    whole = tt.Vocabulary.from_tokenizer(tokenizer)
    tokens = [token if token is None or within_a_terminal(token) else None for token in whole.token_bytes]
    parts = tt.Vocabulary(tokens, whole.eos_token_id)
    found: list[tuple[int, int]] = []
    failed = 0
    for _, schema, _ in rows(asked.size, asked.smoke):
        try:
            found.append((fewest(schema, whole), fewest(schema, parts)))
        except tt.TractileError:
            failed += 1
    more = [bound - exact for exact, bound in found]
    ratio = [bound / exact for exact, bound in found if exact]
    print(f"{len(whole.token_bytes):,} tokens, {sum(t is not None for t in tokens):,} of them within a terminal; "
          f"{len(found)} schemas, {failed} without a text or not compiled\n")  # fmt: skip
    print("| fewest tokens | median | mean | 95th percentile |\n| --- | --- | --- | --- |")
    for i, name in enumerate(("exact", "terminal by terminal")):
        counts = sorted(pair[i] for pair in found)
        print(f"| {name} | {statistics.median(counts):g} | {statistics.fmean(counts):.1f} | "
              f"{counts[int(0.95 * (len(counts) - 1))]} |")  # fmt: skip
    larger = 100 * sum(m > 0 for m in more) / len(more)
    print(f"\nthe bound is larger for {larger:.0f} % of the schemas, by {statistics.fmean(more):.1f} tokens on average and "
          f"{max(more)} at most; bound / exact: median {statistics.median(ratio):.2f}, most {max(ratio):.2f}")  # fmt: skip
    return found


if __name__ == "__main__":
    main(sys.argv[1:])
