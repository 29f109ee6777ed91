"""HMM: the chain p(x_1 … x_n) = Σ_z π(z_1) B(z_1, x_1) Π_t A(z_{t−1}, z_t) B(z_t, x_t)   (Dang et al. 2026, Def. 4.1)."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, Self

import torch
from jaxtyping import Float, Int
from safetensors.torch import save_file
from torch import Tensor

from ..errors import FormatError, ShapeError
from ..layers import Categorical, Dense, Identity, Monarch, Operator
from ..layers.operator import TensorMap
from ..layers.visible import certain
from .chain import Chain
from .checkpoints import ctrlg_parameters, is_ctrlg, read_directory

FORMAT = "tractile-hmm-1"


class HMM(Chain):
    """A hidden Markov model: a chain with L = identity, B = emission, R = transition, final = ones.

    ``initial`` (H,), ``transition`` (H, H) or an :class:`~tractile.layers.Operator` such as ``Monarch``, ``emission``
    (H, V): probabilities, each row summing to one. Raises :class:`ShapeError` where shapes differ or a row is not a
    distribution. ``folder`` is the directory that the HMM was read from, None for one that was made otherwise.
    """

    folder: Path | None = None

    def __init__(
        self,
        initial: Float[Tensor, " hidden"],
        transition: Float[Tensor, "hidden hidden"] | Operator,
        emission: Float[Tensor, "hidden vocab"],
    ) -> None:
        operator = transition if isinstance(transition, Operator) else Dense(transition)
        hidden = len(initial)
        if (
            initial.ndim != 1
            or emission.ndim != 2
            or emission.shape[0] != hidden
            or operator.shape != (hidden, hidden)
        ):
            raise ShapeError(
                f"HMM: initial (H,), transition (H, H) and emission (H, V) must agree, not {tuple(initial.shape)}, "
                f"{operator.shape} and {tuple(emission.shape)}"
            )
        for what, weight in (
            ("initial", initial),
            *(("transition", w) for w in operator.parameters()),
            ("emission", emission),
        ):
            _check_distribution(what, weight)
        super().__init__(
            (initial,), Identity(hidden), Categorical(emission), operator, (torch.ones_like(initial),)
        )

    @classmethod
    def random(
        cls,
        hidden: int,
        vocab_size: int,
        transition: str = "dense",
        seed: int = 0,
        dtype: torch.dtype = torch.float32,
    ) -> HMM:
        """An HMM with random parameters; ``transition`` is "dense" or "monarch" (two factors, as square as H allows)."""
        generator = torch.Generator().manual_seed(seed)

        def rows(*shape: int) -> Tensor:
            return torch.softmax(1.5 * torch.randn(*shape, generator=generator, dtype=torch.float64), -1).to(
                dtype
            )

        if transition not in ("dense", "monarch"):
            raise ShapeError(f'HMM.random: transition must be "dense" or "monarch", not {transition!r}')
        operator: Operator = Dense(rows(hidden, hidden))
        if transition == "monarch":
            small = max(d for d in range(1, int(hidden**0.5) + 1) if hidden % d == 0)
            dims = (small, hidden // small)
            operator = Monarch([rows(*dims, dims[1]), rows(*dims, dims[0])])
        return cls(rows(hidden), operator, rows(hidden, vocab_size))

    @property
    def hidden(self) -> int:
        """H, the number of hidden states."""
        return self.cut_dims[0]

    @property
    def initial_probs(self) -> Float[Tensor, " hidden"]:
        """π: p(z_1)."""
        return self.initial[0]

    @property
    def transition(self) -> Operator:
        """A: p(z_{t+1} | z_t), rows indexed by z_t."""
        return self.right

    @property
    def emission_probs(self) -> Float[Tensor, "hidden vocab"]:
        """B: p(x_t | z_t)."""
        return self.inputs.parameters()[0]

    def log_prob(
        self, tokens: Int[Tensor, "batch length"], lengths: Int[Tensor, " batch"] | None = None
    ) -> Float[Tensor, " batch"]:
        """log p(x_1 … x_n) in nats; −1 marginalises a position; ``lengths`` cuts each row."""
        from ..inference.query import log_marginal

        return log_marginal(self, tokens, lengths=lengths)

    def map(self, fn: TensorMap) -> HMM:
        mapped = HMM(fn(self.initial_probs), self.transition.map(fn), fn(self.emission_probs))
        mapped.folder = self.folder
        return mapped

    def to(self, device: torch.device | str | None = None, dtype: torch.dtype | None = None) -> HMM:
        """The same HMM on another device or in another precision (float32 or float64; rows renormalised)."""
        return self.map(lambda t: _renormalise(t.to(device=device, dtype=dtype or t.dtype)))

    def save_pretrained(self, directory: str | Path, dtype: torch.dtype = torch.float32) -> None:
        """Write ``config.json`` and ``model.safetensors`` into a directory, each atomically; ``dtype`` is that of the file."""
        path = Path(directory)
        path.mkdir(parents=True, exist_ok=True)
        tensors = {"initial": self.initial_probs, "emission": self.emission_probs}
        tensors |= {f"transition.{i}": w for i, w in enumerate(self.transition.parameters())}
        monarch = isinstance(self.transition, Monarch)
        config: dict[str, Any] = {
            "format": FORMAT,
            "hidden": self.hidden,
            "vocab_size": self.vocab_size,
            "transition": "monarch" if monarch else "dense",
        }
        if isinstance(self.transition, Monarch):
            config["axes"] = list(self.transition.axes)
        elif not isinstance(self.transition, Dense):
            raise FormatError(
                f"HMM.save_pretrained: the format has no transition of type {type(self.transition).__name__}; use tt.save"
            )
        part = path / f".model.{os.getpid()}.part"
        save_file({k: v.detach().to(dtype).contiguous().cpu() for k, v in tensors.items()}, part)
        os.replace(part, path / "model.safetensors")
        part.write_text(json.dumps(config, indent=1) + "\n")
        os.replace(part, path / "config.json")

    def push_to_hub(self, repo_id: str, card: str | None = None, **options: Any) -> str:
        """Upload to a repository of the Hugging Face Hub, made if it is not there; the URL of the commit.

        ``card`` is the text of the model card (:func:`tractile.distill.train` leaves one in ``README.md``), a general one if
        absent. ``options`` are those of ``huggingface_hub.ModelHubMixin.push_to_hub``: private, token, branch, create_pr ….
        """
        from .hub import Hub

        return Hub(self, card).push_to_hub(repo_id, **options)

    @classmethod
    def from_pretrained(
        cls, directory: str | Path, dtype: torch.dtype = torch.float32, **options: Any
    ) -> HMM:
        """Read what :meth:`save_pretrained` wrote, or a dense or Monarch HMM of the Ctrl-G family (:mod:`.checkpoints`).

        ``directory`` may also be the name of a repository of the Hugging Face Hub, ``"owner/name"``; ``options`` are then
        those of ``huggingface_hub.snapshot_download``: revision, token, local_files_only ….

        Raises :class:`FormatError` if there is nothing there or something else.
        """
        path = Path(directory)
        if isinstance(directory, str) and not path.exists() and directory.count("/") == 1:
            from .hub import download

            path = download(directory, **options)
        config, tensors = read_directory(path)
        try:
            if is_ctrlg(config, tensors):
                return cls(*ctrlg_parameters(path, config, tensors, dtype))._read_from(path)
            if config.get("format") != FORMAT:
                raise FormatError(
                    f"{path}/config.json: expected format {FORMAT!r}, found {config.get('format')!r}"
                )
            tensors = {k: _renormalise(v.to(dtype)) for k, v in tensors.items()}
            weights = [tensors[k] for k in sorted(k for k in tensors if k.startswith("transition."))]
            operator: Operator = (
                Monarch(weights, config["axes"]) if config["transition"] == "monarch" else Dense(weights[0])
            )
            return cls(tensors["initial"], operator, tensors["emission"])._read_from(path)
        except (KeyError, IndexError, ShapeError) as error:
            raise FormatError(f"{path} does not hold the parts of an HMM: {error}") from error

    def _read_from(self, folder: Path) -> Self:
        self.folder = folder
        return self


def _renormalise(weight: Tensor) -> Tensor:
    """Rows that sum to one again after a change of precision."""
    return weight / weight.sum(-1, keepdim=True)


def _check_distribution(what: str, weight: Tensor) -> None:
    tolerance = max(1e-6, 8 * weight.shape[-1] ** 0.5 * torch.finfo(weight.dtype).eps)
    values = weight.detach()
    if certain((values < 0) | values.isnan()) or certain((values.sum(-1) - 1).abs() > tolerance):
        raise ShapeError(
            f"HMM: {what} must hold non-negative rows that sum to one (is it in log space, or not normalised?)"
        )
