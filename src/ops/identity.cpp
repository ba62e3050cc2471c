// Formats without an infinity end at their last number.
#include "ops/identity.h"

#include <algorithm>
#include <cmath>

#include "base/number/scalar.h"
#include "ir/constant.h"

namespace trine::ops {

double identity(std::string_view kind, Dtype dtype) {
  const DtypeRow& of = row(dtype);
  const bool is_endless = dtype == Dtype::f64 || of.format.has_inf;
  if (kind == "multiply") return 1;
  if (kind == "and") return of.kind == DtypeKind::signed_int ? -1 : of.max_finite;
  if (kind == "maximum") return is_endless ? -HUGE_VAL : of.min_finite;
  if (kind == "minimum") return is_endless ? HUGE_VAL : of.max_finite;
  return 0;
}

bool is_identity(const ir::Value& value, std::string_view kind) {
  static constexpr std::string_view kKinds[] = {"add", "multiply", "maximum", "minimum", "and", "or", "xor"};
  const Tensor* t = ir::splat_of(value);
  if (!t || std::ranges::find(kKinds, kind) == std::end(kKinds)) return false;
  const double want = identity(kind, t->dtype);
  return dispatch_element(t->dtype, [&](auto element) -> bool {
    using E = decltype(element);
    const auto held = E::load(*t->view().template as<const typename E::Storage>());
    if constexpr (E::kIsComplex) {
      return held == decltype(held)(want);
    } else {
      return held == E::load(*scalar(t->dtype, want).view().template as<const typename E::Storage>());
    }
  });
}

}  // namespace trine::ops
