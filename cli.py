"""The `tractile` command: generate under a constraint, look at what a constraint compiles to, distil an HMM.

Results go to standard output; with `--json`, one JSON object is its last line. Errors go to standard error as one
line, and the exit status is not zero: 1 when the input is refused (a `TractileError`, a file that isn't there or does
not load), 2 when the command line is wrong.
"""

import dataclasses
import json
import os
import sys
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal

import torch
import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from transformers import AutoModelForCausalLM, AutoTokenizer
from transformers.utils.logging import disable_progress_bar
from typer.core import TyperGroup
from typer.exceptions import Abort, TyperException

from . import constraints, distill
from .circuits.hmm import HMM
from .constraints import Constraint, Vocabulary, report
from .embedded import load_hmm, load_lm
from .errors import FormatError, TractileError
from .inference.smc import Posterior, TransformersLM, smc
from .layers import Monarch


class OneLineErrors(TyperGroup):
    """A command group whose every error is one line on standard error."""

    def main(self, *args: Any, **settings: Any) -> Any:
        """Run the command, then exit with its status."""
        try:
            status = super().main(*args, **{**settings, "standalone_mode": False})
        except TyperException as error:
            status = _complain(error.format_message(), error.exit_code)
        except (TractileError, OSError) as error:
            status = _complain(str(error), 1)
        except Abort:
            status = _complain("aborted", 1)
        sys.exit(status if isinstance(status, int) else 0)


def _complain(message: str, status: int) -> int:
    print("tractile: " + " ".join(message.split()), file=sys.stderr)
    return status


app = typer.Typer(
    cls=OneLineErrors, add_completion=False, help="Constrained generation with tractable circuits."
)
_console = Console(soft_wrap=True)
TEXT_BYTES = 64  # how long the texts are that are counted where there is no end of them
distill_app = typer.Typer(help="Distil a language model into an HMM.")
app.add_typer(distill_app, name="distill")
disable_progress_bar()

Regex = Annotated[str | None, typer.Option("--regex", help="The text matches this regular expression.")]
JsonSchema = Annotated[
    Path | None,
    typer.Option("--json-schema", exists=True, dir_okay=False, help="The text is JSON of this schema."),
]
Keywords = Annotated[
    str | None,
    typer.Option("--keywords", metavar="A,B,…", help="The text contains these words, in any order."),
]
Tools = Annotated[
    Path | None,
    typer.Option(
        "--tools", "--functions", exists=True, dir_okay=False, help="The text calls a tool of this JSON file."
    ),
]
Grammar = Annotated[
    Path | None,
    typer.Option(
        "--grammar",
        exists=True,
        dir_okay=False,
        help="The text follows this grammar: FILE.lark, .gbnf or .ebnf.",
    ),
]
Sql = Annotated[
    Path | None,
    typer.Option(
        "--sql", exists=True, dir_okay=False, help="A query on this SQLite file, or on these CREATE TABLEs."
    ),
]
Model = Annotated[
    Path | None,
    typer.Option("--model", exists=True, help="Folder of a language model; default: the embedded one."),
]
Hmm = Annotated[
    Path | None, typer.Option("--hmm", exists=True, help="Folder of an HMM; default: the embedded one.")
]
Corpus = Annotated[Path, typer.Option("--corpus", exists=True, file_okay=False, help="Folder of a corpus.")]
MaxNewTokens = Annotated[int, typer.Option(min=1, help="Token budget, the end token included.")]
Seed = Annotated[int, typer.Option(help="Seed of the random numbers.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object as the last line.")]


Device = Annotated[str, typer.Option(help="cpu, or cuda (under torchrun, each rank its own).")]


class Proposal(StrEnum):
    """How the next token is proposed."""

    lm = "lm"
    lcd = "lcd"
    gcd = "gcd"
    pgcd = "pgcd"


class CallSyntax(StrEnum):
    """How a function call is written."""

    json = "json"
    python = "python"


class Transition(StrEnum):
    """The form of a transition matrix."""

    dense = "dense"
    monarch = "monarch"


class Init(StrEnum):
    """Where EM starts."""

    latent = "latent"
    random = "random"


@app.command()
def generate(
    prompt: Annotated[str, typer.Option(help="The text to continue.")],
    regex: Regex = None,
    json_schema: JsonSchema = None,
    keywords: Keywords = None,
    max_new_tokens: MaxNewTokens = 64,
    particles: Annotated[int, typer.Option(min=1, help="Number of weighted samples.")] = 16,
    proposal: Annotated[Proposal, typer.Option(help="Proposal distribution.")] = Proposal.pgcd,
    seed: Seed = 0,
    model: Model = None,
    hmm: Hmm = None,
    as_json: AsJson = False,
) -> None:
    """Draw weighted samples from a language model given a constraint and a token budget."""
    constraint = _constraint(regex, json_schema, keywords)
    network, tokenizer = _language_model(model)
    guide = None
    if proposal is Proposal.pgcd:
        guide = load_hmm() if hmm is None else HMM.from_pretrained(hmm)
    posterior = smc(
        TransformersLM(network, tokenizer),
        prompt,
        constraint.compile(Vocabulary.from_tokenizer(tokenizer)),
        proposal=proposal.value,
        hmm=guide,
        particles=particles,
        max_new_tokens=max_new_tokens,
        seed=seed,
    )
    _print_posterior(prompt, posterior, as_json)


@app.command(name="compile")
def compile_(
    regex: Regex = None,
    json_schema: JsonSchema = None,
    keywords: Keywords = None,
    tools: Tools = None,
    call_syntax: Annotated[CallSyntax, typer.Option(help="How --tools are called.")] = CallSyntax.json,
    grammar: Grammar = None,
    sql: Sql = None,
    tokenizer: Annotated[
        Path | None, typer.Option(exists=True, help="Folder of a tokenizer; default: the embedded one.")
    ] = None,
    draw: Annotated[Path | None, typer.Option(help="Save a picture: FILE.svg, .png or .pdf.")] = None,
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """Compile a constraint to an automaton over tokens, and say what came out: its size, its texts, ten of them."""
    constraint = _constraint(regex, json_schema, keywords, tools, call_syntax, grammar, sql)
    loaded = load_lm()[1] if tokenizer is None else _load(AutoTokenizer, tokenizer)
    vocab = Vocabulary.from_tokenizer(loaded)
    fa = constraint.compile(vocab)
    if draw is not None:
        if draw.suffix not in (".svg", ".png", ".pdf"):
            raise typer.BadParameter(f"--draw writes .svg, .png or .pdf, not {draw.name!r}")
        names = ["<special>" if t is None else repr(t.decode(errors="replace")) for t in vocab.token_bytes]
        fa.draw(names).savefig(draw)
    most = report.longest_in_tokens(fa)
    most_bytes = TEXT_BYTES if most is None else constraint.bytes_automaton.num_states
    facts = {
        "states": fa.num_states,
        "edges": fa.num_edges,
        "vocab_size": fa.vocab_size,
        "deterministic": fa.is_deterministic,
        "unambiguous": fa.is_unambiguous,
        "min_tokens": int(fa.distances[fa.start_states].min()),
        "max_tokens": most,
        "texts": report.number_of_texts(constraint.bytes_automaton, most_bytes),
        "of_at_most_bytes": TEXT_BYTES if most is None else None,
        "samples": report.random_texts(constraint.bytes_automaton, 10, seed),
    }
    _print_facts(facts, as_json)


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
    device: Device = "cpu",
    model: Model = None,
) -> None:
    """Draw a corpus from a language model, or finish one that was begun. Under torchrun the ranks share the work."""
    if (text is None) == (num_sequences is None):
        raise typer.BadParameter("give --num-sequences to draw from the model, or --text for existing text")
    network, tokenizer = _language_model(model, device)
    name = "embedded" if model is None else model.name
    if text is not None:
        lines = text.read_text(encoding="utf-8").splitlines()
        corpus = distill.from_text(lines, tokenizer, out, max_new_tokens, shard_size=shard_size, model=name)
    else:
        assert num_sequences is not None
        corpus = distill.sample(
            TransformersLM(network, tokenizer, temperature),
            out,
            num_sequences,
            max_new_tokens,
            [""] if prompts is None else _prompts(prompts),
            seed=seed,
            shard_size=shard_size,
            batch_size=batch_size,
            model=name if temperature == 1 else f"{name} at temperature {temperature}",
            tokenizer=tokenizer,
        )
    _print_once(f"{len(corpus)} sequences, {corpus.num_tokens} tokens in {out}")


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
        bool, typer.Option("--shard", help="Under torchrun, ranks deal out the hidden states, not the text.")
    ] = False,
    device: Device = "cpu",
    seed: Seed = 0,
) -> None:
    """Fit an HMM to a corpus by expectation maximisation; the same command goes on after an interruption.

    Leaves log.jsonl and learning-curve.png beside the HMM. Under torchrun the ranks train together.
    """
    data = distill.Corpus.load(corpus)

    def latent() -> HMM:
        network, tokenizer = _language_model(model, device)
        return distill.initialise(network, tokenizer, data, hidden, transition.value, seed=seed)

    initial: HMM | Callable[[], HMM] | None = None
    if begin_from:
        if init is not None or len(begin_from) > 2:
            raise typer.BadParameter("--from is given once or twice, and without --init")
        initial = _grown([HMM.from_pretrained(path) for path in begin_from], hidden, transition, seed)
    elif init is Init.latent or (init is None and model is not None):
        initial = latent
    hmm = distill.train(
        data,
        hidden,
        transition.value,
        epochs,
        initial=initial,
        step_size=step_size,
        batch_size=batch_size,
        chunk_size=chunk_size,
        pseudocount=pseudocount,
        token_dropout=token_dropout,
        held_out=held_out,
        checkpoint_minutes=checkpoint_minutes,
        seed=seed,
        out=out,
        messages=torch.bfloat16 if half else None,
        shard=shard,
        device=_device(device),
    )
    _print_once(f"HMM of {hmm.hidden} hidden states over {hmm.vocab_size} tokens in {out}")


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
    as_json: AsJson = False,
) -> None:
    """How well an HMM predicts a corpus, in nats per token, and how far it is from the model that drew it.

    With --keyword, how far the log weights of particles scatter under GCD and under P-GCD with this HMM, after the first
    eight prompts of the corpus, and with its context head if there is one.
    """
    trained, data = HMM.from_pretrained(hmm), distill.Corpus.load(corpus)
    facts = dataclasses.asdict(distill.evaluate(trained, data))
    if keyword:
        network, tokenizer = _language_model(model)
        data.check_tokenizer(tokenizer)
        guides: dict[str, Any] = {"gcd": None, "pgcd": trained}
        if (hmm / "context.safetensors").exists():
            head = distill.ContextHead.from_pretrained(hmm)
            guides["pgcd with context"] = lambda prompt: head.begin(trained, network, tokenizer, prompt)
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
    if not as_json:
        for name in ("by_position", "lm_by_position"):
            facts[name] = facts[name] and " ".join(f"{nats:.2f}" for nats in facts[name])
        for name, found in facts.pop("guidance", {}).items():
            facts[name] = (
                f"log weights ± {found['deviation']:.2f} nats, effective sample size {found['effective']:.0%}"
            )
    _print_facts(facts, as_json)


def _print_once(text: str) -> None:
    """A line from the first process of a job."""
    if os.environ.get("RANK", "0") == "0":
        _console.print(text)


def _grown(smaller: list[HMM], hidden: int, transition: Transition, seed: int) -> HMM:
    """One HMM with its states split, or the Kronecker product of two."""
    hmm = distill.split(smaller[0], hidden, seed) if len(smaller) == 1 else distill.kronecker(*smaller)
    monarch = isinstance(hmm.transition, Monarch)
    if hmm.hidden != hidden or monarch != (transition is Transition.monarch):
        form = "monarch" if monarch else "dense"
        raise typer.BadParameter(
            f"--from gives {hmm.hidden} states, {form}: say so with --hidden and --transition"
        )
    return hmm


def _constraint(
    regex: str | None,
    json_schema: Path | None,
    keywords: str | None,
    tools: Path | None = None,
    call_syntax: CallSyntax = CallSyntax.json,
    grammar: Path | None = None,
    sql: Path | None = None,
) -> Constraint:
    """The one constraint that the options name."""
    if sum(option is not None for option in (regex, json_schema, keywords, tools, grammar, sql)) != 1:
        raise typer.BadParameter("give exactly one constraint, such as --regex, --json-schema or --keywords")
    if regex is not None:
        return constraints.regex(regex)
    if keywords is not None:
        return constraints.keywords([word.strip() for word in keywords.split(",")])
    if tools is not None:
        return constraints.function_calls(tools, syntax=call_syntax.value)
    if grammar is not None:
        syntaxes: dict[str, Literal["lark", "gbnf", "ebnf"]] = {
            ".lark": "lark",
            ".gbnf": "gbnf",
            ".ebnf": "ebnf",
        }
        if grammar.suffix not in syntaxes:
            raise typer.BadParameter(f"--grammar reads {', '.join(syntaxes)}, not {grammar.name!r}")
        return constraints.grammar(grammar, syntax=syntaxes[grammar.suffix])
    if sql is not None:
        return constraints.sql(sql.read_text(encoding="utf-8") if sql.suffix == ".sql" else sql)
    assert json_schema is not None
    try:
        return constraints.json_schema(json.loads(json_schema.read_text(encoding="utf-8")))
    except ValueError as error:
        raise FormatError(f"{json_schema} is not JSON: {error}") from error


def _load(auto: Any, path: Path) -> Any:
    """A pretrained model or tokenizer from a folder."""
    try:
        return auto.from_pretrained(path, local_files_only=True)
    except (OSError, ValueError, KeyError) as error:
        raise FormatError(f"{path} does not load: {error}") from error


def _language_model(path: Path | None, device: str = "cpu") -> tuple[Any, Any]:
    """(model, tokenizer): from a folder, or the embedded ones; in half precision on a GPU."""
    if path is None:
        model, tokenizer = load_lm()
    else:
        model, tokenizer = _load(AutoModelForCausalLM, path), _load(AutoTokenizer, path)
    if device == "cpu":
        return model, tokenizer
    return model.to(_device(device), torch.bfloat16), tokenizer


def _device(name: str) -> torch.device:
    """The device of that name; "cuda" is this rank's own."""
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise typer.BadParameter(f"--device {name!r} is no device; use cpu or cuda") from error
    if device.type == "cuda" and not torch.cuda.is_available():
        raise typer.BadParameter("--device cuda: there is no GPU that torch can use; use cpu")
    if name == "cuda":
        device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
    return device


def _prompts(path: Path) -> list[str | list[int]]:
    """One prompt in a line: as it is, or in JSON if the file is called .jsonl."""
    lines = path.read_text(encoding="utf-8").splitlines()
    if path.suffix != ".jsonl":
        return list(lines)
    found: list[str | list[int]] = []
    for number, line in enumerate(lines, 1):
        try:
            fields = json.loads(line)
            found.append(
                str(fields["prompt"]) if "prompt" in fields else [int(token) for token in fields["tokens"]]
            )
        except (ValueError, TypeError, KeyError) as error:
            raise FormatError(
                f'{path}, line {number}: expected {{"prompt": text}} or {{"tokens": ids}}, not {line[:60]!r}'
            ) from error
    return found


def _print_posterior(prompt: str, posterior: Posterior, as_json: bool) -> None:
    """The distinct texts with their weights, log Z and ESS; raises if no particle satisfies the constraint."""
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
    _console.print(table)
    _console.print(
        f"log Z = {posterior.log_evidence:.3f} nats, ESS = {posterior.ess:.1f} of {len(posterior.texts)} particles"
    )


def _print_facts(facts: dict[str, Any], as_json: bool) -> None:
    """Names and values, one in a line."""
    if as_json:
        print(json.dumps(facts))
        return
    table = Table(show_header=False, box=None)
    table.add_column()
    table.add_column(overflow="fold")
    for name, value in facts.items():
        if value is None:
            value = "no limit" if name == "max_tokens" else "-"
        if isinstance(value, list):
            value = "\n".join(escape(repr(item)) for item in value)
        table.add_row(name.replace("_", " "), f"{value:.4f}" if isinstance(value, float) else str(value))
    _console.print(table)


if __name__ == "__main__":
    app()
