"""Writes digits.npz beside this file: scikit-learn's copy of the handwritten digits. What they are says README.md.

    pip install scikit-learn && python native/data/digits.py
"""

import pathlib

import numpy as np
from sklearn.datasets import load_digits

digits = load_digits()
images, labels = digits.images.astype(np.uint8), digits.target.astype(np.uint8)
assert (images == digits.images).all() and images.max() == 16
np.savez_compressed(pathlib.Path(__file__).with_name("digits.npz"), images=images, labels=labels)
