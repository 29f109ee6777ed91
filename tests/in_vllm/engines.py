"""Engines of the embedded language model."""

from tractile.embedded import HMM_PATH, LM_PATH


def started(**settings):
    """An engine of the embedded model, with structured output by Tractile unless ``settings`` say otherwise."""
    from vllm import LLM

    settings = {"additional_config": {"tractile": True}, "max_model_len": 512, **settings}
    return LLM(str(LM_PATH), enforce_eager=True, disable_log_stats=True, **settings)


def processor():
    """The class of V1 logits processors, with the embedded HMM."""
    from tractile.decoding.vllm import VLLMLogitsProcessor

    class Constrained(VLLMLogitsProcessor):
        tokenizer = str(LM_PATH)
        hmm = str(HMM_PATH)

    return Constrained
