// Whole numbers narrower than a word: engines keep the nearest number that fits where a graph keeps the low bits, so
// what may overflow is computed in words and cut. And sums of nothing, which no loop has an iteration for; see
// decompose.h.
#include <algorithm>
#include <iterator>

#include "compile/device/decompose/decompose.h"
#include "ir/op_ids.h"
#include "ops/build.h"

namespace trine::compile::device {

using ir::Value;

namespace {

int width_of(Dtype d) {
  if (d == Dtype::s8 || d == Dtype::u8) return 8;
  return d == Dtype::s16 || d == Dtype::u16 ? 16 : 0;
}
bool is_signed(Dtype d) { return d == Dtype::s8 || d == Dtype::s16; }
bool is_word(Dtype d) { return d == Dtype::s32 || d == Dtype::u32; }

// A word's low bits as the narrow number they are.
Value cut(ops::Make& make, const Value& word, Dtype to) {
  const Dims& dims = word.type().dims;
  const int bits = width_of(to);
  const auto number = [&](int64_t v) { return make.number(Dtype::s32, double(v), dims); };
  Value low = make.op(op::and_, {word, number((int64_t{1} << bits) - 1)});
  if (!is_signed(to)) return make.convert(low, to);
  const Value sign = number(int64_t{1} << (bits - 1));
  return make.convert(make.op(op::subtract, {make.op(op::xor_, {low, sign}), sign}), to);
}

// Was it cut already?
bool is_cut(const Value& v) {
  const ir::Node& node = *v.node;
  if (node.op == op::subtract)
    return node.inputs[0].node->op == op::xor_ && node.inputs[0].node->inputs[0].node->op == op::and_;
  return node.op == op::and_;
}

}  // namespace

ir::Replacement narrow_in_words(ir::Graph& graph, const ir::Node& node) {
  constexpr ir::OpId kOverflow[] = {op::abs, op::add, op::multiply, op::negate, op::shift_left, op::subtract};
  const Dtype to = node.types.empty() ? Dtype::f32 : node.types[0].dtype;
  if (node.types.size() != 1 || node.types[0].is_token || !width_of(to)) return {};
  ops::Make make(graph, node.where);
  if (node.op == op::iota) {
    const int64_t dim = node.attrs.integer("iota_dimension");
    if (node.types[0].dims[size_t(dim)] <= int64_t{1} << (width_of(to) - is_signed(to))) return {};
    return {cut(make, make.iota(Dtype::s32, node.types[0].dims, dim), to)};
  }
  if (node.op == op::convert) {
    const Dtype from = node.inputs[0].type().dtype;
    const bool loses =
        is_word(from) || (width_of(from) && (width_of(from) > width_of(to) || is_signed(from) != is_signed(to)));
    const bool fits = width_of(from) && width_of(from) < width_of(to) && !is_signed(from);
    if (!loses || fits || is_cut(node.inputs[0])) return {};
    return {cut(make, make.convert(node.inputs[0], Dtype::s32), to)};
  }
  if (std::ranges::find(kOverflow, node.op) == std::end(kOverflow)) return {};
  ops::Values words;
  for (const Value& v : node.inputs) words.push_back(make.convert(v, Dtype::s32));
  return {cut(make, make.op(node.op, words, node.attrs), to)};
}

ir::Replacement sum_of_nothing(ir::Graph& graph, const ir::Node& node) {
  const bool product = node.op == op::dot_general || node.op == op::convolution;
  if ((!product && node.op != op::reduce) || node.types.size() != 1 || node.types[0].elements() == 0) return {};
  const size_t counted = product ? 2 : 1;
  const bool empty = std::any_of(node.inputs.begin(), node.inputs.begin() + ptrdiff_t(counted),
                                 [](const Value& v) { return v.type().elements() == 0; });
  if (!empty) return {};
  ops::Make make(graph, node.where);
  const Value from = product ? make.number(node.types[0].dtype, 0) : node.inputs[1];
  return {make.broadcast(from, node.types[0].dims, {})};
}

}  // namespace trine::compile::device
