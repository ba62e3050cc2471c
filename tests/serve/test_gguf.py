"""GGUF files of every architecture in the engine: log probabilities that transformers gives of the same weights, and weights that stay
in the file's blocks are those that the zoo reads."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")
gguf = pytest.importorskip("gguf")

import gguf_files  # noqa: E402

from trine import _core  # noqa: E402
from trine.models.gguf import Gguf  # noqa: E402
from trine.models.model import Model  # noqa: E402
from trine.models.quantised import FORMATS  # noqa: E402
from trine.serve import few_bits, model  # noqa: E402

READ = {name: (elements, size, read) for name, elements, size, read in FORMATS.values()}


def logprobs(prepared, prompt):
    """Of the prompt's tokens after the first."""
    engine = _core.serve.Engine(prepared, {"pages": 64, "chunk": 7})
    try:
        engine.add({"prompt": prompt, "max_tokens": 1, "temperature": 0.0, "prompt_logprobs": 0, "ignore_eos": True})
        while True:
            for event in engine.wait(60):
                if event["kind"] == "prompt":
                    return np.array([row["logprob"] for row in event["logprobs"]])
    finally:
        engine.stop()


@pytest.mark.parametrize("arch", gguf_files.ROWS)
def test_is_served(arch, tmp_path):
    """Keys and values are kept as f16, so log probabilities are as near as that allows."""
    theirs, path = gguf_files.model_of(arch), tmp_path / "m.gguf"
    gguf_files.write(theirs, arch, path)
    prompt = np.random.default_rng(1).integers(3, 99, 30).tolist()
    with torch.no_grad():
        want = torch.log_softmax(theirs(torch.tensor([prompt]), use_cache=False).logits[0].float(), -1).numpy()[np.arange(29), prompt[1:]]
    assert np.abs(logprobs(model.prepare(str(path)), prompt) - want).max() < 3e-2


def in_eight_bits(name, value):
    if value.ndim < 2 or value.shape[-1] % 32 or "conv" in name or "norm" in name or "ssm_a" in name:
        return {"tensor": value}
    kind = gguf.GGMLQuantizationType.MXFP4 if "exps" in name else gguf.GGMLQuantizationType.Q8_0
    return {"tensor": gguf.quants.quantize(np.float32(value), kind), "raw_dtype": kind}


def unpacked(matrix):
    """[outputs, inputs] of one of the engine's matrices."""
    label, outputs, inputs, data, scales, order = matrix
    assert scales is None
    _, size, read = READ[label]
    value = read(data.reshape(-1, size)).reshape(outputs, inputs)
    return value if order is None else value[order]


@pytest.mark.parametrize("arch", gguf_files.ROWS)
def test_blocks_hold_what_the_zoo_reads(arch, tmp_path):
    theirs, path = gguf_files.model_of(arch), tmp_path / "m.gguf"
    gguf_files.write(theirs, arch, path, in_eight_bits)
    prepared, file = model.of_gguf(path), Gguf(path)
    ours = Model(file.config())
    whole = model.of_tree(ours, ours.load(path))
    packed = [name for name, matrix in prepared.matrices.items() if matrix[0] in ("Q8_0", "Q5_0")]
    assert prepared.matrices.keys() == whole.matrices.keys() and len(packed) > len(prepared.matrices) // 3
    for name, matrix in prepared.matrices.items():
        assert np.array_equal(unpacked(matrix), unpacked(whole.matrices[name])), name


def test_mxfp4_is_held_exactly():
    random = np.random.default_rng(0)
    blocks = random.integers(0, 256, (500, 17), np.uint8)
    blocks[:, 0] = random.integers(104, 144, 500)  # scales that f16 holds
    want = FORMATS[39][3](blocks)
    label, shape, data = few_bits.served("MXFP4", (500, 32), blocks.reshape(-1))
    assert (label, shape) == ("Q5_0", (500, 32)) and np.array_equal(READ["Q5_0"][2](data.reshape(-1, 22)), want)
    blocks[7, 0] = 90  # and one that it does not
    label, _, data = few_bits.served("MXFP4", (500, 32), blocks.reshape(-1))
    assert label == "BF16" and np.array_equal(READ["BF16"][2](data.reshape(-1, 2)).reshape(500, 32), FORMATS[39][3](blocks))
