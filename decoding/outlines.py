"""A back end for Outlines: its generators with masks that know the budget.

    model = outlines.from_transformers(lm, tokenizer)           or from_llamacpp, from_mlxlm
    backend = OutlinesBackend(model, max_new_tokens=64)
    generator = outlines.Generator(model, processor=backend.get_json_schema_logits_processor(schema))
    generator(prompt, max_new_tokens=64)

Implements ``outlines.backends.base.BaseBackend`` of Outlines 1.3, whose list of back ends by name is closed.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ..circuits.chain import Chain
from ..constraints.vocabulary.reading import vocabulary_of
from ..errors import UnsupportedConstraint
from .llama_cpp import LlamaProcessor, llama_vocabulary
from .logits_processor import ConstraintLogitsProcessor
from .mlx_lm import MLXProcessor
from .request import build_constraint

try:
    from outlines.backends.base import BaseBackend as _Backend
except ImportError:  # not installed: the module can be imported without it
    _Backend = object


class OutlinesBackend(_Backend):  # type: ignore[misc]
    """Makes logits processors for a steerable model of Outlines; what it makes may be used again, also for batches.

    Args:
        model: the model, of transformers, llama-cpp-python or MLX-LM.
        max_new_tokens: the most tokens of a text, end-of-sequence included: that of the calls of the generator.
        hmm: an HMM distilled from the model, or its folder, for P-GCD.
    """

    def __init__(self, model: Any, max_new_tokens: int, hmm: Chain | str | Path | None = None) -> None:
        self.model, self.budget, self.hmm = model, max_new_tokens, hmm
        if model.tensor_library_name == "numpy":
            self.vocabulary = llama_vocabulary(model.model)
        elif model.tensor_library_name == "mlx":
            self.vocabulary = vocabulary_of(model.mlx_tokenizer._tokenizer)
        else:
            self.vocabulary = vocabulary_of(model.hf_tokenizer)

    def get_json_schema_logits_processor(
        self, json_schema: str, whitespace_pattern: str | None = None
    ) -> Any:
        """Make the processor of a JSON Schema, given as text.

        Raises :class:`UnsupportedConstraint` for a schema that is not supported, and for a pattern of white space.
        """
        if whitespace_pattern is not None:
            raise UnsupportedConstraint(
                "a pattern of white space is not supported; JSON is written as json.dumps does",
                path="whitespace_pattern",
            )
        return self._processor("json_schema", json.loads(json_schema))

    def get_regex_logits_processor(self, regex: str) -> Any:
        """Make the processor of a regular expression. Raises :class:`UnsupportedConstraint` for one that is not supported."""
        return self._processor("regex", regex)

    def get_cfg_logits_processor(self, grammar: str) -> Any:
        """Make the processor of a grammar: Lark, or GBNF where it has ``::=``."""
        return self._processor("grammar", grammar)

    def _processor(self, kind: str, description: Any) -> Any:
        fa = build_constraint(kind, description, {}).compile(self.vocabulary)
        processor = ConstraintLogitsProcessor(fa, self.hmm, self.budget)
        match self.model.tensor_library_name:
            case "numpy":
                return LlamaProcessor(self.model.model, processor)
            case "mlx":
                return MLXProcessor(processor)
            case _:
                return processor
