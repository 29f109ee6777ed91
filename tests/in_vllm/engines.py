"""Engines of the embedded language model."""

import sys

from tractile.embedded import HMM_PATH, LM_PATH


def started(**settings):
    """An engine of the embedded model, with structured output by Tractile unless ``settings`` say otherwise."""
    from vllm import LLM

    # vLLM 0.32 looks for kernels in all that has __dict__, and so has what drafts import: llvmlite's library, by any name.
    if (llvmlite := sys.modules.get("llvmlite.binding.ffi")) is not None:
        llvmlite._lib_fn_wrapper.get = lambda wrapper, name: None
    settings = {"additional_config": {"tractile": True}, "max_model_len": 512, **settings}
    return LLM(str(LM_PATH), enforce_eager=True, disable_log_stats=True, **settings)


def processor():
    """The class of V1 logits processors, with the embedded HMM."""
    from tractile.decoding.vllm import VLLMLogitsProcessor

    class Constrained(VLLMLogitsProcessor):
        tokenizer = str(LM_PATH)
        hmm = str(HMM_PATH)

    return Constrained
