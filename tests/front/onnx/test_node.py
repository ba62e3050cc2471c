"""ONNX's own table of node cases (onnx.backend.test), newest versions of all ops, on the native executor.

Inputs that decide a shape are made constants first: the graph is static. What this build does not read is listed here
with the reason it gives, so that neither a lost op nor a found one goes unseen.
"""

import re

import numpy as np
import onnx
import pytest

from front.onnx.checking import check, fix_inputs, write_case

# Names of inputs that the cases use for axes, sizes and the like.
FIXED = set(
    "axes axis shape new_shape sizes scales roi starts ends steps split k depth repeats pads start limit delta".split()
    + "trip_count output_shape image_shape block_shape size dft_length n_fft frame_step frame_length".split()
    + "num_mel_bins sample_rate lower_edge_hertz upper_edge_hertz training_mode slice_start slice_end".split()
)
FIXED_IN = {
    r"test_tile": {"y"},
    r"test_constantofshape": {"x"},
    r"test_(training_)?dropout": {"r", "t"},
    r"test_compress|test_nonzero": {"condition"},
    r"test_(blackman|hamming|hann)window": {"x"},
    r"test_unique": {"x", "X"},
    r"test_loop11": {"cond"},
    r"test_nonmaxsuppression": {"boxes", "scores", "max_output_boxes_per_class", "iou_threshold", "score_threshold"},
}

# Pattern of a case's name: what the reader says of it.
REFUSED = {
    r"ai_onnx_ml|adagrad|adam|momentum|flexattention": "domain ai.onnx",
    r"string|strnorm|regex|label_encoder": "strings",
    r"test_attention|rotary|melweight|tensorscatter|image_decoder|tfidf|deform_conv|linear_attention|causal_conv|nonmaxsuppression|roialign|unique": "not supported",
    r"training_dropout(_default)?(_mask)?$": "while training",
    r"test_not_|scan_sum$": "opset",
    r"optional_(get|has)_element_(optional_)?(tensor|sequence|input)": "sequences, maps and optionals",
}
# Values that are free to differ: random, or bits no other referee agrees on.
# Where only a scale is given, align_corners uses the size before it is cut to a whole number; onnxruntime the one after.
FREE = r"bernoulli|random|e8m0|downsample_scales_(linear|cubic)_align_corners"
# The reference rounds at other places than we do; these are compared at the precision of their type.
NARROW = r"_(bf16|fp16|bfloat16|float16)|BFLOAT16|FLOAT16|FLOAT8|FLOAT4"


def cases():
    from onnx.backend.test.case.node import collect_testcases

    tensors = (np.ndarray, np.generic, onnx.TensorProto)
    for case in collect_testcases(None):
        inputs, outputs = case.data_sets[0]
        if all(isinstance(value, tensors) for value in [*inputs, *outputs]):
            yield case.name, case.model, inputs, outputs


def fixed_names(name):
    return FIXED.union(*(names for pattern, names in FIXED_IN.items() if re.match(pattern, name)))


def verdicts(trine, folder):
    plain, narrow = [], []
    for name, model, inputs, outputs in cases():
        if re.search(FREE, name):
            continue
        names = fixed_names(name)
        model, inputs = fix_inputs(model, inputs, lambda n, names=names: n in names)
        (narrow if re.search(NARROW, name) else plain).append(write_case(folder / name, model, inputs, outputs))
    return check(trine, plain) | check(trine, narrow, "--rtol", "0.02", "--atol", "0.005")


@pytest.mark.filterwarnings("ignore")
def test_values(trine, tmp_path):
    found = verdicts(trine, tmp_path)
    assert len(found) > 1700
    refused = {name: why for name in found for pattern, why in REFUSED.items() if re.search(pattern, name)}
    wrong = {name: why for name, why in found.items() if why and name not in refused}
    assert not wrong, "\n".join(f"{name}: {why}" for name, why in wrong.items())
    for pattern, why in REFUSED.items():
        said = [found[name] or "" for name in found if re.search(pattern, name)]
        assert any(why in s for s in said), (pattern, why, said[:3])
