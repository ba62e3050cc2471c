// transpose: result dim i is input dim permutation[i]. C1: permutation is one, of the input's dims.
#include "ops/shape.h"

namespace trine::ops {

extern const Op op_transpose{.name = "transpose",
                             .kind = OpKind::shape,
                             .arity = 1,
                             .infer = [](const Call& call) -> Result<std::vector<ir::Type>> {
                               const ir::Type& x = call.inputs[0];
                               const ir::Ints& permutation = call.attrs.ints("permutation");
                               if (!is_permutation(permutation, x.rank()))
                                 return fail(Code::invalid,
                                             cat("permutation must name each of the ", x.rank(), " dims once"));
                               Dims dims;
                               for (int64_t d : permutation) dims.push_back(x.dims[size_t(d)]);
                               return std::vector<ir::Type>{ir::tensor_type(x.dtype, dims)};
                             },
                             .eval = [](const Eval& e) -> Result<void> {
                               const ir::Ints& permutation = e.node.attrs.ints("permutation");
                               const Dims strides = row_major_strides(e.in[0].dims);
                               Dims moved;
                               for (int64_t d : permutation) moved.push_back(strides[size_t(d)]);
                               for_each_index(e.out[0].dims, [&](const Dims& index, int64_t at) {
                                 copy_element(e.out[0], at, e.in[0], offset_of(index, moved));
                               });
                               return {};
                             }};

}  // namespace trine::ops
