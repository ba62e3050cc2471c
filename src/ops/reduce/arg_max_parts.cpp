// arg_max_parts: of each row of x [R, N], cut into `parts` of `length` elements (the last may be shorter), three
// numbers as f32[R, parts, 3]: the part's largest, the index in the part where that is first found, and the index of
// the first NaN. A NaN is never the largest; where there is no other the largest is -inf. An index of what is nowhere
// is 2^32. C1: x is floats of two dims. C2: length is above 0, and parts as many as cover N.
#include <cmath>

#include "ops/internal.h"
#include "ops/wide.h"

namespace trine::ops {

namespace {

Inferred infer(const Call& call) {
  const ir::Type& x = call.inputs[0];
  if (x.rank() != 2 || !is_floating(x.dtype))
    return fail(Code::invalid, cat("x is ", ir::text(x), "; floats of two dims were expected"));
  const int64_t n = x.dims[1], parts = call.attrs.integer("parts"), length = call.attrs.integer("length");
  if (length < 1 || n < 1 || parts != (n - 1) / length + 1)
    return fail(Code::invalid, cat(parts, " parts of ", length, " elements do not just cover ", n));
  return one_type(Dtype::f32, {x.dims[0], parts, 3});
}

Result<void> eval(const Eval& e) {
  const int64_t n = e.in[0].dims[1], parts = e.out[0].dims[1], length = e.node.attrs.integer("length");
  WideArray<double> line(n);
  float* out = e.out[0].as<float>();
  for (int64_t r = 0; r < e.in[0].dims[0]; ++r) {
    load_wide(e.in[0], r * n, n, line.data.get());
    for (int64_t p = 0; p < parts; ++p, out += 3) {
      double top = -HUGE_VAL;
      float at = kNoIndex, odd = kNoIndex;
      const int64_t begin = p * length, count = std::min(length, n - begin);
      for (int64_t i = count - 1; i >= 0; --i) {  // backwards: what is met first stays
        const double x = line[begin + i];
        if (std::isnan(x)) odd = float(i);
        if (x >= top) top = x, at = float(i);
      }
      out[0] = float(top), out[1] = at, out[2] = odd;
    }
  }
  return {};
}

}  // namespace

extern const Op op_arg_max_parts{.name = "arg_max_parts",
                                 .kind = OpKind::reduction,
                                 .arity = 1,
                                 .attrs = "parts length",
                                 .infer = infer,
                                 .eval = eval,
                                 .is_internal = true};

}  // namespace trine::ops
