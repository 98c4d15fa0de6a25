"""Writes `numpy_text.js`: the text that NumPy prints for arrays, with which `Tensor.text` is compared."""

import json
import numpy

rng = numpy.random.default_rng(1)
arrays = [
    numpy.array(1.5, "f4"),
    numpy.array([1, 2.5, -3], "f4"),
    numpy.array([[1, 2], [3, 4]], "f4"),
    numpy.array([1 / 3, 2 / 3], "f4"),
    numpy.array([0.1, 123.456, -7], "f4"),
    numpy.array([1e-5, 2.5], "f4"),
    numpy.array([1e10, 1], "f4"),
    numpy.array([123456.7, 0.25], "f4"),
    numpy.array([0, -0.0, 1], "f4"),
    numpy.array([numpy.nan, 1, numpy.inf, -numpy.inf], "f4"),
    numpy.array([numpy.nan], "f4"),
    numpy.array([], "f4"),
    numpy.zeros((2, 0), "f4"),
    numpy.arange(24, dtype="f4").reshape(2, 3, 4) / 8,
    numpy.arange(40, dtype="f4") * 1.25,
    rng.standard_normal((3, 5)).astype("f4"),
    (rng.standard_normal((4, 3)) * 1e4).astype("f4"),
    numpy.array([1, -20, 300], "i4"),
    numpy.arange(30, dtype="i4").reshape(5, 6) - 7,
    numpy.array([4294967295, 0], "u4"),
    numpy.array([[True, False], [False, True]]),
    numpy.array(True),
    numpy.full((1100,), 0.5, "f4"),
    numpy.arange(1200, dtype="i4").reshape(2, 20, 30),
]


def plain(x):
    if isinstance(x, float) and not numpy.isfinite(x):
        return str(x)
    return "-0" if isinstance(x, float) and x == 0 and numpy.signbit(x) else x


def case(array):
    dtype = {"f": "f32", "i": "i32", "u": "u32", "b": "bool"}[array.dtype.kind]
    flat = [plain(x) for x in array.ravel().tolist()]
    return {"list": flat, "shape": list(array.shape), "dtype": dtype, "text": str(array)}


cases = ",\n".join(f"  {json.dumps(case(array))}" for array in arrays)
with open(__file__.replace(".py", ".js"), "w") as file:
    file.write(f"// What NumPy {numpy.__version__} prints for these, written by `numpy_text.py`.\n\n")
    file.write(f"export const golden = [\n{cases},\n];\n")
