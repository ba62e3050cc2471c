// compare: a boolean per pair of elements, by `direction` EQ, NE, GE, GT, LE or LT.
// C1: complex numbers only EQ and NE. C2: compare_type TOTALORDER orders floats as -NaN < -inf < -0 < 0 < inf < NaN.
#include <bit>
#include <functional>

#include "ops/elementwise.h"

namespace trine::ops {

namespace {

template <class F, bool kTotal>
struct Compare {
  template <class T>
    requires std::is_invocable_r_v<bool, F, T, T>
  bool operator()(T a, T b) const {
    if constexpr (kTotal && Floating<T>) {
      return F{}(key(a), key(b));
    } else {
      return F{}(a, b);
    }
  }
  static int64_t key(double x) {
    const int64_t bits = std::bit_cast<int64_t>(x);
    return bits < 0 ? bits ^ INT64_MAX : bits;
  }
};

struct Row {
  std::string_view direction;
  Inferred (*infer)(const Call&);
  Result<void> (*eval[2])(const Eval&);  // IEEE, total order
};

template <class F>
constexpr Row row_of(std::string_view direction) {
  return {direction,
          infer_each<2, Compare<F, false>>,
          {[](const Eval& e) { return each<2>(e, Compare<F, false>{}); },
           [](const Eval& e) { return each<2>(e, Compare<F, true>{}); }}};
}

constexpr Row kRows[] = {row_of<std::equal_to<>>("EQ"),      row_of<std::not_equal_to<>>("NE"),
                         row_of<std::greater_equal<>>("GE"), row_of<std::greater<>>("GT"),
                         row_of<std::less_equal<>>("LE"),    row_of<std::less<>>("LT")};

const Row* find(const ir::Attrs& attrs) {
  for (const Row& r : kRows)
    if (r.direction == attrs.text("direction")) return &r;
  return nullptr;
}

Inferred infer(const Call& call) {
  const Row* how = find(call.attrs);
  if (!how)
    return fail(Code::invalid,
                cat("direction is \"", call.attrs.text("direction"), "\"; expected EQ, NE, GE, GT, LE or LT"));
  return how->infer(call);
}

Result<void> eval(const Eval& e) {
  return find(e.node.attrs)->eval[e.node.attrs.text("compare_type") == "TOTALORDER"](e);
}

}  // namespace

extern const Op op_compare{.name = "compare",
                           .kind = OpKind::elementwise,
                           .arity = 2,
                           .attrs = "direction compare_type",
                           .infer = infer,
                           .eval = eval,
                           .host = {.op = arch::LoopOp::eq}};

}  // namespace trine::ops
