"""Writes the folders decoder-llama and decoder-gemma3 next to this file: small random models as `transformers` saves them.

    pip install torch==2.15.0 transformers==5.24.0 && python tests/golden/decoders.py

Each folder has `config.json`, `generation_config.json`, `tokenizer.json`, `tokenizer_config.json`, safetensors files, and
`logits.txt`: the tokens, then the logits after each token, in float64, one line for each. The settings switch on every
feature of the family that the library implements, so a missing feature changes the logits.
"""

import json
import pathlib
import shutil

import torch
from transformers import Gemma3ForCausalLM, Gemma3TextConfig, GenerationConfig, LlamaConfig, LlamaForCausalLM

VOCABULARY = 40
TOKENS = [3, 14, 15, 39, 2, 6, 5, 35, 8, 9, 7, 9, 3, 23, 0, 38, 1, 4, 22, 17, 30, 12, 8, 8]
TEMPLATE = "{{ bos_token }}{% for m in messages %}{{ m.content }}{% endfor %}{% if add_generation_prompt %}C{% endif %}"


def tokenizer():
    """Returns a vocabulary of letters. The last two tokens begin a text and end an answer."""
    letters = [chr(ord("A") + n) for n in range(VOCABULARY - 2)]
    special = [{"id": VOCABULARY - 2 + n, "content": name, "special": True, "single_word": False, "lstrip": False,
                "rstrip": False, "normalized": False} for n, name in enumerate(["<s>", "<stop>"])]  # fmt: skip
    return {
        "version": "1.0", "added_tokens": special, "normalizer": None, "post_processor": None, "truncation": None,
        "padding": None, "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True},
        "decoder": {"type": "ByteLevel"},
        "model": {"type": "BPE", "vocab": {letter: n for n, letter in enumerate(letters)}, "merges": []},
    }  # fmt: skip


def write(family, model, dtype, shard):
    folder = pathlib.Path(__file__).with_name(f"decoder-{family}")
    shutil.rmtree(folder, ignore_errors=True)
    with torch.no_grad():
        for weight in model.parameters():
            scale = 0.3 if weight.ndim == 1 else 1.7 * weight.shape[1] ** -0.5
            start = 1.0 if weight.ndim == 1 and family == "llama" else 0.0
            weight.copy_((start + scale * (2 * torch.rand(weight.shape) - 1)).to(dtype))
        logits = model.double()(torch.tensor([TOKENS])).logits[0]
    model.to(dtype)
    model.generation_config = GenerationConfig(eos_token_id=[VOCABULARY - 1])
    model.save_pretrained(folder, max_shard_size=shard)
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer()) + "\n")
    config = {"bos_token": "<s>", "add_bos_token": True, "chat_template": TEMPLATE}
    (folder / "tokenizer_config.json").write_text(json.dumps(config) + "\n")
    lines = [" ".join(map(str, TOKENS))] + [" ".join(f"{x:.10g}" for x in row.tolist()) for row in logits]
    (folder / "logits.txt").write_text("\n".join(lines) + "\n")


torch.manual_seed(5)
write(
    "llama",
    LlamaForCausalLM(
        LlamaConfig(
            vocab_size=VOCABULARY, hidden_size=24, intermediate_size=40, num_hidden_layers=3, num_attention_heads=4,
            num_key_value_heads=2, head_dim=8, max_position_embeddings=64, rms_norm_eps=1e-2, tie_word_embeddings=False,
            attn_implementation="eager",
            rope_parameters={
                "rope_type": "llama3", "rope_theta": 500.0, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                "original_max_position_embeddings": 16,
            },
        )  # fmt: skip
    ),
    torch.bfloat16,
    "12KB",
)
write(
    "gemma3",
    Gemma3ForCausalLM(
        Gemma3TextConfig(
            vocab_size=VOCABULARY, hidden_size=24, intermediate_size=40, num_hidden_layers=3, num_attention_heads=4,
            num_key_value_heads=2, head_dim=8, max_position_embeddings=64, rms_norm_eps=1e-2, query_pre_attn_scalar=8,
            sliding_window=5, layer_types=["sliding_attention", "full_attention", "sliding_attention"],
            attn_implementation="eager",
            rope_parameters={
                "full_attention": {"rope_type": "linear", "factor": 4.0, "rope_theta": 2000.0},
                "sliding_attention": {"rope_type": "default", "rope_theta": 50.0},
            },
        )  # fmt: skip
    ),
    torch.float16,
    "1GB",
)
