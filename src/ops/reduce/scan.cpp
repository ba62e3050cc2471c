// scan: of each element of x [G, n, C] the combination by `kind` (add, multiply, maximum, minimum) of those up to it
// along n, itself included; from the end on where `reverse`. Running sums and their like, as reduce_window becomes
// them. C1: x has three dims. C2: the kind is one of the four. C3: the result has x's dims; x is floats, as
// the result is, or booleans, which add counts in integers.
#include "ops/internal.h"
#include "ops/reduce/combine.h"

namespace trine::ops {

namespace {

Inferred infer(const Call& call) {
  const ir::Type& x = call.inputs[0];
  if (x.rank() != 3) return fail(Code::invalid, cat("x is ", ir::text(x), "; three dims were expected"));
  const Kind kind = TRY(kind_from(call.attrs.text("kind")));
  if (kind > Kind::minimum)
    return fail(Code::invalid,
                cat("kind ", call.attrs.text("kind"), "; one of add, multiply, maximum, minimum was expected"));
  TRY(elements_as_declared(call));
  const Dtype to = call.declared[0].dtype;
  const bool counts = x.dtype == Dtype::boolean && is_integer(to) && kind == Kind::add;
  if (!counts && (to != x.dtype || !is_floating(to)))
    return fail(Code::invalid, cat("gives ", row(to).name, " by ", call.attrs.text("kind"), " of ", row(x.dtype).name));
  return one_type(to, x.dims);
}

template <class W>
Result<void> run(const Eval& e, Kind kind) {
  const int64_t groups = e.in[0].dims[0], n = e.in[0].dims[1], columns = e.in[0].dims[2];
  const bool reverse = e.node.attrs.flag("reverse");
  WideArray<W> x = load_wide<W>(e.in[0]);
  dispatch_kind<W>(kind, [&](auto combine) {
    for (int64_t g = 0; g < groups; ++g)
      for (int64_t i = 1; i < n; ++i) {
        const int64_t to = g * n + (reverse ? n - 1 - i : i), from = reverse ? to + 1 : to - 1;
        for (int64_t c = 0; c < columns; ++c) x[to * columns + c] = combine(x[from * columns + c], x[to * columns + c]);
      }
  });
  store_wide(x, e.out[0]);
  return {};
}

Result<void> eval(const Eval& e) {
  const Kind kind = TRY(kind_from(e.node.attrs.text("kind")));
  return dispatch_wide(e.out[0].dtype, [&]<class W>() { return run<W>(e, kind); });
}

}  // namespace

extern const Op op_scan{.name = "scan",
                        .kind = OpKind::reduction,
                        .arity = 1,
                        .attrs = "kind reverse",
                        .infer = infer,
                        .eval = eval,
                        .is_internal = true};

}  // namespace trine::ops
