// Kinds by name, and regions of scalars run lane by lane.
#include "ops/reduce/combine.h"

#include <cstring>
#include <unordered_map>

#include "base/text.h"

namespace trine::ops {

namespace {

constexpr std::string_view kKinds[] = {"add", "multiply", "maximum", "minimum", "and", "or", "xor", "set"};

bool is_lane_op(const ir::Node& node, const Op& op) {
  if (op.kind != OpKind::elementwise || !node.regions.empty()) return false;
  for (const ir::Value& v : node.inputs)
    if (v.type().rank() || v.type().is_token) return false;
  for (const ir::Type& t : node.types)
    if (t.rank() || t.is_token) return false;
  return true;
}

// A scalar repeated over the lanes.
void fill(const TensorView& to, const TensorView& scalar) {
  const size_t size = size_t(bytes(to.dtype));
  for (int64_t i = 0; i < to.elements(); ++i) std::memcpy(to.as<std::byte>() + size_t(i) * size, scalar.data, size);
}

}  // namespace

Result<Kind> kind_from(std::string_view name) {
  for (size_t i = 0; i < std::size(kKinds); ++i)
    if (kKinds[i] == name) return Kind(i);
  return fail(Code::invalid, cat("`", name, "` is no kind of combining; one of add, multiply, maximum, minimum, and, ",
                                 "or, xor was expected"));
}

Result<void> check_kind(std::string_view name, Dtype dtype) {
  const Kind kind = TRY(kind_from(name));
  const bool is_bitwise = kind == Kind::bit_and || kind == Kind::bit_or || kind == Kind::bit_xor;
  if (is_bitwise && !is_integer(dtype) && dtype != Dtype::boolean)
    return fail(Code::invalid, cat("kind ", name, " is not defined for ", row(dtype).name));
  return {};
}

Result<void> check_combiner(const ir::Region& region, std::span<const Dtype> dtypes) {
  const size_t n = dtypes.size();
  if (region.params.size() != 2 * n || region.results.size() != n)
    return fail(Code::invalid, cat("its region takes ", region.params.size(), " values and gives ",
                                   region.results.size(), "; ", 2 * n, " and ", n, " were expected"));
  auto is_scalar = [&](const ir::Value& v, size_t i) {
    return !v.type().is_token && v.type().rank() == 0 && v.type().dtype == dtypes[i % n];
  };
  for (size_t i = 0; i < 2 * n; ++i)
    if (!is_scalar(region.params[i], i))
      return fail(Code::invalid, cat("parameter ", i, " of its region is ", ir::text(region.params[i].type()), "; ",
                                     row(dtypes[i % n]).name, "[] was expected"));
  for (size_t i = 0; i < n; ++i)
    if (!is_scalar(region.results[i], i))
      return fail(Code::invalid, cat("result ", i, " of its region is ", ir::text(region.results[i].type()), "; ",
                                     row(dtypes[i]).name, "[] was expected"));
  return {};
}

Result<void> check_combined(const Call& call, std::span<const Dtype> dtypes) {
  if (!call.regions.empty()) return check_combiner(call.regions[0], dtypes);
  if (dtypes.size() != 1) return fail(Code::invalid, "several operands need a region");
  return check_kind(call.attrs.text("kind"), dtypes[0]);
}

Result<LaneBody> LaneBody::make(const Eval& e, const ir::Region& region, int64_t lanes) {
  LaneBody body;
  body.evaluator_ = &e.regions;
  const ir::RegionBody inside = ir::body_of(region);
  body.is_wide_ = true;
  for (const ir::Node* node : inside.nodes) {
    const Op* op = find_op(node->op);
    if (!op || !op->eval) return fail(Code::unsupported, cat("no meaning is known for the op `", node->op, "`"));
    body.is_wide_ &= is_lane_op(*node, *op);
    body.steps_.push_back({.node = node, .op = op});
  }
  for (const ir::Value& v : inside.captures) body.is_wide_ &= v.type().rank() == 0 && !v.type().is_token;
  body.lanes_ = body.is_wide_ ? std::max<int64_t>(lanes, 1) : 1;

  std::unordered_map<const ir::Node*, std::vector<TensorView>> views;
  auto own = [&](const ir::Type& t) {
    if (t.is_token) return TensorView{};
    body.memory_.push_back(Tensor::make(t.dtype, body.is_wide_ ? Dims{body.lanes_} : t.dims));
    return body.memory_.back().view();
  };
  for (const ir::Value& v : region.params) {
    views[v.node] = {own(v.type())};
    body.params_.push_back(views[v.node][0]);
  }
  for (const ir::Value& v : inside.captures) {
    TensorView outer = e.regions.around().at(v.node)[v.index].view();
    auto& all = views[v.node];
    all.resize(v.node->types.size());
    if (!body.is_wide_) {
      all[v.index] = outer;
    } else {
      all[v.index] = own(v.type());
      fill(all[v.index], outer);
    }
  }
  for (Step& step : body.steps_) {
    for (const ir::Value& v : step.node->inputs) step.in.push_back(views.at(v.node)[v.index]);
    for (const ir::Value& v : step.node->captures) step.around.push_back(views.at(v.node)[v.index]);
    for (const ir::Type& t : step.node->types) step.out.push_back(own(t));
    views[step.node] = step.out;
  }
  for (const ir::Value& v : region.results) body.results_.push_back(views.at(v.node)[v.index]);
  return body;
}

void LaneBody::resize(int64_t n) {
  if (!is_wide_ || now_ == n) return;
  now_ = n;
  for (Step& step : steps_) {
    for (TensorView& v : step.in) v.dims[0] = n;
    for (TensorView& v : step.out) v.dims[0] = n;
  }
}

Result<void> LaneBody::run(int64_t n) {
  resize(n);
  for (Step& step : steps_) {
    if (step.node->regions.empty()) {
      TRY(step.op->eval({*step.node, step.in, step.out, *evaluator_}));
    } else {
      TRY(evaluate(*step.node, step.in, step.around, step.out));
    }
  }
  return {};
}

Result<std::vector<ir::Type>> reduced_types(const Call& call, const Dims& dims) {
  const size_t n = call.inputs.size() / 2;
  if (n == 0 || call.inputs.size() % 2) return fail(Code::invalid, "needs as many inits as operands");
  std::vector<ir::Type> types;
  std::vector<Dtype> dtypes;
  for (size_t i = 0; i < n; ++i) {
    const ir::Type &x = call.inputs[i], &init = call.inputs[n + i];
    if (x.dims != call.inputs[0].dims)
      return fail(Code::invalid, cat("operands differ in shape: ", ir::text(call.inputs[0]), " and ", ir::text(x)));
    if (init.rank() != 0 || init.dtype != x.dtype)
      return fail(Code::invalid, cat("init ", i, " is ", ir::text(init), "; ", row(x.dtype).name, "[] was expected"));
    types.push_back(ir::tensor_type(x.dtype, dims));
    dtypes.push_back(x.dtype);
  }
  TRY(check_combined(call, dtypes));
  return types;
}

}  // namespace trine::ops
