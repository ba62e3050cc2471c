// dot: the product of matrices and vectors, last dim of lhs with first of rhs; dot_general without batch dims.
// C1: both inputs have one or two dims, and the contracted ones are equal.
#include "ops/shape.h"

namespace trine::ops {

static ir::Attrs general(size_t lhs_rank) {
  return {{"lhs_contract", ir::Ints{int64_t(lhs_rank) - 1}}, {"rhs_contract", ir::Ints{0}}};
}

extern const Op op_dot{.name = "dot",
                       .kind = OpKind::contraction,
                       .arity = 2,
                       .attrs = "precision",
                       .infer = [](const Call& call) -> Result<std::vector<ir::Type>> {
                         for (const ir::Type& t : call.inputs)
                           if (t.rank() < 1 || t.rank() > 2)
                             return fail(Code::invalid, cat(ir::text(t), " has no one or two dims"));
                         const ir::Attrs attrs = general(call.inputs[0].dims.size());
                         return find_op("dot_general")->infer({call.inputs, attrs, {}, call.declared});
                       },
                       .eval = [](const Eval& e) -> Result<void> {
                         ir::Node node = e.node;
                         node.attrs = general(e.in[0].dims.size());
                         return find_op("dot_general")->eval({node, e.in, e.out, e.regions});
                       }};

}  // namespace trine::ops
