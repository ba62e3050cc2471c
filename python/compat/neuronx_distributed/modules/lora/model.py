"""neuronx_distributed.modules.lora.model: a model with adapters; they alone are trained, and saved unless asked otherwise."""

import json
import os
import re

import torch
import torch.distributed as dist

from neuronx_distributed.modules.lora.config import LoraConfig
from neuronx_distributed.modules.lora.layer import LoraLayer, adapted
from neuronx_distributed.parallel_layers import mappings
from neuronx_distributed.parallel_layers import parallel_state as state
from trine.torch.old import ordinals

_USUAL = {"llama": ["q_proj", "v_proj"], "mistral": ["q_proj", "v_proj"], "mixtral": ["q_proj", "v_proj"], "bert": ["query", "value"],
          "gpt2": ["c_attn"], "gpt_neox": ["query_key_value"], "t5": ["q", "v"]}  # fmt: skip


class LoraModel(torch.nn.Module):
    def __init__(self, module, config):
        super().__init__()
        self.module, self.lora_config = module, config
        found = None
        if config.load_lora_from_ckpt:
            found, saved = self._read(config)
            config.__dict__.update({k: v for k, v in saved.items() if k in LoraConfig.get_selected_fields()})
        self.inject_adapter()
        if found is not None:
            self.load_state_dict(found)

    # adapters

    def _targets(self):
        wanted = self.lora_config.target_modules
        if wanted is None:
            kind = getattr(getattr(self.module, "config", None), "model_type", None)
            if kind not in _USUAL:
                raise ValueError(f"LoraConfig: found no target_modules and a model of type {kind!r}, expected target_modules, or a type of {sorted(_USUAL)}")
            wanted = self.lora_config.target_modules = _USUAL[kind]

        def is_target(name):
            if isinstance(wanted, str):
                return re.fullmatch(wanted, name)
            return any(name == w or name.endswith(f".{w}") for w in wanted)

        return [n for n, m in self.module.named_modules() if n and is_target(n) and not isinstance(m, LoraLayer)]

    def inject_adapter(self):
        names = self._targets()
        if not names:
            raise ValueError(f"LoRA: found no module named {self.lora_config.target_modules}, expected some of the model's")
        for name in names:
            parent, _, child = name.rpartition(".")
            owner = self.module.get_submodule(parent)
            setattr(owner, child, adapted(getattr(owner, child), self.lora_config, name))
        self._choose_trained()

    def _choose_trained(self):
        also, bias = self.lora_config.modules_to_save or (), self.lora_config.bias
        with_adapter = {id(p) for m in self.module.modules() if isinstance(m, LoraLayer) for p in m.parameters()}
        for name, p in self.module.named_parameters():
            is_bias = name.endswith("bias") and (bias == "all" or bias == "lora_only" and id(p) in with_adapter)
            p.requires_grad_(".lora_" in f".{name}" or any(f".{a}." in f".{name}." for a in also) or is_bias)

    def _layers(self):
        return [m for m in self.module.modules() if isinstance(m, LoraLayer)]

    def merge_lora(self):
        for m in self._layers():
            m.merge()

    def unmerge_lora(self):
        for m in self._layers():
            m.unmerge()

    def get_base_model(self):
        return self.module

    def get_nb_trainable_parameters(self):
        every = list(self.module.parameters())
        return sum(p.numel() for p in every if p.requires_grad), sum(p.numel() for p in every)

    def print_trainable_parameters(self):
        trained, every = self.get_nb_trainable_parameters()
        print(f"trainable params: {trained:,d} || all params: {every:,d} || trainable%: {100 * trained / every:.4f}")

    # as a module

    def forward(self, *args, **kwargs):
        return self.module(*args, **kwargs)

    def named_parameters(self, *args, **kwargs):
        return self.module.named_parameters(*args, **kwargs)

    def __getattr__(self, name):
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(super().__getattr__("module"), name)

    # files

    def _adapter(self):
        """Names and values of what is trained."""
        trained = {n for n, p in self.module.named_parameters() if p.requires_grad}
        return {n: v for n, v in self.module.state_dict().items() if n in trained}

    def state_dict(self, *args, **kwargs):
        """Adapters alone; with save_lora_base all; with merge_lora the plain model with the adapters in its weights."""
        if self.lora_config.merge_lora:
            self.merge_lora()
            found = {n.replace(".base_layer", ""): v.clone() for n, v in self.module.state_dict().items() if ".lora_" not in f".{n}"}
            self.unmerge_lora()
            return found
        return self.module.state_dict() if self.lora_config.save_lora_base else self._adapter()

    def load_state_dict(self, state_dict, strict=True, assign=False):
        """What there is of it: a base model by its plain names, adapters by theirs; joined adapters are cut again."""
        if "whole" in state_dict:
            state_dict = {n: self._cut(n, v) for n, v in state_dict["whole"].items()}
        own = self.module.state_dict()
        named = {n.replace(".base_layer", ""): n for n in own}
        known = {n if n in own else named.get(n, n): v for n, v in state_dict.items()}
        unknown = [n for n in known if n not in own]
        if unknown and strict:
            raise RuntimeError(f"LoraModel.load_state_dict: found {unknown[:4]}, expected names of the model or its adapters")
        return self.module.load_state_dict({n: v for n, v in known.items() if n in own}, strict=False)

    def _whole(self):
        """Adapters joined over the tensor parallel ranks."""
        parameters, out = dict(self.module.named_parameters()), {}
        for n, v in self._adapter().items():
            p = parameters[n]
            is_cut = getattr(p, "tensor_model_parallel", False) and state.get_tensor_model_parallel_size() > 1
            out[n] = (mappings._gather_along_dim(v, p.partition_dim) if is_cut else v).cpu()
        return out

    def _cut(self, name, whole):
        p = dict(self.module.named_parameters())[name]
        return mappings._split_along_dim(whole, p.partition_dim) if p.shape != whole.shape else whole

    def save_lora(self, save_dir=None, adapter_tag=None):
        """adapter_config.json and the adapters: joined in one file, or a file for each tensor parallel rank."""
        folder = os.path.join(save_dir or self.lora_config.lora_save_dir, adapter_tag or "")
        os.makedirs(folder, exist_ok=True)
        joined = self.lora_config.merge_sharded_lora
        found = self._whole() if joined else {n: v.cpu() for n, v in self._adapter().items()}
        if state.get_data_parallel_rank() == 0 and (not joined or state.get_tensor_model_parallel_rank() == 0):
            name = "adapter_model.pt" if joined else f"adapter_shards_tp_{state.get_tensor_model_parallel_rank():02d}.pt"
            torch.save(found, os.path.join(folder, name))
        if dist.get_rank() == 0:
            with open(os.path.join(folder, "adapter_config.json"), "w") as f:
                json.dump(self.lora_config.selected_fields_to_save(), f, indent=2)
        ordinals.rendezvous("neuronx_distributed.save_lora")

    def _read(self, config):
        folder = os.path.join(config.lora_save_dir, config.lora_load_tag or "")
        with open(os.path.join(folder, "adapter_config.json")) as f:
            saved = json.load(f)
        shard = os.path.join(folder, f"adapter_shards_tp_{state.get_tensor_model_parallel_rank():02d}.pt")
        whole = not os.path.exists(shard)
        found = torch.load(os.path.join(folder, "adapter_model.pt") if whole else shard, map_location="cpu", weights_only=True)
        return ({"whole": found} if whole else found), saved

    def load_lora(self, save_dir=None, adapter_tag=None):
        config = LoraConfig(lora_save_dir=save_dir or self.lora_config.lora_save_dir, lora_load_tag=adapter_tag)
        self.load_state_dict(self._read(config)[0])
