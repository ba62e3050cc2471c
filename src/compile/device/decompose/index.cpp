// gather, scatter, dynamic_slice and dynamic_update_slice: indices become element offsets, in 32-bit arithmetic, of
// windows that DMA moves; see decompose.h. A scatter that adds rows where indices may be equal is a multiply by ones.
#include <algorithm>
#include <cmath>
#include <limits>

#include "compile/device/decompose/decompose.h"
#include "compile/device/memory/store.h"
#include "compile/device/multiplies/dot.h"
#include "compile/device/rows/gather.h"
#include "compile/thresholds.h"
#include "ir/constant.h"
#include "ir/op_ids.h"
#include "ops/build.h"
#include "ops/internal.h"
#include "ops/layout/slices.h"

namespace trine::compile::device {

using ir::Value;

namespace {

namespace tuned = thresholds::scatter;

constexpr int64_t kLanes = 128;  // partitions of every core

bool is_index(Dtype d) { return is_integer(d) && device_dtype(d) && bytes(d) <= 4; }

// As s32; what is beyond it is its largest.
Value to_s32(ops::Make& make, const Value& index) {
  if (index.type().dtype != Dtype::u32) return make.convert(index, Dtype::s32);
  const Value top = make.number(Dtype::u32, INT32_MAX, index.type().dims);
  return make.bits(make.op(op::minimum, {index, top}), Dtype::s32);
}

// What gather and scatter have in common: the starts of each window.
struct Starts {
  Dims dims = {};              // of the indices without the vector's
  std::vector<Value> at = {};  // per operand dim, s32 of those dims; null where always 0
};

Starts starts_of(ops::Make& make, const ops::SliceAxes& axes, const Value& operand, const Value& indices) {
  Starts out;
  const Dims& all = indices.type().dims;
  const auto vector = size_t(axes.index_vector_dim);
  for (size_t d = 0; d < all.size(); ++d)
    if (d != vector) out.dims.push_back(all[d]);
  out.at.resize(operand.type().dims.size());
  const Value index = to_s32(make, indices);
  for (size_t k = 0; k < axes.index_map.size(); ++k) {
    Value part = index;
    if (vector < all.size()) part = make.slice_dim(index, vector, int64_t(k), int64_t(k) + 1);
    out.at[size_t(axes.index_map[k])] = make.reshape(part, out.dims);
  }
  for (size_t k = 0; k < axes.operand_batching.size(); ++k) {
    int64_t dim = axes.indices_batching[k];
    if (dim > axes.index_vector_dim) --dim;
    out.at[size_t(axes.operand_batching[k])] = make.iota(Dtype::s32, out.dims, dim);
  }
  return out;
}

Value plus(ops::Make& make, const Value& a, const Value& b) { return a ? make.op(op::add, {a, b}) : b; }

// Σ start × stride.
Value offset_of(ops::Make& make, const std::vector<Value>& starts, const Dims& strides, const Dims& dims) {
  Value sum;
  for (size_t d = 0; d < starts.size(); ++d) {
    if (!starts[d]) continue;
    Value term = starts[d];
    if (strides[d] != 1) term = make.op(op::multiply, {term, make.number(Dtype::s32, double(strides[d]), dims)});
    sum = plus(make, sum, term);
  }
  return sum ? sum : make.number(Dtype::s32, 0, dims);
}

Value clamped(ops::Make& make, const Value& start, int64_t high) {
  const Dims& dims = start.type().dims;
  return make.op(op::minimum, {make.op(op::maximum, {start, make.number(Dtype::s32, 0, dims)}),
                               make.number(Dtype::s32, double(high), dims)});
}

ir::Attrs window_attrs(const Dims& sizes, const Dims& strides) {
  Dims s, t;
  for (size_t d = 0; d < sizes.size(); ++d)
    if (sizes[d] != 1) s.push_back(sizes[d]), t.push_back(strides[d]);
  return {{"sizes", s}, {"strides", t}};
}

bool is_small(const ir::Type& t) { return t.elements() < ops::kNowhere && t.elements() > 0; }

// Dims of `many`: the indices' where they are not a window's. order: of [indices..., window...] in `many`.
ir::Ints order_of_many(const ir::Ints& window, size_t rank) {
  ir::Ints order(rank);
  size_t index = 0, inside = rank - window.size();
  for (size_t d = 0; d < rank; ++d)
    order[d] =
        std::find(window.begin(), window.end(), int64_t(d)) != window.end() ? int64_t(inside++) : int64_t(index++);
  return order;
}
ir::Ints inverse(const ir::Ints& order) {
  ir::Ints out(order.size());
  for (size_t d = 0; d < order.size(); ++d) out[size_t(order[d])] = int64_t(d);
  return out;
}

Dims window_of(const Dims& sizes, const ops::SliceAxes& axes) {
  Dims out;
  for (size_t d = 0; d < sizes.size(); ++d)
    if (!ops::holds(axes.collapsed, int64_t(d)) && !ops::holds(axes.operand_batching, int64_t(d)))
      out.push_back(sizes[d]);
  return out;
}

Dims joined(Dims a, const Dims& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

}  // namespace

// What is read is widened, not what it is read from.
ir::Replacement gather_before_convert(ir::Graph& graph, const ir::Node& node) {
  const ir::Node& wide = *node.inputs[0].node;
  if (wide.op != op::convert || node.types[0].elements() > wide.types[0].elements() / 4) return {};
  ops::Make make(graph, node.where);
  const Value from = wide.inputs[0];
  const Value read = graph.add1(op::gather, {from, node.inputs[1]},
                                ir::tensor_type(from.type().dtype, node.types[0].dims), node.attrs, node.where);
  return {make.convert(read, node.types[0].dtype)};
}

// One index at a time along one dim, of rows that hold all of it.
ir::Replacement gather_in_rows(ir::Graph& graph, const ir::Node& node) {
  const Value &x = node.inputs[0], &indices = node.inputs[1];
  if (!is_index(indices.type().dtype) || !is_small(x.type()) || !is_small(node.types[0])) return {};
  const ops::SliceAxes axes = ops::gather_axes(node.attrs);
  const Dims &dims = x.type().dims, sizes = node.attrs.ints("slice_sizes");
  if (axes.index_map.size() != 1 || !ops::holds(axes.collapsed, axes.index_map[0]) || axes.collapsed.size() != 1)
    return {};
  const int64_t along = axes.index_map[0];
  // Rows are (batch, window), the dim that is gathered along is theirs; other dims must be taken whole.
  ir::Ints permutation = axes.operand_batching;
  Dims batch, window;
  for (int64_t d : permutation) batch.push_back(dims[size_t(d)]);
  for (size_t d = 0; d < dims.size(); ++d) {
    if (int64_t(d) == along || ops::holds(axes.operand_batching, int64_t(d))) continue;
    if (sizes[d] != dims[d] || (int64_t(d) > along && dims[d] > 1)) return {};
    permutation.push_back(int64_t(d));
    window.push_back(dims[d]);
  }
  permutation.push_back(along);
  const int64_t columns = dims[size_t(along)], items = element_count(batch), wide = element_count(window);
  const int64_t each = node.types[0].elements() / (items * wide);
  if (!gathers_in_rows(x.type(), columns, each)) return {};
  ops::Make make(graph, node.where);
  const Starts starts = starts_of(make, axes, x, indices);
  // Indices in the order of rows.
  ir::Ints order, rest;  // of the indices: batches first
  for (int64_t d : axes.indices_batching) order.push_back(d > axes.index_vector_dim ? d - 1 : d);
  for (size_t d = 0; d < starts.dims.size(); ++d)
    if (std::find(order.begin(), order.end(), int64_t(d)) == order.end()) rest.push_back(int64_t(d));
  const ir::Ints batches = order;
  order.insert(order.end(), rest.begin(), rest.end());
  int64_t parts = 1;  // a list of indices in one row is shared out
  for (int64_t n = kLanes; items * wide == 1 && parts == 1 && n > 1; --n)
    if (each % n == 0) parts = n;
  const Value picked = make.reshape(make.transpose(clamped(make, starts.at[size_t(along)], columns - 1), order),
                                    {items * parts, each / parts});
  const Value found =
      make.own(op::row_gather, {make.reshape(make.transpose(x, permutation), {items * wide, columns}), picked},
               ir::tensor_type(x.type().dtype, {items * wide * parts, each / parts}), {});
  // From [batch, window, indices] to the node's own order of dims.
  Dims made = joined(batch, window);
  for (int64_t d : rest) made.push_back(starts.dims[size_t(d)]);
  ir::Ints back;
  for (size_t d = 0, inside = 0, index = 0; d < node.types[0].dims.size(); ++d) {
    const auto index_in = [](const ir::Ints& list, int64_t v) {
      return size_t(std::find(list.begin(), list.end(), v) - list.begin());
    };
    if (ops::holds(axes.window, int64_t(d))) {
      back.push_back(int64_t(batch.size() + inside++));
      continue;
    }
    const size_t at = index_in(batches, int64_t(index));
    back.push_back(int64_t(at < batches.size() ? at : batch.size() + window.size() + index_in(rest, int64_t(index))));
    ++index;
  }
  return {make.transpose(make.reshape(found, made), back)};
}

ir::Replacement gather_by_windows(ir::Graph& graph, const ir::Node& node) {
  const Value &x = node.inputs[0], &indices = node.inputs[1];
  if (!is_index(indices.type().dtype) || !is_small(x.type()) || !is_small(node.types[0])) return {};
  ops::Make make(graph, node.where);
  const ops::SliceAxes axes = ops::gather_axes(node.attrs);
  const Dims &dims = x.type().dims, sizes = node.attrs.ints("slice_sizes"), strides = row_major_strides(dims);
  Starts starts = starts_of(make, axes, x, indices);
  for (size_t d = 0; d < dims.size(); ++d)
    if (starts.at[d] && !ops::holds(axes.operand_batching, int64_t(d)))
      starts.at[d] = clamped(make, starts.at[d], dims[d] - sizes[d]);
  const int64_t count = element_count(starts.dims);
  const Value offsets = make.reshape(offset_of(make, starts.at, strides, starts.dims), {count});
  const Dims window = window_of(sizes, axes);
  const Value rows = make.own(op::window_load, {x, offsets}, ir::tensor_type(x.type().dtype, joined({count}, window)),
                              window_attrs(sizes, strides));
  const Value many = make.reshape(rows, joined(starts.dims, window));
  return {make.transpose(many, order_of_many(axes.window, node.types[0].dims.size()))};
}

static Value window_offset(ops::Make& make, const ir::Node& node, size_t first, const Dims& dims, const Dims& sizes) {
  std::vector<Value> starts;
  for (size_t d = 0; d < dims.size(); ++d) {
    const int64_t high = dims[d] - sizes[d];
    starts.push_back(high ? clamped(make, to_s32(make, node.inputs[first + d]), high) : Value{});
  }
  return make.reshape(offset_of(make, starts, row_major_strides(dims), {}), {1});
}

ir::Replacement slice_by_window(ir::Graph& graph, const ir::Node& node) {
  const Value& x = node.inputs[0];
  const Dims &dims = x.type().dims, &sizes = node.types[0].dims;
  if (dims.empty()) return {x};
  if (!is_index(node.inputs[1].type().dtype) || !is_small(x.type()) || !is_small(node.types[0])) return {};
  ops::Make make(graph, node.where);
  const Value offset = window_offset(make, node, 1, dims, sizes);
  const Value row = make.own(op::window_load, {x, offset}, ir::tensor_type(x.type().dtype, joined({1}, sizes)),
                             window_attrs(sizes, row_major_strides(dims)));
  return {make.reshape(row, sizes)};
}

ir::Replacement update_by_window(ir::Graph& graph, const ir::Node& node) {
  const Value &x = node.inputs[0], &update = node.inputs[1];
  const Dims &dims = x.type().dims, &sizes = update.type().dims;
  if (dims.empty()) return {update};
  if (update.type().elements() == 0) return {x};
  if (!is_index(node.inputs[2].type().dtype) || !is_small(x.type())) return {};
  ops::Make make(graph, node.where);
  const Value offset = window_offset(make, node, 2, dims, sizes);
  ir::Attrs attrs = window_attrs(sizes, row_major_strides(dims));
  attrs.set("kind", "set");
  return {make.own(op::window_store, {x, offset, make.reshape(update, joined({1}, sizes))}, node.types[0], attrs)};
}

namespace {

// A scatter of whole rows: leading batching dims, then indexed dims, then a window of all of the rest.
struct RowScatter {
  int64_t batch = 1, rows = 1, row = 1;
};
std::optional<RowScatter> row_scatter(const ops::SliceAxes& axes, const Dims& dims, const Dims& sizes) {
  RowScatter out;
  size_t d = 0;
  for (; d < axes.operand_batching.size(); ++d) {
    if (axes.operand_batching[d] != int64_t(d) || axes.indices_batching[d] != int64_t(d)) return std::nullopt;
    out.batch *= dims[d];
  }
  for (; d < dims.size() && ops::holds(axes.index_map, int64_t(d)) && sizes[d] == 1; ++d) out.rows *= dims[d];
  for (; d < dims.size(); ++d) {
    if (ops::holds(axes.index_map, int64_t(d)) || sizes[d] != dims[d]) return std::nullopt;
    out.row *= dims[d];
  }
  return out;
}
bool suits_multiply(const RowScatter& r, Dtype dtype) {
  const double products = double(r.rows) * double(r.row) * (bytes(dtype) > 2 ? 4 : 1);
  return products / tuned::kProductsPerNs <= std::max(tuned::kRowNs, tuned::kRowElementNs * double(r.row));
}

}  // namespace

// Whole numbers of one size, so few that f32 sums them exactly: histograms.
static bool counts(const Value& x, const Value& updates) {
  constexpr double kExact = 1 << 24;
  const auto each = ir::splat(updates);
  return bits(x.type().dtype) == 32 && is_integer(x.type().dtype) && each &&
         std::abs(*each) * double(updates.type().elements()) <= kExact;
}

ir::Replacement scatter_by_windows(ir::Graph& graph, const ir::Node& node) {
  if (!node.regions.empty() || node.inputs.size() != 3) return {};
  const Value &x = node.inputs[0], &indices = node.inputs[1], &updates = node.inputs[2];
  if (!is_small(updates.type())) return updates.type().elements() ? ir::Replacement{} : ir::Replacement{x};
  if (!is_index(indices.type().dtype) || !is_small(x.type())) return {};
  ops::Make make(graph, node.where);
  const ops::SliceAxes axes = ops::scatter_axes(node.attrs);
  const Dims &dims = x.type().dims, strides = row_major_strides(dims);
  Dims sizes(dims.size(), 1), window;
  for (size_t d = 0, w = 0; d < dims.size(); ++d) {
    if (ops::holds(axes.collapsed, int64_t(d)) || ops::holds(axes.operand_batching, int64_t(d))) continue;
    sizes[d] = updates.type().dims[size_t(axes.window[w++])];
    window.push_back(sizes[d]);
  }
  const Starts starts = starts_of(make, axes, x, indices);
  const int64_t count = element_count(starts.dims);
  Value inside;
  for (size_t d = 0; d < dims.size(); ++d) {
    if (!starts.at[d] || ops::holds(axes.operand_batching, int64_t(d))) continue;
    const Value fits = make.op(
        op::and_, {make.compare(starts.at[d], make.number(Dtype::s32, 0, starts.dims), "GE"),
                   make.compare(starts.at[d], make.number(Dtype::s32, double(dims[d] - sizes[d]), starts.dims), "LE")});
    inside = inside ? make.op(op::and_, {inside, fits}) : fits;
  }
  const Value many = make.transpose(updates, inverse(order_of_many(axes.window, updates.type().dims.size())));
  const std::string_view kind = node.attrs.text("kind");
  const auto rows = row_scatter(axes, dims, sizes);
  const bool is_float = !is_integer(x.type().dtype) && x.type().dtype != Dtype::boolean;
  const Dtype sums = is_float ? x.type().dtype : Dtype::f32;
  if (rows && kind == "add" && (is_float || counts(x, updates)) && count > 1 && !node.attrs.flag("unique_indices") &&
      suits_multiply(*rows, sums)) {
    // ones[b, w, row] · updates[b, w, column], summed over w
    const int64_t each = count / rows->batch;
    std::vector<Value> parts = starts.at;
    for (int64_t d : axes.operand_batching) parts[size_t(d)] = {};
    Dims pitch = strides;
    for (int64_t& s : pitch) s /= rows->row;
    Value at = offset_of(make, parts, pitch, starts.dims);
    if (inside) at = make.op(op::select, {inside, at, make.number(Dtype::s32, -1, starts.dims)});
    const Dims cube = {rows->batch, each, rows->rows};
    const Value ones = make.convert(make.compare(make.broadcast(make.reshape(at, {rows->batch, each}), cube, {0, 1}),
                                                 make.iota(Dtype::s32, cube, 2), "EQ"),
                                    sums);
    const Value flat = make.convert(make.reshape(many, {rows->batch, each, rows->row}), sums);
    const Value sum = make.op(op::dot_general, {ones, flat},
                              {{"lhs_batch", ir::Ints{0}},
                               {"rhs_batch", ir::Ints{0}},
                               {"lhs_contract", ir::Ints{1}},
                               {"rhs_contract", ir::Ints{1}},
                               {std::string(kKeepsFormat), true}},
                              {ir::tensor_type(sums, {rows->batch, rows->rows, rows->row})});
    return {make.op(op::add, {x, make.convert(make.reshape(sum, dims), x.type().dtype)})};
  }
  Value offsets = offset_of(make, starts.at, strides, starts.dims);
  if (inside) offsets = make.op(op::select, {inside, offsets, make.number(Dtype::s32, ops::kNowhere, starts.dims)});
  ir::Attrs attrs = window_attrs(sizes, strides);
  attrs.set("kind", std::string(kind));
  attrs.set("unique", node.attrs.flag("unique_indices"));
  return {make.own(op::window_store, {x, make.reshape(offsets, {count}), make.reshape(many, joined({count}, window))},
                   node.types[0], attrs)};
}

}  // namespace trine::compile::device
