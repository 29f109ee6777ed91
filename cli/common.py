"""Parts that the commands share: one-line errors, options for models, loading and printing."""

import json
import re
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated, Any, Literal

import torch
import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from typer.core import TyperGroup
from typer.exceptions import Abort, Exit, TyperException

from ..circuits.hmm import HMM
from ..constraints.report import MOST_TEXTS
from ..distill.distributed import own_device
from ..embedded import load_lm
from ..errors import FormatError, TractileError
from ..fingerprints import check_vocabularies
from ..lm import TransformersLM

LARGE = 1e15
"""Numbers from this size on are printed in scientific notation."""
HUB_NAME = re.compile(r"[\w.-]+(/[\w.-]+)?")


class OneLineErrors(TyperGroup):
    """A command group whose every error is one line on standard error."""

    def main(self, *args: Any, **settings: Any) -> Any:
        """Run the command, then exit with its status."""
        try:
            status = super().main(*args, **{**settings, "standalone_mode": False})
        except TyperException as error:
            status = complain(error.format_message(), error.exit_code)
        except (TractileError, OSError) as error:
            status = complain(str(error), 1)
        except Abort:
            status = complain("aborted", 1)
        sys.exit(status if isinstance(status, int) else 0)

    def invoke(self, ctx: Any) -> Any:
        """Run the command that the command line names; on Ctrl-C print a line and exit with status 130."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            raise Exit(complain("interrupted", 130)) from None


def complain(message: str, status: int) -> int:
    """Print a message as one line on standard error; return ``status``."""
    print("tractile: " + " ".join(message.split()), file=sys.stderr)
    return status


console = Console(soft_wrap=True)

Model = Annotated[
    Path | None,
    typer.Option("--model", help="Folder or hub name of a language model; default: the embedded one."),
]
Hmm = Annotated[
    Path | None, typer.Option("--hmm", help="Folder or hub name of an HMM; default: the embedded one.")
]
MaxNewTokens = Annotated[int, typer.Option(min=1, help="Token budget, the end token included.")]
Seed = Annotated[int, typer.Option(help="Seed of the random numbers.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object as the last line.")]
Device = Annotated[str, typer.Option(help="cpu, or cuda (under torchrun, each rank its own).")]


def load_model(path: Path) -> Any:
    """Load a causal language model from a folder, or from the hub (safetensors only). Raises :class:`FormatError`."""
    from transformers import AutoModelForCausalLM

    return _from_pretrained(AutoModelForCausalLM, path, use_safetensors=None if path.exists() else True)


def load_tokenizer(path: Path) -> Any:
    """Load a tokenizer from a folder or from the hub. Raises :class:`FormatError`."""
    from transformers import AutoTokenizer

    return _from_pretrained(AutoTokenizer, path)


def _from_pretrained(auto: Any, path: Path, **options: Any) -> Any:
    here = path.exists()
    if not here and not HUB_NAME.fullmatch(str(path)):
        raise FormatError(f"{path} does not exist; give a folder, or a name of the hub such as owner/name")
    try:
        return auto.from_pretrained(str(path), local_files_only=here, **options)
    except (OSError, ValueError, KeyError) as error:
        raise FormatError(f"{path} does not load: {error}") from error


def language_model(
    path: Path | None, device: str = "cpu", default: Callable[[], tuple[Any, Any]] = load_lm
) -> tuple[Any, Any]:
    """Load (model, tokenizer) from a folder or the hub, without a path by ``default``; on a GPU in bfloat16."""
    from transformers.utils.logging import disable_progress_bar

    disable_progress_bar()
    model, tokenizer = default() if path is None else (load_model(path), load_tokenizer(path))
    if device == "cpu":
        return model, tokenizer
    return model.to(device_named(device), torch.bfloat16), tokenizer


def check_guide(guide: HMM, hmm: Path | None, model: Path | None, lm: TransformersLM) -> None:
    """Raise :class:`VocabularyMismatch` if an HMM was made for another tokenizer than the language model's."""
    of, name = (
        "the embedded HMM" if hmm is None else f"the HMM in {hmm}",
        model or "the embedded language model",
    )
    cure = "distil one from this model (`tractile distill`) and give it as --hmm, or choose what needs none (gcd)"
    check_vocabularies(of, guide, f"the tokenizer of {name}", lm, cure)


def device_named(name: str) -> torch.device:
    """Return the torch device of a name and make it the current one; "cuda" is the GPU of this rank. Raises ``BadParameter``."""
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise typer.BadParameter(f"--device {name!r} is no device; use cpu or cuda") from error
    if device.type == "cuda" and not torch.cuda.is_available():
        raise typer.BadParameter("--device cuda: there is no GPU that torch can use; use cpu")
    return own_device(device)


def print_facts(facts: dict[str, Any], as_json: bool) -> None:
    """Print names and values as a table, or as one JSON object."""
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
        if isinstance(value, float):
            value = (
                f"{value:.4f}"
                if abs(value) < LARGE
                else f"{'more than' if value >= MOST_TEXTS else 'about'} {value:.3g}"
            )
        table.add_row(name.replace("_", " "), str(value))
    console.print(table)


def print_narrowings(cuts: Iterable[object]) -> None:
    """Print where a constraint accepts less than was asked, one narrowing a line."""
    for cut in cuts:
        console.print(escape(f"narrowed: {cut}"))


def a_strength(given: str) -> float | Literal["auto"]:
    """Parse the strength of a lookahead: a number that is not negative, or "auto". Raises ``BadParameter``."""
    if given == "auto":
        return "auto"
    try:
        number = float(given)
    except ValueError:
        number = -1.0
    if not 0 <= number < float("inf"):
        raise typer.BadParameter(f"--strength is auto or a number that is not negative, not {given!r}")
    return number
