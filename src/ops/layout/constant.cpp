// constant: the tensor in its attribute `value`.
#include <cstring>

#include "ops/shape.h"

namespace trine::ops {

extern const Op op_constant{.name = "constant",
                            .kind = OpKind::shape,
                            .arity = 0,
                            .attrs = "value",
                            .infer = [](const Call& call) -> Result<std::vector<ir::Type>> {
                              const Tensor* value = call.attrs.tensor("value");
                              if (!value) return fail(Code::invalid, "a constant has a tensor `value`");
                              return std::vector<ir::Type>{ir::tensor_type(value->dtype, value->dims)};
                            },
                            .eval = [](const Eval& e) -> Result<void> {
                              const Tensor& value = *e.node.attrs.tensor("value");
                              std::memcpy(e.out[0].data, value.data.get(), value.bytes());
                              return {};
                            }};

}  // namespace trine::ops
