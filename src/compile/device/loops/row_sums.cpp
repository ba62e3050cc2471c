// See row_sums.h.
#include "compile/device/loops/row_sums.h"

#include <algorithm>
#include <limits>

#include "compile/graph/index_map.h"
#include "ir/op_ids.h"

namespace trine::compile::device {

namespace {

constexpr double kLargest = std::numeric_limits<float>::max();

// Through changes of format between floats.
ir::Value unconverted(ir::Value v, const Unit& unit) {
  while (v.node->op == op::convert && unit.members.count(v.node) && is_floating(v.node->inputs[0].type().dtype))
    v = v.node->inputs[0];
  return v;
}

View column(View tile, size_t at) {
  tile.offset += int64_t(at);
  tile.axes = {{1, 1}};
  return tile;
}

}  // namespace

std::vector<ShiftedSum> shifted_sums(const Unit& unit) {
  std::vector<ShiftedSum> out;
  const auto is_reduce = [](const ir::Node* n, std::string_view kind) {
    return n->op == op::reduce && n->attrs.text("kind") == kind;
  };
  for (const ir::Node* sum : unit.members) {
    if (!is_reduce(sum, "add")) continue;
    const ir::Value exp = unconverted(sum->inputs[0], unit);
    if (exp.node->op != op::exponential || !unit.members.count(exp.node)) continue;
    const ir::Value less = unconverted(exp.node->inputs[0], unit);
    if (less.node->op != op::subtract || !unit.members.count(less.node)) continue;
    const ir::Value x = less.node->inputs[0], by = less.node->inputs[1];
    if (by.node->op != op::broadcast_in_dim) continue;
    for (const ir::Node* top : unit.members)
      if (is_reduce(top, "maximum") && top->inputs[0] == x && top->types[0].dims == sum->types[0].dims)
        out.push_back({sum, top, x, by});
  }
  std::sort(out.begin(), out.end(), [](const auto& a, const auto& b) { return a.sum->id < b.sum->id; });
  return out;
}

BlockSums::BlockSums(Recorder& rec, int partitions, size_t blocks)
    : rec_(rec),
      tops_(rec.sbuf(Dtype::f32, partitions, int64_t(blocks), "tops")),
      sums_(rec.sbuf(Dtype::f32, partitions, int64_t(blocks), "sums")) {}

void BlockSums::add(size_t block, Val x, int64_t columns, const View& top) {
  // Between finite numbers: of -inf alone nothing is above 0 then, and +inf stays what it is.
  const View finite = column(tops_, block);
  rec_.emit("tensor_scalar", {{"dst", finite}, {"data", top}, {"operand0", -kLargest}, {"operand1", kLargest}},
            {{"op0", std::string_view("max")}, {"op1", std::string_view("min")}}, arch::kVector);
  const Source less = row_math(rec_, finite, -1.0, "multiply");
  x.set_bias(x.shifted ? row_math(rec_, x.bias, less, "add") : less);
  const View sum = column(sums_, block);
  emit_activation(rec_, rec_.sbuf(Dtype::f32, tops_.partitions, columns), x, "exp", &sum);
}

View BlockSums::total(const Val& by) {
  const int64_t blocks = tops_.columns();
  Val tops = Val::tile(tops_);
  tops.set_bias(by.is_number() ? Source(-by.number) : row_math(rec_, by.view, -1.0, "multiply"));
  const View factors = rec_.sbuf(Dtype::f32, tops_.partitions, blocks),
             parts = rec_.sbuf(Dtype::f32, tops_.partitions, blocks),
             out = rec_.sbuf(Dtype::f32, tops_.partitions, 1, "sum");
  emit_activation(rec_, factors, tops, "exp");
  rec_.emit("tensor_tensor", {{"dst", parts}, {"data1", factors}, {"data2", sums_}},
            {{"op", std::string_view("multiply")}}, arch::kVector);
  rec_.emit("tensor_reduce", {{"dst", out}, {"data", parts}}, {{"op", std::string_view("add")}});
  return out;
}

void emit_pick(Recorder& rec, const View& part, const Val& x, const View& at, int64_t begin) {
  const int lanes = part.partitions;
  const double first = double(begin), last = double(x.view.columns() - 1);
  const View low = rec.sbuf(Dtype::f32, lanes, 1), inside = rec.sbuf(Dtype::f32, lanes, 1),
             slice = rec.sbuf(Dtype::u32, lanes, 1, "place"), hit = rec.sbuf(Dtype::u32, lanes, 1),
             found = rec.sbuf(x.view.dtype, lanes, 1, "found"), wide = rec.sbuf(Dtype::f32, lanes, 1);
  const auto two = [&](const View& dst, const View& data, const Source& a, std::string_view op0, const Source& b,
                       std::string_view op1) {
    rec.emit("tensor_scalar", {{"dst", dst}, {"data", data}, {"operand0", a}, {"operand1", b}},
             {{"op0", op0}, {"op1", op1}}, arch::kVector);
  };
  two(low, at, first, "subtract", 0.0, "max");
  two(inside, low, last, "min", 0.0, "add");
  rec.emit("tensor_copy", {{"dst", slice}, {"src", inside}}, {}, arch::kVector);
  two(hit, at, first, "subtract", inside, "equal");
  rec.emit("nc_n_gather", {{"dst", found}, {"data", x.view}, {"indices", slice}});
  Val value = x;
  value.view = found;
  emit_copy(rec, wide, value);
  rec.emit("memset", {{"dst", part}}, {{"value", 0.0}}, arch::kVector);
  rec.emit("tensor_copy_predicated", {{"dst", part}, {"src", wide}, {"predicate", hit}});
}

}  // namespace trine::compile::device
