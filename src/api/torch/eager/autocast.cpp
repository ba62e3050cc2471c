// Autocast on `neuron`: torch's own lists of ops, in the dtype asked for.
#include <ATen/autocast_mode.h>
#include <torch/library.h>

#define LOWER(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, lower_precision_fp)
#define FULL(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, fp32)
#define FULL_SET(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, fp32_set_opt_dtype)
#define PROMOTE(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, promote)

namespace at::autocast {

#define XLA_LOWER(...) KERNEL(c10::DeviceType::XLA, __VA_ARGS__, lower_precision_fp)
#define XLA_FULL(...) KERNEL(c10::DeviceType::XLA, __VA_ARGS__, fp32)
#define XLA_FULL_SET(...) KERNEL(c10::DeviceType::XLA, __VA_ARGS__, fp32_set_opt_dtype)
#define XLA_PROMOTE(...) KERNEL(c10::DeviceType::XLA, __VA_ARGS__, promote)

TORCH_LIBRARY_IMPL(_, AutocastXLA, m) { m.fallback(torch::CppFunction::makeFallthrough()); }
TORCH_LIBRARY_IMPL(_, AutocastPrivateUse1, m) { m.fallback(torch::CppFunction::makeFallthrough()); }

TORCH_LIBRARY_IMPL(aten, AutocastPrivateUse1, m){
    AT_FORALL_LOWER_PRECISION_FP(LOWER) AT_FORALL_FP32(FULL) AT_FORALL_FP32_SET_OPT_DTYPE(FULL_SET)
        AT_FORALL_PROMOTE(PROMOTE) KERNEL_PRIVATEUSEONE(cat, promote) KERNEL_PRIVATEUSEONE(stack, promote)}

TORCH_LIBRARY_IMPL(aten, AutocastXLA, m) {
  AT_FORALL_LOWER_PRECISION_FP(XLA_LOWER)
  AT_FORALL_FP32(XLA_FULL)
  AT_FORALL_FP32_SET_OPT_DTYPE(XLA_FULL_SET)
  AT_FORALL_PROMOTE(XLA_PROMOTE)
}

}  // namespace at::autocast
