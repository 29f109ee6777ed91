"""The common base of both logits processors: the tokenizer and HMM of a class, and its cache of compiled constraints."""

from __future__ import annotations

from collections import OrderedDict
from pathlib import Path
from threading import RLock
from typing import Any, ClassVar
from weakref import WeakSet

import torch

from ...circuits import HMM, Automaton
from ...constraints import Limits, Vocabulary
from ...constraints.vocabulary.reading import vocabulary_within
from ...errors import EvidenceError
from ...fingerprints import VocabularyPrint, check_vocabularies
from ..constrained_rows import check_prefix
from ..request import compile_request, read_request
from .batch import Batch

MOST_COMPILED = 128  # automata in the cache of a class
SERVING: WeakSet[Adapter] = WeakSet()
"""The logits processors of the engines in this process."""


class Adapter:
    """The base of logits processors; subclasses set where the tokenizer and HMM are.

    ``tokenizer``: a transformers tokenizer, or its folder or name; ``hmm``: an HMM or its folder, for P-GCD; ``limits``:
    bounds on building and compiling each request's constraint, which a request cannot change.
    """

    tokenizer: ClassVar[Any] = None
    limits: ClassVar[Limits] = Limits()
    hmm: ClassVar[str | Path | HMM | None] = None
    _vocabulary: ClassVar[Vocabulary | None] = None
    _compiled: ClassVar[OrderedDict[str, Automaton]]
    _lock: ClassVar[RLock] = RLock()

    def __init_subclass__(cls, **arguments: Any) -> None:
        super().__init_subclass__(**arguments)
        cls._vocabulary, cls._compiled = None, OrderedDict()

    def serve(self, vllm_config: Any, device: torch.device, most: int) -> Batch:
        """Make the batch of an engine whose texts have at most ``most`` tokens, and register it with :mod:`.preparation`."""
        self.fit(outputs_of(vllm_config))
        self.vllm_config, self.batch = vllm_config, Batch(self.automaton, self.load_hmm(device), most)
        SERVING.add(self)
        return self.batch

    @classmethod
    def validate_params(cls, sampling_params: Any) -> None:
        """Refuse a request that cannot be served, before it reaches the engine.

        Raises a ``ValueError``, as vLLM expects: :class:`UnsupportedConstraint`, :class:`BudgetTooSmall` and others.
        """
        asked = read_request(sampling_params)
        if asked is not None:
            check_prefix(cls.automaton(asked.constraint), [], asked.budget)

    @classmethod
    def load_hmm(cls, device: torch.device) -> HMM | None:
        """Load the HMM onto the engine's device; None without. Raises :class:`VocabularyMismatch` for another tokenizer's HMM."""
        hmm = HMM.from_pretrained(cls.hmm) if isinstance(cls.hmm, str | Path) else cls.hmm
        if hmm is None:
            return None
        vocab = cls.vocabulary()
        check_vocabularies(
            "the HMM", hmm, "the tokenizer", VocabularyPrint(len(vocab), vocab.fingerprint),
            "give an HMM distilled from this language model, or leave hmm out",
        )  # fmt: skip
        return hmm.to(device)

    @classmethod
    def vocabulary(cls) -> Vocabulary:
        """Return the vocabulary of the tokenizer, read once for each class."""
        if cls._vocabulary is None:
            tokenizer = cls.tokenizer
            if tokenizer is None:
                raise EvidenceError(
                    f"{cls.__name__}: say tokenizer = … in the class, the folder of the model's tokenizer"
                )
            if isinstance(tokenizer, str | Path):
                from transformers import AutoTokenizer

                tokenizer = AutoTokenizer.from_pretrained(tokenizer)
            cls._vocabulary = Vocabulary.from_tokenizer(tokenizer)
        return cls._vocabulary

    @classmethod
    def fit(cls, outputs: int | None) -> None:
        """Leave out tokens that the engine's model has no outputs for. Raises :class:`VocabularyMismatch` if one ends texts."""
        if outputs is not None and outputs < len(cls.vocabulary()):
            cls._vocabulary = vocabulary_within(cls.vocabulary(), outputs)
            with cls._lock:
                cls._compiled.clear()

    @classmethod
    def automaton(cls, constraint: str) -> Automaton:
        """Return the automaton of a constraint, from the cache of the class or of the disk, or compiled now."""
        with cls._lock:
            found = cls._compiled.get(constraint)
        if found is None:
            found = compile_request(constraint, cls.vocabulary(), cls.limits)
        with cls._lock:
            found = cls._compiled.setdefault(constraint, found)
            cls._compiled.move_to_end(constraint)
            while len(cls._compiled) > MOST_COMPILED:
                cls._compiled.popitem(last=False)
        return found


def outputs_of(vllm_config: Any) -> int | None:
    """Return the number of outputs of an engine's model; ``None`` without a configuration that tells it."""
    find = getattr(getattr(vllm_config, "model_config", None), "get_vocab_size", None)
    return None if find is None else int(find())
