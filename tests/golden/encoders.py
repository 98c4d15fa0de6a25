"""Writes encoders.json and the weights next to it: small encoders with random weights, saved by sentence-transformers, and the
vectors that it computes for some texts.

    pip install torch transformers sentence-transformers
    python encoders.py

Vectors are computed in 64 bits. Each case turns on a feature that the others leave off.
"""

import json
import shutil
import tempfile
from pathlib import Path

import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Dense, Normalize, Pooling, Transformer
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import BertConfig, BertModel, PreTrainedTokenizerFast, XLMRobertaConfig, XLMRobertaModel

HERE = Path(__file__).parent
WORDS = "a the cat dog sits rests on mat log and sees red blue bird ##s ##ing in sun query".split()
TEXTS = [
    "a cat sits on the mat",
    "The DOG rests on a red log and sees the cats and the birds in the sun",
    "a",
    "",
    "  unknown words: cat? ",
    "red blue red blue red blue red blue red blue red blue red blue red blue red blue red blue",
]


def tokenizer(family):
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    if family == "xlm-roberta":
        special = ["[CLS]", "[PAD]", "[SEP]", "[UNK]", "[MASK]"]
    vocabulary = {word: n for n, word in enumerate(special + WORDS)}
    made = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    made.normalizer = normalizers.BertNormalizer(lowercase=True)
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    ends = [(name, vocabulary[name]) for name in ("[CLS]", "[SEP]")]
    made.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=ends)
    names = dict(zip(["cls_token", "pad_token", "sep_token", "unk_token", "mask_token"], ["[CLS]", "[PAD]", "[SEP]", "[UNK]", "[MASK]"]))
    return PreTrainedTokenizerFast(tokenizer_object=made, **names)


def model(family, **more):
    """Returns a model whose weights are the same for each call with the same family, and far from zero."""
    config, kind = (XLMRobertaConfig, XLMRobertaModel) if family == "xlm-roberta" else (BertConfig, BertModel)
    types = 1 if family == "xlm-roberta" else 2
    extents = dict(vocab_size=24, hidden_size=16, num_hidden_layers=2, num_attention_heads=4, intermediate_size=24)
    pad = 1 if family == "xlm-roberta" else 0
    made = kind(config(**extents, max_position_embeddings=20, type_vocab_size=types, pad_token_id=pad, **more), add_pooling_layer=False)
    generator = torch.Generator().manual_seed(7)
    with torch.no_grad():
        for name, weight in made.named_parameters():
            around = 1.0 if name.endswith("LayerNorm.weight") else 0.0
            weight.copy_(around + 0.3 * torch.randn(weight.shape, generator=generator))
    return made.eval()


def case(name, family, after, seen, changes=None, prompts=None):
    with tempfile.TemporaryDirectory() as folder:
        base = Path(folder, "base")
        model(family, **(changes or {})).save_pretrained(base)
        tokenizer(family).save_pretrained(base)
        encoder = Transformer(str(base))
        encoder.max_seq_length = seen
        whole = SentenceTransformer(modules=[encoder, *after], prompts=prompts, device="cpu")
        saved = Path(folder, "saved")
        whole.save(str(saved))
        files = {}
        for path in sorted(saved.rglob("*")):
            file = str(path.relative_to(saved))
            if path.suffix == ".json":
                files[file] = path.read_text()
            elif path.suffix == ".safetensors":
                kept = f"encoder-{'dense' if 'Dense' in file else family}.safetensors"
                shutil.copy(path, HERE / kept)
                files[file] = kept
        whole = whole.double()
        vectors = {}
        for prompt in [None, *(prompts or {})]:
            made = whole.encode(TEXTS, prompt_name=prompt, convert_to_tensor=True, batch_size=2)
            vectors[prompt or ""] = made.double().tolist()
        return {"name": name, "files": files, "vectors": vectors}


def main():
    torch.manual_seed(3)
    dense = Dense(16, 12)
    pooling = lambda *modes: Pooling(16, list(modes))
    cases = [
        case("mean and normalize", "bert", [pooling("mean"), Normalize()], 20),
        case("first token", "bert", [pooling("cls"), Normalize()], 20, prompts={"query": "query: "}),
        case("another activation and epsilon", "bert", [pooling("mean")], 20, {"hidden_act": "gelu_new", "layer_norm_eps": 0.1}),
        case("relu, cut off", "bert", [pooling("max")], 9, {"hidden_act": "relu"}),
        case("silu and a dense layer", "bert", [pooling("mean_sqrt_len_tokens"), dense, Normalize()], 20, {"hidden_act": "silu"}),
        case("two poolings", "bert", [pooling("weightedmean", "lasttoken")], 20),
        case("positions after the padding token", "xlm-roberta", [pooling("mean"), Normalize()], 18),
    ]
    text = json.dumps({"texts": TEXTS, "cases": cases}, indent=1)
    (HERE / "encoders.json").write_text(text + "\n")


main()
