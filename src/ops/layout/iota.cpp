// iota: each element's index along `iota_dimension`, in the declared dtype; integers wrap. C1: no booleans.
#include "ops/elementwise.h"

namespace trine::ops {

namespace {

Inferred infer(const Call& call) {
  if (call.declared.size() != 1) return fail(Code::invalid, "its result type must be given");
  const ir::Type& t = call.declared[0];
  TRY(need_dim(call, "iota_dimension", t.rank()));
  const DtypeKind kind = row(t.dtype).kind;
  if (kind == DtypeKind::boolean || kind == DtypeKind::packed) return no_dtype("", t.dtype);
  return one_type(t.dtype, t.dims);
}

Result<void> eval(const Eval& e) {
  const auto dim = size_t(e.node.attrs.integer("iota_dimension"));
  Dims line(e.out[0].dims.size(), 1);
  line[dim] = e.out[0].dims[dim];
  const Tensor numbers = Tensor::make(e.out[0].dtype, line);
  dispatch_element(e.out[0].dtype, [&](auto element) {
    using E = decltype(element);
    auto* out = numbers.view().as<typename E::Storage>();
    for (int64_t i = 0; i < line[dim]; ++i) out[i] = E::store(typename E::Wide(i));
  });
  Dims strides(line.size(), 0);
  strides[dim] = 1;
  const TensorView view = numbers.view();
  copy_walk(e.out[0].dims, whole(e.out[0]), {view, 0, strides});
  return {};
}

}  // namespace

extern const Op op_iota{
    .name = "iota", .kind = OpKind::shape, .arity = 0, .attrs = "iota_dimension", .infer = infer, .eval = eval};

}  // namespace trine::ops
