"""Writes blocks.txt next to this file: blocks of each format of GGUF files, and the numbers that they encode.

    pip install numpy gguf==0.19.0 && python tests/golden/blocks.py

A line is a format, the bytes of one or several blocks as hexadecimal digits, and the numbers.
"""

import pathlib

import numpy as np
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType, quants

rng = np.random.default_rng(1)

# The positions of 16-bit numbers in a block. Random bytes there would sometimes be NaN.
HALVES = {
    "F16": [0], "Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q8_0": [0], "Q2_K": [80, 82], "Q3_K": [108],
    "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208], "IQ4_NL": [0], "IQ4_XS": [0], "BF16": [], "MXFP4": [],
}  # fmt: skip

lines = []
for name, places in HALVES.items():
    kind = GGMLQuantizationType[name]
    length, size = GGML_QUANT_SIZES[kind]
    count = {1: 4, 32: 2, 256: 1}[length]
    blocks = rng.integers(0, 256, (count, size), dtype=np.uint8)
    for place in places:
        blocks[:, place : place + 2] = rng.uniform(-1, 1, (count, 1)).astype(np.float16).view(np.uint8)
    if name == "BF16":
        numbers = rng.uniform(-9, 9, (count, 1)).astype(np.float32)
        blocks = (numbers.view(np.uint32) >> 16).astype(np.uint16).view(np.uint8).reshape(count, size)
    if name == "MXFP4":
        # An exponent whose power is subnormal, and one of numbers near 1.
        blocks[:, 0] = [1, 126]
    values = quants.dequantize(blocks.reshape(1, -1), kind).reshape(-1).astype(np.float32)
    lines.append(f"{name} {blocks.tobytes().hex()} {' '.join(f'{v:.9g}' for v in values)}")

pathlib.Path(__file__).with_suffix(".txt").write_text("\n".join(lines) + "\n")
