"""Context heads: predict an HMM's initial distribution from the language model's hidden state after the prompt.

    p(z | prompt) = softmax(W h + b),     h the model's last hidden state after the prompt

A linear head, trained on the corpus by cross-entropy: the target at each position is the HMM's smoothed posterior
p(z_t | x_1 … x_n). The result is an HMM with another initial distribution, so P-GCD needs no change.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from tractile.circuits.hmm import HMM
from tractile.circuits.io.file_format import VOCABULARY
from tractile.distill.corpus import Corpus
from tractile.distill.evaluate import check
from tractile.distill.latent import hidden_states
from tractile.distill.progress import progress
from tractile.distill.tensor_file import read_tensors, write_tensors
from tractile.errors import FormatError, ShapeError
from tractile.fingerprints import check_same
from tractile.inference import smooth
from tractile.lm.base import LanguageModel, Prompt

from .copying import check_tokenizer

FILE = "context.safetensors"
KEPT_BYTES = 1 << 30
"""The most bytes of hidden states that training keeps; of a larger corpus they are computed in each epoch."""
logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class ContextHead:
    """A linear map from a language model's last hidden state to a distribution over an HMM's states.

    Examples
    --------
    >>> import torch
    >>> import tractile as tt
    >>> from tractile_bench.guides import ContextHead
    >>> head = ContextHead(weight=torch.tensor([[2.0, 0.0], [0.0, 0.0]]), bias=torch.zeros(2))
    >>> head(torch.tensor([[0.0, 1.0], [1.0, 1.0]]))  # a distribution over the HMM's states for each of the model's
    tensor([[0.5000, 0.5000],
            [0.8808, 0.1192]])
    """

    weight: Float[Tensor, "hidden width"]
    bias: Float[Tensor, " hidden"]
    vocabulary_fingerprint: str | None = None  # of the tokenizer that it was trained with

    @classmethod
    def fit(
        cls,
        hmm: HMM,
        model: Any,
        tokenizer: Any,
        corpus: Corpus,
        *,
        epochs: int = 3,
        batch_size: int = 128,
        rate: float = 3e-3,
        seed: int = 0,
    ) -> ContextHead:
        """Train a head for an HMM on the corpus that it was distilled from, by Adam with a falling step size.

        Raises :class:`VocabularyMismatch` if the HMM, the tokenizer and the corpus do not belong together.
        """
        check(hmm, corpus)
        corpus.check_tokenizer(tokenizer)
        generator = torch.Generator().manual_seed(seed)
        prior = hmm.initial_probs.detach().float()
        weight = torch.zeros(hmm.hidden, model.config.hidden_size, requires_grad=True)
        bias = prior.clamp(min=1e-6).log().requires_grad_()
        steps = epochs * -(-len(corpus) // batch_size)
        optimiser = torch.optim.Adam([weight, bias], lr=rate)
        size = 2 * corpus.tokens.numel() * model.config.hidden_size
        kept = _read(model, tokenizer, corpus, batch_size) if epochs > 1 and size <= KEPT_BYTES else None
        schedule = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda step: 1 - step / steps)
        eos = corpus.manifest.eos_token_id
        with progress("context head", steps) as advance:
            for _ in range(epochs):
                for rows in torch.split(torch.randperm(len(corpus), generator=generator), batch_size):
                    part = corpus.select(rows)
                    tokens = part.tokens
                    begun = torch.cat([torch.ones_like(tokens[:, :1]), tokens[:, :-1] != eos], 1).bool()
                    with torch.no_grad():
                        states = _read(model, tokenizer, part, batch_size) if kept is None else kept[rows]
                        points, target = states[begun].float(), smooth(hmm, tokens).exp()[begun].float()
                    guess = (points @ weight.T + bias).log_softmax(1)
                    loss = -(target * guess).sum(1).mean()
                    optimiser.zero_grad()
                    loss.backward()
                    optimiser.step()
                    schedule.step()
                    advance(1, f"context head, {float(loss.detach()):.3f} nats")
        made_for = hmm.vocabulary_fingerprint or corpus.vocabulary_fingerprint
        return cls(weight.detach(), bias.detach(), made_for)

    def __call__(self, states: Float[Tensor, "... width"]) -> Float[Tensor, "... hidden"]:
        """Map hidden states of the language model to distributions over the HMM's states."""
        return (states.float() @ self.weight.T + self.bias).softmax(-1)

    @torch.no_grad()
    def begin(self, hmm: HMM, model: Any, tokenizer: Any, prompt: str | list[int]) -> HMM:
        """Return the HMM with the initial distribution that the head predicts after a prompt.

        Raises :class:`ShapeError` if the HMM has another number of states, :class:`VocabularyMismatch` if it was made for
        another tokenizer.
        """
        if hmm.hidden != len(self.bias):
            raise ShapeError(
                f"ContextHead: made for {len(self.bias)} hidden states, the HMM has {hmm.hidden}"
            )
        check_tokenizer("ContextHead: the HMM", hmm, tokenizer)
        check_same(
            "ContextHead: the head", self.vocabulary_fingerprint, "the HMM", hmm.vocabulary_fingerprint
        )
        ids = tokenizer(prompt).input_ids if isinstance(prompt, str) else list(prompt)
        if not ids and tokenizer.bos_token_id is not None:
            ids = [tokenizer.bos_token_id]
        if not ids:
            raise ShapeError("ContextHead: the prompt has no tokens; begin it with the model's BOS")
        read = model(
            input_ids=torch.tensor([ids], device=model.device), output_hidden_states=True, use_cache=False
        )
        initial = self(read.hidden_states[-1][0, -1].cpu()).to(hmm.initial_probs)
        begun = HMM(initial / initial.sum(), hmm.transition, hmm.emission_probs)
        return begun.for_vocabulary(hmm.vocabulary_fingerprint)

    def save_pretrained(self, directory: str | Path) -> None:
        """Write ``context.safetensors`` into the folder of the HMM; raises :class:`StorageError`."""
        header = {VOCABULARY: self.vocabulary_fingerprint}
        write_tensors(Path(directory) / FILE, {"weight": self.weight, "bias": self.bias}, header)

    @staticmethod
    def is_in(directory: str | Path) -> bool:
        """Return whether the folder of an HMM holds a head."""
        return (Path(directory) / FILE).exists()

    @classmethod
    def from_pretrained(cls, directory: str | Path) -> ContextHead:
        """Read what :meth:`save_pretrained` wrote; raises :class:`FormatError`."""
        file = Path(directory) / FILE
        try:
            tensors, header = read_tensors(file)
            return cls(tensors["weight"], tensors["bias"], header.get(VOCABULARY))
        except (FormatError, KeyError) as error:
            raise FormatError(f"{file} is no context head: {error}") from error


@torch.no_grad()
def _read(
    model: Any, tokenizer: Any, corpus: Corpus, batch_size: int
) -> Float[Tensor, "sequences length width"]:
    """Compute the model's last hidden state before each token of the sequences."""
    return hidden_states(model, tokenizer, corpus, batch_size, shift=1)


def with_context(hmm: HMM, folder: Path, lm: LanguageModel, prompt: Prompt) -> HMM:
    """Condition an HMM on a prompt by the context head in its folder; :func:`tractile.smc` calls it.

    Logs a warning and returns ``hmm`` where ``lm`` has no transformers model and tokenizer.
    """
    model, tokenizer = getattr(lm, "model", None), getattr(lm, "tokenizer", None)
    if model is None or tokenizer is None:
        name = type(lm).__name__
        logger.warning("the context head in %s is not used: %s has no model and tokenizer", folder, name)
        return hmm
    return ContextHead.from_pretrained(folder).begin(
        hmm, model, tokenizer, prompt if isinstance(prompt, str) else list(prompt)
    )
