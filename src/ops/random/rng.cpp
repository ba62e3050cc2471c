// rng: numbers from a distribution between or around two scalars: UNIFORM in [a, b), NORMAL with mean a, deviation b.
// A node's numbers are the same in every run. JAX's generators do not come here, only lax.rng_uniform does.
// Inputs are a, b and the shape. C1: a and b are scalars of the declared result's dtype, integers only if UNIFORM.
#include "base/number/random.h"

#include <cmath>
#include <numbers>

#include "ops/shape.h"
#include "ops/wide.h"

namespace trine::ops {

namespace {

Result<std::vector<ir::Type>> infer(const Call& call) {
  if (call.declared.size() != 1) return fail(Code::invalid, "its result type must be given");
  const ir::Type& out = call.declared[0];
  const ir::Type scalar = ir::tensor_type(out.dtype, {});
  if (!ir::same_tensor(call.inputs[0], scalar) || !ir::same_tensor(call.inputs[1], scalar))
    return fail(Code::invalid, cat("its limits must be ", ir::text(scalar), ", as its result is ", ir::text(out)));
  const std::string_view distribution = call.attrs.text("distribution");
  const bool is_uniform = distribution == "UNIFORM";
  if (!is_uniform && distribution != "NORMAL")
    return fail(Code::invalid, cat("distribution is `", distribution, "`; UNIFORM or NORMAL was expected"));
  if (is_complex(out.dtype) || (!is_uniform && !is_floating(out.dtype)))
    return fail(Code::invalid, cat("there is no ", distribution, " distribution of ", row(out.dtype).name));
  return std::vector<ir::Type>{ir::tensor_type(out.dtype, out.dims)};
}

uint64_t bits_at(uint64_t seed, int64_t i) {
  const auto block = random_block(seed, uint64_t(i));
  return block[0] | uint64_t(block[1]) << 32;
}

double unit_at(uint64_t seed, int64_t i) { return double(bits_at(seed, i) >> 11) * 0x1p-53; }

// Of integers: a plus a remainder by the range, which wraps as they do.
template <class W>
W uniform(W a, W b, uint64_t seed, int64_t i) {
  if constexpr (std::is_same_v<W, double>) {
    return a + (b - a) * unit_at(seed, i);
  } else if constexpr (std::is_same_v<W, bool>) {
    return a == b ? a : (bits_at(seed, i) & 1) != 0;
  } else {
    const uint64_t range = uint64_t(b) - uint64_t(a);
    return range ? W(uint64_t(a) + bits_at(seed, i) % range) : a;
  }
}

double normal(double mean, double deviation, uint64_t seed, int64_t i) {  // Box and Muller
  const double radius = std::sqrt(-2 * std::log(1 - unit_at(seed, 2 * i)));
  return mean + deviation * radius * std::cos(2 * std::numbers::pi * unit_at(seed, 2 * i + 1));
}

template <class W>
void run(const Eval& e) {
  W a, b;
  load_wide(e.in[0], 0, 1, &a);
  load_wide(e.in[1], 0, 1, &b);
  const bool is_uniform = e.node.attrs.text("distribution") == "UNIFORM";
  WideArray<W> out(e.out[0].elements());
  for (int64_t i = 0; i < out.size; ++i) {
    if constexpr (std::is_same_v<W, double>) {
      out[i] = is_uniform ? uniform(a, b, e.node.id, i) : normal(a, b, e.node.id, i);
    } else if constexpr (std::is_integral_v<W>) {
      out[i] = uniform(a, b, e.node.id, i);
    }
  }
  store_wide(out, e.out[0]);
}

}  // namespace

extern const Op op_rng{.name = "rng",
                       .kind = OpKind::other,
                       .arity = 3,
                       .attrs = "distribution",
                       .infer = infer,
                       .eval = [](const Eval& e) -> Result<void> {
                         dispatch_wide(e.out[0].dtype, [&]<class W>() { run<W>(e); });
                         return {};
                       },
                       .has_effect = true};

}  // namespace trine::ops
