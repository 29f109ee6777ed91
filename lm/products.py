"""Products of powers of language models, as targets to sample from:

    w(x) = Π_i p_i(x | prompt_i)^{power_i} = Π_t w(x_t | x_<t),      w(v | x_<t) = Π_i p_i(v | prompt_i, x_<t)^{power_i}

``lm ** 2`` tempers whole sequences, ``a * b`` is a product of experts, ``a / b`` a contrast; one model with several prompts
asks for texts that suit them all. The weights of the next token do not sum to one. The samplers of this package do not need
that: a proposal draws from its own normalised distribution and weighs by w, so ``log_evidence`` is
log Σ_x w(x) 1[x ∈ C] Ψ(x).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from copy import copy
from typing import Any, NamedTuple, final

import torch
from jaxtyping import Float, Int
from torch import Tensor

from ..errors import EvidenceError, VocabularyMismatch
from ..fingerprints import check_vocabularies
from .base import Forking, LanguageModel, Prompt, fingerprint_of

THROUGH_BYTES = (
    "give models of one tokenizer, or go through bytes: examples/byte_products.py samples from the product with a model of "
    "another one"
)


class PoweredModel(NamedTuple):
    """A language model raised to a power; ``prompt``: its own prompt, None for the one that ``start`` is given."""

    lm: LanguageModel
    power: float
    prompt: Prompt | None


class Multiplies(Forking):
    """The base of language models with the operators ``*``, ``/`` and ``**``, each of which gives a :class:`ProductLM`."""

    def __mul__(self, other: LanguageModel) -> ProductLM:
        return ProductLM([self, other])

    def __truediv__(self, other: LanguageModel) -> ProductLM:
        return ProductLM([self, other], [1.0, -1.0])

    def __pow__(self, power: float) -> ProductLM:
        return ProductLM([self], [power])


@final
class ProductLM(Multiplies):
    """The product of ``lms[i]`` to the power ``powers[i]`` (default: 1), each with ``prompts[i]`` (None: the sampler's).

    It takes the place of a language model in :func:`.smc`, :func:`.importance_sampling`, :func:`.mcmc` and
    :func:`.resample_move`, whose target is then the product instead of p_lm. ``log_probs()`` returns unnormalised log-weights
    of the next token, so functions that need probabilities (beam search) refuse it. The
    first model decodes texts. A model may occur twice: the second occurrence is a copy with its own rows.

    Raises :class:`VocabularyMismatch` unless all models have the same tokens and end token, and :class:`EvidenceError` for a
    power that is not a finite number, for a second occurrence that cannot be copied, and while sampling if a model with a
    negative power gives probability zero to a token that the others allow.

    >>> import torch
    >>> import tractile as tt
    >>> a = tt.lm.TableLM({(): torch.tensor([0.5, 0.5], dtype=torch.float64).log()})
    >>> b = tt.lm.TableLM({(): torch.tensor([0.8, 0.2], dtype=torch.float64).log()})
    >>> target = a * b / a ** 2
    >>> target.start([[]])
    >>> [round(w, 3) for w in target.log_probs()[0].exp().tolist()]
    [1.6, 0.4]
    """

    is_normalised = False

    def __init__(
        self,
        lms: Sequence[LanguageModel],
        powers: Sequence[float] | None = None,
        prompts: Sequence[Prompt | None] | None = None,
    ) -> None:
        powers = [1.0] * len(lms) if powers is None else powers
        prompts = [None] * len(lms) if prompts is None else prompts
        if not lms or not len(lms) == len(powers) == len(prompts):
            raise EvidenceError(
                f"ProductLM: {len(lms)} models, {len(powers)} powers and {len(prompts)} prompts; give one of each for each model"
            )
        self._factors: list[PoweredModel] = []
        for lm, power, prompt in zip(lms, powers, prompts, strict=True):
            if isinstance(power, bool | str) or not math.isfinite(power):
                raise EvidenceError(f"ProductLM: a power must be a finite number, not {power!r}")
            for inner in lm._factors if isinstance(lm, ProductLM) else [PoweredModel(lm, 1.0, None)]:
                own = prompt if inner.prompt is None else inner.prompt
                self._factors.append(PoweredModel(self._apart(inner.lm), power * inner.power, own))
        first = self._factors[0].lm
        self.vocab_size: int = first.vocab_size
        self.eos_token_id: int | None = first.eos_token_id
        self.vocabulary_fingerprint = fingerprint_of(first)
        for i, factor in enumerate(self._factors[1:], 1):
            check_vocabularies(f"ProductLM: model {i}", factor.lm, "model 0", first, THROUGH_BYTES)
            if first.eos_token_id != factor.lm.eos_token_id:
                raise VocabularyMismatch(
                    f"ProductLM: model 0 ends with token {first.eos_token_id}, model {i} with {factor.lm.eos_token_id}; "
                    f"{THROUGH_BYTES}"
                )

    def _apart(self, lm: LanguageModel) -> LanguageModel:
        """Return the model, or a copy if it is a factor already."""
        if all(lm is not factor.lm for factor in self._factors):
            return lm
        if not isinstance(lm, Forking):
            raise EvidenceError(
                f"ProductLM: a {type(lm).__name__} cannot be copied; give another object for it"
            )
        return lm.fork()

    def start(self, prompts: Sequence[Prompt]) -> None:
        for lm, _, prompt in self._factors:
            lm.start(prompts if prompt is None else [prompt] * len(prompts))

    def log_probs(self) -> Float[Tensor, "batch vocab"]:
        """Return log w(next token | tokens so far), unnormalised; −∞ where a model with a positive power gives zero."""
        tables = [(power, lm.log_probs()) for lm, power, _ in self._factors if power]
        total = (
            torch.zeros_like(self._factors[0].lm.log_probs())
            if not tables
            else torch.zeros_like(tables[0][1])
        )
        for power, table in sorted(tables, key=lambda pair: -pair[0]):  # positive powers first: −∞ then stays
            total = torch.where(total.isneginf(), total, total + power * table.to(total.device))
        if bool(total.isposinf().any()):
            row, token = total.isposinf().nonzero()[0].tolist()
            raise EvidenceError(
                f"ProductLM: a model with a negative power gives probability zero to token {token}, which the others allow "
                f"(row {row}); smooth it, or constrain the text"
            )
        return total

    def advance(self, tokens: Int[Tensor, " batch"]) -> None:
        for lm, _, _ in self._factors:
            lm.advance(tokens)

    def select(self, indices: Int[Tensor, " rows"]) -> None:
        for lm, _, _ in self._factors:
            lm.select(indices)

    def fork(self) -> LanguageModel:
        found = copy(self)
        found._factors = []
        for lm, power, prompt in self._factors:
            if not isinstance(lm, Forking):
                raise EvidenceError(f"ProductLM: a {type(lm).__name__} cannot be copied")
            found._factors.append(PoweredModel(lm.fork(), power, prompt))
        return found

    @property
    def tokenizer(self) -> Any:
        """The tokenizer of the first model, for which constraints are compiled; None if it has none."""
        return getattr(self._factors[0].lm, "tokenizer", None)

    def decode(self, token_ids: Sequence[int]) -> str:
        return self._factors[0].lm.decode(token_ids)
