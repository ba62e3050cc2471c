// Small words of build.h, and the folding of what is known.
#include "front/onnx/build.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "base/number/scalar.h"
#include "ir/op_ids.h"
#include "ops/evaluate.h"
#include "ops/shape.h"

namespace trine::front::onnx {

namespace {

constexpr int64_t kFoldElements = 4096;               // of a result folded at once
constexpr int64_t kKnownElements = int64_t{1} << 22;  // computed in all to know one value
constexpr ir::OpId kNeverFolded[] = {op::convolution, op::reduce_window,     op::while_,     op::case_,
                                     op::custom_call, op::rng_bit_generator, op::dot_general};

int64_t elements_of(const ir::Node& node) {
  int64_t n = 0;
  for (const ir::Type& t : node.types) n += t.elements();
  for (const Value& v : node.inputs) n += v.type().elements();
  return n;
}

bool is_foldable(const ir::Node& node) {
  if (node.op == op::constant) return true;
  if (node.op == op::parameter || node.is_unique || node.types.size() != 1) return false;
  if (!node.regions.empty() && node.op != op::reduce) return false;
  return std::find(std::begin(kNeverFolded), std::end(kNeverFolded), node.op) == std::end(kNeverFolded);
}

}  // namespace

Ints count_up(int64_t from, int64_t to) {
  Ints out;
  for (int64_t i = from; i < to; ++i) out.push_back(i);
  return out;
}

Result<const ir::Node*> Build::node(ir::Spec spec) {
  spec.where = where;
  const ir::Node* made = TRY(ops::make(graph, std::move(spec)));
  const auto is_fixed = [&](const Value& v) { return v.node->op == op::constant || fixed_.contains(v.node); };
  if (is_foldable(*made) && std::all_of(made->inputs.begin(), made->inputs.end(), is_fixed) && made->captures.empty())
    fixed_.insert(made);
  return made;
}

Made Build::op(ir::OpId op, Values inputs, Attrs attrs, std::vector<ir::Type> types) {
  const ir::Node* made =
      TRY(node({.op = op, .inputs = std::move(inputs), .attrs = std::move(attrs), .types = std::move(types)}));
  if (made->op == op::constant || !fixed_.contains(made)) return made->result();
  if (elements_of(*made) > kFoldElements) return made->result();
  return fold(*made);
}

// All inputs are small and fixed: known() has them, or they are constants.
Made Build::fold(const ir::Node& node) {
  std::vector<TensorView> in;
  for (const Value& v : node.inputs) {
    const Tensor* t = known(v);
    if (t == nullptr) return node.result();
    in.push_back(t->view());
  }
  Tensor out = Tensor::make(node.types[0].dtype, node.types[0].dims);
  const TensorView view = out.view();
  if (!ops::evaluate(node, in, {}, {&view, 1})) return node.result();
  return constant(std::move(out));
}

const Tensor* Build::known(const Value& value) {
  if (value.node->op == op::constant) return value.node->attrs.tensor("value");
  if (auto at = known_.find(value.node); at != known_.end()) return &at->second;
  if (!fixed_.contains(value.node)) return nullptr;
  const auto order = ir::Graph::order({value});
  int64_t cost = 0;
  for (const ir::Node* n : order)
    if (cost += n->op == op::constant || known_.contains(n) ? 0 : elements_of(*n); cost > kKnownElements)
      return nullptr;
  for (const ir::Node* n : order) {
    if (n->op == op::constant || known_.contains(n)) continue;
    std::vector<TensorView> in;
    for (const Value& v : n->inputs) {
      const auto* t = v.node->op == op::constant ? v.node->attrs.tensor("value") : &known_.at(v.node);
      in.push_back(t->view());
    }
    Tensor out = Tensor::make(n->types[0].dtype, n->types[0].dims);
    const TensorView view = out.view();
    if (!ops::evaluate(*n, in, {}, {&view, 1})) return nullptr;
    known_.emplace(n, std::move(out));
  }
  return &known_.at(value.node);
}

Result<Ints> Build::known_integers(const Value& value) {
  const Tensor* t = known(value);
  if (t == nullptr) return fail(Code::unsupported, "depends on the model's inputs; expected a constant");
  if (!is_integer(t->dtype) && t->dtype != Dtype::boolean)
    return fail(Code::invalid, cat("is ", shape_text(t->dtype, t->dims), "; expected integers"));
  Ints out;
  for (int64_t i = 0; i < element_count(t->dims); ++i) out.push_back(ops::integer_at(t->view(), i));
  return out;
}

Value Build::integers(const Ints& values) {
  Tensor t = Tensor::make(Dtype::s64, {int64_t(values.size())});
  std::copy(values.begin(), values.end(), t.view().as<int64_t>());
  return constant(std::move(t));
}

Value Build::integer(int64_t value) {
  Tensor t = Tensor::make(Dtype::s64, {});
  *t.view().as<int64_t>() = value;
  return constant(std::move(t));
}

Result<Dims> Build::broadcast_dims(const Dims& a, const Dims& b) const {
  Dims out(std::max(a.size(), b.size()));
  for (size_t i = 0; i < out.size(); ++i) {
    const int64_t x = i < a.size() ? a[a.size() - 1 - i] : 1, y = i < b.size() ? b[b.size() - 1 - i] : 1;
    if (x != y && x != 1 && y != 1)
      return fail(Code::invalid, cat("shapes ", shape_text(Dtype::f32, a).substr(3), " and ",
                                     shape_text(Dtype::f32, b).substr(3), " do not broadcast"));
    out[out.size() - 1 - i] = x == 1 ? y : x;
  }
  return out;
}

Made Build::broadcast(Value x, const Dims& to) {
  if (dims(x) == to) return x;
  if (dims(x).size() > to.size())
    return fail(Code::invalid, cat(ir::text(x.type()), " does not broadcast to ", shape_text(dtype(x), to)));
  return broadcast(x, to, count_up(int64_t(to.size()) - rank(x), int64_t(to.size())));
}

Made Build::binary(ir::OpId op, Value a, Value b) {
  if (dtype(a) != dtype(b))
    return fail(Code::invalid,
                cat("found ", ir::text(a.type()), " and ", ir::text(b.type()), "; expected one element type"));
  const Dims to = TRY(broadcast_dims(dims(a), dims(b)));
  return this->op(op, {TRY(broadcast(a, to)), TRY(broadcast(b, to))});
}

Made Build::with_number(ir::OpId op, Value a, double b) { return binary(op, a, TRY(number(dtype(a), b))); }

Made Build::compare(Value a, Value b, std::string_view direction) {
  if (dtype(a) != dtype(b))
    return fail(Code::invalid,
                cat("found ", ir::text(a.type()), " and ", ir::text(b.type()), "; expected one element type"));
  const Dims to = TRY(broadcast_dims(dims(a), dims(b)));
  return Words::compare(TRY(broadcast(a, to)), TRY(broadcast(b, to)), direction);
}

Made Build::compare_number(Value a, double b, std::string_view direction) {
  return compare(a, TRY(number(dtype(a), b)), direction);
}

Made Build::select(Value pred, Value a, Value b) {
  const Dims to = TRY(broadcast_dims(dims(pred), TRY(broadcast_dims(dims(a), dims(b)))));
  return op(op::select, {TRY(broadcast(pred, to)), TRY(broadcast(a, to)), TRY(broadcast(b, to))});
}

Made Build::clamp(Value x, double low, double high) {
  return op(op::clamp, {TRY(number(dtype(x), low)), x, TRY(number(dtype(x), high))});
}

Made Build::pad(Value x, double value, const Ints& low, const Ints& high) {
  return pad(x, TRY(number(dtype(x), value)), low, high);
}

Made Build::reduce(Value x, std::string_view kind, const Ints& axes, bool keep) {
  if (dtype(x) == Dtype::boolean) kind = kind == "maximum" ? "or" : kind == "minimum" ? "and" : kind;
  const Value out = TRY(Words::reduce(x, kind, axes));
  if (!keep) return out;
  Dims with_ones = dims(x);
  for (int64_t a : axes) with_ones[size_t(a)] = 1;
  return reshape(out, std::move(with_ones));
}

Made Build::mean(Value x, const Ints& axes, bool keep) {
  double count = 1;
  for (int64_t a : axes) count *= double(dims(x)[size_t(a)]);
  return with_number(op::divide, TRY(reduce(x, "add", axes, keep)), count);
}

Made Build::take(Value x, int axis, Value indices) {
  const int64_t q = rank(indices);
  Ints offsets = count_up(0, axis), sizes = dims(x);
  for (int64_t d = axis + 1; d < rank(x); ++d) offsets.push_back(d + q - 1);
  sizes[size_t(axis)] = 1;
  return op(op::gather, {x, indices},
            {{"offset_dims", std::move(offsets)},
             {"collapsed_slice_dims", Ints{axis}},
             {"operand_batching_dims", Ints{}},
             {"start_indices_batching_dims", Ints{}},
             {"start_index_map", Ints{axis}},
             {"index_vector_dim", q},
             {"slice_sizes", std::move(sizes)},
             {"indices_are_sorted", false}});
}

Made Build::dot(Value a, Value b, Ints a_batch, Ints b_batch, Ints a_contract, Ints b_contract, Dtype result) {
  Dims out;
  const auto has = [](const Ints& list, int64_t d) { return std::find(list.begin(), list.end(), d) != list.end(); };
  for (int64_t d : a_batch) out.push_back(dims(a)[size_t(d)]);
  for (int64_t d = 0; d < rank(a); ++d)
    if (!has(a_batch, d) && !has(a_contract, d)) out.push_back(dims(a)[size_t(d)]);
  for (int64_t d = 0; d < rank(b); ++d)
    if (!has(b_batch, d) && !has(b_contract, d)) out.push_back(dims(b)[size_t(d)]);
  return op(op::dot_general, {a, b},
            {{"lhs_batch", std::move(a_batch)},
             {"rhs_batch", std::move(b_batch)},
             {"lhs_contract", std::move(a_contract)},
             {"rhs_contract", std::move(b_contract)},
             {"precision", ir::Strings{"DEFAULT", "DEFAULT"}}},
            {ir::tensor_type(result, std::move(out))});
}

Made Build::widen(Value x) { return is_float(x) && row(dtype(x)).bits < 32 ? convert(x, Dtype::f32) : Made(x); }

}  // namespace trine::front::onnx
