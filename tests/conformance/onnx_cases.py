#!/usr/bin/env python3
"""Writes ONNX's node tests as vectors: onnx.json and onnx.bin, in the format that vectors.rs reads.

    pip install onnx numpy
    python3 tests/conformance/onnx_cases.py FOLDER

Writes cases of one operator whose tensors have types that the vectors support. Counts the other cases by reason.
License of the cases: Apache-2.0, the ONNX project.
"""

import collections
import hashlib
import json
import pathlib
import sys
import warnings

import numpy as np

# The cases draw their inputs from numpy's global generator while they are collected.
np.random.seed(0)

import onnx
from onnx import helper, numpy_helper
from onnx.backend.test.case.node import collect_testcases

DTYPES = {
    "float32": "f32", "float16": "f16", "int32": "i32", "uint32": "u32", "int64": "i64", "uint64": "u64",
    "int8": "i8", "uint8": "u8", "bool": "bool",
}

# The operators to test, by kind.
OPERATORS = """
Abs Acos Acosh Asin Asinh Atan Atanh Ceil Celu Clip Cos Cosh Elu Erf Exp Floor Gelu HardSigmoid HardSwish Identity IsInf
IsNaN LeakyRelu Log Mish Neg Not PRelu Reciprocal Relu Round Selu Shrink Sigmoid Sign Sin Sinh Softplus Softsign Sqrt
Swish Tan Tanh ThresholdedRelu
Add And BitShift BitwiseAnd BitwiseNot BitwiseOr BitwiseXor Div Equal Greater GreaterOrEqual Less LessOrEqual Max Mean
Min Mod Mul Or Pow Sub Sum Where Xor Cast
ArgMax ArgMin ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum
ReduceSumSquare CumProd CumSum TopK
Hardmax LogSoftmax Softmax BatchNormalization GroupNormalization InstanceNormalization LayerNormalization
LpNormalization MeanVarianceNormalization RMSNormalization LRN SoftmaxCrossEntropyLoss NegativeLogLikelihoodLoss
MatMul Gemm Conv ConvTranspose Attention RotaryEmbedding
AveragePool GlobalAveragePool GlobalMaxPool LpPool MaxPool Resize
QuantizeLinear DequantizeLinear
CenterCropPad Concat ConstantOfShape DepthToSpace Expand EyeLike Flatten Gather GatherElements GatherND OneHot Pad Range
Reshape ReverseSequence ScatterElements ScatterND Slice SpaceToDepth Split Squeeze Tile Transpose Trilu Unsqueeze
""".split()

# The most bytes of the tensors of a case. Larger cases are left out, so that the files stay small.
LARGEST = 19 * 1024


class Unfit(Exception):
    """The reason why a case is left out."""


class Blob:
    """The bytes of all tensors, each stored once."""

    def __init__(self):
        self.bytes = bytearray()
        self.seen = {}

    def put(self, raw):
        if raw not in self.seen:
            self.bytes.extend(b"\0" * (-len(self.bytes) % 8))
            self.seen[raw] = len(self.bytes)
            self.bytes.extend(raw)
        return self.seen[raw]


def tensor(blob, name, value):
    if isinstance(value, onnx.TensorProto):
        value = numpy_helper.to_array(value)
    if not isinstance(value, (np.ndarray, np.generic)):
        raise Unfit(f"a {type(value).__name__} and no tensor")
    value = np.asarray(value)
    dtype = DTYPES.get(value.dtype.name)
    if dtype is None:
        raise Unfit(f"type {value.dtype.name}")
    raw = np.ascontiguousarray(value).astype(value.dtype.newbyteorder("<")).tobytes()
    return {"name": name, "dtype": dtype, "shape": list(value.shape), "off": blob.put(raw), "len": len(raw)}


def option(attribute):
    value = helper.get_attribute_value(attribute)
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, onnx.TensorProto):
        value = numpy_helper.to_array(value)
        if value.size != 1:
            raise Unfit("an attribute that is a tensor")
        return value.reshape(()).item()
    if isinstance(value, (int, float)):
        return value
    if all(isinstance(one, bytes) for one in value):
        return [one.decode() for one in value]
    return list(value)


def case(blob, test):
    graph = test.model.graph
    if len(graph.node) != 1:
        raise Unfit("more than one operator")
    node = graph.node[0]
    if node.op_type not in OPERATORS or node.domain:
        raise Unfit(f"operator {node.op_type}")
    if len(test.data_sets) != 1:
        raise Unfit("more than one set of data")
    given, wanted = test.data_sets[0]
    size = sum(np.asarray(value).nbytes for value in [*given, *wanted] if hasattr(value, "dtype"))
    if size > LARGEST:
        raise Unfit(f"more than {LARGEST} bytes")
    inputs = [tensor(blob, entry.name, value) for entry, value in zip(graph.input, given)]
    inputs += [tensor(blob, entry.name, numpy_helper.to_array(entry)) for entry in graph.initializer]
    outputs = [tensor(blob, entry.name, value) for entry, value in zip(graph.output, wanted)]
    options = {attribute.name: option(attribute) for attribute in node.attribute}
    arguments = [{"inputs": list(node.input)}] + ([{"options": options}] if options else [])
    return {
        "suite": "onnx",
        "op": node.op_type,
        "name": test.name,
        "inputs": inputs,
        "outputs": outputs,
        "operators": [{"name": node.op_type, "arguments": arguments, "outputs": list(node.output)}],
        "tolerance": {"metric": "CLOSE", "rtol": test.rtol, "atol": test.atol},
    }


def main(folder):
    warnings.filterwarnings("ignore")
    blob, cases, left_out = Blob(), [], collections.Counter()
    for test in sorted(collect_testcases(None), key=lambda test: test.name):
        try:
            cases.append(case(blob, test))
        except Unfit as unfit:
            left_out[str(unfit)] += 1
    document = {
        "format": 1,
        "source": f"onnx {onnx.__version__}: onnx.backend.test.case.node (Apache-2.0), numpy's seed 0",
        "byte_order": "little",
        "note": "tolerance: |got - want| <= atol + rtol * |want|, the defaults of ONNX's test runner",
        "left_out": dict(left_out.most_common()),
        "cases": cases,
    }
    lines = ",\n".join(json.dumps(one, separators=(",", ":"), allow_nan=False) for one in document.pop("cases"))
    head = json.dumps(document, indent=1, allow_nan=False)[:-2]
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "onnx.json").write_text(f'{head},\n "cases": [\n{lines}\n]}}\n')
    (folder / "onnx.bin").write_bytes(blob.bytes)
    digest = hashlib.sha256(bytes(blob.bytes)).hexdigest()[:16]
    print(f"{len(cases)} cases, {len(blob.bytes)} bytes ({digest}); left out {sum(left_out.values())}")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
