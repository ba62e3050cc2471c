// get_dimension_size: the size of dim `dimension`, an s32 scalar. C1: it is a dim of the input.
#include "ops/shape.h"

namespace trine::ops {

extern const Op op_get_dimension_size{.name = "get_dimension_size",
                                      .kind = OpKind::shape,
                                      .arity = 1,
                                      .attrs = "dimension",
                                      .infer = [](const Call& call) -> Inferred {
                                        TRY(need_dim(call, "dimension", call.inputs[0].rank()));
                                        return one_type(Dtype::s32, {});
                                      },
                                      .eval = [](const Eval& e) -> Result<void> {
                                        const auto dim = size_t(e.node.attrs.integer("dimension"));
                                        *e.out[0].as<int32_t>() = int32_t(e.in[0].dims[dim]);
                                        return {};
                                      }};

}  // namespace trine::ops
