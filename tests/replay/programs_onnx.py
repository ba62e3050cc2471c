"""ONNX models of the corpus, written here with onnx.helper: one of each op that the reader has, and a few of several nodes."""

import numpy as np
import onnx
from onnx import TensorProto as T
from onnx import helper, numpy_helper

OPSET = 22
TYPES = {"f32": T.FLOAT, "f16": T.FLOAT16, "s64": T.INT64, "s32": T.INT32, "s8": T.INT8, "u8": T.UINT8, "bool": T.BOOL, "bf16": T.BFLOAT16}


def typed(text):
    """"2x3:s64" as (type, shape)"""
    shape, _, dtype = text.partition(":")
    return TYPES[dtype or "f32"], [int(n) for n in shape.split("x") if n]


def model(op, *inputs, outputs=1, opset=OPSET, **attributes):
    """One node. An input is a type, an array (a constant) or None (absent). Types of results are left to the reader."""
    names, values, constants = [], [], []
    for i, given in enumerate(inputs):
        names.append("" if given is None else f"x{i}")
        if isinstance(given, str):
            values.append(helper.make_tensor_value_info(names[-1], *typed(given)))
        elif given is not None:
            constants.append(numpy_helper.from_array(np.asarray(given), names[-1]))
    results = [helper.make_empty_tensor_value_info(f"y{i}") for i in range(outputs)]
    node = helper.make_node(op, names, [r.name for r in results], **attributes)
    return finished(helper.make_graph([node], op.lower(), values, results, constants), opset)


def finished(graph, opset=OPSET):
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], producer_name="replay")
    made.ir_version = 10
    return made.SerializeToString()


def ints(*values):
    return np.array(values, np.int64)


def floats(*values):
    return np.array(values, np.float32)


UNARY = ("Abs Acos Acosh Asin Asinh Atan Atanh Ceil Cos Cosh Erf Exp Floor HardSigmoid HardSwish Identity IsInf IsNaN Log Neg Reciprocal "
         "Relu Round Selu Sigmoid Sign Sin Sinh Softplus Softsign Sqrt Tan Tanh Celu Elu Gelu LeakyRelu Mish Shrink ThresholdedRelu "
         "Softmax LogSoftmax Hardmax LpNormalization Flatten Shape Size Transpose NonZero Det").split()  # fmt: skip
BINARY = "Add Sub Mul Div Pow Max Min Mean Sum Mod PRelu Equal Less Greater LessOrEqual GreaterOrEqual".split()
LOGIC = "And Or Xor".split()
BITS = "BitwiseAnd BitwiseOr BitwiseXor".split()
REDUCE = "L1 L2 LogSum LogSumExp Max Mean Min Prod Sum SumSquare".split()


def elementwise():
    """(name, bytes)"""
    for op in UNARY:
        square = op in ("Det",)
        yield op, model(op, "4x4" if square else "3x8")
    for op in BINARY:
        yield op, model(op, "3x8", "1x8") if op != "Mod" else model(op, "3x8:s64", "8:s64")
    for op in LOGIC:
        yield op, model(op, "3x8:bool", "8:bool")
    for op in BITS:
        yield op, model(op, "3x8:s32", "8:s32")
    for op in REDUCE:
        yield f"Reduce{op}", model(f"Reduce{op}", "4x5x6", ints(1, 2), keepdims=op < "M")
    yield "Not", model("Not", "8:bool")
    yield "BitwiseNot", model("BitwiseNot", "8:s32")
    yield "BitShift", model("BitShift", "8:u8", "8:u8", direction="LEFT")
    yield "Clip", model("Clip", "3x8", floats(-1)[0], floats(2)[0])
    yield "Cast", model("Cast", "3x8", to=T.INT32)
    yield "Where", model("Where", "3x8:bool", "3x8", "8")


def moving():
    yield "ArgMax", model("ArgMax", "4x20", axis=1)
    yield "ArgMin", model("ArgMin", "4x20", axis=0, keepdims=0)
    yield "TopK", model("TopK", "4x20", ints(3), outputs=2)
    yield "CumSum", model("CumSum", "4x20", np.int64(1), reverse=1)
    yield "Concat", model("Concat", "2x3", "2x5", axis=1)
    yield "Split", model("Split", "6x4", ints(2, 4), outputs=2)
    yield "Slice", model("Slice", "8x9", ints(1, 8), ints(7, 0), ints(0, 1), ints(2, -3))
    yield "Pad", model("Pad", "3x4", ints(1, 0, 2, 3), floats(1.5)[0])
    yield "Pad reflect", model("Pad", "5x6", ints(1, 2, 1, 2), mode="reflect")
    yield "Reshape", model("Reshape", "4x6", ints(0, 2, -1))
    yield "Squeeze", model("Squeeze", "1x4x1", ints(0))
    yield "Unsqueeze", model("Unsqueeze", "4", ints(0, 2))
    yield "Expand", model("Expand", "3x1", ints(2, 3, 4))
    yield "Tile", model("Tile", "2x3", ints(2, 2))
    yield "Trilu", model("Trilu", "5x5", upper=0)
    yield "EyeLike", model("EyeLike", "4x5", k=1)
    yield "Range", model("Range", np.float32(1), np.float32(9), np.float32(2))
    yield "OneHot", model("OneHot", "6:s64", np.int64(9), floats(0, 1))
    yield "Gather", model("Gather", "20x5", "3x2:s64")
    yield "GatherElements", model("GatherElements", "4x5", "4x2:s64", axis=1)
    yield "GatherND", model("GatherND", "4x5x6", "7x2:s64")
    yield "ScatterElements", model("ScatterElements", "4x5", "2x5:s64", "2x5", reduction="add")
    yield "ScatterND", model("ScatterND", "9x4", "3x1:s64", "3x4")
    yield "ReverseSequence", model("ReverseSequence", "6x3x2", "3:s64", time_axis=0, batch_axis=1)
    yield "DepthToSpace", model("DepthToSpace", "1x8x3x3", blocksize=2)
    yield "SpaceToDepth", model("SpaceToDepth", "1x2x6x6", blocksize=2)


def computing():
    yield "MatMul", model("MatMul", "2x8x16", "16x12")
    yield "Gemm", model("Gemm", "16x8", "12x16", "12", transA=1, transB=1, alpha=0.5)
    yield "Einsum", model("Einsum", "2x3x4", "2x4x5", equation="bij,bjk->bki")
    yield "MatMulInteger", model("MatMulInteger", "4x8:u8", "8x6:u8", np.uint8(3))
    yield "QLinearMatMul", model("QLinearMatMul", "4x8:u8", np.float32(0.1), np.uint8(3), "8x6:u8", np.float32(0.2), np.uint8(9), np.float32(0.3), np.uint8(7))
    yield "Conv", model("Conv", "1x3x14x14", "8x3x3x3", "8", pads=[1, 1, 1, 1], strides=[2, 2])
    yield "Conv grouped", model("Conv", "2x8x20", "8x1x5", group=8, auto_pad="SAME_UPPER")
    yield "ConvTranspose", model("ConvTranspose", "1x4x7x7", "4x6x3x3", strides=[2, 2], output_padding=[1, 1], pads=[1, 1, 1, 1])
    yield "ConvInteger", model("ConvInteger", "1x1x6x6:u8", "2x1x3x3:u8")
    yield "QLinearConv", model("QLinearConv", "1x1x6x6:u8", np.float32(0.1), np.uint8(3), "2x1x3x3:u8", np.float32(0.2), np.uint8(9), np.float32(0.3), np.uint8(7))
    yield "MaxPool", model("MaxPool", "1x4x12x12", kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    yield "AveragePool", model("AveragePool", "1x4x12x12", kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1)
    yield "LpPool", model("LpPool", "1x4x12", kernel_shape=[3])
    for op in ("GlobalAveragePool", "GlobalMaxPool"):
        yield op, model(op, "2x4x7x7")
    yield "BatchNormalization", model("BatchNormalization", "2x4x7x7", "4", "4", "4", "4")
    yield "InstanceNormalization", model("InstanceNormalization", "2x4x7x7", "4", "4")
    yield "LayerNormalization", model("LayerNormalization", "4x64", "64", "64")
    yield "GroupNormalization", model("GroupNormalization", "2x8x5", "8", "8", num_groups=4)
    yield "RMSNormalization", model("RMSNormalization", "4x64", "64", opset=23)
    yield "MeanVarianceNormalization", model("MeanVarianceNormalization", "2x3x4x4")
    yield "LRN", model("LRN", "2x8x4x4", size=3)
    yield "Dropout", model("Dropout", "4x8")
    yield "QuantizeLinear", model("QuantizeLinear", "4x8", np.float32(0.1), np.uint8(128))
    yield "DequantizeLinear", model("DequantizeLinear", "4x8:u8", np.float32(0.1), np.uint8(128))
    yield "DynamicQuantizeLinear", model("DynamicQuantizeLinear", "4x8", outputs=3)
    yield "Resize nearest", model("Resize", "1x2x5x5", None, floats(1, 1, 2, 2), mode="nearest")
    yield "Resize linear", model("Resize", "1x2x5x5", None, None, ints(1, 2, 8, 7), mode="linear", coordinate_transformation_mode="align_corners")
    yield "Resize cubic", model("Resize", "1x1x6x6", None, floats(1, 1, 1.5, 1.5), mode="cubic")
    yield "GridSample", model("GridSample", "1x2x6x6", "1x4x4x2")
    yield "LSTM", model("LSTM", "5x2x8", "1x64x8", "1x64x16", "1x128", outputs=3, hidden_size=16)
    yield "GRU", model("GRU", "5x2x8", "2x48x8", "2x48x16", outputs=2, hidden_size=16, direction="bidirectional", linear_before_reset=1)
    yield "RNN", model("RNN", "5x2x8", "1x16x8", "1x16x16", outputs=2, hidden_size=16)
    yield "SoftmaxCrossEntropyLoss", model("SoftmaxCrossEntropyLoss", "6x9", "6:s64", outputs=2)
    yield "NegativeLogLikelihoodLoss", model("NegativeLogLikelihoodLoss", "6x9", "6:s64", reduction="sum")
    yield "DFT", model("DFT", "2x16x1", None, np.int64(1))
    yield "HannWindow", model("HannWindow", np.int64(16))
    yield "Col2Im", model("Col2Im", "1x8x9", ints(4, 4), ints(2, 2))
    yield "CenterCropPad", model("CenterCropPad", "7x5", ints(4, 8))


def several():
    f = helper.make_tensor_value_info
    n = helper.make_node
    r = np.random.default_rng(0)

    def weight(name, *shape):
        return numpy_helper.from_array(r.standard_normal(shape).astype(np.float32), name)

    mlp = [n("Gemm", ["x", "w1", "b1"], ["h"]), n("Relu", ["h"], ["a"]), n("MatMul", ["a", "w2"], ["p"]), n("Softmax", ["p"], ["y"])]
    yield "mlp", finished(helper.make_graph(mlp, "mlp", [f("x", T.FLOAT, [4, 16])], [f("y", T.FLOAT, [4, 8])],
                                            [weight("w1", 16, 32), weight("b1", 32), weight("w2", 32, 8)]))  # fmt: skip
    scale = numpy_helper.from_array(np.float32(0.125), "s")
    attention = [n("Transpose", ["k"], ["kt"], perm=[0, 2, 1]), n("MatMul", ["q", "kt"], ["p"]), n("Mul", ["p", "s"], ["m"]),
                 n("Softmax", ["m"], ["w"], axis=-1), n("MatMul", ["w", "v"], ["y"])]  # fmt: skip
    yield "attention", finished(helper.make_graph(attention, "attention", [f(x, T.FLOAT, [4, 32, 64]) for x in "qkv"], [f("y", T.FLOAT, [4, 32, 64])], [scale]))
    conv = [n("Conv", ["x", "w", "b"], ["c"], pads=[1, 1, 1, 1]), n("BatchNormalization", ["c", "g", "e", "m", "v"], ["n"]), n("Relu", ["n"], ["r"]),
            n("MaxPool", ["r"], ["p"], kernel_shape=[2, 2], strides=[2, 2]), n("GlobalAveragePool", ["p"], ["a"]), n("Flatten", ["a"], ["y"])]  # fmt: skip
    weights = [weight("w", 8, 3, 3, 3), *(weight(x, 8) for x in "bgem"), numpy_helper.from_array(np.ones(8, np.float32), "v")]
    yield "conv net", finished(helper.make_graph(conv, "conv", [f("x", T.FLOAT, [1, 3, 16, 16])], [f("y", T.FLOAT, [1, 8])], weights))
    then = helper.make_graph([n("Sin", ["x"], ["t"])], "then", [], [f("t", T.FLOAT, [4])])
    other = helper.make_graph([n("Cos", ["x"], ["o"])], "other", [], [f("o", T.FLOAT, [4])])
    both = [n("If", ["c"], ["y"], then_branch=then, else_branch=other)]
    yield "If", finished(helper.make_graph(both, "if", [f("c", T.BOOL, []), f("x", T.FLOAT, [4])], [f("y", T.FLOAT, [4])]))
    body = helper.make_graph([n("Add", ["a", "x"], ["a2"]), n("Identity", ["cond"], ["cond2"])], "body",
                             [f("i", T.INT64, []), f("cond", T.BOOL, []), f("a", T.FLOAT, [4])],
                             [f("cond2", T.BOOL, []), f("a2", T.FLOAT, [4])])  # fmt: skip
    loop = [n("Loop", ["n", "", "a0"], ["y"], body=body)]
    trips = numpy_helper.from_array(np.int64(5), "n")
    yield "Loop", finished(helper.make_graph(loop, "loop", [f("x", T.FLOAT, [4]), f("a0", T.FLOAT, [4])], [f("y", T.FLOAT, [4])], [trips]))


def programs():
    return {name: (data, {"chips": ["trn2"]}) for name, data in (*elementwise(), *moving(), *computing(), *several())}
