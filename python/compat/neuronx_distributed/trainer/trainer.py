"""neuronx_distributed.trainer.trainer: a configuration, and a model and an optimizer made by it."""

import torch

from neuronx_distributed.optimizer import NeuronEPZero1Optimizer, NeuronZero1Optimizer
from neuronx_distributed.parallel_layers import parallel_state
from neuronx_distributed.trainer.model import NxDModel
from neuronx_distributed.trainer.optimizer import NxDOptimizer
from neuronx_distributed.utils import get_device
from neuronx_distributed.utils.activation_checkpoint import apply_activation_checkpointing
from neuronx_distributed.utils.model_utils import get_model_sequential, init_on_device, is_hf_pretrained_model


def neuronx_distributed_config(tensor_parallel_size=1, pipeline_parallel_size=1, expert_parallel_size=1, context_parallel_size=1,
                               pipeline_config=None, optimizer_config=None, activation_checkpoint_config=None, pad_model=False,
                               sequence_parallel=False, model_init_config=None, lora_config=None, mixed_precision_config=None,
                               sequential_move_factor=11, lnc_size=1):  # fmt: skip
    optimizer_config = {"zero_one_enabled": False, "grad_clipping": True, **(optimizer_config or {})}
    if optimizer_config["grad_clipping"]:
        optimizer_config.setdefault("max_grad_norm", 1.0)
    zero = optimizer_config["zero_one_enabled"]
    mixed = {"use_master_weights": zero, "use_fp32_grad_acc": zero, "use_master_weights_in_ckpt": False, **(mixed_precision_config or {})}
    init = {"sequential_move_factor": sequential_move_factor, "meta_device_init": False, "param_init_fn": None, **(model_init_config or {})}
    if init["meta_device_init"] and init["param_init_fn"] is None:
        raise ValueError("neuronx_distributed_config: found meta_device_init=True without param_init_fn, expected a function of (module, device)")
    config = {"tensor_parallel_size": tensor_parallel_size, "pipeline_parallel_size": pipeline_parallel_size,
              "expert_parallel_size": expert_parallel_size, "context_parallel_size": context_parallel_size, "pipeline_config": pipeline_config,
              "optimizer_config": optimizer_config, "activation_checkpoint_config": activation_checkpoint_config, "pad_model": pad_model,
              "sequence_parallel": sequence_parallel, "model_init_config": init, "lora_config": lora_config,
              "mixed_precision_config": mixed, "lnc_size": lnc_size}  # fmt: skip
    if torch.distributed.is_initialized():
        _initialize(config)
    return config


def _initialize(config):
    parallel_state.initialize_model_parallel(config["tensor_parallel_size"], config["pipeline_parallel_size"], config["context_parallel_size"],
                                             config["expert_parallel_size"], lnc_size=config["lnc_size"])  # fmt: skip


def initialize_parallel_model(nxd_config, model_fn, include_buffers=False, *model_args, **model_kwargs):
    """model_fn's model, cut into stages, on the device, with adapters and recomputation as configured."""
    if not parallel_state.model_parallel_is_initialized():
        _initialize(nxd_config)
    init = nxd_config["model_init_config"]
    if init["meta_device_init"]:
        with init_on_device("meta", include_buffers):
            model = model_fn(*model_args, **model_kwargs)
    else:
        model = model_fn(*model_args, **model_kwargs)
    base = model
    if nxd_config["pipeline_parallel_size"] > 1:
        from neuronx_distributed.pipeline import NxDPPModel

        model = NxDPPModel(model, **{**(nxd_config["pipeline_config"] or {}), "param_init_fn": init["param_init_fn"], "use_model_wrapper": True})
        model.move_model_to_device()
    else:
        model = get_model_sequential(model, get_device(), init["sequential_move_factor"], init["param_init_fn"])
    if nxd_config["lora_config"] is not None:
        from neuronx_distributed.modules.lora import LoraModel

        model = LoraModel(model, nxd_config["lora_config"])
    if nxd_config["pad_model"]:
        from neuronx_distributed.parallel_layers.pad import pad_model

        model = pad_model(model, parallel_state.get_tensor_model_parallel_size(), model.config.num_attention_heads)
    made = NxDModel(model, nxd_config)
    if (asked := nxd_config["activation_checkpoint_config"]) is not None:
        classes = _recomputed(asked, base, made, model)
        apply_activation_checkpointing(made.module, lambda m: isinstance(m, classes))
    return made


def _recomputed(asked, base, made, model):
    """The classes of modules that are computed again."""
    if asked != "full":
        return tuple(asked) if isinstance(asked, (list, tuple)) else (asked,)
    if made.pp_enabled:
        return (model.transformer_layer_cls,)
    if not is_hf_pretrained_model(base) or not base._no_split_modules:
        raise ValueError('activation_checkpoint_config: found "full" for a model that is not transformers\', expected the class of its layers')
    names = set(base._no_split_modules)
    return tuple({type(m) for m in base.modules() if type(m).__name__ in names})


def initialize_parallel_optimizer(nxd_config, optimizer_class, parameters, **defaults):
    return NxDOptimizer(initialize_optimizer_from_class(nxd_config, optimizer_class, parameters, **defaults), nxd_config)


def initialize_optimizer_from_class(nxd_config, optimizer_class, parameters, model=None, **defaults):
    config, mixed = nxd_config["optimizer_config"], nxd_config["mixed_precision_config"]
    if not config["zero_one_enabled"]:
        asked = [k for k in ("use_master_weights", "use_fp32_grad_acc", "use_master_weights_in_ckpt") if mixed[k]]
        if asked:
            raise RuntimeError(f"mixed_precision_config: found {asked} without ZeRO-1, expected optimizer_config['zero_one_enabled'] = True")
        return optimizer_class(parameters, **defaults)
    with_context = parallel_state.get_context_model_parallel_size() > 1
    options = {"grad_clipping": config["grad_clipping"], "max_norm": config.get("max_grad_norm"), "pin_layout": False,
               "sharding_groups": parallel_state.get_zero1_sharding_groups() if with_context else parallel_state.get_data_parallel_replica_groups(),
               "bucket_cap_mb_all_gather": 130, "bucket_cap_mb_reduce_scatter": 130,
               "save_master_weights": mixed["use_master_weights_in_ckpt"]}  # fmt: skip
    if mixed["use_fp32_grad_acc"]:
        options |= {"use_grad_acc_hook": True, "higher_cc_precision": True}
    of_experts = parallel_state.get_expert_model_parallel_size() > 1
    return (NeuronEPZero1Optimizer if of_experts else NeuronZero1Optimizer)(parameters, optimizer_class, **options, **defaults)
