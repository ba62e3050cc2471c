// window_store: x (first input) with windows combined into it, one after the other, by `kind`: set, add, multiply,
// maximum, minimum, and, or, xor. Offsets (second input) say where each begins, updates (third) hold them; a window is
// `sizes` elements, `strides` apart in x as it lies flat. What scatter and dynamic_update_slice become on the device.
// A window at offset 2147483647 is dropped; another that leaves x is an error. `unique` promises that no two overlap.
// C1: offsets are s32[W]. C2: sizes and strides are above 0 and a window fits x. C3: updates are [W, sizes...] of x's
// dtype, dims of one left out or put in. C4: the kind is defined for the dtype.
#include "ops/internal.h"
#include "ops/reduce/combine.h"

namespace trine::ops {

namespace {

// Calls f(element of x, element of the updates) for every pair, window by window.
template <class F>
Result<void> for_each_pair(const Eval& e, F&& f) {
  const std::vector<int64_t> elements = window_elements(e.node.attrs);
  for (int64_t w = 0; w < e.in[1].elements(); ++w) {
    if (integer_at(e.in[1], w) == kNowhere) continue;
    const int64_t start = TRY(window_start(e.in[1], w, e.out[0], elements));
    int64_t from = w * int64_t(elements.size());
    for (int64_t at : elements) f(start + at, from++);
  }
  return {};
}

// Rounded each time, as what is stored between two windows is.
template <class W>
Result<void> combine_windows(const Eval& e, Kind kind) {
  return dispatch_kind<W>(kind, [&](auto combine) {
    return for_each_pair(e, [&](int64_t to, int64_t from) {
      W old, fresh;
      load_wide(e.out[0], to, 1, &old);
      load_wide(e.in[2], from, 1, &fresh);
      const W both = combine(old, fresh);
      store_wide(&both, 1, e.out[0], to);
    });
  });
}

}  // namespace

extern const Op op_window_store{
    .name = "window_store",
    .kind = OpKind::other,
    .arity = 3,
    .attrs = "sizes strides kind unique",
    .infer = [](const Call& call) -> Inferred {
      TRY(check_windows(call.attrs, call.inputs[0], call.inputs[1], call.inputs[2]));
      TRY(check_kind(call.attrs.text("kind"), call.inputs[0].dtype));
      return one_type(call.inputs[0].dtype, call.inputs[0].dims);
    },
    .eval = [](const Eval& e) -> Result<void> {
      copy_run(e.out[0], 0, e.in[0], 0, e.in[0].elements());
      const Kind kind = TRY(kind_from(e.node.attrs.text("kind")));
      if (kind == Kind::set)
        return for_each_pair(e, [&](int64_t to, int64_t from) { copy_element(e.out[0], to, e.in[2], from); });
      return dispatch_wide(e.in[0].dtype, [&]<class W>() { return combine_windows<W>(e, kind); });
    },
    .is_internal = true};

}  // namespace trine::ops
