"""The embedded language model as a GGUF file."""

import json

import gguf
import numpy as np
from safetensors.numpy import load_file

from tractile.embedded import LM_PATH

NAMES = {
    "model.embed_tokens": "token_embd", "model.norm": "output_norm", "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down", "model.layers": "blk",
}  # fmt: skip


def write(path):
    config = json.loads((LM_PATH / "config.json").read_text())
    tokens = json.loads((LM_PATH / "tokenizer.json").read_text())["model"]
    heads, kind = config["num_attention_heads"], gguf.TokenType
    out = gguf.GGUFWriter(path, "llama")
    out.add_context_length(config["max_position_embeddings"])
    out.add_embedding_length(config["hidden_size"])
    out.add_block_count(config["num_hidden_layers"])
    out.add_feed_forward_length(config["intermediate_size"])
    out.add_head_count(heads)
    out.add_layer_norm_rms_eps(config["rms_norm_eps"])
    out.add_rope_dimension_count(config["head_dim"])
    vocab = sorted(tokens["vocab"], key=tokens["vocab"].get)
    rank = {"".join(pair): -float(i) for i, pair in enumerate(tokens["merges"])}
    out.add_tokenizer_model("llama")
    out.add_token_list(vocab)
    out.add_token_scores([rank.get(token, -1e4) for token in vocab])
    types = [kind.BYTE if token.startswith("<0x") else kind.NORMAL for token in vocab]
    out.add_token_types([kind.UNKNOWN, kind.CONTROL, kind.CONTROL, *types[3:]])
    out.add_bos_token_id(config["bos_token_id"])
    out.add_eos_token_id(config["eos_token_id"])
    for name, weight in load_file(LM_PATH / "model.safetensors").items():
        if "q_proj" in name or "k_proj" in name:  # the two halves of a rotation, side by side
            halves = weight.reshape(heads, 2, config["head_dim"] // 2, -1)
            weight = halves.swapaxes(1, 2).reshape(weight.shape)
        for theirs, ours in NAMES.items():
            name = name.replace(theirs, ours)
        out.add_tensor(name, weight.astype(np.float32))
    out.write_header_to_file()
    out.write_kv_data_to_file()
    out.write_tensors_to_file()
    out.close()
    return path
