"""neuronx_distributed's checkpoint converter: whole states cut for ranks and joined again, heads where their keys are."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("trine._torch")
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "python/compat"))

from neuronx_distributed.pipeline.partition import ListStages, even_cuts  # noqa: E402
from neuronx_distributed.scripts.checkpoint_converter import CheckpointConverterBase  # noqa: E402

HEADS, KV, WIDTH, LAYERS, VOCABULARY = 8, 2, 4, 3, 16


class Experts(CheckpointConverterBase):
    gate_up_proj_partition_dim = 2
    down_proj_partition_dim = 1


def whole(kv=KV, experts=0):
    """A decoder's state, as transformers names it; of experts, as AWS's Mixtral example stacks them."""
    drawn = torch.Generator().manual_seed(0)
    n = HEADS * WIDTH
    shapes = {"model.embed_tokens.weight": (VOCABULARY, n), "model.norm.weight": (n,), "lm_head.weight": (VOCABULARY, n)}
    for i in range(LAYERS):
        layer = f"model.layers.{i}"
        shapes |= {f"{layer}.self_attn.q_proj.weight": (n, n), f"{layer}.self_attn.o_proj.weight": (n, n), f"{layer}.input_layernorm.weight": (n,),
                   f"{layer}.self_attn.k_proj.weight": (kv * WIDTH, n), f"{layer}.self_attn.v_proj.weight": (kv * WIDTH, n)}  # fmt: skip
        mlp, dims = (f"{layer}.mlp.expert_mlps.mlp_op", ((experts, n, 24), (experts, 24, n))) if experts else (f"{layer}.mlp", ((24, n), (n, 24)))
        shapes |= {f"{mlp}.gate_proj.weight": dims[0], f"{mlp}.up_proj.weight": dims[0], f"{mlp}.down_proj.weight": dims[1]}
    return {name: torch.randn(shape, generator=drawn) for name, shape in shapes.items()}


def converted(converter, folder, state, kv, *options):
    """Cut by the command's options, and joined again: (the ranks' files, the whole state)."""
    torch.save(state, folder / "whole.pt")
    (folder / "config.json").write_text(json.dumps({"num_attention_heads": HEADS, "num_key_value_heads": kv, "hidden_size": HEADS * WIDTH}))
    words = ["--config", folder / "config.json", "--hw_backend", "trn1", *options]
    for there, source, out in (("from", folder / "whole.pt", folder), ("to", folder / "model", folder / "joined")):
        given = [*words, f"--convert_{there}_full_state", "--input_dir", source, "--output_dir", out]
        converter.run(converter.get_arg_parser().parse_args([str(w) for w in given]))
    return sorted(p.name for p in (folder / "model").iterdir()), torch.load(folder / "joined/checkpoint.pt")


LAYOUTS = {
    "tp": (KV, ["--tp_size", "2"]),
    "tp and stages, grouped heads": (KV, ["--tp_size", "4", "--pp_size", "2", "--qkv_linear", "1", "--kv_size_multiplier", "2"]),
    "fused": (KV, ["--tp_size", "4", "--qkv_linear", "True", "--kv_size_multiplier", "2", "--fuse_qkv", "True", "--save_xser", "True"]),
    "joined in one weight": (HEADS, ["--tp_size", "2", "--coalesce_qkv", "True", "--save_xser", "False"]),
    "stages in turns": (KV, ["--pp_size", "1", "--virtual_pp_size", "3"]),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_there_and_back(tmp_path, layout):
    kv, options = LAYOUTS[layout]
    state = whole(kv)
    _, found = converted(CheckpointConverterBase(), tmp_path, dict(state), kv, *options)
    assert found.keys() == state.keys()
    for name, value in state.items():
        assert torch.equal(found[name], value), name


def test_experts(tmp_path):
    state = whole(experts=4)
    files, found = converted(Experts(), tmp_path, dict(state), KV, "--tp_size", "2", "--ep_size", "2", "--pp_size", "3")
    assert len(files) == 12 and files[0] == "dp_rank_00_ep_rank_00_tp_rank_00_pp_rank_00.pt"
    assert all(torch.equal(found[name], value) for name, value in state.items())
    part = torch.load(tmp_path / "model/dp_rank_00_ep_rank_01_tp_rank_00_pp_rank_01.pt")
    assert {n: tuple(v.shape) for n, v in part.items()} == {"model.layers.1.mlp.expert_mlps.mlp_op.gate_up_proj.weight": (2, 32, 24),
                                                           "model.layers.1.mlp.expert_mlps.mlp_op.down_proj.weight": (2, 12, 32)}  # fmt: skip


def attention(x, q, k, v, o, kv_heads):
    q, k, v = ((x @ w.T).unflatten(1, (-1, WIDTH)).transpose(0, 1).unsqueeze(0) for w in (q, k, v))
    return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)[0].transpose(0, 1).flatten(1) @ o.T


@pytest.mark.parametrize("tp, copies", [(2, 1), (4, 2), (2, 2), (8, 4)])
def test_ranks_attend_as_the_whole(tmp_path, tp, copies):
    """Each rank with its own heads, summed as the row-parallel o_proj sums."""
    state = whole()
    converted(CheckpointConverterBase(), tmp_path, dict(state), KV, "--tp_size", tp, "--qkv_linear", "1", "--kv_size_multiplier", copies)
    x, name = torch.randn(5, HEADS * WIDTH, generator=torch.Generator().manual_seed(1)), "model.layers.1.self_attn"
    total = 0
    for rank in range(tp):
        part = torch.load(tmp_path / f"model/dp_rank_00_tp_rank_{rank:02d}_pp_rank_00.pt")
        weights = [part[f"{name}.qkv_proj.weight_{letter}"] for letter in "qkv"]
        total = total + attention(x, *weights, part[f"{name}.o_proj.weight"], KV * copies // tp)
    want = attention(x, *(state[f"{name}.{letter}_proj.weight"] for letter in "qkvo"), KV)
    torch.testing.assert_close(total, want, rtol=0, atol=1e-5 * want.abs().max().item())


def test_tensors_in_files_of_their_own(tmp_path):
    state = whole()
    converter = CheckpointConverterBase()
    converted(converter, tmp_path, dict(state), KV, "--tp_size", "2")
    words = ["--tp_size", "2", "--hw_backend", "trn1"]
    for there, source, out in (("to", tmp_path / "model", tmp_path / "apart"), ("from", tmp_path / "apart/model", tmp_path / "again")):
        converter.run(converter.get_arg_parser().parse_args([*words, f"--convert_{there}_xser", "--input_dir", str(source), "--output_dir", str(out)]))
    name = "dp_rank_00_tp_rank_01_pp_rank_00.pt"
    assert (tmp_path / f"apart/model/{name}.tensors").is_dir()
    a, b = torch.load(tmp_path / "model" / name), torch.load(tmp_path / "again/model" / name)
    assert a.keys() == b.keys() and all(torch.equal(a[n], b[n]) for n in a)


def test_a_script_of_three_lines(tmp_path):
    """As AWS's examples are: a class, its parser and run."""
    script = tmp_path / "convert.py"
    script.write_text("from neuronx_distributed.scripts.checkpoint_converter import CheckpointConverterBase as Base\n"
                      "converter = Base()\nconverter.run(converter.get_arg_parser().parse_known_args()[0])\n")  # fmt: skip
    path = {"PYTHONPATH": str(Path(__file__).resolve().parents[2] / "python/compat")}
    for words, said in ((["--convert_to_full_state", "--convert_to_xser"], "found 2 of --convert_from_full_state"),
                        (["--convert_to_full_state", "--pad_attn_heads", "1"], "found --pad_attn_heads, which is not there"),
                        (["--convert_to_xser", "--input_dir", str(tmp_path)], "found no file of TP rank 0 and PP rank 0")):  # fmt: skip
        done = subprocess.run([sys.executable, script, "--output_dir", tmp_path, "--hw_backend", "trn1", *words], capture_output=True, text=True, env=path)
        assert done.returncode == 1 and said in done.stderr


def test_layers_that_do_not_come_out_even():
    """As the real one deals them: cuts leave more to the last stages, lists leave all that is left to the last one."""
    assert even_cuts([f"layers.{i}" for i in range(10)], 4) == ["layers.1", "layers.3", "layers.6"]
    layers = [torch.nn.Identity() for _ in range(10)]
    assert [len(part) for part in ListStages(layers, 4).parts] == [2, 2, 2, 4]
