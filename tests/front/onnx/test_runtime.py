"""Graphs in ONNX's text form against onnxruntime: ops as opsets 13 to 22 write them, and small whole models."""

import numpy as np
import onnx
import pytest
from front.onnx.checking import check, write_case

pytest.importorskip("onnxruntime")
import onnxruntime  # noqa: E402

# name: (first opset, last opset, inputs, initializers, body, outputs). Types are as in ONNX's text; values are random.
OPS = {
    "reduce_attr": (13, 17, "float[2,3,4] x", "", "y = ReduceMean <axes = [1], keepdims = 0> (x) z = ReduceL2 <axes = [0, 2]> (x)", "float[] y, float[] z"),
    "reduce_input": (18, 22, "float[2,3,4] x", "int64[1] a = {1}, int64[2] b = {0, -1}", "y = ReduceMean <keepdims = 0> (x, a) z = ReduceLogSumExp (x, b)", "float[] y, float[] z"),
    "reduce_sum": (13, 22, "float[2,3,4] x", "int64[1] a = {1}", "y = ReduceSum (x, a) z = ReduceSum <noop_with_empty_axes = 1> (x)", "float[] y, float[] z"),
    "softmax": (13, 22, "float[2,3,4] x", "", "y = Softmax <axis = 1> (x) z = LogSoftmax (x)", "float[] y, float[] z"),
    "layernorm": (17, 22, "float[2,5,8] x, float[8] g, float[8] b", "", "y, m, i = LayerNormalization <epsilon = 1e-3> (x, g, b)", "float[] y, float[] m, float[] i"),
    "gelu": (20, 22, "float[4,7] x", "", 'y = Gelu (x) z = Gelu <approximate = "tanh"> (x)', "float[] y, float[] z"),
    "activations": (18, 22, "float[4,7] x, float[7] s", "float lo = {-0.5}, float hi = {0.7}", "a = HardSwish (x) b = Mish (x) c = Elu <alpha = 0.7> (x) d = Selu (x) e = Celu <alpha = 2.0> (x) f = PRelu (x, s) g = Softplus (x) h = Clip (x, lo, hi) i = HardSigmoid (x)", "float[] a, float[] b, float[] c, float[] d, float[] e, float[] f, float[] g, float[] h, float[] i"),
    "conv": (13, 22, "float[2,4,9,8] x, float[6,2,3,3] w, float[6] b", "", 'y = Conv <group = 2, strides = [2, 1], dilations = [1, 2], pads = [1, 2, 0, 1]> (x, w, b) z = Conv <group = 2, auto_pad = "SAME_UPPER", strides = [2, 2]> (x, w)', "float[] y, float[] z"),
    "conv1d_3d": (13, 22, "float[1,3,10] x, float[4,3,3] w, float[1,2,4,5,6] u, float[3,2,2,3,2] v", "", "y = Conv <pads = [1, 1]> (x, w) z = Conv (u, v)", "float[] y, float[] z"),
    "conv_transpose": (13, 22, "float[2,4,5,6] x, float[4,3,3,3] w, float[6] b", "", "y = ConvTranspose <group = 2, strides = [2, 3], pads = [1, 0, 1, 2], output_padding = [1, 1], dilations = [1, 2]> (x, w, b)", "float[] y"),
    "pool": (13, 22, "float[2,3,9,10] x", "", "y, i = MaxPool <kernel_shape = [3, 2], strides = [2, 2], pads = [1, 0, 1, 1]> (x) z = AveragePool <kernel_shape = [3, 3], strides = [2, 2], pads = [1, 1, 1, 1]> (x) u = AveragePool <kernel_shape = [2, 3], ceil_mode = 1, strides = [2, 2], count_include_pad = 1, pads = [1, 1, 1, 1]> (x) g = GlobalAveragePool (x) h = GlobalMaxPool (x)", "float[] y, int64[] i, float[] z, float[] u, float[] g, float[] h"),
    "norms": (15, 22, "float[2,4,5,6] x, float[4] s, float[4] b, float[4] m", "float[4] v = {0.5, 1.5, 1.0, 2.0}", "y = BatchNormalization (x, s, b, m, v) z = InstanceNormalization (x, s, b) l = LRN <size = 3> (x)", "float[] y, float[] z, float[] l"),
    "groupnorm": (21, 22, "float[2,6,5,5] x, float[6] s, float[6] b", "", "y = GroupNormalization <num_groups = 3> (x, s, b)", "float[] y"),
    "matmul": (13, 22, "float[2,3,4,5] x, float[3,5,6] y, float[5] v, float[4,5] m", "", "a = MatMul (x, y) b = MatMul (x, v) c = MatMul (m, v)", "float[] a, float[] b, float[] c"),
    "gemm": (13, 22, "float[5,3] a, float[4,5] b, float[4] c", "", "y = Gemm <transA = 1, transB = 1, alpha = 0.5, beta = 2.0> (a, b, c)", "float[] y"),
    "einsum": (13, 22, "float[2,3,4] a, float[2,4,5] b, float[3,3] d", "", 'x = Einsum <equation = "bij,bjk->bik"> (a, b) y = Einsum <equation = "...i,...i->..."> (a, a) z = Einsum <equation = "ii->i"> (d) w = Einsum <equation = "bij,bjk->ki"> (a, b)', "float[] x, float[] y, float[] z, float[] w"),
    "gather": (13, 22, "float[5,4,3] x", "int64[2,2] i = {0, -1, 3, 2}, int64 s = {-2}, int64[2,3,1] e = {0, 1, -1, 2, 0, 1}, int64[3,2] n = {0, 1, -1, 2, 3, 3}", "a = Gather (x, i) b = Gather <axis = 1> (x, s) c = GatherElements <axis = 0> (x, e) d = GatherND (x, n)", "float[] a, float[] b, float[] c, float[] d"),
    "scatter": (18, 22, "float[5,4] x, float[2,2] u, float[2,4] w", "int64[2,2] i = {0, -1, 3, 2}, int64[2,1] n = {4, 0}", 'a = ScatterElements <axis = 1> (x, i, u) b = ScatterElements <axis = 0, reduction = "add"> (x, i, u) c = ScatterND (x, n, w) d = ScatterND <reduction = "max"> (x, n, w)', "float[] a, float[] b, float[] c, float[] d"),
    "slice": (13, 22, "float[6,7,8] x", "int64[3] s = {1, -1, 7}, int64[3] e = {5, -8, 0}, int64[3] a = {0, 1, -1}, int64[3] t = {2, -2, -3}", "y = Slice (x, s, e, a, t)", "float[] y"),
    "split": (13, 22, "float[6,5] x", "int64[3] s = {1, 2, 3}", "a, b, c = Split (x, s)", "float[] a, float[] b, float[] c"),
    "split_parts": (18, 22, "float[7,2] x", "", "a, b, c = Split <num_outputs = 3> (x)", "float[] a, float[] b, float[] c"),
    "pad": (18, 22, "float[3,4,5] x", "int64[4] p = {1, 2, 2, 1}, int64[2] a = {1, 2}, float v = {1.5}, int64[6] q = {0, 1, 2, 0, 1, 2}", 'y = Pad (x, p, v, a) z = Pad <mode = "reflect"> (x, q) w = Pad <mode = "edge"> (x, q)', "float[] y, float[] z, float[] w"),
    "resize": (13, 22, "float[1,2,5,6] x", "float[0] r = {}, float[4] s = {1, 1, 2, 3}, int64[4] n = {1, 2, 7, 4}, float[0] e = {}", 'a = Resize <mode = "nearest", coordinate_transformation_mode = "asymmetric", nearest_mode = "floor"> (x, r, s) b = Resize <mode = "linear", coordinate_transformation_mode = "half_pixel"> (x, r, e, n) c = Resize <mode = "cubic", coordinate_transformation_mode = "align_corners"> (x, r, e, n) d = Resize <mode = "linear", coordinate_transformation_mode = "pytorch_half_pixel"> (x, r, s)', "float[] a, float[] b, float[] c, float[] d"),
    "topk": (13, 22, "float[3,8] x", "int64[1] k = {3}", "v, i = TopK (x, k) w, j = TopK <axis = 0, largest = 0> (x, k)", "float[] v, int64[] i, float[] w, int64[] j"),
    "cumsum": (14, 22, "float[3,5] x", "int64 a = {1}", "y = CumSum (x, a) z = CumSum <exclusive = 1, reverse = 1> (x, a)", "float[] y, float[] z"),
    "arg": (13, 22, "float[3,5] x", "", "y = ArgMax <axis = 1, keepdims = 0> (x) z = ArgMin <select_last_index = 1> (x)", "int64[] y, int64[] z"),
    "masks": (14, 22, "float[4,4] x", "int64 k = {-1}, float zero = {0.0}", "u = Trilu (x) l = Trilu <upper = 0> (x, k) b = Greater (x, zero) w = Where (b, x, zero) n = Not (b)", "float[] u, float[] l, float[] w, bool[] n"),
    "integers": (13, 22, "int64[5] a, int64[5] b", "", "s = Add (a, b) m = Mod (a, b) d = Div (a, b) f = Cast <to = 1> (a) e = Equal (a, b) g = Sign (a)", "int64[] s, int64[] m, int64[] d, float[] f, bool[] e, int64[] g"),
    "onehot": (13, 22, "int64[3] x", "int64 d = {6}, float[2] v = {-1.0, 2.0}", "y = OneHot (x, d, v) z = OneHot <axis = 0> (x, d, v)", "float[] y, float[] z"),
    "quantize": (13, 22, "float[3,4] x", "float s = {0.05}, uint8 z = {120}, float[4] t = {0.1, 0.2, 0.05, 0.3}, int8[4] u = {0, 1, -3, 5}", "q = QuantizeLinear (x, s, z) d = DequantizeLinear (q, s, z) p = QuantizeLinear <axis = 1> (x, t, u) e = DequantizeLinear <axis = 1> (p, t, u) g, h, i = DynamicQuantizeLinear (x)", "uint8[] q, float[] d, int8[] p, float[] e, uint8[] g, float[] h, uint8[] i"),
    "qmatmul": (13, 22, "uint8[3,4] a, int8[4,5] b", "uint8 az = {12}, int8 bz = {-3}", "y = MatMulInteger (a, b, az, bz)", "int32[] y"),
    "lstm": (14, 22, "float[5,2,3] x, float[2,16,3] w, float[2,16,4] r, float[2,32] b", "int32[2] n = {5, 3}", 'y, h, c = LSTM <hidden_size = 4, direction = "bidirectional"> (x, w, r, b, n)', "float[] y, float[] h, float[] c"),
    "gru": (14, 22, "float[5,2,3] x, float[1,12,3] w, float[1,12,4] r, float[1,24] b", "", "y, h = GRU <hidden_size = 4, linear_before_reset = 1> (x, w, r, b)", "float[] y, float[] h"),
    "shapes": (15, 22, "float[2,3,4] x", "int64[1] one = {1}, int64[1] minus = {-1}, int64 zero = {0}", "s = Shape (x) b = Gather (s, zero) u = Unsqueeze (b, zero_axis) zero_axis2 = Shape <start = 1, end = 2> (x) c = Concat <axis = 0> (u, minus) y = Reshape (x, c) n = Size (x)", "float[] y, int64[] n, int64[] zero_axis2"),
    "if": (13, 22, "float[3] x, bool c", "", "y = If (c) <then_branch = then_graph () => (float[3] t) { t = Add (x, x) }, else_branch = else_graph () => (float[3] e) { e = Neg (x) }>", "float[] y"),
    "loop": (13, 22, "float[3] x", "int64 n = {4}, bool go = {1}", "y, all = Loop (n, go, x) <body = b (int64 i, bool g, float[3] v) => (bool h, float[3] w, float[3] out) { h = Identity (g) f = Cast <to = 1> (i) w = Add (v, f) out = Mul (w, x) }>", "float[] y, float[] all"),
    "grow": (13, 22, "float[2] x", "int64 n = {3}, bool go = {1}", "y = Loop (n, go, x) <body = b (int64 i, bool g, float[] v) => (bool h, float[] w) { h = Identity (g) w = Concat <axis = 0> (v, x) }>", "float[] y"),
    "scan": (13, 22, "float[2] s, float[5,2] x", "", "z, all = Scan <num_scan_inputs = 1, body = b (float[2] a, float[2] e) => (float[2] n, float[2] o) { n = Add (a, e) o = Identity (n) }> (s, x)", "float[] z, float[] all"),
}  # fmt: skip
OPS["shapes"] = (*OPS["shapes"][:3], OPS["shapes"][3] + ", int64[1] zero_axis = {0}", *OPS["shapes"][4:])

MODELS = {
    "encoder": (17, 17, "int64[2,6] ids, float[50,16] e, float[16,48] qkv, float[16,16] wo, float[16,32] w1, float[32,16] w2, float[16] g, float[16] b", "int64 two = {2}, int64 zero = {0}, int64 one = {1}, int64[1] heads = {4}, int64[1] each = {4}, int64[1] minus = {-1}, int64[1] z1 = {0}, float scale = {0.5}", """
        x = Gather (e, ids) n = LayerNormalization (x, g, b) p = MatMul (n, qkv) q0, k0, v0 = Split <axis = 2> (p, three)
        s = Shape (q0) bs = Gather (s, zero) bu = Unsqueeze (bs, z1) t = Gather (s, one) tu = Unsqueeze (t, z1)
        to = Concat <axis = 0> (bu, tu, heads, each)
        q1 = Reshape (q0, to) q = Transpose <perm = [0, 2, 1, 3]> (q1) k1 = Reshape (k0, to) k = Transpose <perm = [0, 2, 3, 1]> (k1)
        v1 = Reshape (v0, to) v = Transpose <perm = [0, 2, 1, 3]> (v1)
        a0 = MatMul (q, k) a1 = Mul (a0, scale) a = Softmax (a1) o0 = MatMul (a, v) o1 = Transpose <perm = [0, 2, 1, 3]> (o0)
        back = Concat <axis = 0> (bu, tu, minus) o2 = Reshape (o1, back) o = MatMul (o2, wo) r = Add (x, o)
        h0 = MatMul (r, w1) h1 = Erf (h0) h = Mul (h0, h1) f = MatMul (h, w2) y = Add (r, f)""", "float[] y"),
    "resnet": (13, 13, "float[2,3,16,16] x, float[8,3,3,3] w1, float[8,8,3,3] w2, float[8] s, float[8] b, float[8] m, float[5,8] fc, float[5] bias", "float[8] v = {1, 2, 1, 2, 1, 2, 1, 2}", """
        a = Conv <pads = [1, 1, 1, 1], strides = [2, 2]> (x, w1) n = BatchNormalization (a, s, b, m, v) r = Relu (n)
        c = Conv <pads = [1, 1, 1, 1]> (r, w2) d = Add (c, r) e = Relu (d) p = MaxPool <kernel_shape = [3, 3], strides = [2, 2], pads = [1, 1, 1, 1]> (e)
        g = GlobalAveragePool (p) f = Flatten (g) y = Gemm <transB = 1> (f, fc, bias)""", "float[] y"),
    "unet": (18, 18, "float[1,4,8,8] x, float[8,4,3,3] d, float[8,8,2,2] u, float[4,16,3,3] o", "float[0] r = {}, float[4] sc = {1, 1, 2, 2}", """
        a = Conv <pads = [1, 1, 1, 1]> (x, d) sa = Sigmoid (a) h = Mul (a, sa) p = AveragePool <kernel_shape = [2, 2], strides = [2, 2]> (h)
        t = ConvTranspose <strides = [2, 2]> (p, u) c = Concat <axis = 1> (t, h) up = Resize <mode = "nearest"> (c, r, sc)
        y = Conv <pads = [1, 1, 1, 1], strides = [2, 2]> (up, o)""", "float[] y"),
    "decoder": (18, 18, "float[1,2,1,4] q, float[1,2,1,4] k, float[1,2,1,4] v, float[1,2,7,4] pk, float[1,2,7,4] pv, float[1,1,1,8] mask", "float s = {0.5}, float low = {-10000.0}, float one = {1.0}", """
        kk = Concat <axis = 2> (pk, k) vv = Concat <axis = 2> (pv, v) kt = Transpose <perm = [0, 1, 3, 2]> (kk)
        a = MatMul (q, kt) b = Mul (a, s) inv = Sub (one, mask) m = Mul (inv, low) c = Add (b, m) p = Softmax (c) y = MatMul (p, vv)""", "float[] y, float[] kk, float[] vv"),
}  # fmt: skip
MODELS["encoder"] = (*MODELS["encoder"][:3], MODELS["encoder"][3] + ", int64[3] three = {16, 16, 16}", *MODELS["encoder"][4:])


def parse(row, opset):
    _, _, inputs, initializers, body, outputs = row
    constants = f"<{initializers}>" if initializers else ""
    head = f'<ir_version: 8, opset_import: ["" : {opset}]>'
    return onnx.parser.parse_model(f"{head} g ({inputs}) => ({outputs}) {constants} {{ {body} }}")


def random_value(info, rng):
    dims = [d.dim_value for d in info.type.tensor_type.shape.dim]
    dtype = onnx.helper.tensor_dtype_to_np_dtype(info.type.tensor_type.elem_type)
    if dtype == np.bool_:
        return np.asarray(rng.random(dims) < 0.5)
    if np.issubdtype(dtype, np.integer):
        return rng.integers(1, 5, dims).astype(dtype)
    return rng.standard_normal(dims).astype(dtype)


def write(folder, name, row):
    paths = []
    first, last = row[:2]
    for opset in {first, (first + last) // 2, last}:
        model = parse(row, opset)
        inputs = [random_value(info, np.random.default_rng(7 + i)) for i, info in enumerate(model.graph.input)]
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        outputs = session.run(None, {info.name: value for info, value in zip(model.graph.input, inputs)})
        paths.append(write_case(folder / f"{name}_{opset}", model, inputs, outputs))
    return paths


def test_values(trine, tmp_path):
    onnxruntime.set_default_logger_severity(3)
    paths = [path for name, row in (OPS | MODELS).items() for path in write(tmp_path, name, row)]
    wrong = {name: why for name, why in check(trine, paths, "--atol", "0.0001").items() if why}
    assert not wrong, "\n".join(f"{name}: {why}" for name, why in wrong.items())
