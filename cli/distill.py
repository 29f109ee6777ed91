"""`tractile distill`: a language model into an HMM."""

import dataclasses
import os
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import torch
import typer

from .. import constraints, distill
from ..circuits.hmm import HMM
from ..constraints import Vocabulary
from ..distill.checkpoint import last_step
from ..embedded import LM_PATH
from ..lm import TransformersLM
from .common import (
    AsJson,
    Device,
    MaxNewTokens,
    Model,
    Seed,
    console,
    device_named,
    language_model,
    print_facts,
)
from .distill_parts import (
    Transition,
    grown,
    is_first,
    parse_share,
    print_once,
    read_prompts,
    shards_drawn,
    told_when_stopped,
)

distill_app = typer.Typer(help="Distil a language model into an HMM.")

Corpus = Annotated[Path, typer.Option("--corpus", exists=True, file_okay=False, help="Folder of a corpus.")]


class Init(StrEnum):
    """The initialisation of EM."""

    latent = "latent"
    random = "random"


@distill_app.command(name="sample")
def distill_sample(
    max_new_tokens: MaxNewTokens,
    out: Annotated[Path, typer.Option(help="Folder of the corpus.")],
    num_sequences: Annotated[int | None, typer.Option(min=1, help="Number of sequences.")] = None,
    seed: Seed = 0,
    prompts: Annotated[
        Path | None,
        typer.Option(
            exists=True,
            dir_okay=False,
            help='One prompt in a line, or FILE.jsonl with {"prompt": text} or {"tokens": ids} in each.',
        ),
    ] = None,
    text: Annotated[
        Path | None,
        typer.Option(exists=True, dir_okay=False, help="Existing text instead, a document in each line."),
    ] = None,
    temperature: Annotated[float, typer.Option(help="Temperature of the model.")] = 1.0,
    shard_size: Annotated[int, typer.Option(min=1, help="Sequences in a file.")] = 4096,
    batch_size: Annotated[int, typer.Option(min=1, help="Sequences drawn at once.")] = 512,
    vllm: Annotated[
        bool, typer.Option("--vllm", help="Draw with vLLM, which must be installed; it chooses its device.")
    ] = False,
    share: Annotated[
        str,
        typer.Option(
            help="I/N, I from 0 to N - 1: draw this share alone, beside N - 1 other processes (one vLLM engine a GPU)."
        ),
    ] = "",
    device: Device = "cpu",
    model: Model = None,
) -> None:
    """Sample a corpus from a language model; the same command resumes an interrupted run.

    Under torchrun the ranks share the work; with --share, processes that know nothing of each other do."""
    if (text is None) == (num_sequences is None):
        raise typer.BadParameter("give --num-sequences to draw from the model, or --text for existing text")
    if vllm and (text is not None or temperature != 1):
        raise typer.BadParameter(
            "--vllm draws from the model at temperature 1: leave --text and --temperature out"
        )
    if vllm and int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise typer.BadParameter(
            "--vllm starts an engine of its own: instead of torchrun, start a process for each GPU with CUDA_VISIBLE_DEVICES "
            "and --share"
        )
    part = parse_share(share)
    if part is not None and text is not None:
        raise typer.BadParameter("--share is for drawing; existing text is shared by torchrun")
    name = "embedded" if model is None else model.name
    lm: TransformersLM | distill.VLLM
    if vllm:
        lm = distill.VLLM.load(LM_PATH if model is None else model, seed)
        tokenizer = lm.tokenizer
    else:
        network, tokenizer = language_model(model, device)
        lm = TransformersLM(network, tokenizer, temperature)
    asked = [""] if prompts is None else read_prompts(prompts)
    settings: dict[str, Any] = {
        "seed": seed,
        "shard_size": shard_size,
        "batch_size": batch_size,
        "model": name if temperature == 1 else f"{name} at temperature {temperature}",
        "tokenizer": tokenizer,
    }
    with told_when_stopped(out, lambda: shards_drawn(out)):
        if num_sequences is None:
            assert text is not None
            lines = text.read_text(encoding="utf-8-sig").splitlines()
            corpus = distill.from_text(
                lines, tokenizer, out, max_new_tokens, shard_size=shard_size, model=name
            )
        elif part is None:
            corpus = distill.sample(lm, out, num_sequences, max_new_tokens, asked, **settings)
        else:
            missing = distill.sample_share(
                lm, out, num_sequences, max_new_tokens, asked, share=part[0], of=part[1], **settings
            )
            console.print(f"share {share} is drawn; {missing} shards of others are missing in {out}")
            return
    print_once(f"{len(corpus)} sequences, {corpus.num_tokens} tokens in {out}")


@distill_app.command(name="train")
def distill_train(
    corpus: Corpus,
    hidden: Annotated[int, typer.Option(min=1, help="Number of hidden states.")],
    out: Annotated[Path, typer.Option(help="Folder of the HMM.")],
    transition: Annotated[Transition, typer.Option(help="Form of the transition matrix.")] = Transition.dense,
    epochs: Annotated[int, typer.Option(min=0, help="Passes over the corpus; 0 keeps the start.")] = 6,
    step_size: Annotated[float, typer.Option(help="The first step of EM, at most 1; it falls to 0.")] = 1.0,
    init: Annotated[
        Init | None,
        typer.Option(
            help="Where EM starts: clusters of --model's hidden states (default with it), or random."
        ),
    ] = None,
    model: Model = None,
    begin_from: Annotated[
        list[Path] | None,
        typer.Option(
            "--from",
            exists=True,
            file_okay=False,
            help="Folder of a smaller HMM to grow by splitting its states; given twice, their Kronecker product (monarch).",
        ),
    ] = None,
    batch_size: Annotated[int, typer.Option(min=1, help="Sequences in a step of EM.")] = 2048,
    chunk_size: Annotated[int, typer.Option(min=1, help="Sequences in memory at once.")] = 256,
    pseudocount: Annotated[float, typer.Option(help="Added to every count.")] = 1e-3,
    token_dropout: Annotated[float, typer.Option(help="Share of tokens that a step does not see.")] = 0.0,
    held_out: Annotated[float, typer.Option(help="Share of sequences kept apart for testing.")] = 0.02,
    checkpoint_minutes: Annotated[float, typer.Option(help="Minutes between checkpoints.")] = 10.0,
    half: Annotated[bool, typer.Option("--half", help="Messages in bfloat16, counts in float32.")] = False,
    shard: Annotated[
        bool,
        typer.Option(
            "--shard",
            help="Under torchrun, ranks share the hidden states: for an HMM that is too large for one.",
        ),
    ] = False,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace another run, or another HMM, that --out holds.")
    ] = False,
    device: Device = "cpu",
    seed: Seed = 0,
) -> None:
    """Fit an HMM to a corpus by expectation maximisation; the same command resumes an interrupted run.

    Leaves log.jsonl and learning-curve.png beside the HMM. Under torchrun the ranks train together.
    """
    data = distill.Corpus.load(corpus)

    def latent() -> HMM:
        network, tokenizer = language_model(model, device)
        return distill.initialise(network, tokenizer, data, hidden, transition.value, seed=seed)

    settings: dict[str, Any] = {
        "step_size": step_size,
        "batch_size": batch_size,
        "chunk_size": chunk_size,
        "pseudocount": pseudocount,
        "token_dropout": token_dropout,
        "held_out": held_out,
        "checkpoint_minutes": checkpoint_minutes,
        "seed": seed,
        "messages": torch.bfloat16 if half else None,
        "device": device_named(device),
        "overwrite": overwrite,
    }
    from_model = init is Init.latent or (init is None and model is not None)
    if begin_from and (init is not None or len(begin_from) > 2):
        raise typer.BadParameter("--from is given once or twice, and without --init")
    if shard and (from_model or len(begin_from or []) > 1):
        raise typer.BadParameter(
            "--shard begins at random, or with one HMM of as many states: make it before, in one process (--epochs 0), and give "
            "it as --from"
        )
    initial: HMM | Callable[[], HMM] | None = latent if from_model and not begin_from else None
    if begin_from and not shard:
        initial = grown([HMM.from_pretrained(path) for path in begin_from], hidden, transition, seed)
    with told_when_stopped(out, lambda: f"after the checkpoint of step {last_step(out)}"):
        if shard:
            first = begin_from[0] if begin_from else None
            distill.train_sharded(data, hidden, out, transition.value, epochs, initial=first, **settings)
        else:
            made_by = f"clusters of hidden states of {'the embedded model' if model is None else model.name}"
            distill.train(
                data,
                hidden,
                transition.value,
                epochs,
                out=out,
                initial=initial,
                initial_name=made_by,
                **settings,
            )
    print_once(f"HMM of {hidden} hidden states over {data.manifest.vocab_size} tokens in {out}")


@distill_app.command(name="eval")
def distill_eval(
    hmm: Annotated[Path, typer.Option(exists=True, help="Folder of the HMM.")],
    corpus: Corpus,
    keyword: Annotated[
        list[str] | None,
        typer.Option(help="May be repeated: how well it guides --model towards texts with these words."),
    ] = None,
    model: Model = None,
    particles: Annotated[int, typer.Option(min=2, help="Particles a prompt, with --keyword.")] = 32,
    device: Device = "cpu",
    as_json: AsJson = False,
) -> None:
    """Evaluate an HMM on a corpus: nats per token, and the divergence from the model that drew it.

    With --keyword, also the spread of the particles' log weights under GCD and under P-GCD with this HMM, on the first eight
    prompts of the corpus. Under torchrun the ranks share the work.
    """
    where = device_named(device)
    trained, data = HMM.from_pretrained(hmm).to(where), distill.Corpus.load(corpus)
    facts = dataclasses.asdict(distill.evaluate(trained, data))
    if keyword:
        network, tokenizer = language_model(model, device)
        data.check_tokenizer(tokenizer)
        guides: dict[str, Any] = {"gcd": None, "pgcd": trained}
        fa = constraints.keywords(keyword).compile(Vocabulary.from_tokenizer(tokenizer), require_eos=False)
        worth = distill.guidance(
            TransformersLM(network, tokenizer),
            data.manifest.prompts[:8],
            fa,
            guides,
            data.manifest.max_new_tokens,
            particles=particles,
        )
        facts["guidance"] = {name: dataclasses.asdict(found) for name, found in worth.items()}
    if not is_first():
        return
    if not as_json:
        for name in ("by_position", "lm_by_position"):
            facts[name] = facts[name] and " ".join(f"{nats:.2f}" for nats in facts[name])
        for name, found in facts.pop("guidance", {}).items():
            facts[name] = (
                f"log weights ± {found['deviation']:.2f} nats, effective sample size {found['effective']:.0%}"
            )
    print_facts(facts, as_json)
