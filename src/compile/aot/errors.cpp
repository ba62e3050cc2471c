// The table of causes; see errors.h. Codes are Neuron's (its documentation's list of compiler errors), for the same
// causes.
#include "compile/aot/errors.h"

#include <span>

#include "base/text.h"

namespace trine::compile {

namespace {

constexpr std::string_view kHost =
    "compute it outside the compiled function, or write it with ops the device has (docs/ops.md)";

struct Cause {
  std::string_view text;  // part of the message
  CompileCode code;
};

// The first that the message says holds.
constexpr Cause kCauses[] = {
    {"no c64",
     {"NCC_EVRF004", "complex numbers are not supported", "real numbers on the device",
      "carry real and imaginary parts as two arrays"}},
    {"no c128",
     {"NCC_EVRF004", "complex numbers are not supported", "real numbers on the device",
      "carry real and imaginary parts as two arrays"}},
    {"fnuz",
     {"NCC_EVRF005", "an 8-bit float format no chip has", "f8e4m3, f8e4m3fn, f8e5m2 or f8e3m4",
      "convert to f8e4m3 or f8e5m2 first"}},
    {"needs `fp8_ocp`",
     {"NCC_EVRF051", "this chip has another f8e4m3", "f8e4m3 before trn3, f8e4m3fn from trn3 on",
      "use f8e4m3 on this chip, or --instance trn3-gen1-ultraserver"}},
    {"rng_bit_generator",
     {"NCC_EVRF006", "a random generator no engine has", "threefry as JAX writes it",
      "jax_default_prng_impl = threefry2x32"}},
    {"custom call",
     {"NCC_EVRF015", "an unknown custom call", "a call with a lowering of its own, or none",
      "write it with jax.numpy, or as an NKI kernel"}},
    {"custom_call",
     {"NCC_EVRF015", "an unknown custom call", "a call with a lowering of its own, or none",
      "write it with jax.numpy, or as an NKI kernel"}},
    {"scatter by",
     {"NCC_EVRF016", "a scatter that the device cannot combine", "add, min or max of f32, bf16 or 32-bit integers",
      "convert the operand to f32 or s32 first"}},
    {"reduce_window",
     {"NCC_EVRF017", "a reduce-window the device has not", "one operand, no dilation, a sum, maximum or minimum",
      "write it as slices that are combined"}},
    {"select_and_scatter",
     {"NCC_EVRF019", "a select-and-scatter the device has not", "the gradient of a maximum over windows",
      "write it as slices that are combined"}},
    {"convolution",
     {"NCC_EVRF010", "a convolution the device has not", "dilation of one side at most",
      "dilate the kernel or the input, not both"}},
    {"top_k", {"NCC_EVRF013", "a top-k the device has not", "keys of f32, bf16 or f16", "convert the keys to f32"}},
    {"dynamic",
     {"NCC_EMOD025", "a shape that is not known", "every dim a number when the program is compiled",
      "pad to a fixed size; give --shape NAME=1x128 for ONNX"}},
    {"symbolic",
     {"NCC_EMOD025", "a shape that is not known", "every dim a number when the program is compiled",
      "pad to a fixed size; give --shape NAME=1x128 for ONNX"}},
    {"no s64",
     {"NCC_ESPP004", "64-bit numbers are not supported", "32 bits or fewer",
      "leave jax_enable_x64 off, or convert to s32"}},
    {"no u64",
     {"NCC_ESFH002", "64-bit numbers are not supported", "32 bits or fewer",
      "leave jax_enable_x64 off, or convert to u32"}},
    {"no f64",
     {"NCC_ESPP004", "64-bit numbers are not supported", "32 bits or fewer",
      "leave jax_enable_x64 off, or convert to f32"}},
    {"the chip has no",
     {"NCC_ESPP047", "a number format the chip has not", "f32, bf16, f16, 8-bit floats, integers of 8 to 32 bits",
      "convert it before and after"}},
    {"instructions in one program",
     {"NCC_EXTP004", "too many instructions", "loops that stay loops, or less work in one program",
      "a smaller batch or sequence, layers in a loop (lax.scan), or more cores that share the model"}},
    {"auto-cast",
     {"NCC_EARG001", "an option that is not known", "none, matmult or all; bf16, f16, tf32 or f8",
      "trine compile --help"}},
    {"cannot run on the device", {"NCC_EUOC002", "an op no engine computes", "an op of docs/ops.md", kHost}},
};
// Of memory that does not do, whatever op the message names.
constexpr Cause kMemories[] = {
    {"keeps",
     {"NCC_EOOM001", "out of device memory", "a program that fits the memory of one core",
      "a smaller batch, bf16 weights (--auto-cast matmult), or more cores that share the model (--tp)"}},
    {"per partition",
     {"NCC_EXSP001", "out of on-chip memory", "what is in use at once to fit SBUF and PSUM",
      "smaller dims of what one op reads at once; report it with `trine compile --dry-run`"}},
};
constexpr CompileCode kRefused{"NCC_EVRF064", "the program is not well formed", "", ""};
constexpr CompileCode kMemory{"NCC_EOOM002", "out of device memory", "a program that fits the chip's memory",
                              "a smaller batch, narrower weights, or more cores that share the model"};
constexpr CompileCode kInternal{"NCC_INLA001", "the compiler failed", "", "report it: the model's file and this text"};

}  // namespace

const CompileCode& code_of(const Error& error) {
  const bool memory = error.code == Code::out_of_memory;
  for (const Cause& c : memory ? std::span<const Cause>(kMemories) : std::span<const Cause>(kCauses))
    if (error.code != Code::io && error.message.find(c.text) != std::string::npos) return c.code;
  if (memory) return kMemory;
  return error.code == Code::internal ? kInternal : kRefused;
}

Error coded(const Error& error) {
  if (error.message.starts_with("error NCC_") || error.code == Code::cancelled || error.code == Code::io ||
      error.code == Code::not_found)
    return error;
  const CompileCode& c = code_of(error);
  std::string out = cat("error ", c.code, ": ", c.title);
  if (!error.where.empty()) append_text(out, cat("\n  --> ", error.where));
  std::string found = error.message;
  for (size_t at = 0; (at = found.find('\n', at)) != std::string::npos; at += 13)
    found.replace(at, 1, "\n            ");
  append_text(out, cat("\n  found     ", found));
  if (!c.expected.empty()) append_text(out, cat("\n  expected  ", c.expected));
  if (!c.fix.empty()) append_text(out, cat("\n  try       ", c.fix));
  return fail(error.code, std::move(out));
}

}  // namespace trine::compile
