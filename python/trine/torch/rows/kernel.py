"""A call of an NKI kernel: the kernel's recorded instructions are part of the program; see trine.torch.kernels."""

from trine.torch.rules import row


@row("_nki.call")
def kernel_call(b, tensors, key):
    from trine.torch.kernels import CALLS

    payload = CALLS[key][0].recording
    attrs = f'api_version = 1 : i32, backend_config = "{payload}", call_target_name = "AwsNeuronCustomNativeKernel", has_side_effect = false'
    return b.op_many("custom_call", tensors, b.outs, attrs)
