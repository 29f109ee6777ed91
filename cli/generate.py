"""`tractile generate`: weighted samples given a constraint."""

import json
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from ..circuits.hmm import HMM
from ..constraints import Constraint, Vocabulary
from ..embedded import load_hmm
from ..inference.smc import Knowledge, LookaheadProposal, Posterior, smc
from ..inference.smc.arguments import PROPOSALS
from ..lm import TransformersLM
from .common import (
    AsJson,
    Device,
    Hmm,
    MaxNewTokens,
    Model,
    Seed,
    a_strength,
    check_guide,
    console,
    device_named,
    language_model,
    print_narrowings,
)
from .constraint_options import Canonical, Choice, OnNarrowed, narrowings, takes_constraint


class Proposal(StrEnum):
    """Proposal distributions: the names of :func:`.smc`."""

    lm = "lm"
    lcd = "lcd"
    gcd = "gcd"
    awrs = "awrs"
    pgcd = "pgcd"
    pgcd_mixture = "pgcd-mixture"
    pgcd_mixture_prefix = "pgcd-mixture-prefix"


@takes_constraint
def generate(
    prompt: Annotated[str, typer.Option(help="The text to continue.")],
    constraint: Constraint,
    canonical: Canonical = False,
    on_narrowed: OnNarrowed = Choice.warn,
    max_new_tokens: MaxNewTokens = 64,
    particles: Annotated[int, typer.Option(min=1, help="Number of weighted samples.")] = 16,
    proposal: Annotated[Proposal, typer.Option(help="Proposal distribution.")] = Proposal.pgcd,
    strength: Annotated[
        str,
        typer.Option(help="Strength of the HMM's lookahead in pgcd: a number, or auto: found by a pilot."),
    ] = "auto",
    seed: Seed = 0,
    model: Model = None,
    hmm: Hmm = None,
    device: Device = "cpu",
    html: Annotated[
        Path | None, typer.Option(dir_okay=False, help="Write a page of the run to this file.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Draw weighted samples from a language model given a constraint and a token budget."""
    cuts = narrowings(constraint, on_narrowed)
    network, tokenizer = language_model(model, device)
    lm, guide = TransformersLM(network, tokenizer), None
    if PROPOSALS[proposal.value]().needs is Knowledge.HMM:
        guide = load_hmm() if hmm is None else HMM.from_pretrained(str(hmm))
        check_guide(guide, hmm, model, lm)
        guide = guide if device == "cpu" else guide.to(device_named(device))
    guided = PROPOSALS[proposal.value]()
    if isinstance(guided, LookaheadProposal):
        guided = LookaheadProposal(a_strength(strength))
    posterior = smc(
        lm,
        prompt,
        constraint.compile(Vocabulary.from_tokenizer(tokenizer), canonical=canonical),
        proposal=guided if isinstance(guided, LookaheadProposal) else proposal.value,
        hmm=guide,
        particles=particles,
        max_new_tokens=max_new_tokens,
        seed=seed,
        progress=console.is_terminal and not as_json,
        trace=html is not None,
    )
    if html is not None:
        posterior.to_html(html)
    _print_posterior(prompt, replace(posterior, narrowed=tuple(cuts)), as_json)


def _print_posterior(prompt: str, posterior: Posterior, as_json: bool) -> None:
    """Print the distinct texts with their weights, log Z and ESS, and where the constraint accepts less than was asked.

    Raises if no particle satisfies it."""
    texts = posterior.group_by(lambda particle: particle.text)
    if as_json:
        print(
            json.dumps(
                {"prompt": prompt, "text": posterior.best.text, **posterior.to_dict()}, ensure_ascii=False
            )
        )
        return
    table = Table("weight", "text", box=None)
    for text, weight in texts.items():
        table.add_row(f"{weight:.3f}", escape(text))
    console.print(table)
    console.print(
        f"log Z = {posterior.log_evidence:.3f} nats, ESS = {posterior.ess:.1f} of {len(posterior.texts)} particles, "
        f"{posterior.distinct} distinct texts"
        + ("" if posterior.strength is None else f", strength of the lookahead {posterior.strength:g}")
    )
    print_narrowings(cut for cut in posterior.narrowed if cut.loses_values)
