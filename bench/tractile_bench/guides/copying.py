"""An HMM that copies tokens from its prompt: a pointer-generator (See et al. 2017) as an HMM.

Copying states are added to an HMM; each emits one token of the prompt. With z a state of the HMM, i a copying state with
token x_i, and v the token just emitted,

    from z    with 1 − enter(z)  to z' as the HMM does
              with enter(z)      to i  ∝  start(x_i) · (n_i + follow · Σ_j N_ji [x_j = v])
    from i    with stay(x_i)     to j  ∝  N_ij
              with 1 − stay(x_i) as from the state in which the HMM emits x_i

where n_i is the number of places in the prompt that i stands for and N_ij the number of times that j follows i there. Each of
the last ``recent`` tokens of a prompt has its own state, so that phrases are copied in order; equal earlier tokens share a
state. The result is an ordinary HMM, for P-GCD and every query. Parameters are fitted by gradient ascent on
log p(text | prompt).
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from tractile.circuits.hmm import HMM
from tractile.distill.tensor_file import read_tensors, write_tensors
from tractile.errors import FormatError, ShapeError, VocabularyMismatch
from tractile.fingerprints import check_same
from tractile.lm.base import LanguageModel, Prompt
from tractile.token_bytes import tokenizer_fingerprint

FILE = "copying.safetensors"
logger = logging.getLogger(__name__)
NAMES = ("begin", "enter", "stay", "start", "follow", "usage")  # names of the parameter tensors


class Places(NamedTuple):
    """The copying states of several prompts, padded."""

    tokens: Int[Tensor, "batch states"]  # the token of each state; 0 for padding
    times: Float[Tensor, "batch states"]  # n_i, the number of places of each state; 0 for padding
    next: Float[Tensor, "batch states states"]  # N_ij, the number of times that j follows i


@dataclass(frozen=True)
class Copying:
    """An HMM with the parameters of copying from a prompt.

    ``begin``: probability that the first token is copied; ``enter``: for each state, probability that the next token is copied;
    ``stay``: for each token, probability that copying goes on after it; ``start``: weight of starting to copy at each token;
    ``follow``: extra weight of starting at a token that follows the last token in the prompt; ``usage``: expected visits of
    each state, from which p(state | token) is computed; ``recent``: see the module.

    Examples
    --------
    >>> import torch
    >>> import tractile as tt
    >>> from tractile_bench.guides import Copying
    >>> hmm = tt.HMM([1.0], [[1.0]], [[0.25] * 4])
    >>> parts = dict(begin=torch.tensor(0.5), enter=torch.tensor([0.1]), stay=torch.full((4,), 0.9), usage=torch.ones(1))
    >>> copying = Copying(hmm, start=torch.ones(4), follow=torch.tensor(1.0), **parts)
    >>> with_prompt = copying.read([2, 3])  # two copying states before the HMM's own
    >>> with_prompt.hidden
    3
    >>> tt.log_marginal(hmm, torch.tensor([[2, 3]])).exp(), tt.log_marginal(with_prompt, torch.tensor([[2, 3]])).exp()
    (tensor([0.0625], dtype=torch.float64), tensor([0.2669], dtype=torch.float64))
    """

    hmm: HMM
    begin: Float[Tensor, ""]
    enter: Float[Tensor, " hidden"]
    stay: Float[Tensor, " vocab"]
    start: Float[Tensor, " vocab"]
    follow: Float[Tensor, ""]
    usage: Float[Tensor, " hidden"]
    recent: int = 64

    def __post_init__(self) -> None:
        hidden, vocab = self.hmm.emission_probs.shape
        shapes = {
            "begin": (), "enter": (hidden,), "stay": (vocab,), "start": (vocab,), "follow": (), "usage": (hidden,)
        }  # fmt: skip
        for name, shape in shapes.items():
            value: Tensor = getattr(self, name)
            limit = 1 if name in ("begin", "enter", "stay") else torch.inf
            if value.shape != shape or not bool(((value >= 0) & (value <= limit) & value.isfinite()).all()):
                raise ShapeError(
                    f"Copying: {name} must be of shape {shape}, numbers from 0 to {limit}; it is of {tuple(value.shape)}"
                )
        if self.recent < 0:
            raise ShapeError(f"Copying: recent must not be negative, it is {self.recent}")

    def read(self, prompt: str | Iterable[int], tokenizer: Any = None) -> HMM:
        """Return the HMM of texts after a prompt (token ids, or a text with its ``tokenizer``); copying states come first.

        Special tokens, and tokens that the HMM never emits in a used state (such as the end), are not copied; without any others
        the HMM is returned unchanged. Raises :class:`VocabularyMismatch` for tokens beyond the vocabulary and for
        another tokenizer than the HMM's, :class:`ShapeError` for a text without a tokenizer.
        """
        check_tokenizer("Copying: the HMM", self.hmm, tokenizer)
        tokens = tokens_of(prompt, tokenizer)
        hmm, vocab = self.hmm, self.hmm.vocab_size
        if tokens and not 0 <= min(tokens) <= max(tokens) < vocab:
            raise VocabularyMismatch(
                f"Copying: the prompt has tokens beyond the vocabulary of {vocab}: it is another model's"
            )
        said = self.usage @ hmm.emission_probs > 0
        tokens = [token for token in tokens if said[token]]
        if not tokens:
            return hmm
        device = hmm.emission_probs.device
        places = Places(*(part.to(device) for part in places_of([tokens], self.recent)))
        initial, move, own = joined(
            self, places, hmm.initial_probs, hmm.transition.dense().to(hmm.emission_probs)
        )
        emission = torch.nn.functional.one_hot(places.tokens[0], vocab).to(hmm.emission_probs)
        transition = torch.cat([move.copied(own)[0], own[0]])
        joined_hmm = HMM(_normal(initial[0]), _normal(transition), torch.cat([emission, hmm.emission_probs]))
        return joined_hmm.for_vocabulary(hmm.vocabulary_fingerprint)

    def to(self, device: torch.device | str) -> Copying:
        """Return a copy on another device."""
        moved = {name: getattr(self, name).to(device) for name in NAMES}
        return replace(self, hmm=self.hmm.to(device), **moved)

    def save_pretrained(self, directory: str | Path, dtype: torch.dtype = torch.float32) -> None:
        """Write the HMM into a directory, as ``dtype``, and ``copying.safetensors`` beside it; raises :class:`StorageError`."""
        self.hmm.save_pretrained(directory, dtype)
        tensors = {name: getattr(self, name).float() for name in NAMES}
        write_tensors(Path(directory) / FILE, tensors, {"recent": self.recent})

    @staticmethod
    def is_in(directory: str | Path) -> bool:
        """Return whether the folder of an HMM holds parameters of copying."""
        return (Path(directory) / FILE).exists()

    @classmethod
    def from_pretrained(cls, directory: str | Path) -> Copying:
        """Read what :meth:`save_pretrained` wrote; raises :class:`FormatError`."""
        file = Path(directory) / FILE
        try:
            tensors, header = read_tensors(file)
            recent = int(header["recent"] if "recent" in header else tensors.pop("recent"))
            return cls(HMM.from_pretrained(directory), recent=recent, **tensors)
        except (FormatError, KeyError, TypeError, ShapeError) as error:
            raise FormatError(f"{file} holds no parameters of copying: {error}") from error


def with_copying(hmm: HMM, folder: Path, lm: LanguageModel, prompt: Prompt) -> HMM:
    """Add copying states for a prompt to an HMM, by the parameters in its folder; :func:`tractile.smc` calls it.

    Logs a warning and returns ``hmm`` if the prompt is text and ``lm`` has no tokenizer.
    """
    tokenizer = getattr(lm, "tokenizer", None)
    if not callable(tokenizer):
        tokenizer = None
    if isinstance(prompt, str) and tokenizer is None:
        logger.warning("the copying in %s is not used: %s has no tokenizer", folder, type(lm).__name__)
        return hmm
    copying = Copying.from_pretrained(folder)
    parameters = {name: getattr(copying, name).to(hmm.emission_probs) for name in NAMES}
    return replace(copying, hmm=hmm, **parameters).read(prompt, tokenizer)


class Move(NamedTuple):
    """Transitions out of copying states."""

    stay: Float[Tensor, "batch states states"]
    leave: Float[Tensor, "batch states hidden"]  # to the HMM, as from the state in which it emits the token

    def copied(self, own: Float[Tensor, "batch hidden all"]) -> Float[Tensor, "batch states all"]:
        """Compute the rows of the copying states from those of the HMM's own states."""
        stay = torch.nn.functional.pad(self.stay, (0, own.shape[2] - self.stay.shape[2]))
        return stay + self.leave @ own


def check_tokenizer(name: str, hmm: HMM, tokenizer: Any) -> None:
    """Raise :class:`VocabularyMismatch` if an HMM is known to be made for another tokenizer."""
    if hmm.vocabulary_fingerprint is not None and tokenizer is not None:
        last = hmm.emission_probs[-1]
        end = (
            int(last.argmax()) if float(last.max()) == 1 else None
        )  # the token of its end state, if it has one
        other = tokenizer_fingerprint(tokenizer, end, hmm.vocab_size)
        check_same(
            name, hmm.vocabulary_fingerprint, "the tokenizer", other, "give the tokenizer of its model"
        )


def tokens_of(prompt: str | Iterable[int], tokenizer: Any = None) -> list[int]:
    """Tokenize a prompt and drop special tokens."""
    if isinstance(prompt, str):
        if tokenizer is None:
            raise ShapeError("Copying: the prompt is text: give the tokenizer")
        prompt = tokenizer(prompt).input_ids
    special = set() if tokenizer is None else set(tokenizer.all_special_ids)
    return [int(token) for token in prompt if token not in special]


def places_of(prompts: Sequence[Sequence[int]], recent: int) -> Places:
    """Build the copying states of each prompt: distinct earlier tokens, then each of the last ``recent``."""
    states = []
    for prompt in prompts:
        names: dict[tuple[int, int], int] = {}
        first = len(prompt) - recent
        states.append(
            ([names.setdefault((v, max(i - first + 1, 0)), len(names)) for i, v in enumerate(prompt)], names)
        )
    width = max(1, max(len(names) for _, names in states))
    tokens = torch.zeros(len(prompts), width, dtype=torch.long)
    count, after = torch.zeros(len(prompts), width), torch.zeros(len(prompts), width, width)
    for b, (each, names) in enumerate(states):
        tokens[b, : len(names)] = torch.tensor([token for token, _ in names], dtype=torch.long)
        path = torch.tensor(each, dtype=torch.long)
        count[b].index_add_(0, path, torch.ones(len(path)))
        after[b].index_put_((path[:-1], path[1:]), torch.ones(max(len(path) - 1, 0)), accumulate=True)
    return Places(tokens, count, after)


def joined(
    copying: Copying,
    places: Places,
    initial: Float[Tensor, " hidden"],
    transition: Float[Tensor, "hidden hidden"],
) -> tuple[Float[Tensor, "batch all"], Move, Float[Tensor, "batch hidden all"]]:
    """Compute (initial distribution, transitions of copying states, transition rows of the HMM's own states)."""
    emission, there = copying.hmm.emission_probs, places.times > 0
    start = copying.start[places.tokens] * there
    anywhere = places.times * start
    total = anywhere.sum(1, keepdim=True).clamp(min=torch.finfo(start.dtype).tiny)
    # The last token v is known only through the HMM's state: p(v | z) = B(z, v).
    same = (places.tokens[:, :, None] == places.tokens[:, None]) & there[:, :, None] & there[:, None]
    same = same.to(start)
    following = copying.follow * places.next * start[:, None]
    weight = total + (same @ following).sum(2)  # normaliser of the starts after the token of each state
    seen = (emission.T[places.tokens] * there[:, :, None]).transpose(1, 2)  # (batch, hidden, states)
    share = seen / same.sum(2).clamp(min=1)[:, None]  # divided, so that each token counts once
    every = (1 - share.sum(2)).clamp(min=0) / total + (share / weight[:, None]).sum(2)
    entry = every[:, :, None] * anywhere[:, None] + (seen / weight[:, None]) @ following
    enter = copying.enter[:, None]
    own = torch.cat([enter * entry, ((1 - enter) * transition).expand(len(start), -1, -1)], 2)

    onward = places.next.sum(2, keepdim=True)
    stay = copying.stay[places.tokens][:, :, None] * (onward > 0)
    said = (copying.usage[:, None] * emission).T[places.tokens]
    said = said / said.sum(2, keepdim=True).clamp(min=torch.finfo(said.dtype).tiny)
    move = Move(stay * places.next / onward.clamp(min=1), (1 - stay) * said)
    first = torch.cat(
        [copying.begin * anywhere / total, ((1 - copying.begin) * initial).expand(len(start), -1)], 1
    )
    return first, move, own


def _normal(weight: Tensor) -> Tensor:
    return weight / weight.sum(-1, keepdim=True)
