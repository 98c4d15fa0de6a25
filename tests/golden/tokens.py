"""Writes tokens.txt next to this file: small tokenizers of each kind, and the ids that Hugging Face's tokenizers return for
texts.

    pip install tokenizers==0.23.3 && python tests/golden/tokens.py

A line is a tokenizer as JSON. `gguf` has its metadata in a GGUF file, `json` its tokenizer.json if there is one, and `cases`
has texts with their ids, first without special tokens, then with them. `pre` has names of pre-tokenizers with ids of the
first text, for the tokenizer of the previous line.
"""

import json
import pathlib

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

TEXT = (
    "Hello world's  I'M 12345 6 don't\t\n\n x… 日本語テキスト Ünïcode naïve!! a_b (x) <|y|>  end\r\n  cafe\u0301 ١٢٣ HTMLParser "
    "we'LL 3.14 =>~ ½ \u00a0nbsp 👍🏽 مرحبا,world Ꭰ한국어 $5+7<9  "
)
TEXTS = ["", "Hello", " Hello  world", TEXT[:70], "世界 \u2581 \n\n\n ok", "<end> in text<end>", "a   b<keep>c<end>", "\u0000é😀"]


def cases(tokenizer, texts=TEXTS):
    """Returns the ids of texts, with the names of special tokens as plain text and as tokens."""
    found = []
    for text in texts:
        both = []
        for plain in (True, False):
            tokenizer.encode_special_tokens = plain
            both.append(tokenizer.encode(text, add_special_tokens=False).ids)
        found.append([text, *both])
    return found


def added(tokenizer, special, keep):
    tokenizer.add_tokens([AddedToken(t, special=True, normalized=False) for t in special])
    tokenizer.add_tokens([AddedToken(t, special=False, normalized=False) for t in keep])
    return tokenizer


def vocabulary(tokenizer):
    """Returns tokens by id, and their kinds as in GGUF files."""
    table = tokenizer.get_vocab(with_added_tokens=True)
    tokens = [token for token, _ in sorted(table.items(), key=lambda entry: entry[1])]
    kinds = [1] * len(tokens)
    for id, token in tokenizer.get_added_tokens_decoder().items():
        kinds[id] = 3 if token.special else 4
    return tokens, kinds


def whole(tokenizer):
    """Returns the tokenizer.json without default values."""
    file = json.loads(tokenizer.to_str())
    return {key: value for key, value in file.items() if value is not None and key not in ("version", "truncation", "padding")}


lines = []

# BPE over bytes. It was trained without a pre-tokenizer, so its tokens cross every boundary, and each boundary is visible.
trainer = trainers.BpeTrainer(vocab_size=330, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False)
bpe = Tokenizer(models.BPE())
bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
bpe.decoder = decoders.ByteLevel()
bpe.train_from_iterator([TEXT, TEXT[40:], TEXT[90:]] * 3, trainer)
added(bpe, ["<end>"], ["<keep>", "   "])
GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
ENDINGS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
LLAMA3 = ENDINGS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
HIGH, LOW = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
ANY = r"[^\r\n\p{L}\p{N}]?"
TAIL = r"| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
TEKKEN = ANY + HIGH + "*" + LOW + "+|" + ANY + HIGH + "+" + LOW + r"*|\p{N}" + TAIL
GPT4O = ANY + HIGH + "*" + LOW + "+" + ENDINGS + "?|" + ANY + HIGH + "+" + LOW + "*" + ENDINGS + r"?|\p{N}{1,3}" + TAIL
DEEPSEEK3 = (
    r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*"""
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
BLOOM = r" ?[^(\s|.,!?…。，、।۔،)]+"
# Names, and pre-tokenizers as in the models' files.
split = lambda pattern: pre_tokenizers.Split(Regex(pattern), "isolated")
digits = pre_tokenizers.Digits(individual_digits=True)
gpt2 = pre_tokenizers.ByteLevel(add_prefix_space=False)
PRE = {
    "gpt-2": [gpt2],
    "smollm": [digits, gpt2],
    "starcoder": [digits, gpt2],
    "llama-bpe": [split(LLAMA3)],
    "dbrx": [split(LLAMA3)],
    "qwen2": [split(QWEN2)],
    "stablelm2": [split(QWEN2)],
    "qwen35": [
        split(ENDINGS + r"|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
    ],
    "tekken": [split(TEKKEN)],
    "gpt-4o": [split(GPT4O)],
    "deepseek-v3": [split(r"\p{N}{1,3}"), split(r"[一-龥\u3040-ゟ゠-ヿ]+"), split(DEEPSEEK3)],
    "deepseek-coder": [
        split(r"[\r\n]"), split(r"\s?\p{L}+"), split(r"\s?\p{P}+"), split("[一-龥ࠀ-一가-퟿]+"), digits,
    ],
    "deepseek-llm": [
        split(r"[\r\n]"), split(r"\s?[\p{Lu}\p{Ll}\p{Lt}]+"), split(r"\s?[!-/:-~！-／：-～‘-‟\u3000-。]+"), split(r"\s+$"),
        split("[一-龥ࠀ-一가-퟿]+"), pre_tokenizers.Digits(individual_digits=False),
    ],
    "falcon": [split(r"[\p{P}$+<=>^~|`]+"), pre_tokenizers.ByteLevel(add_prefix_space=False), split("[0-9][0-9][0-9]")],
    "bloom": [split(BLOOM)],
    "viking": [split(BLOOM), digits],
    "default": [split(r"[\p{P}$+<=>^~|]+"), split(GPT2), split(r"\p{N}+"), split("[0-9][0-9][0-9]")],
}  # fmt: skip
bytes_alone = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
model = json.loads(bpe.to_str())["model"]
tokens, kinds = vocabulary(bpe)
pre = {}
for name, steps in PRE.items():
    steps = steps if any(step is gpt2 for step in steps) else [*steps, bytes_alone]
    if name == "falcon":
        # Words first, then bytes. The last pattern sees digits in both.
        steps = [split(r"[\p{P}$+<=>^~|`]+"), split(GPT2), split("[0-9][0-9][0-9]"), bytes_alone]
    bpe.pre_tokenizer = pre_tokenizers.Sequence(steps)
    bpe.model.ignore_merges = name in ("llama-bpe", "tekken")
    pre[name] = bpe.encode(TEXT, add_special_tokens=False).ids
bpe.model.ignore_merges = False
bpe.pre_tokenizer = pre_tokenizers.Sequence([digits, gpt2])
merges = [" ".join(merge) for merge in model["merges"]]
gguf = {"model": "gpt2", "pre": "smollm", "tokens": tokens, "token_type": kinds, "merges": merges}
lines.append({"name": "bpe", "gguf": gguf, "json": whole(bpe), "cases": cases(bpe)})
lines.append({"name": "pre", "text": TEXT, "pre": pre})

# SentencePiece's BPE: scores instead of merges, and byte tokens.
pieces = ["<unk>", "<s>", "<end>"] + [f"<0x{byte:02X}>" for byte in range(256)]
words = "▁ H e l o w r d a b c t h x n i s g k ▁t he ▁w or ll el ▁a ▁▁ ▁▁▁▁ lo ▁H ld ▁the ▁wor ▁Hel ▁world wo ▁ok ok".split()
pieces += words + ["<keep>"]
scores = [0.0] * 259 + [-float((n * 7) % len(words)) - 1.0 for n in range(len(words))] + [-1000.0]
ids = {piece: id for id, piece in enumerate(pieces)}
merges = []
for piece in words:
    for at in range(1, len(piece)):
        if piece[:at] in ids and piece[at:] in ids:
            merges.append((-scores[ids[piece]], ids[piece[:at]], piece[:at], piece[at:]))
merges = [(left, right) for _, _, left, right in sorted(merges)]
spm = Tokenizer(models.BPE(vocab=ids, merges=merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True))
spm.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
spm.decoder = decoders.Sequence(
    [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
)
added(spm, ["<unk>", "<s>", "<end>"], ["<keep>"])
kinds = [2, 3, 3] + [6] * 256 + [1] * len(words) + [4]
gguf = {"model": "llama", "tokens": pieces, "token_type": kinds, "scores": scores, "bos_token_id": 1, "eos_token_id": 2}
lines.append({"name": "spm", "gguf": gguf, "cases": cases(spm)})

# Unigram.
trainer = trainers.UnigramTrainer(
    vocab_size=90, special_tokens=["<pad>", "</s>", "<unk>"], unk_token="<unk>", show_progress=False
)
unigram = Tokenizer(models.Unigram())
unigram.normalizer = normalizers.Replace(Regex(" {2,}"), " ")
unigram.pre_tokenizer = pre_tokenizers.Metaspace()
unigram.decoder = decoders.Metaspace()
unigram.train_from_iterator([TEXT, "the world of text and other worlds, hello other text"] * 4, trainer)
added(unigram, ["<pad>", "</s>"], ["<keep>"])
tokens, kinds = vocabulary(unigram)
table = json.loads(unigram.to_str())["model"]["vocab"]
scores = [score for _, score in table] + [0.0] * (len(tokens) - len(table))
kinds[2] = 2
gguf = {
    "model": "t5", "tokens": tokens, "token_type": kinds, "scores": scores, "unknown_token_id": 2, "eos_token_id": 1,
    "add_space_prefix": True, "remove_extra_whitespaces": True,
}  # fmt: skip
texts = ["", "hello", "hello  other   world", "the text</s>", "a 世 b", "<keep>worlds"]
found = cases(unigram, texts)
# Hugging Face's unigram model reads the name of a special token as that token even in plain text. Here it must not.
found = [[text, plain if "</s>" not in text else None, special] for text, plain, special in found]
lines.append({"name": "unigram", "gguf": gguf, "json": whole(unigram), "cases": found})

# WordPiece. GGUF files mark the beginnings of words instead of the continuations.
words = "[PAD] [UNK] [CLS] [SEP] hello world wor ##ld ##s ##l un ##want ##ed cafe naive , . ! ? 世 界 a b c ##b ##c 1 ##2".split()
wordpiece = Tokenizer(models.WordPiece({word: id for id, word in enumerate(words)}, unk_token="[UNK]"))
wordpiece.normalizer = normalizers.BertNormalizer()
wordpiece.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
wordpiece.decoder = decoders.WordPiece()
added(wordpiece, words[:4], [])
tokens = [word[2:] if word.startswith("##") else word if word.startswith("[") else "▁" + word for word in words]
gguf = {
    "model": "bert", "tokens": tokens, "token_type": [3, 2, 3, 3] + [1] * (len(words) - 4), "unknown_token_id": 1,
    "bos_token_id": 2, "seperator_token_id": 3,
}  # fmt: skip
texts = ["", "Hello, WORLDS!", "unwanted café naïve", "世界 xyz abc", "[SEP] hello[CLS]", "a" * 101, " 12\t\u0000c "]
lines.append({"name": "wordpiece", "gguf": gguf, "json": whole(wordpiece), "cases": cases(wordpiece, texts)})

compact = [json.dumps(line, ensure_ascii=False, separators=(",", ":")) for line in lines]
pathlib.Path(__file__).with_suffix(".txt").write_text("\n".join(compact) + "\n")
