"""Writes io.txt next to this file: files that NumPy and safetensors write, and their contents.

    pip install numpy safetensors && python tests/golden/io.py

With the name of a folder, these packages instead read the files in it that the tests wrote
(`WARPWEFT_FILES=folder cargo test --test native io::`).

A line is a file, `bytes` or the name of an array in it, a shape and elements.
"""

import io
import pathlib
import sys

import numpy as np
import safetensors
import safetensors.numpy

rng = np.random.default_rng(29)
lines = []


def line(file, name, shape, elements):
    words = " ".join(f"{float(v):.17g}" for v in elements)
    lines.append(f"{file}|{name}|{','.join(map(str, shape))}|{words}")


def file(name, data, arrays):
    line(name, "bytes", [len(data)], data)
    for key, array in arrays.items():
        line(name, key, array.shape, np.ravel(array))


def sample(dtype, shape):
    """Returns numbers that the dtype and f32 represent exactly."""
    kind = np.dtype(dtype).kind
    size = np.dtype(dtype).itemsize
    if kind == "b":
        return rng.integers(0, 2, shape).astype(dtype)
    if kind == "f":
        return rng.normal(size=shape).astype(np.float16).astype(dtype)
    low = 0 if kind == "u" else -(2 ** (8 * min(size, 4) - 1))
    high = 2 ** (8 * min(size, 4) - (kind == "i"))
    return rng.integers(low, high, shape).astype(dtype)


def npy(array, version):
    out = io.BytesIO()
    np.lib.format.write_array(out, array, version=version)
    return out.getvalue()


TYPES = ["?", "<i1", "<i2", ">i2", "<i4", ">i4", "<i8", ">i8", "<u1", "<u2", ">u2", "<u4", ">u4", "<u8", ">u8"]
TYPES += ["<f2", ">f2", "<f4", ">f4", "<f8", ">f8"]


def npys():
    for at, dtype in enumerate(TYPES):
        array = sample(dtype, (2, 3))
        file(f"npy {dtype}", npy(array, (1, 0)), {"x": array})
        array = np.asfortranarray(sample(dtype, (2, 3, 2)))
        file(f"npy {dtype} column-major", npy(array, [(1, 0), (2, 0), (3, 0)][at % 3]), {"x": array})
    for shape in [(), (0,), (4,), (1, 5), (0, 3), (2, 1, 1, 1, 1, 1, 1, 2)]:
        array = sample("<f4", shape)
        file(f"npy of rank {len(shape)}, {array.size}", npy(array, (1, 0)), {"x": array})


def npzs():
    for name, save in [("stored", np.savez), ("deflated", np.savez_compressed)]:
        arrays = {"a": sample("<f4", (3, 4)), "b.c": sample(">i8", (5,)), "d/e": sample("?", (2, 2))}
        arrays["zeros"] = np.zeros((40, 50), "<f2")[:, :1]
        out = io.BytesIO()
        save(out, **arrays)
        file(f"npz {name}", out.getvalue(), arrays)


def tensors():
    types = ["<f4", "<f2", "<i4", "<u4", "<i1", "<u1", "?"]
    arrays = {f"layer.{at}.weight": sample(dtype, (at + 1, 3)) for at, dtype in enumerate(types)}
    arrays |= {"number": sample("<f4", ()), "nothing": sample("<f4", (0, 4)), "\u540d": sample("<u1", (3,))}
    file("safetensors", safetensors.numpy.save(arrays, {"format": "np", "by": "hand"}), arrays)
    wide = sample("<f4", (2, 2))
    # The upper half of an f32 is a bf16.
    bits = (wide.view("<u4") >> 16).astype("<u2")
    spec = safetensors.TensorSpec(dtype="bfloat16", shape=[2, 2], data_ptr=bits.ctypes.data, data_len=bits.nbytes)
    wanted = {"x": (bits.astype("<u4") << 16).view("<f4")}
    file("safetensors of bf16", bytes(safetensors.serialize({"x": spec})), wanted)
    others = {np.dtype(dtype).name: sample(dtype, (2, 3)) for dtype in ["<i2", "<u2", "<i8", "<u8", "<f8"]}
    file("safetensors of other types", safetensors.numpy.save(others), others)


def read(folder):
    """Checks the files that the tests wrote. `x` counts up, in the dtype that the file is named after."""
    for path in sorted(folder.iterdir()):
        match path.suffix:
            case ".npy":
                arrays = {path.stem: np.load(path)}
            case ".npz":
                arrays = dict(np.load(path))
            case _:
                arrays = safetensors.numpy.load_file(path)
        for name, array in arrays.items():
            assert array.dtype.name == name, (path, name, array.dtype)
            counted = np.arange(array.size).reshape(array.shape) % 2
            assert array.shape == (2, 3) and (array == counted).all(), (path, name, array)
        assert arrays, path
        print(path.name, *arrays)


if len(sys.argv) > 1:
    read(pathlib.Path(sys.argv[1]))
else:
    npys()
    npzs()
    tensors()
    pathlib.Path(__file__).with_name("io.txt").write_text("\n".join(lines) + "\n")
