"""GGUF files of every family that has them: a model of transformers, written as llama.cpp's converter would, gives its logits."""

import numpy as np
import pytest

jax = pytest.importorskip("jax")
torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("gguf")

import gguf_files  # noqa: E402

from trine import models  # noqa: E402
from trine.models.decoder_rows import DECODERS  # noqa: E402
from trine.models.gguf import FAMILIES, Gguf  # noqa: E402
from trine.models.safetensors import FileError  # noqa: E402

# Decoders of the zoo that no GGUF file holds: the format has no architecture of theirs, or no converter writes it.
WITHOUT = {"gptj", "gpt_neo", "opt", "xglm", "megatron_gpt", "recurrent_gemma"}
AS_LLAMA = {"mistral", "ministral", "mixtral"}


@pytest.mark.parametrize("arch", gguf_files.ROWS)
def test_family(arch, tmp_path):
    theirs, path = gguf_files.model_of(arch), tmp_path / "m.gguf"
    gguf_files.write(theirs, arch, path)
    ours = models.build(path)
    tokens = np.random.default_rng(0).integers(3, 99, (2, 12)).astype(np.int32)
    got = np.asarray(jax.jit(ours.forward)(ours.load(path), {"tokens": tokens}))
    want = theirs(torch.tensor(tokens).long()).logits.detach().numpy()
    assert np.abs(got - want).max() <= 2e-5 * np.abs(want).max()


def test_every_decoder_has_an_architecture():
    of = set(FAMILIES.values()) | {"deepseek_v3", "falcon_mamba"} | AS_LLAMA
    assert of | WITHOUT == {row.name for row in DECODERS}
    assert {gguf_files.written_as(arch) for arch in gguf_files.ROWS} == set(FAMILIES)


def test_an_architecture_that_is_not_known_is_named(tmp_path):
    import gguf

    writer = gguf.GGUFWriter(tmp_path / "m.gguf", "rwkv7")
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    with pytest.raises(FileError, match="architecture rwkv7; known are llama"):
        Gguf(tmp_path / "m.gguf").config()
