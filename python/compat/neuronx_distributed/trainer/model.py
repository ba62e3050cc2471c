"""neuronx_distributed.trainer.model: a model in parts; what is asked of it is asked of the part that this rank has."""

import torch


class NxDModel(torch.nn.Module):
    def __init__(self, module, nxd_config):
        super().__init__()
        self.module, self.nxd_config = module, nxd_config
        self.pp_enabled = nxd_config["pipeline_parallel_size"] > 1
        if not self.pp_enabled:
            self.train()

    def local_modules(self):
        return self.module.local_stage_modules if self.pp_enabled else [self.module]

    def original_module(self):
        return self.module.original_torch_module if self.pp_enabled else self.module

    def run_train(self, *args, **kwargs):
        if self.pp_enabled:
            return self.module.run_train(*args, **kwargs)
        loss = self.forward(*args, **kwargs)
        loss.backward()
        return loss

    def run_eval(self, *args, **kwargs):
        if not self.pp_enabled:
            raise RuntimeError("run_eval: found a model without pipeline stages, expected pipeline_parallel_size > 1; call the model itself")
        return self.module.run_eval(*args, **kwargs)

    def forward(self, *args, **kwargs):
        return self.module(*args, **kwargs)

    def named_parameters(self, *args, **kwargs):
        return (self.module.local_named_parameters if self.pp_enabled else self.module.named_parameters)(*args, **kwargs)

    def named_buffers(self, *args, **kwargs):
        return (self.module.local_named_buffers if self.pp_enabled else self.module.named_buffers)(*args, **kwargs)

    def named_modules(self, *args, **kwargs):
        return (self.module.local_named_modules if self.pp_enabled else self.module.named_modules)(*args, **kwargs)

    def state_dict(self, *args, **kwargs):
        return (self.module.local_state_dict if self.pp_enabled else self.module.state_dict)(*args, **kwargs)

    def load_state_dict(self, state_dict, strict=True):
        return self.module.load_state_dict(state_dict, strict=strict)

    def __getattr__(self, name):
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(super().__getattr__("module"), name)

    dtype = property(lambda self: self.original_module().dtype)
    config = property(lambda self: self.original_module().config)
    name_or_path = property(lambda self: self.original_module().name_or_path)
