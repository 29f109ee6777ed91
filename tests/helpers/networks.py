"""Small language models of transformers with random weights."""

import torch
from transformers import LlamaConfig, LlamaForCausalLM

SIZES = {
    "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2,
}  # fmt: skip
TINY = {"hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1}


def llama(vocab_size, sizes=SIZES, **settings):
    """A Llama of two layers, or of other sizes."""
    torch.manual_seed(0)
    return LlamaForCausalLM(LlamaConfig(vocab_size=vocab_size, **sizes, **settings)).eval()
