"""What the logits processors of both model runners share: the tokenizer and HMM of a class, and its compiled constraints."""

from __future__ import annotations

import importlib
from collections import OrderedDict
from pathlib import Path
from threading import RLock
from typing import Any, ClassVar
from weakref import WeakSet

import torch

from ...circuits import HMM, Automaton
from ...constraints import Limits, Vocabulary
from ...errors import EvidenceError, VocabularyMismatch
from ...fingerprints import check_same
from ..constrained_rows import check_prefix
from ..request import compile_request, read_request
from .batch import Batch

MOST_COMPILED = 128  # automata kept
SERVING: WeakSet[Adapter] = WeakSet()
"""The logits processors of the engines in this process."""


class Adapter:
    """The base of a class that says where tokenizer and HMM are.

    ``tokenizer`` is the folder or name of a transformers tokenizer, or a tokenizer; ``hmm`` the folder of an HMM, or one, for
    P-GCD. ``limits`` are those of each request's constraint; a request cannot change them.
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
        """The batch of an engine whose texts have at most ``most`` tokens; its tables can then be prepared."""
        self.vllm_config, self.batch = vllm_config, Batch(self.automaton, self.load_hmm(device), most)
        SERVING.add(self)
        return self.batch

    @classmethod
    def validate_params(cls, sampling_params: Any) -> None:
        """Raises ``ValueError`` (all errors of the library are one) for what could not be served, before the engine sees it."""
        asked = read_request(sampling_params)
        if asked is not None:
            check_prefix(cls.automaton(asked.constraint), [], asked.budget)

    @classmethod
    def load_hmm(cls, device: torch.device) -> HMM | None:
        """The HMM on the engine's device. Raises :class:`VocabularyMismatch` for one of another tokenizer."""
        hmm = HMM.from_pretrained(cls.hmm) if isinstance(cls.hmm, str | Path) else cls.hmm
        if hmm is None:
            return None
        if hmm.vocab_size != len(cls.vocabulary()):
            raise VocabularyMismatch(
                f"the HMM has {hmm.vocab_size} tokens, the tokenizer {len(cls.vocabulary())}"
            )
        check_same(
            "the HMM",
            hmm.vocabulary_fingerprint,
            "the tokenizer",
            cls.vocabulary().fingerprint,
            "give an HMM distilled from this language model, or leave hmm out",
        )
        return hmm.to(device)

    @classmethod
    def vocabulary(cls) -> Vocabulary:
        """The vocabulary of the tokenizer, read once."""
        if cls._vocabulary is None:
            tokenizer = cls.tokenizer
            if tokenizer is None:
                raise EvidenceError(
                    f"{cls.__name__}: say tokenizer = … in the class, the folder of the model's tokenizer"
                )
            if isinstance(tokenizer, str | Path):
                tokenizer = importlib.import_module("transformers").AutoTokenizer.from_pretrained(tokenizer)
            cls._vocabulary = Vocabulary.from_tokenizer(tokenizer)
        return cls._vocabulary

    @classmethod
    def automaton(cls, constraint: str) -> Automaton:
        """The automaton of a constraint, compiled once in each process and kept on disk for the others."""
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
