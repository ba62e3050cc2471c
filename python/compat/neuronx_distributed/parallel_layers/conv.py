"""Convolutions whose weights are cut over the tensor parallel ranks: over their outputs, or over their inputs."""

import torch
from torch.nn import functional as F
from torch.nn.parameter import Parameter

from neuronx_distributed.parallel_layers import mappings
from neuronx_distributed.parallel_layers.layers import BaseParallelLinear, _kaiming
from neuronx_distributed.parallel_layers.utils import get_padding_length, set_tensor_model_parallel_attributes


def _pair(v):
    return (v, v) if isinstance(v, int) else tuple(v)


class BaseParallelConv(BaseParallelLinear):
    sequence_parallel_enabled, reduce_dtype = False, torch.float32

    def _cut(self, channels, kernel, dim, init_method, dtype, bias, bias_is_cut):
        out, of = channels
        self.weight = self._part([out, of, *kernel], dim, init_method or _kaiming, dtype)
        del self._whole
        if not bias:
            return self.register_parameter("bias", None)
        whole = self._biases(out, of * kernel[0] * kernel[1], dtype)
        self.bias = Parameter((whole.chunk(self.world_size)[self.rank] if bias_is_cut else whole).to(dtype).to(self.device))
        set_tensor_model_parallel_attributes(self.bias, bias_is_cut, 0, 1)

    def _check(self, dilation, groups, padding_mode):
        if _pair(dilation) != (1, 1) or groups != 1 or padding_mode != "zeros":
            raise NotImplementedError(f"parallel convolution: found dilation={dilation}, groups={groups}, padding_mode={padding_mode!r}, expected 1, 1, 'zeros'")


class OutputChannelParallelConv2d(BaseParallelConv):
    def __init__(self, in_channels, out_channels, kernel_size, stride=1, padding=0, dilation=1, groups=1, bias=True, padding_mode="zeros",
                 gather_output=True, dtype=torch.float32, device=None, init_method=None, keep_master_weight=False, partition_pad=False):  # fmt: skip
        super().__init__(device)
        self._check(dilation, groups, padding_mode)
        self.stride, self.padding, self.gather_output, self.out_channels = _pair(stride), _pair(padding), gather_output, out_channels
        padded = out_channels + (get_padding_length(out_channels, self.world_size) if partition_pad else 0)
        self._cut((padded, in_channels), _pair(kernel_size), 0, init_method, dtype, bias, True)

    def forward(self, x):
        out = F.conv2d(self._gradient_of_input(x), self.weight, self.bias, self.stride, self.padding)
        return mappings.gather_from_tensor_model_parallel_region_with_dim(out, 1)[:, : self.out_channels] if self.gather_output else out


class InputChannelParallelConv2d(BaseParallelConv):
    def __init__(self, in_channels, out_channels, kernel_size, stride=1, padding=0, dilation=1, groups=1, bias=True, padding_mode="zeros",
                 input_is_parallel=False, dtype=torch.float32, device=None, init_method=None, keep_master_weight=False, partition_pad=False):  # fmt: skip
        super().__init__(device)
        self._check(dilation, groups, padding_mode)
        self.stride, self.padding, self.input_is_parallel = _pair(stride), _pair(padding), input_is_parallel
        self.lacking = get_padding_length(in_channels, self.world_size) if partition_pad else 0
        self._cut((out_channels, in_channels + self.lacking), _pair(kernel_size), 1, init_method, dtype, bias, False)

    def forward(self, x):
        if not self.input_is_parallel:
            x = mappings.scatter_input_channels_to_tensor_model_parallel_region(F.pad(x, (0, 0, 0, 0, 0, self.lacking)) if self.lacking else x)
        out = self._summed(F.conv2d(x, self.weight, None, self.stride, self.padding))
        return out if self.bias is None else out + self.bias[:, None, None]
