// How reductions and scatters combine an accumulator with an element: by a named kind, or by a region of scalars.
// A region is run on many independent pairs at once where its ops are elementwise. Not an interpreter of whole graphs.
#pragma once

#include <vector>

#include "ops/evaluate.h"
#include "ops/wide.h"

namespace trine::ops {

// "add|multiply|maximum|minimum|and|or|xor|set" on wide values; "set" is the element itself.
enum class Kind : uint8_t { add, multiply, maximum, minimum, bit_and, bit_or, bit_xor, set };

Result<Kind> kind_from(std::string_view name);

// Calls f with the kind as a function of (accumulator, element) of type W.
template <class W, class F>
auto dispatch_kind(Kind kind, F&& f) {
  switch (kind) {
    case Kind::add:
      return f([](W a, W b) { return wide_add(a, b); });
    case Kind::multiply:
      return f([](W a, W b) { return wide_multiply(a, b); });
    case Kind::maximum:
      return f([](W a, W b) { return wide_is_nan(a) ? a : wide_is_nan(b) || wide_less(a, b) ? b : a; });
    case Kind::minimum:
      return f([](W a, W b) { return wide_is_nan(a) ? a : wide_is_nan(b) || wide_less(b, a) ? b : a; });
    case Kind::set:
      break;
    default:
      if constexpr (std::is_integral_v<W>) {
        if (kind == Kind::bit_and) return f([](W a, W b) { return W(a & b); });
        if (kind == Kind::bit_or) return f([](W a, W b) { return W(a | b); });
        return f([](W a, W b) { return W(a ^ b); });
      }
  }
  return f([](W, W b) { return b; });
}

// Whether the kind is one for the dtype: and, or, xor are of integers and booleans.
Result<void> check_kind(std::string_view name, Dtype dtype);

// A region whose parameters and results are scalars, made ready for many calls.
class LaneBody {
 public:
  // At most `lanes` calls at once; one where an op of the region is not elementwise.
  static Result<LaneBody> make(const Eval& e, const ir::Region& region, int64_t lanes);

  int64_t lanes() const { return lanes_; }
  const TensorView& param(size_t i) const { return params_[i]; }    // the caller fills lanes 0 .. n
  const TensorView& result(size_t i) const { return results_[i]; }  // valid until the next run
  Result<void> run(int64_t n);
  // One call with a boolean result.
  Result<bool> test() {
    TRY(run(1));
    return *results_[0].as<const bool>();
  }

 private:
  struct Step {
    const ir::Node* node = nullptr;
    const Op* op = nullptr;
    std::vector<TensorView> in = {}, around = {}, out = {};
  };
  void resize(int64_t n);

  Evaluator* evaluator_ = nullptr;
  std::vector<Tensor> memory_;
  std::vector<TensorView> params_, results_;
  std::vector<Step> steps_;
  int64_t lanes_ = 1, now_ = -1;
  bool is_wide_ = false;
};

// The scalars a region combines are those of its operands: params (accumulators, elements), results (accumulators).
Result<void> check_combiner(const ir::Region& region, std::span<const Dtype> dtypes);
// The call's one region, or where it has none its kind, which is for one operand.
Result<void> check_combined(const Call& call, std::span<const Dtype> dtypes);
// Of a reduction to these dims, whose inputs are operands of one shape and then as many scalar inits.
Result<std::vector<ir::Type>> reduced_types(const Call& call, const Dims& dims);

}  // namespace trine::ops
