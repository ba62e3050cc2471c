"""neuronx_distributed.scripts.checkpoint_converter: a whole checkpoint cut for ranks, and ranks' files joined again.

A model of its own is a subclass: which dim of which weight is cut, what its layers are called, and what is done to the whole state before it
is cut and after it is joined. Files are those of save_checkpoint: model/dp_rank_00_tp_rank_XX_pp_rank_YY.pt.
"""

import argparse
import json
import os
import re

import torch

from neuronx_distributed.pipeline.partition import even_cuts
from neuronx_distributed.scripts import head_order
from trine.torch.old import serialization

HALVES = ("gate_proj", "up_proj")  # of gate_up_proj, in this order


def _flag(text):
    return text.strip().lower() not in ("", "0", "false", "no")


def _apart(name):
    """qkv_proj.weight_q -> q_proj.weight"""
    return re.sub(r"\bqkv_proj\.(weight|bias)_([qkv])$", r"\2_proj.\1", name)


def _together(name):
    return re.sub(r"\b([qkv])_proj\.(weight|bias)$", r"qkv_proj.\2_\1", name)


class CheckpointConverterBase:
    attribute_map = {}  # a setting's usual name -> what this model's config.json calls it, with dots for what lies inside
    embedding_partition_dim = 0
    qkv_partition_dim = 0
    gate_up_proj_partition_dim = 0
    down_proj_partition_dim = 1
    o_proj_partition_dim = 1
    layer_name = "layers"
    layer_name_pattern = r"^(model\.layers\.\d+)"

    # what a model may say otherwise

    def pre_process_full_state_before_tp_conversion(self, full_state, args):
        return full_state

    def post_process_full_state_after_tp_conversion(self, full_state, args):
        return full_state

    def is_qkv_weight(self, name):
        return any(part in name for part in ("q_proj", "k_proj", "v_proj", "qkv_proj", "query_key_value"))

    def get_partition_dim(self, name):
        rules = ((("embed_tokens", "lm_head", "wte"), self.embedding_partition_dim), (("gate_proj", "up_proj"), self.gate_up_proj_partition_dim),
                 (("down_proj",), self.down_proj_partition_dim), (("o_proj",), self.o_proj_partition_dim))  # fmt: skip
        if self.is_qkv_weight(name):
            return self.qkv_partition_dim
        found = next((dim for parts, dim in rules if any(p in name for p in parts)), None)
        if found is None:
            raise ValueError(f"{type(self).__name__}: found no dim that {name} is cut in; override get_partition_dim")
        return found

    def get_fused_qkv_key(self):
        return "qkv_proj.weight_qkv"

    def _get_config_value(self, config, key):
        if key in config:
            return config[key]
        value = config
        for part in self.attribute_map.get(key, key).split("."):
            if not isinstance(value, dict) or part not in value:
                raise KeyError(f"found no {key!r} in the config, nor what attribute_map calls it")
            value = value[part]
        return value

    # cutting

    def _is_cut(self, name):
        if name.endswith(".bias") and any(p in name for p in ("o_proj", "down_proj")):
            return False  # added after the sum over ranks
        return self.is_qkv_weight(name) or any(p in name for p in ("embed_tokens", "lm_head", "wte", "o_proj", "down_proj", *HALVES))

    def _heads(self, config):
        heads = self._get_config_value(config, "num_attention_heads")
        try:
            return heads, self._get_config_value(config, "num_key_value_heads")
        except KeyError:
            return heads, heads

    def _order(self, args, config):
        heads, kv_heads = self._heads(config)
        return list(range(heads)) if args.hw_backend == "trn2" else head_order.query_heads(heads, kv_heads, args.kv_size_multiplier)

    def _stage_of(self, name, cuts):
        """Which stage has a weight: first, last, or its layer's."""
        found = re.match(self.layer_name_pattern, name)
        if found:
            number = int(found.group(1).rsplit(".", 1)[-1])
            return sum(number > int(cut.rsplit(".", 1)[-1]) for cut in cuts)
        return len(cuts) if any(p in name for p in ("lm_head", "model.norm.", "norm_f.")) else 0 if any(p in name for p in ("embed_tokens", "wte")) else None

    def _cut(self, value, name, args, tp_rank):
        dim = self.get_partition_dim(name)
        if value.size(dim) % args.tp_size:
            raise ValueError(f"{name}: found a size of {value.size(dim)} in dim {dim}, expected a multiple of TP {args.tp_size}")
        return value.chunk(args.tp_size, dim)[tp_rank].clone()

    def convert_full_state_to_tp(self, full_state, args, tp_rank, pp_rank, ep_rank, partitions, config):
        """One rank's part."""
        out = {}
        for name, value in full_state.items():
            stage, experts = self._stage_of(name, partitions), "expert_mlps" in name
            if (stage is not None and stage % args.pp_size != pp_rank) or (ep_rank and not experts):
                continue
            if experts:
                if value.size(0) % args.ep_size:
                    raise ValueError(f"{name}: found {value.size(0)} experts, expected a multiple of EP {args.ep_size}")
                value = value.chunk(args.ep_size)[ep_rank]
            if args.qkv_linear and (self.is_qkv_weight(name) or "o_proj" in name) and self._is_cut(name):
                if "k_proj" in name or "v_proj" in name:
                    value = torch.cat([value] * args.kv_size_multiplier, self.qkv_partition_dim)
                else:
                    value = head_order.reordered(value, self._order(args, config), self.get_partition_dim(name))
                value, name = self._cut(value, name, args, tp_rank), _together(name)
            elif self._is_cut(name):
                value = self._cut(value, name, args, tp_rank)
            out[name] = value
        return self._joined_here(out, args)

    def _joined_here(self, out, args):
        """gate_proj and up_proj of a rank are one weight, and with fuse_qkv so are its q, k and v."""
        joins = [(HALVES, "gate_up_proj", "gate_proj")]
        if args.fuse_qkv:
            letters = tuple(f"qkv_proj.weight_{letter}" for letter in "qkv")
            joins.append((letters, self.get_fused_qkv_key(), letters[0]))
        for parts, whole, first in joins:
            for name in [n for n in out if first in n and whole not in n]:
                names = [name.replace(first, p) for p in parts]
                if all(n in out for n in names):
                    out[name.replace(first, whole)] = torch.cat([out.pop(n) for n in names], self.get_partition_dim(name)).clone()
        return out

    def coalesce_qkv(self, state_dict, config, tp_degree):
        """q, k and v of a layer as one qkv_proj, whose parts of each rank lie together."""
        for name in [n for n in state_dict if "q_proj.weight" in n]:
            parts = [state_dict.pop(name.replace("q_proj", f"{letter}_proj")).chunk(tp_degree, self.qkv_partition_dim) for letter in "qkv"]
            state_dict[name.replace("q_proj", "qkv_proj")] = torch.cat([p[rank] for rank in range(tp_degree) for p in parts], self.qkv_partition_dim)
        return state_dict

    # joining

    def _parted(self, state, args, config):
        """A rank's state with the names of the whole one: fused weights are taken apart."""
        heads, kv_heads = self._heads(config)
        kv = kv_heads * args.kv_size_multiplier if args.qkv_linear else kv_heads
        out = {}
        for name, value in state.items():
            fused, dim = self.get_fused_qkv_key(), self.qkv_partition_dim
            if "gate_up_proj" in name:
                parts = zip(HALVES, value.chunk(2, self.get_partition_dim(name)))
                out |= {name.replace("gate_up_proj", p): v for p, v in parts}
            elif name.endswith((fused, "qkv_proj.weight")):
                keys = value.size(dim) * kv // (heads + 2 * kv)
                parts = zip("qkv", value.split([value.size(dim) - 2 * keys, keys, keys], dim))
                old = fused if name.endswith(fused) else "qkv_proj.weight"
                out |= {name.replace(old, f"{letter}_proj.weight"): v for letter, v in parts}
            else:
                out[_apart(name)] = value
        return out

    def _join(self, name, parts, args, config):
        """parts[ep][tp] of one weight."""
        if not self._is_cut(name):
            return torch.cat([row[0] for row in parts]) if "expert_mlps" in name else parts[0][0]
        rows = [torch.cat(row, self.get_partition_dim(name)) for row in parts]
        whole = torch.cat(rows) if len(rows) > 1 else rows[0]
        if args.qkv_linear and ("k_proj" in name or "v_proj" in name):
            return whole.chunk(args.kv_size_multiplier, self.qkv_partition_dim)[0].clone()
        if args.qkv_linear and ("q_proj" in name or "o_proj" in name):
            return head_order.reordered(whole, head_order.back(self._order(args, config)), self.get_partition_dim(name))
        return whole

    def merge_tp_checkpoints(self, args):
        config, full_state = self._config(args), {}
        for pp_rank in range(args.pp_size):
            states = [[self._parted(self._read(args, tp, pp_rank, ep), args, config) for tp in range(args.tp_size)] for ep in range(args.ep_size)]
            for name in dict.fromkeys(n for row in states for state in row for n in state):
                parts = [[state[name] for state in row] for row in states if name in row[0]]
                full_state.setdefault(name, self._join(name, parts, args, config))
        return self.post_process_full_state_after_tp_conversion(full_state, args)

    # files

    def get_input_filename(self, args, tp_rank, pp_rank, ep_rank=0, xser=None):
        end = f"tp_rank_{tp_rank:02d}_pp_rank_{pp_rank:02d}"
        names = (end, os.path.join(end, "checkpoint.pt"), f"dp_rank_00_{end}.pt", f"dp_rank_00_ep_rank_{ep_rank:02d}_{end}.pt")
        found = next((p for p in (os.path.join(args.input_dir, n) for n in names) if os.path.isfile(p)), None)
        if found is None:
            raise FileNotFoundError(f"found no file of TP rank {tp_rank} and PP rank {pp_rank} in {args.input_dir}, expected one of {', '.join(names)}")
        return found

    def get_output_filename(self, args, tp_rank, pp_rank, ep_rank=0, xser=None):
        expert = f"ep_rank_{ep_rank:02d}_" if args.ep_size > 1 else ""
        return os.path.join(args.output_dir, "model", f"dp_rank_00_{expert}tp_rank_{tp_rank:02d}_pp_rank_{pp_rank:02d}.pt")

    def _read(self, args, tp_rank, pp_rank, ep_rank=0):
        path = self.get_input_filename(args, tp_rank, pp_rank, ep_rank)
        apart = os.path.isdir(f"{path}.tensors")
        state = serialization.load(path) if apart else torch.load(path, map_location="cpu", weights_only=False)
        return state.get(args.model_key, state)

    def _write(self, args, state, tp_rank, pp_rank, ep_rank=0, xser=False):
        path = self.get_output_filename(args, tp_rank, pp_rank, ep_rank)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        print(f"writing {path}")
        serialization.save(state, path, waits=False) if xser else torch.save(state, path)

    def _config(self, args):
        if not args.config:
            raise ValueError("found no --config, expected the model's config.json: it says how many heads there are")
        with open(args.config) as file:
            return json.load(file)

    def load_full_state(self, args):
        if args.input_dir:
            return torch.load(args.input_dir, map_location="cpu", weights_only=False)
        if not args.hf_model_name:
            raise ValueError("found neither --input_dir nor --hf_model_name, expected one of them")
        from transformers import AutoModelForCausalLM

        return AutoModelForCausalLM.from_pretrained(args.hf_model_name).state_dict()

    def save_full(self, args, full_state):
        os.makedirs(args.output_dir, exist_ok=True)
        torch.save(full_state, os.path.join(args.output_dir, "checkpoint.pt"))

    # what is asked for

    def convert_from_full_state(self, args):
        full_state, config = self.load_full_state(args), self._config(args)
        layers = {found.group(1) for found in (re.match(self.layer_name_pattern, name) for name in full_state) if found}
        cuts = even_cuts(sorted(layers, key=lambda name: int(name.rsplit(".", 1)[-1])), args.pp_size * args.virtual_pp_size)
        print(f"pipeline_cuts {cuts}")
        if args.coalesce_qkv:
            full_state = self.coalesce_qkv(full_state, config, args.tp_size)
        full_state = self.pre_process_full_state_before_tp_conversion(full_state, args)
        for tp, pp, ep in self._ranks(args):
            self._write(args, self.convert_full_state_to_tp(full_state, args, tp, pp, ep, cuts, config), tp, pp, ep, args.save_xser)

    def convert_to_full_state(self, args):
        self.save_full(args, self.merge_tp_checkpoints(args))

    def convert_from_xser(self, args):
        for ranks in self._ranks(args):
            self._write(args, self._read(args, *ranks), *ranks)

    def convert_to_xser(self, args):
        for ranks in self._ranks(args):
            self._write(args, self._read(args, *ranks), *ranks, xser=True)

    def _ranks(self, args):
        return [(tp, pp, ep) for tp in range(args.tp_size) for pp in range(args.pp_size) for ep in range(args.ep_size)]

    def get_arg_parser(self):
        parser = argparse.ArgumentParser()
        add = parser.add_argument
        add("--input_dir", help="a whole checkpoint's file, or the folder of the ranks' files")
        add("--hf_model_name", help="a model's name or folder, instead of --input_dir")
        add("--output_dir", required=True)
        add("--hw_backend", required=True, help="trn1 or trn2: how query heads are ordered")
        add("--config", help="the model's config.json")
        add("--model_key", default="model", help="what the state is called inside its file")
        for name, default in (("tp_size", 1), ("pp_size", 1), ("ep_size", 1), ("virtual_pp_size", 1), ("n_layers", 0), ("kv_size_multiplier", 1),
                              ("i_tp_round_factor", 0)):  # fmt: skip
            add(f"--{name}", type=int, default=default)
        for name in ("coalesce_qkv", "qkv_linear", "fuse_qkv", "pad_attn_heads", "load_xser", "save_xser"):
            add(f"--{name}", type=_flag, default=False)
        for name in ("from_xser", "to_xser", "from_full_state", "to_full_state"):
            add(f"--convert_{name}", action="store_true")
        add("--model_style", choices=["hf", "megatron"], default="hf")
        add("--nxdt_yaml_config")
        return parser

    def run(self, args):
        kinds = ("from_full_state", "to_full_state", "from_xser", "to_xser")
        asked = [kind for kind in kinds if getattr(args, f"convert_{kind}")]
        if len(asked) != 1:
            raise ValueError(f"found {len(asked)} of {', '.join(f'--convert_{kind}' for kind in kinds)}, expected one")
        lacking = {"pad_attn_heads": args.pad_attn_heads, "i_tp_round_factor": args.i_tp_round_factor, "nxdt_yaml_config": args.nxdt_yaml_config,
                   "model_style megatron": args.model_style == "megatron"}  # fmt: skip
        for name, given in lacking.items():
            if given:
                raise NotImplementedError(f"checkpoint_converter: found --{name}, which is not there")
        getattr(self, f"convert_{asked[0]}")(args)
