"""`tractile bench`: the papers' tasks with any model, one command for each task; and reports of the results."""

import functools
import inspect
import json
from collections.abc import Callable
from enum import StrEnum
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import torch
import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from tractile import __version__, distill
from tractile.circuits.hmm import HMM
from tractile.cli.common import (
    Device,
    Hmm,
    Model,
    a_strength,
    check_guide,
    complain,
    console,
    device_named,
    language_model,
)
from tractile.constraints import Vocabulary
from tractile.layers import Monarch
from tractile.lm import TransformersLM
from tractile.lm.base import Prompt

from . import TASKS, Task
from .chat import chat_prompt
from .corpus_metrics import write_corpus_metrics
from .guides import ContextHead, Copying, cache_model, copying_nats, fit_copying, prompted
from .guides.copying import FILE as COPYING
from .guides.prompted import READERS
from .methods import METHODS, PAPERS, named
from .models import load_small_lm, small_hmm_path
from .prompts import few_shot
from .report.document import report
from .results import Results
from .runner import Bench, Settings, choose, fingerprint

SAMPLE = Path(__file__).resolve().parent / "sample"
"""The folder with a few examples of each task, by the task's name."""

SCORES = 2**24
"""Scores of next tokens at once: tokens times particles times examples. P-GCD takes about 130 bytes for each."""

bench_app = typer.Typer(
    add_completion=False, help="The papers' tasks: run them with any model, and report the results."
)


class DType(StrEnum):
    """The precision of the language model."""

    float32 = "float32"
    float16 = "float16"
    bfloat16 = "bfloat16"


def bench(
    task: Task,
    name: str,
    options: dict[str, Any],
    data: Annotated[
        Path | None,
        typer.Option(
            exists=True, help="Folder or file of the data set; default: a few examples made for this."
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder of the results; a run begun there is resumed.")
    ] = None,
    methods: Annotated[
        str, typer.Option(help=f"Of {', '.join(METHODS)}; groups: {', '.join(PAPERS)}.")
    ] = "paper1",
    particles: Annotated[str, typer.Option(help="Numbers of particles.")] = "1,2,4,8,16",
    limit: Annotated[
        int | None, typer.Option(min=1, help="Examples, chosen by the seed; default: all.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the choice of examples, and of the first runs.")] = 0,
    repeats: Annotated[int, typer.Option(min=1, help="Runs of everything, from seed, seed + 1, ….")] = 1,
    split: Annotated[str, typer.Option(help="Part of the data set.")] = "test",
    max_new_tokens: Annotated[
        int | None, typer.Option(min=1, help="Token budget, the end token included; default: the task's.")
    ] = None,
    temperature: Annotated[float, typer.Option(help="Temperature of the model.")] = 1.0,
    draws: Annotated[
        int, typer.Option(min=1, help="Draws of rejection sampling for an example, at most.")
    ] = 256,
    w: Annotated[float, typer.Option(min=0, max=1, help="The model's share in pgcd-mixture.")] = 0.5,
    strength: Annotated[
        str, typer.Option(help="Strength of the lookahead in pgcd: a number, or auto: found by a pilot.")
    ] = "auto",
    boost: Annotated[
        float,
        typer.Option(
            min=0,
            help="Weight of the cache model: the HMM emits tokens of the prompt 1 + boost times as readily.",
        ),
    ] = 0.0,
    copying: Annotated[
        bool,
        typer.Option(help="Let the HMM copy from the prompt, if its folder holds parameters of copying."),
    ] = True,
    shots: Annotated[
        int, typer.Option(min=0, help="Solved examples of the training split before each prompt.")
    ] = 0,
    chat: Annotated[
        bool, typer.Option("--chat", help="Prompts as turns of the model's chat template.")
    ] = False,
    batch: Annotated[
        int | None,
        typer.Option(min=1, help="Examples at once; default: 16, fewer for many particles and tokens."),
    ] = None,
    write_prompts: Annotated[
        Path | None,
        typer.Option(help="Write the prompts to FILE.jsonl for `tractile distill sample`, and run nothing."),
    ] = None,
    dtype: Annotated[
        DType | None, typer.Option(help="Precision; default: float32, on a GPU bfloat16.")
    ] = None,
    device: Device = "cpu",
    model: Model = None,
    hmm: Hmm = None,
) -> None:
    """Run a task; :func:`command_of` supplies ``task``, ``name`` and ``options``, the other parameters are options."""
    if (out is None) == (write_prompts is None):
        raise typer.BadParameter("give --out for the results, or --write-prompts")
    chosen, sizes = named(methods), _numbers(particles)
    examples = choose(task, split, limit, seed)
    dropped = {reason: len(ids) for reason, ids in task.dropped.items()}
    for reason, number in dropped.items():
        console.print(f"left out: {reason}: {number}", markup=False)
    if not examples:
        raise typer.BadParameter(f"--split {split}: the data has no examples there")
    asked = few_shot(task, shots)
    if write_prompts is not None:
        tokenizer = language_model(model, default=load_small_lm)[1] if chat else None
        with write_prompts.open("w", encoding="utf-8") as file:
            for example in examples:
                line: dict[str, Any] = {"prompt": asked(example)}
                if tokenizer is not None:
                    line = {"tokens": chat_prompt(tokenizer, asked(example))}
                file.write(json.dumps(line, ensure_ascii=False) + "\n")
        console.print(f"{len(examples)} prompts in {write_prompts}")
        return
    assert out is not None
    network, tokenizer = language_model(model, default=load_small_lm)
    network = network.to(device_named(device), _precision(dtype, device))
    tokens = network.get_input_embeddings().num_embeddings
    batch = batch or max(1, min(16, SCORES // (tokens * max(sizes))))
    settings = Settings(
        methods=chosen,
        particles=sizes,
        seeds=range(seed, seed + repeats),
        max_new_tokens=max_new_tokens or task.max_new_tokens,
        batch=batch,
        draws=draws,
        w=w,
        strength=a_strength(strength),
    )
    folder = _guide_folder(hmm, name, options) if any(METHODS[method].guided for method in chosen) else None
    guide = None if folder is None else HMM.from_pretrained(folder).to(device_named(device))
    context = folder is not None and ContextHead.is_in(folder)
    copied = (
        Copying.from_pretrained(folder) if copying and folder is not None and Copying.is_in(folder) else None
    )
    lm = TransformersLM(network, tokenizer, temperature, keep_prompts=batch)
    if guide is not None:
        check_guide(guide, hmm, model, lm)
    files = [name for name in READERS if copying or name != COPYING]

    def guide_of(prompt: Prompt) -> HMM:
        assert guide is not None
        assert folder is not None
        made = prompted(guide, folder, lm, prompt, files)
        if boost:
            ids = tokenizer(prompt).input_ids if isinstance(prompt, str) else list(prompt)
            made = cache_model(made, set(ids) - set(tokenizer.all_special_ids), boost)
        return made

    by_prompt = context or copied is not None or boost
    shown = (lambda example: chat_prompt(tokenizer, asked(example))) if chat else asked
    runner = Bench(
        task,
        lm,
        Vocabulary.from_tokenizer(tokenizer),
        settings,
        guide_of if guide is not None and by_prompt else guide,
        shown,
    )
    head = {
        "task": name,
        "metric": task.metric,
        "one_line": task.one_line,
        "options": {key: str(value) if isinstance(value, Path) else value for key, value in options.items()},
        "data": "sample" if data is None else data.resolve().name,
        "split": split,
        "dropped": dropped,
        "model": _described(model, network.parameters()),
        "hmm": None if guide is None else _described_hmm(hmm, guide, context, boost, copied),
        "dtype": str(network.dtype).removeprefix("torch."),
        "device": torch.device(device).type,
        "temperature": temperature,
        "chat": chat,
        **({"shots": shots} if shots else {}),
        "max_new_tokens": settings.max_new_tokens,
        "draws": draws,
        "w": w,
        "strength": a_strength(strength),
        "batch": batch,
        "seed": seed,
        "versions": {
            "tractile": __version__,
            "torch": torch.__version__,
            "transformers": version("transformers"),
        },
    }
    results = Results(out, head)
    columns = (TextColumn(name), BarColumn(), MofNCompleteColumn(), TextColumn("runs"), TimeElapsedColumn())
    try:
        with Progress(*columns, console=console, transient=True) as bar:
            progress = bar.add_task("", total=runner.number(examples))
            runner.run(examples, results, lambda runs: bar.update(progress, advance=runs))
    except KeyboardInterrupt:
        complain(
            f"stopped after {len(results.done)} runs; {out} keeps them, and the same command goes on from there",
            130,
        )
        raise typer.Exit(130) from None
    write_corpus_metrics(task, examples, out)
    console.print(f"{len(results.done)} runs in {out}")


def command_of(cls: type[Task]) -> Callable[..., None]:
    """Make the command of a task: the options of :func:`bench` and those of the task's constructor."""
    shared = {
        name: parameter.replace(kind=parameter.KEYWORD_ONLY)
        for name, parameter in inspect.signature(bench).parameters.items()
        if name not in ("task", "name", "options")
    }
    of_task, hints = list(inspect.signature(cls).parameters.values())[1:], get_type_hints(cls.__init__)
    own = {
        parameter.name: parameter.replace(
            annotation=_option(hints[parameter.name]), kind=parameter.KEYWORD_ONLY
        )
        for parameter in of_task
        if parameter.name not in shared
    }
    both = [parameter.name for parameter in of_task if parameter.name in shared]  # a seed, say

    @functools.wraps(bench)
    def command(**given: Any) -> None:
        options = {name: given.pop(name) for name in own} | {name: given[name] for name in both}
        make: Callable[..., Task] = cls
        data = given["data"]
        bench(make(SAMPLE / cls.name if data is None else data, **options), cls.name, options, **given)

    every = [*shared.values(), *own.values()]
    command.__signature__ = inspect.Signature(every)  # type: ignore[attr-defined]
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in every}
    command.__doc__ = inspect.cleandoc(cls.__doc__ or "").split("\n\n")[0]
    return command


def _option(hint: Any) -> Any:
    """Return the type of the command-line option for a parameter: an optional path if it may be a path, else its own."""
    return Path | None if Path in getattr(hint, "__args__", ()) else hint


def _numbers(given: str) -> tuple[int, ...]:
    try:
        sizes = tuple(dict.fromkeys(int(one) for one in given.split(",")))
    except ValueError:
        sizes = ()
    if not sizes or min(sizes) < 1:
        raise typer.BadParameter(f"--particles is a list of positive numbers such as 1,4,16, not {given!r}")
    return sizes


def _guide_folder(path: Path | None, task: str, options: dict[str, Any]) -> Path:
    """Return the folder of an HMM, by default that of the small model's HMM for this task."""
    if path is not None:
        return path
    try:
        return small_hmm_path(task, options.get("syntax"))
    except ValueError as error:
        raise typer.BadParameter(f"{error}; or give --hmm") from error


def _precision(dtype: DType | None, device: str) -> torch.dtype:
    if dtype is None:
        return torch.float32 if device == "cpu" else torch.bfloat16
    return {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}[dtype.value]


def _described(path: Path | None, parameters: Any) -> dict[str, Any]:
    """Describe a model: name, number of parameters, fingerprint of the parameters."""
    tensors = list(parameters)
    return {
        "name": "embedded" if path is None else path.resolve().name,
        "parameters": sum(tensor.numel() for tensor in tensors),
        "fingerprint": fingerprint(tensors),
    }


def _described_hmm(
    path: Path | None, hmm: HMM, context: bool, boost: float, copied: Copying | None
) -> dict[str, Any]:
    tensors = [hmm.initial_probs, *hmm.transition.parameters(), *hmm.inputs.parameters()]
    form = "monarch" if isinstance(hmm.transition, Monarch) else "dense"
    facts: dict[str, Any] = {"hidden": hmm.hidden, "transition": form, "context": context}
    facts |= ({"boost": boost} if boost else {}) | ({} if copied is None else {"copying": copied.recent})
    return _described(path, tensors) | facts


for _name, _cls in TASKS.items():
    bench_app.command(name=_name)(command_of(_cls))


@bench_app.command(name="copying")
def copying_(
    hmm: Annotated[Path, typer.Option(exists=True, help="Folder of an HMM with a dense transition.")],
    corpus: Annotated[Path, typer.Option(exists=True, help="Folder of the corpus.")],
    out: Annotated[Path, typer.Option(help="Folder of the HMM that copies.")],
    recent: Annotated[
        int,
        typer.Option(min=0, help="Tokens of a prompt's end that get a state each, of equal ones before one."),
    ] = 64,
    epochs: Annotated[int, typer.Option(min=1, help="Passes over the corpus.")] = 1,
    batch_size: Annotated[int, typer.Option(min=1, help="Sequences in a step.")] = 64,
    model: Model = None,
    seed: Annotated[int, typer.Option(help="Seed of the order of sequences.")] = 0,
) -> None:
    """Fit an HMM that copies from its prompt to a corpus with prompts.

    `tractile bench` uses it with every prompt, given this HMM.
    """
    data, tokenizer = distill.Corpus.load(corpus), language_model(model)[1]
    data.check_tokenizer(tokenizer)
    copying = fit_copying(
        HMM.from_pretrained(hmm), data, tokenizer=tokenizer, recent=recent, epochs=epochs,
        batch_size=batch_size, seed=seed,
    )  # fmt: skip
    copying.save_pretrained(out, torch.float16)
    nats = copying_nats(copying, data, tokenizer)
    console.print(f"{nats:.3f} nats per token of the corpus, its prompts read, by the HMM in {out}")


@bench_app.command(name="report")
def report_command(
    folders: Annotated[list[Path], typer.Argument(exists=True, file_okay=False, help="Folders of results.")],
    out: Annotated[Path, typer.Option(help="FILE.md; FILE.html and the figures are written beside it.")],
    title: Annotated[str, typer.Option(help="The heading.")] = "The papers' tasks",
) -> None:
    """Write the papers' tables and figures from results, with the published figures beside, in Markdown and HTML."""
    report(folders, out, title)
    console.print(f"{out} and {out.with_suffix('.html')}")
