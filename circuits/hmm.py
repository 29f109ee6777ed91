"""HMM: the chain p(x_1 … x_n) = Σ_z π(z_1) B(z_1, x_1) Π_t A(z_{t−1}, z_t) B(z_t, x_t)   (Dang et al. 2026, Def. 4.1)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import ArrayLike
from torch import Tensor

from ..argument_checks import whole
from ..errors import FormatError, ShapeError
from ..layers import Categorical, ClassCategorical, Dense, Identity, InputLayer, Monarch, Operator
from ..layers.functorch_utils import any_if_concrete
from ..layers.operator import TensorMap
from .chain import Chain
from .io.ctrlg import ctrlg_parameters, is_ctrlg
from .io.file_format import VOCABULARY, read_files, register, write_files
from .io.pieces import Pieces

FORMAT = "tractile-hmm-1"
_log = logging.getLogger(__name__)
# the query, which is made of circuits and cannot be imported here
_log_marginal: list[Callable[..., Tensor]] = []
_warned: set[Path] = set()  # folders without a fingerprint, for which a warning has been logged


class HMM(Chain):
    """A hidden Markov model: a chain with L = identity, B = emission, R = transition, final = ones.

    ``initial`` (H,), ``transition`` (H, H) or an :class:`~tractile.layers.Operator` such as ``Monarch``, ``emission``
    (H, V) or a :class:`~tractile.layers.ClassCategorical`: probabilities, each row summing to one; tensors, NumPy arrays or
    lists of numbers. Raises :class:`ShapeError` if shapes differ or a row is not a distribution.

    ``vocabulary_fingerprint`` identifies the vocabulary of the emitted tokens (None: unknown; ``for_vocabulary`` sets it).

    Examples
    --------
    >>> import torch
    >>> import tractile as tt
    >>> weather = torch.tensor([[0.7, 0.3], [0.3, 0.7]])  # rain, no rain
    >>> umbrella = torch.tensor([[0.1, 0.9], [0.8, 0.2]])  # P(no umbrella), P(umbrella)
    >>> hmm = tt.HMM(torch.tensor([0.5, 0.5]), weather, umbrella)
    >>> tt.log_marginal(hmm, torch.tensor([[1, 1], [1, 0]])).exp()  # two days with an umbrella; one with, one without
    tensor([0.3515, 0.1985], dtype=torch.float64)
    """

    _rounded: torch.dtype | None = None  # the coarsest precision that the probabilities have had

    def __init__(
        self,
        initial: Float[Tensor, " hidden"] | ArrayLike,
        transition: Float[Tensor, "hidden hidden"] | Operator | ArrayLike,
        emission: Float[Tensor, "hidden vocab"] | ClassCategorical | ArrayLike,
    ) -> None:
        classes = emission if isinstance(emission, ClassCategorical) else None
        initial = _numbers(initial, "initial")
        table = _numbers(emission, "emission") if classes is None else classes.class_weight
        if not isinstance(transition, Operator):
            transition = _numbers(transition, "transition")
            dtype = reduce(torch.promote_types, (t.dtype for t in (initial, transition, table)))
            initial, transition, table = (t.to(dtype) for t in (initial, transition, table))
        hidden = initial.numel()
        if (
            initial.ndim != 1
            or table.ndim != 2
            or table.shape[0] != hidden
            or tuple(transition.shape) != (hidden, hidden)
        ):
            raise ShapeError(
                f"HMM: initial (H,), transition (H, H) and emission (H, V) must agree, not {tuple(initial.shape)}, "
                f"{tuple(transition.shape)} and {tuple(table.shape)}"
            )
        _check_distributions(initial, transition, table)
        operator = transition if isinstance(transition, Operator) else Dense(transition)
        inputs: InputLayer = Categorical(table)
        if classes is not None:
            _check_distribution("shares of a class", classes.class_totals()[:, None])
            inputs = classes.map(lambda _: table)
        super().__init__((initial,), Identity(hidden), inputs, operator, (torch.ones_like(initial),))

    @classmethod
    def random(
        cls,
        hidden: int,
        vocab_size: int,
        transition: str = "dense",
        seed: int = 0,
        dtype: torch.dtype = torch.float32,
    ) -> HMM:
        """Make an HMM with random parameters; ``transition`` is "dense" or "monarch" (two factors, as square as H allows).

        Raises :class:`ShapeError` for another kind of transition, and for sizes that are not whole numbers of at least 1.

        Examples
        --------
        >>> import tractile as tt
        >>> hmm = tt.HMM.random(hidden=6, vocab_size=10, transition="monarch", seed=1)
        >>> hmm.transition
        Monarch(6, 6)
        >>> sum(p.numel() for p in hmm.transition.parameters())  # 6 · 2 + 6 · 3, where a dense matrix has 36
        30
        """
        hidden, vocab_size = (
            whole(size, f"HMM.random: {name}", 1, ShapeError)
            for size, name in ((hidden, "hidden"), (vocab_size, "vocab_size"))
        )
        generator = torch.Generator().manual_seed(whole(seed, "HMM.random: seed", None, ShapeError))

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
        return self.state_dims[0]

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
        """B: p(x_t | z_t), written out if it is given by classes."""
        return self.inputs.table()

    def log_prob(
        self, tokens: Int[Tensor, "batch length"] | ArrayLike, lengths: Int[Tensor, " batch"] | None = None
    ) -> Float[Tensor, " batch"]:
        """Compute log p(x_1 … x_n) of each row in nats: :func:`~tractile.log_marginal` of tokens, −1 where one is marginalised.

        With ``lengths`` only the first ``lengths[i]`` tokens of row i count. Tokens may also be an array or a list of rows of
        equal length. Raises :class:`EvidenceError` for other lists.

        Examples
        --------
        >>> import torch
        >>> import tractile as tt
        >>> hmm = tt.HMM([0.5, 0.5], [[0.7, 0.3], [0.3, 0.7]], [[0.1, 0.9], [0.8, 0.2]])
        >>> hmm.log_prob([[1, 1], [1, -1]]).exp()  # P(1, 1), and P(1) with the second position unknown
        tensor([0.3515, 0.5500], dtype=torch.float64)
        >>> hmm.log_prob([[1, 1], [1, 1]], lengths=torch.tensor([2, 1])).exp()  # rows of two tokens and of one
        tensor([0.3515, 0.5500], dtype=torch.float64)
        """
        (log_marginal,) = _log_marginal
        return log_marginal(self, tokens, lengths=lengths)

    def map(self, fn: TensorMap) -> Self:
        """Return a copy, of the same class, with ``fn`` applied to π, A and B.

        Raises :class:`ShapeError` if a row of the result is not a distribution.
        """
        out = super().map(fn)
        out.final = (torch.ones_like(out.initial_probs),)
        out._rounded = max(self._rounded or self.initial_probs.dtype, out.initial_probs.dtype, key=_eps)
        _check_distributions(out.initial_probs, out.transition, out.inputs.parameters()[0], out._rounded)
        return out

    def to(self, device: torch.device | str | None = None, dtype: torch.dtype | None = None) -> Self:
        """Return a copy on another device or in another precision (float32 or float64).

        Rows are normalised again if ``dtype`` changes the precision; otherwise the probabilities keep their bits.
        """
        return self.map(lambda t: _cast(t, dtype or t.dtype).to(device=device))

    def save(self, directory: str | Path) -> None:
        """Write by :meth:`save_pretrained` if the transition is dense or Monarch, else in the format of all chains."""
        if isinstance(self.transition, Dense | Monarch):
            self.save_pretrained(directory)
        else:
            super().save(directory)

    def save_pretrained(self, directory: str | Path, dtype: torch.dtype | None = None) -> None:
        """Write ``config.json`` and ``model.safetensors`` into a directory, each atomically.

        ``dtype``: the precision of the file, by default that of each tensor, so that it loads to the same bits. The
        configuration holds the vocabulary's fingerprint and a checksum of the tensors. Raises :class:`StorageError` if the
        directory cannot be written, :class:`FormatError` for a transition that is neither dense nor Monarch.

        Examples
        --------
        >>> import tempfile
        >>> import tractile as tt
        >>> hmm = tt.HMM([0.5, 0.5], [[0.7, 0.3], [0.3, 0.7]], [[0.1, 0.9], [0.8, 0.2]])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     hmm.for_vocabulary("f81d…").save_pretrained(folder)
        ...     again = tt.HMM.from_pretrained(folder)
        >>> again.vocabulary_fingerprint
        'f81d…'
        >>> tt.log_marginal(again, torch.tensor([[1, 1]])).exp(), tt.log_marginal(hmm, torch.tensor([[1, 1]])).exp()
        (tensor([0.3515], dtype=torch.float64), tensor([0.3515], dtype=torch.float64))
        """
        if not isinstance(self.transition, Dense | Monarch):
            raise FormatError(
                f"HMM.save_pretrained: the format has no transition of type {type(self.transition).__name__}; use tt.save"
            )
        tensors = {"initial": self.initial_probs, "emission": self.inputs.parameters()[0]}
        tensors |= {f"transition.{i}": w for i, w in enumerate(self.transition.parameters())}
        pieces = {name: Pieces.of(tensor, dtype) for name, tensor in tensors.items()}
        if isinstance(self.inputs, ClassCategorical):
            pieces |= {"class_of": Pieces.of(self.inputs.class_of), "share": Pieces.of(self.inputs.share)}
        axes = self.transition.axes if isinstance(self.transition, Monarch) else None
        write_hmm(directory, pieces, self.vocab_size, axes, self.vocabulary_fingerprint)

    def push_to_hub(self, repo_id: str, card: str | None = None, **options: Any) -> str:
        """Upload to a repository of the Hugging Face Hub, created if needed; return the URL of the commit.

        ``card`` is the text of the model card (:func:`tractile.distill.train` writes one to ``README.md``), by default a general
        one. ``options`` are those of ``huggingface_hub.ModelHubMixin.push_to_hub``: private, token, branch, create_pr ….
        """
        from .io.huggingface import Hub

        return Hub(self, card).push_to_hub(repo_id, **options)

    @classmethod
    def from_pretrained(cls, directory: str | Path, dtype: torch.dtype | None = None, **options: Any) -> Self:
        """Read what :meth:`save_pretrained` wrote, or a dense or Monarch HMM of the Ctrl-G family.

        ``directory`` may also be the name of a repository of the Hugging Face Hub, ``"owner/name"``; ``options`` are then
        those of ``huggingface_hub.snapshot_download``: revision, token, local_files_only ….

        ``dtype``: the precision of the probabilities, by default the one in which each is stored, at least float32. Rows are
        normalised again if this changes their precision, and keep their bits otherwise.

        A folder without a vocabulary fingerprint is read too, with one warning in the log.

        Raises :class:`FormatError` if the directory is missing, holds no HMM, or its tensors are damaged.
        """
        if isinstance(directory, str) and directory.count("/") == 1 and not Path(directory).exists():
            from .io.huggingface import download

            directory = download(directory, **options)
        config, tensors = read_files(directory)
        path = Path(directory)
        hmm = cls._from_tensors(path, config, tensors, dtype).for_vocabulary(config.get(VOCABULARY))
        if hmm.vocabulary_fingerprint is None and path not in _warned:
            _warned.add(path)
            _log.warning(
                "the HMM in %s does not say which vocabulary it was made for, so that nothing keeps it from being used with "
                'another tokenizer; add "%s": "…" to its config.json, the text of '
                "tt.Vocabulary.from_tokenizer(tokenizer).fingerprint",
                path,
                VOCABULARY,
            )
        return hmm

    @classmethod
    def _from_tensors(
        cls, path: Path, config: dict[str, Any], tensors: dict[str, Tensor], dtype: torch.dtype | None
    ) -> Self:
        try:
            if is_ctrlg(config, tensors):
                return cls(*ctrlg_parameters(path, config, tensors, dtype or torch.float32))
            if config.get("format") != FORMAT:
                raise FormatError(
                    f"{path}/config.json: expected format {FORMAT!r}, found {config.get('format')!r}"
                )
            fixed = [tensors.pop(name) for name in ("class_of", "share") if name in tensors]
            tensors = {
                k: _cast(v, dtype or torch.promote_types(v.dtype, torch.float32)) for k, v in tensors.items()
            }
            weights = [tensors[k] for k in sorted(k for k in tensors if k.startswith("transition."))]
            operator: Operator = (
                Monarch(weights, config["axes"]) if config["transition"] == "monarch" else Dense(weights[0])
            )
            table = tensors["emission"]
            return cls(tensors["initial"], operator, ClassCategorical(table, *fixed) if fixed else table)
        except (KeyError, IndexError, ShapeError) as error:
            raise FormatError(f"{path} does not hold the parts of an HMM: {error}") from error


def write_hmm(
    directory: str | Path,
    tensors: Mapping[str, Pieces],
    vocab_size: int,
    axes: Sequence[int] | None,
    vocabulary_fingerprint: str | None,
) -> str:
    """Write an HMM by the pieces of its tensors; return the checksum of the tensors.

    ``axes``: those that the factors of a Monarch transition rewrite; None if it is dense. Raises :class:`StorageError`.
    """
    config: dict[str, Any] = {
        "format": FORMAT,
        "hidden": tensors["initial"].shape[0],
        "vocab_size": vocab_size,
    }
    config |= {"transition": "dense"} if axes is None else {"transition": "monarch", "axes": list(axes)}
    return write_files(directory, config | {VOCABULARY: vocabulary_fingerprint}, tensors, indent=1)


def answers_log_prob(query: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Register the query that :meth:`HMM.log_prob` asks, once, where it is defined: this room imports nothing of inference."""
    _log_marginal[:] = [query]
    return query


def _numbers(given: Any, name: str) -> Tensor:
    """Return a floating-point tensor: the argument itself if it is one, else a copy of the array or list."""
    try:
        tensor = given if isinstance(given, Tensor) else torch.as_tensor(np.array(given))
        if tensor.is_complex():
            raise TypeError("complex numbers are no probabilities")
        if not isinstance(given, Tensor | np.ndarray) or not tensor.is_floating_point():
            tensor = tensor.to(torch.get_default_dtype())
    except (TypeError, ValueError) as error:
        raise ShapeError(
            f"HMM: {name} must be a tensor, an array or a list of numbers, not a {type(given).__name__} ({error})"
        ) from None
    return tensor


def _eps(dtype: torch.dtype) -> float:
    return torch.finfo(dtype).eps


def _cast(weight: Tensor, dtype: torch.dtype) -> Tensor:
    """Convert rows to another precision and normalise them again; rows of that precision are returned unchanged."""
    if weight.dtype == dtype:
        return weight
    weight = weight.to(dtype)
    return weight / weight.sum(-1, keepdim=True)


def _check_distributions(
    initial: Tensor, transition: Tensor | Operator, table: Tensor, rounded: torch.dtype = torch.float64
) -> None:
    """Check each row, which may miss one by the rounding of its own precision or of ``rounded``."""
    _check_distribution("initial", initial, rounded)
    for weight in transition.parameters() if isinstance(transition, Operator) else [transition]:
        _check_distribution("transition", weight, rounded)
    _check_distribution("emission", table, rounded)


def _check_distribution(what: str, weight: Tensor, rounded: torch.dtype = torch.float64) -> None:
    eps = max(torch.finfo(weight.dtype).eps, torch.finfo(rounded).eps)
    tolerance = max(1e-6, 8 * weight.shape[-1] ** 0.5 * eps)
    values = weight.detach()
    if any_if_concrete((values < 0) | values.isnan()) or any_if_concrete(
        (values.sum(-1) - 1).abs() > tolerance
    ):
        raise ShapeError(
            f"HMM: {what} must hold non-negative rows that sum to one (is it in log space, or not normalised?)"
        )


register(
    HMM,
    lambda o: (
        o.initial_probs,
        o.transition,
        o.inputs if isinstance(o.inputs, ClassCategorical) else o.emission_probs,
    ),
)
