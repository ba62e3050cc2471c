// The way of loop.h from a step to the regions of `while`.
#include "front/onnx/loop.h"

#include "base/text.h"
#include "ir/op_ids.h"

namespace trine::front::onnx {

namespace {

Made put_step(Build& b, Value buffer, Value x, Value number) {
  Dims one = dims(x);
  one.insert(one.begin(), 1);
  Values inputs = {buffer, TRY(b.reshape(x, one)), number};
  for (int i = 0; i < rank(x); ++i) inputs.push_back(b.integer(0));
  return b.op(op::dynamic_update_slice, inputs);
}

Result<void> check_carried(const Loop& loop, const Step& step) {
  if (step.carried.size() != loop.carried.size())
    return fail(Code::invalid,
                cat("its body carries ", step.carried.size(), " values out and ", loop.carried.size(), " in"));
  for (size_t i = 0; i < step.carried.size(); ++i)
    if (!ir::same_tensor(step.carried[i].type(), loop.carried[i].type()))
      return fail(Code::unsupported,
                  cat("carried value ", i, " is ", ir::text(loop.carried[i].type()), " before a step and ",
                      ir::text(step.carried[i].type()), " after it; expected one type"));
  return {};
}

}  // namespace

Made at_step(Build& b, Value x, int axis, Value number) {
  Ints sizes = dims(x);
  sizes[size_t(axis)] = 1;
  Values inputs = {x};
  for (int d = 0; d < rank(x); ++d) inputs.push_back(d == axis ? number : b.integer(0));
  const Value part = TRY(b.op(op::dynamic_slice, inputs, {{"slice_sizes", sizes}}));
  sizes.erase(sizes.begin() + axis);
  return b.reshape(part, sizes);
}

// State: step number, go_on, carried values, collected ones.
Result<Values> run_loop(Build& b, const Loop& loop) {
  ir::Region body, cond;
  const auto param = [&](ir::Region& region, const ir::Type& type) {
    region.params.push_back(b.graph.parameter(ir::tensor_type(type.dtype, type.dims), b.where));
    return region.params.back();
  };
  const ir::Type number_type = ir::tensor_type(Dtype::s64, {}), flag_type = ir::tensor_type(Dtype::boolean, {});
  Values init = {b.integer(0), loop.go_on ? loop.go_on : TRY(b.number(Dtype::boolean, 1))};
  const Value number = param(body, number_type);
  param(body, flag_type);
  Values carried;
  for (const Value& v : loop.carried) {
    carried.push_back(param(body, v.type()));
    init.push_back(v);
  }
  const Step step = TRY(loop.step(number, carried));
  TRY(check_carried(loop, step));
  const Value yes = TRY(b.number(Dtype::boolean, 1));
  body.results = {TRY(b.binary(op::add, number, b.integer(1))), step.go_on ? step.go_on : yes};
  body.results.insert(body.results.end(), step.carried.begin(), step.carried.end());
  for (const Value& v : step.collected) {
    if (loop.iterations < 0)
      return fail(Code::unsupported, "it collects values but the number of steps is not known when the model is read");
    Dims all = dims(v);
    all.insert(all.begin(), loop.iterations);
    const Value buffer = param(body, ir::tensor_type(dtype(v), all));
    init.push_back(TRY(b.number(dtype(v), 0, all)));
    body.results.push_back(TRY(put_step(b, buffer, v, number)));
  }
  for (const Value& v : init) param(cond, v.type());
  Value goes = cond.params[1];
  const Value limit = loop.limit ? loop.limit : loop.iterations >= 0 ? b.integer(loop.iterations) : Value{};
  if (limit) goes = TRY(b.binary(op::and_, goes, TRY(b.compare(cond.params[0], limit, "LT"))));
  cond.results = {goes};
  const size_t count = init.size();
  const ir::Node* node =
      TRY(b.node({.op = op::while_, .inputs = std::move(init), .regions = {std::move(cond), std::move(body)}}));
  Values out;
  for (size_t i = 2; i < count; ++i) out.push_back(node->result(uint32_t(i)));
  return out;
}

}  // namespace trine::front::onnx
