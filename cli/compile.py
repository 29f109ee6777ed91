"""`tractile compile`: what a constraint compiles to."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from ..constraints import Constraint, Vocabulary, report
from ..constraints import explain as explained
from ..embedded import LM_PATH
from .common import AsJson, Seed, console, load_tokenizer, print_facts, print_narrowings
from .constraint_options import Canonical, Choice, OnNarrowed, narrowings, takes_constraint

TEXT_BYTES = 64  # texts up to this length are counted where there are infinitely many


@takes_constraint
def compile_(
    constraint: Constraint,
    tokenizer: Annotated[
        Path | None, typer.Option(exists=True, help="Folder of a tokenizer; default: the embedded one.")
    ] = None,
    canonical: Canonical = False,
    on_narrowed: OnNarrowed = Choice.warn,
    explain: Annotated[
        str | None,
        typer.Option(
            help="A text: say where it stops to satisfy the constraint, and what could stand there."
        ),
    ] = None,
    draw: Annotated[Path | None, typer.Option(help="Save a picture: FILE.svg, .png or .pdf.")] = None,
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """Compile a constraint to a finite automaton over tokens and describe it: its size, how many texts it accepts, ten samples,
    and where it accepts less than was asked. Masks while generating need no finite automaton and may be wider."""
    if explain is not None:
        why = explained(constraint, explain)
        print(json.dumps(why.to_dict()) if as_json else why)
        raise typer.Exit(0 if why.accepted else 1)
    constraint = constraint.finite
    cuts = narrowings(constraint, on_narrowed)
    vocab = Vocabulary.from_tokenizer(load_tokenizer(tokenizer or LM_PATH))
    fa = constraint.compile(vocab, canonical=canonical)
    if draw is not None:
        if draw.suffix not in (".svg", ".png", ".pdf"):
            raise typer.BadParameter(f"--draw writes .svg, .png or .pdf, not {draw.name!r}")
        names = ["<special>" if t is None else repr(t.decode(errors="replace")) for t in vocab.token_bytes]
        fa.draw(names).savefig(draw)
        console.print(f"saved {draw}", markup=False)
    most = report.longest_in_tokens(fa)
    texts = None if most is None else report.number_of_texts(constraint.bytes_automaton)
    counted = texts is not None
    facts: dict[str, Any] = {
        "states": fa.num_states,
        "edges": fa.num_edges,
        "vocab_size": fa.vocab_size,
        "deterministic": fa.is_deterministic,
        "unambiguous": fa.is_unambiguous,
        "min_tokens": fa.fewest_after([]),
        "max_tokens": most,
        "texts": texts if counted else report.number_of_texts(constraint.bytes_automaton, TEXT_BYTES),
        "of_at_most_bytes": None if counted else TEXT_BYTES,
        "samples": report.random_texts(constraint.bytes_automaton, 10, seed),
    }
    if as_json:
        facts["narrowed"] = [cut._asdict() for cut in cuts]
    print_facts(facts, as_json)
    if not as_json:
        print_narrowings(cuts)
