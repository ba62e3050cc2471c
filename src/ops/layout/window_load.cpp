// window_load: the windows of x (first input) that begin at the given offsets (second), one after the other: each
// `sizes` elements, `strides` apart in x as it lies flat. What gather and dynamic_slice become on the device.
// C1: offsets are s32[W]. C2: sizes and strides are above 0 and a window fits x. C3: the result is [W, sizes...], dims
// of one left out or put in. An offset whose window leaves x is an error.
#include "ops/internal.h"

namespace trine::ops {

extern const Op op_window_load{.name = "window_load",
                               .kind = OpKind::shape,
                               .arity = 2,
                               .attrs = "sizes strides",
                               .infer = [](const Call& call) -> Inferred {
                                 if (call.declared.size() != 1)
                                   return fail(Code::invalid, "its one result type must be given");
                                 TRY(check_windows(call.attrs, call.inputs[0], call.inputs[1], call.declared[0]));
                                 return one_type(call.declared[0].dtype, call.declared[0].dims);
                               },
                               .eval = [](const Eval& e) -> Result<void> {
                                 const std::vector<int64_t> elements = window_elements(e.node.attrs);
                                 int64_t to = 0;
                                 for (int64_t w = 0; w < e.in[1].elements(); ++w) {
                                   const int64_t start = TRY(window_start(e.in[1], w, e.in[0], elements));
                                   for (int64_t at : elements) copy_element(e.out[0], to++, e.in[0], start + at);
                                 }
                                 return {};
                               },
                               .is_internal = true};

}  // namespace trine::ops
