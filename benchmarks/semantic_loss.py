"""A small tagger of 50 labelled sentences with and without the semantic loss of what is known of its tags.

    python benchmarks/semantic_loss.py [--seeds 8] [--weight 0.03]

The sentences are those of AddToPlaylist in SNIPS (five slots, BIO tags; 300 more without labels, 300 to test). What is known: an
I continues a span of its kind, no slot has two spans, and one is the playlist. The loss of this is that of the sentences without
labels. F1 of spans, share of sentences that are right, and share that satisfy the constraint, of the best tag of each word; the
first two also of the most probable sequence that satisfies the constraint. Means over seeds, each with its own split, and the
paired differences with their standard errors.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import zlib
from pathlib import Path

import torch
from torch import Tensor, nn

import tractile as tt

SLOTS = ["artist", "entity_name", "music_item", "playlist", "playlist_owner"]
TAGS, LENGTH = 1 + 2 * len(SLOTS), 20  # 0: O; 1 + 2 k: B of slot k; 2 + 2 k: I of slot k
Sentence = tuple[list[str], list[int]]


def sentences(folder: Path) -> list[Sentence]:
    """The queries with the tags of their words."""
    import zstandard

    with zstandard.open(folder / "train.jsonl.zst", "rt", encoding="utf-8") as lines:
        rows = [row for row in map(json.loads, lines) if row["intent"] == "AddToPlaylist"]
    found = [(row["text"].split(), tagged(row)) for row in rows]
    return [(words, tags) for words, tags in found if tags is not None and len(words) <= LENGTH]


def tagged(row: dict) -> list[int] | None:
    words = [plain(word) for word in row["text"].split()]
    tags = [0] * len(words)
    for slot, spans in row["slots"].items():
        for span in (list(map(plain, span.split())) for span in spans):
            places = range(len(words) - len(span) + 1)
            at = [i for i in places if words[i : i + len(span)] == span and not any(tags[i : i + len(span)])]
            if not at:
                return None
            begin = 1 + 2 * SLOTS.index(slot)
            tags[at[0] : at[0] + len(span)] = [begin] + [begin + 1] * (len(span) - 1)
    return tags


def plain(word: str) -> str:
    return word.lower().strip(".,?!")


def invented() -> list[Sentence]:
    dice, names = random.Random(0), [f"w{i}" for i in range(60)]
    return [
        (["add", a, "to", "my", b, c], [0, 5, 0, 9, 7, 8])
        for a, b, c in (dice.sample(names, 3) for _ in range(700))
    ]


def known() -> tt.Automaton:
    """BIO, each slot at most once, the playlist once. A state: the slots so far, and the one whose span may go on."""
    edges, number, todo = [], {(frozenset(), None): 0}, [(frozenset(), None)]
    while todo:
        used, open_ = state = todo.pop()
        after = [(1 + 2 * k, (used | {k}, k)) for k in range(len(SLOTS)) if k not in used]
        after += [(0, (used, None))] + ([] if open_ is None else [(2 + 2 * open_, state)])
        for tag, target in after:
            if target not in number:
                number[target] = len(number)
                todo.append(target)
            edges.append((number[state], tag, number[target]))
    accept = [i for (used, _), i in number.items() if SLOTS.index("playlist") in used]
    return tt.Automaton.from_edges(edges, 0, accept, TAGS)


class Tagger(nn.Module):
    """Embeddings, two convolutions over three words each, a score for each tag."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.drop = nn.Embedding(5011, 48), nn.Dropout(0.3)
        self.first, self.second = nn.Conv1d(48, 64, 3, padding=1), nn.Conv1d(64, 64, 3, padding=1)
        self.out = nn.Linear(64, TAGS)

    def forward(self, x: Tensor) -> Tensor:
        x = self.drop(3 * self.embed(x).mean(2)).transpose(1, 2)
        return self.out(self.second(self.drop(self.first(x).relu())).relu().transpose(1, 2))


def tensors(some: list[Sentence]) -> tuple[Tensor, Tensor]:
    """Hashed features of each word (word, end of the word, shape), and its tag; −100 past the end."""
    x, y = torch.full((len(some), LENGTH, 3), 5010), torch.full((len(some), LENGTH), -100)
    for i, (words, tags) in enumerate(some):
        for j, word in enumerate(words):
            text = plain(word).encode()
            shape = 5000 + 2 * word[:1].isupper() + any(map(str.isdigit, word))
            x[i, j] = torch.tensor([zlib.crc32(text) % 4000, 4000 + zlib.crc32(text[-3:]) % 1000, shape])
        y[i, : len(tags)] = torch.tensor(tags)
    return x, y


def spans(tags: list[int]) -> set[tuple[int, int, int]]:
    """(first, end, slot) of each span; an I of another slot, or without a B, begins one."""
    found, first, slot = set(), 0, None
    for i, tag in enumerate([*tags, 0]):
        if slot is not None and tag != 2 + 2 * slot:
            found.add((first, i, slot))
            slot = None
        if tag and slot is None:
            first, slot = i, (tag - 1) // 2
    return found


def measure(found: list[list[int]], gold: list[list[int]], fa: tt.Automaton) -> list[float]:
    pairs = [(spans(a), spans(b)) for a, b in zip(found, gold, strict=True)]
    f1 = 2 * sum(len(a & b) for a, b in pairs) / sum(len(a) + len(b) for a, b in pairs)
    right = sum(a == b for a, b in zip(found, gold, strict=True)) / len(gold)
    return [f1, right, sum(bool(tt.support(fa, torch.tensor([tags]))) for tags in found) / len(gold)]


def run(data: list[Sentence], fa: tt.Automaton, weight: float, seed: int, steps: int) -> list[float]:
    data = random.Random(seed).sample(data, len(data))
    (x, y), (free, own), test = tensors(data[:50]), tensors(data[50:350]), data[350:650]
    torch.manual_seed(seed)
    tagger = Tagger()
    optimiser = torch.optim.Adam(tagger.parameters(), 2e-3)
    for _ in range(steps):
        loss = nn.functional.cross_entropy(tagger(x).flatten(0, 1), y.flatten(), ignore_index=-100)
        if weight:
            some = torch.randint(len(free), (32,))
            loss = loss + weight * tt.constraint_loss(tagger(free[some]), fa, own[some] >= 0).mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    with torch.no_grad():
        logits = tagger.eval()(tensors(test)[0])
    gold = [tags for _, tags in test]
    best = [row[: len(tags)].argmax(1).tolist() for row, tags in zip(logits, gold, strict=True)]
    given = [
        tt.canvas(row[: len(tags)].log_softmax(1), fa).mpe.tokens[0].tolist()
        for row, tags in zip(logits, gold, strict=True)
    ]
    return measure(best, gold, fa) + measure(given, gold, fa)[:2]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--weight", type=float, default=0.03)
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--smoke", action="store_true", help="little, to see that it works")
    given = parser.parse_args()
    shared = Path(os.environ.get("TRACTILE_SHARED", Path(__file__).resolve().parents[2] / "shared"))
    data = invented() if given.smoke else sentences(shared / "data" / "snips")
    fa, seeds, steps = known(), range(2 if given.smoke else given.seeds), 3 if given.smoke else given.steps
    table = torch.tensor([[run(data, fa, w, 100 + s, steps) for w in (0, given.weight)] for s in seeds])
    print(
        f"{len(data):,} sentences             F1   right   legal | most probable legal sequence:  F1   right"
    )
    for i, name in enumerate(("without the loss", "with it")):
        print(f"{name:18}", " ".join(f"{100 * v:8.1f}" for v in table[:, i].mean(0).tolist()))
    change = 100 * (table[:, 1] - table[:, 0])
    error = change.std(0) / len(change) ** 0.5
    print("difference        ", *(f"{m:+.1f} ± {e:.1f}" for m, e in zip(change.mean(0), error, strict=True)))


if __name__ == "__main__":
    main()
