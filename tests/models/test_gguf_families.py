"""GGUF files of every family that has them: a model of transformers, written as llama.cpp's converter would, gives its logits."""

import numpy as np
import pytest

jax = pytest.importorskip("jax")
torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("gguf")

import gguf_files  # noqa: E402
from hypothesis import HealthCheck, given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402

from trine import models  # noqa: E402
from trine.models import gguf_rows  # noqa: E402
from trine.models.decoder_rows import DECODERS  # noqa: E402
from trine.models.dense_rows import DENSE  # noqa: E402
from trine.models.expert_rows import EXPERTS  # noqa: E402
from trine.models.gguf import FAMILIES, Gguf  # noqa: E402
from trine.models.reading import ConfigError  # noqa: E402
from trine.models.safetensors import FileError  # noqa: E402

# Decoders of the zoo that no GGUF file holds: the format has no architecture of theirs, or no converter writes it.
WITHOUT = {"gptj", "gpt_neo", "opt", "xglm", "megatron_gpt", "recurrent_gemma", "cwm", "helium", "persimmon", "hyperclovax", "vaultgemma",
           "codegen", "biogpt", "openai-gpt", "flex_olmo"}  # fmt: skip
SHARED = {"mistral", "ministral", "mixtral", "deepseek_v3", "falcon_mamba", "olmo3", "youtu", "granitemoeshared",
          "glm4_moe_lite", "solar_open"}  # written as another's architecture


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
    of = set(FAMILIES.values()) | SHARED
    assert of | WITHOUT == {row.name for row in [*DECODERS, *DENSE, *EXPERTS]}
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


def test_numbers_of_layers_that_are_none_are_named(tmp_path):
    """xIELU's are a list of the metadata."""
    import gguf

    writer = gguf.GGUFWriter(tmp_path / "m.gguf", "apertus")
    writer.add_array("apertus.xielu.alpha_p", [1, 2])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    with pytest.raises(FileError, match="xielu.alpha_p of layer 0 is 1; expected a number"):
        Gguf(tmp_path / "m.gguf")


class Made(Gguf):
    """A file of metadata alone."""

    def __init__(self, arch, metadata, tensors):
        self.path, self.metadata = "m.gguf", {"general.architecture": arch} | {f"{arch}.{name}": value for name, value in metadata.items()}
        self._at, self._numbers = {name: ((99, 64), 0, 0) for name in tensors}, {}
        self.family = gguf_rows.family_of(self, FAMILIES[arch])

    def __getitem__(self, name):
        return np.ones(4, np.float32)


KEYS = sorted({*gguf_rows.KEYS, *(key for keys in gguf_rows.OTHER_KEYS.values() for key in keys), "rope.scaling.type", "rope.scaling.factor",
               "attention.key_length_mla", "attention.value_length_mla", "expert_gating_func", "rope.scaling.yarn_log_multiplier", "rope.scaling.attn_factor",
               "rope.scaling.original_context_length", "attention.max_alibi_bias", "attention.sliding_window_pattern",
               "nextn_predict_layers", "rope.scaling.finetuned", "attention.clamp_kqv", "ssm.dt_b_c_rms", "rope.dimension_count"})  # fmt: skip
ANY = st.one_of(st.integers(-2, 300), st.floats(), st.text(max_size=3), st.sampled_from(["yarn", "linear", "none"]), st.booleans(), st.lists(st.integers(0, 4), max_size=4), st.lists(st.text(max_size=2), max_size=2))
TENSORS = ["token_embd.weight", "output.weight", "rope_freqs.weight", "rope_factors_long.weight", "rope_factors_short.weight", *gguf_rows.PRESENT.values()]


@pytest.mark.parametrize("arch", FAMILIES)
@settings(max_examples=60, derandomize=True, deadline=None, suppress_health_check=list(HealthCheck))
@given(more=st.dictionaries(st.sampled_from(KEYS), ANY), tensors=st.lists(st.sampled_from(TENSORS)))
def test_any_metadata_is_a_configuration_or_refused(arch, more, tensors):
    own = gguf_files.META | next(row[2] for name, row in gguf_files.ROWS.items() if gguf_files.written_as(name) == arch)
    try:
        Made(arch, {name: value for name, value in own.items() if value is not None} | more, tensors).config()
    except (FileError, ConfigError) as e:
        assert str(e)
