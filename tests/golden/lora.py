"""Writes the folders lora-llama and lora-gemma3 next to this file: small random models, adapters that `peft` wrote for them,
and their logits.

    pip install torch==2.15.0 transformers==5.24.0 peft==0.21.2 && python tests/golden/lora.py

Each folder has the model as `model.gguf` (matrices in F16 and F32), `adapter_config.json`, `adapter_model.safetensors`, and
`logits.txt`: the tokens, then the logits after each token with the adapter, in float64, one line for each.
"""

import pathlib
import struct
import tempfile

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from transformers import Gemma3ForCausalLM, Gemma3TextConfig, LlamaConfig, LlamaForCausalLM

TOKENS = [3, 14, 15, 39, 2, 6, 5, 35, 8, 9, 7, 9, 3, 23, 0, 38]
VOCABULARY = 40
NAMES = {
    "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down",
    "input_layernorm": "attn_norm", "self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm",
}  # fmt: skip
# Norms whose names have different meanings in the two families.
NORMS = {
    "llama": {"post_attention_layernorm": "ffn_norm"},
    "gemma3": {
        "post_attention_layernorm": "post_attention_norm", "pre_feedforward_layernorm": "ffn_norm",
        "post_feedforward_layernorm": "post_ffw_norm",
    },
}  # fmt: skip
OUTSIDE = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}


def text(value):
    return struct.pack("<Q", len(value.encode())) + value.encode()


def note(key, value):
    """Returns the bytes of a metadata entry."""
    match value:
        case str():
            return text(key) + struct.pack("<I", 8) + text(value)
        case int():
            return text(key) + struct.pack("<II", 4, value)
        case float():
            return text(key) + struct.pack("<If", 6, value)
        case list():
            return text(key) + struct.pack("<IIQ", 9, 8, len(value)) + b"".join(text(item) for item in value)


def gguf(family, config, weights):
    """Returns the bytes of a GGUF file, with queries and keys of Llama permuted as llama.cpp's converter does."""
    notes = {
        "general.architecture": family,
        f"{family}.block_count": config.num_hidden_layers,
        f"{family}.embedding_length": config.hidden_size,
        f"{family}.attention.head_count": config.num_attention_heads,
        f"{family}.attention.head_count_kv": config.num_key_value_heads,
        f"{family}.attention.key_length": config.head_dim,
        f"{family}.feed_forward_length": config.intermediate_size,
        f"{family}.context_length": 64,
        f"{family}.attention.layer_norm_rms_epsilon": config.rms_norm_eps,
        f"{family}.rope.freq_base": 10_000.0,
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.tokens": [chr(ord("A") + n) for n in range(VOCABULARY)],
        "tokenizer.ggml.merges": [],
    }
    if family == "gemma3":
        notes[f"{family}.attention.sliding_window"] = config.sliding_window
    rows, data = b"", b""
    for name, weight in weights.items():
        path = name.removesuffix(".weight")
        if path.startswith("model.layers."):
            layer, part = path.removeprefix("model.layers.").split(".", 1)
            path = f"blk.{layer}.{(NAMES | NORMS[family])[part]}"
            heads = {"self_attn.q_proj": config.num_attention_heads, "self_attn.k_proj": config.num_key_value_heads}
            if family == "llama" and part in heads:
                shape = (heads[part], 2, weight.shape[0] // heads[part] // 2, weight.shape[1])
                weight = weight.reshape(shape).swapaxes(1, 2).reshape(weight.shape)
        else:
            path = OUTSIDE[path]
        if weight.ndim == 1:
            # Only `transformers` stores Gemma's norms as their difference from 1.
            weight, kind = (weight + 1 if family == "gemma3" else weight).float(), 0
        elif family == "gemma3" and ("attn_v" in path or "ffn_up" in path):
            # Products of the same input whose weights have different formats.
            weight, kind = weight.float(), 0
        else:
            weight, kind = weight.half(), 1
        axes = list(reversed(weight.shape))
        rows += text(f"{path}.weight") + struct.pack(f"<I{len(axes)}QIQ", len(axes), *axes, kind, len(data))
        data += weight.contiguous().numpy().tobytes()
        data += bytes(-len(data) % 32)
    head = b"GGUF" + struct.pack("<IQQ", 3, len(weights), len(notes))
    head += b"".join(note(key, value) for key, value in notes.items()) + rows
    return head + bytes(-len(head) % 32) + data


def write(family, model, lora):
    config = model.config
    with torch.no_grad():
        for name, weight in model.named_parameters():
            scale = 0.3 if weight.ndim == 1 else 1.7 * weight.shape[1] ** -0.5
            start = 1.0 if weight.ndim == 1 and family == "llama" else 0.0
            new = start + scale * (2 * torch.rand(weight.shape) - 1)
            weight.copy_(new.half() if weight.ndim > 1 else new)
    weights = dict(model.named_parameters())
    folder = pathlib.Path(__file__).with_name(f"lora-{family}")
    folder.mkdir(exist_ok=True)
    (folder / "model.gguf").write_bytes(gguf(family, config, {name: w.detach().clone() for name, w in weights.items()}))
    tuned = get_peft_model(model, lora)
    with torch.no_grad():
        for name, weight in tuned.named_parameters():
            if "lora_B" in name:
                weight.copy_(0.2 * torch.randn(weight.shape))
    with tempfile.TemporaryDirectory() as saved:
        tuned.save_pretrained(saved)
        for name in ["adapter_config.json", "adapter_model.safetensors"]:
            (folder / name).write_bytes((pathlib.Path(saved) / name).read_bytes())
    with torch.no_grad():
        logits = tuned.double()(torch.tensor([TOKENS])).logits[0]
    lines = [" ".join(map(str, TOKENS))] + [" ".join(f"{v:.9g}" for v in row) for row in logits.tolist()]
    (folder / "logits.txt").write_text("\n".join(lines) + "\n")


SIZES = {
    "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
    "vocab_size": VOCABULARY, "max_position_embeddings": 64, "attn_implementation": "eager",
}  # fmt: skip
ALL = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]

if __name__ == "__main__":
    torch.manual_seed(1)
    llama = LlamaForCausalLM(LlamaConfig(**SIZES, head_dim=8, rms_norm_eps=1e-5, tie_word_embeddings=False))
    write("llama", llama, LoraConfig(r=4, lora_alpha=8, target_modules=ALL, task_type="CAUSAL_LM"))
    gemma = Gemma3ForCausalLM(
        Gemma3TextConfig(
            **SIZES, head_dim=16, query_pre_attn_scalar=16, rms_norm_eps=1e-6, sliding_window=5,
            layer_types=["sliding_attention"] * 2,
        )
    )  # fmt: skip
    lora = LoraConfig(r=3, lora_alpha=5, use_rslora=True, target_modules="all-linear", task_type="CAUSAL_LM")
    write("gemma3", gemma, lora)
