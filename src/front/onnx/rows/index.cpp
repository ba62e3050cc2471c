// Ops that look up, scatter, order and accumulate along axes.
#include <algorithm>
#include <cstring>
#include <limits>

#include "base/text.h"
#include "front/onnx/call.h"
#include "ir/op_ids.h"
#include "ops/shape.h"

namespace trine::front::onnx {

namespace {

// Negative indices count from the end.
Made from_start(Build& b, Value indices, int64_t size) {
  const Value wide = TRY(b.convert(indices, Dtype::s64));
  return b.select(TRY(b.compare_number(wide, 0, "LT")), TRY(b.binary(op::add, wide, b.integer(size))), wide);
}

Lowered gather(Call& c) {
  const Value x = c.in[0];
  const int axis = TRY(c.axis(c.integer("axis", 0), rank(x)));
  const int64_t size = dims(x)[size_t(axis)];
  const Value at = TRY(from_start(c.b, c.in[1], size));
  const Tensor* known = c.b.known(at);
  // One known index is a slice.
  if (known != nullptr && element_count(known->dims) == 1) {
    const int64_t i = *known->view().as<int64_t>();
    if (i < 0 || i >= size) return fail(Code::invalid, cat("index ", i, " of a dim of ", size));
    Dims to(dims(x).begin(), dims(x).begin() + axis);
    to.insert(to.end(), known->dims.begin(), known->dims.end());
    to.insert(to.end(), dims(x).begin() + axis + 1, dims(x).end());
    return one(c.b.reshape(TRY(c.b.slice_dim(x, axis, i, i + 1)), to));
  }
  return one(c.b.take(x, axis, at));
}

Lowered gather_elements(Call& c) {
  Value x = c.in[0];
  const int r = rank(x), axis = TRY(c.axis(c.integer("axis", 0), r));
  if (rank(c.in[1]) != r)
    return fail(Code::invalid, cat("indices of ", ir::text(c.in[1].type()), " into ", ir::text(x.type())));
  const Value at = TRY(from_start(c.b, c.in[1], dims(x)[size_t(axis)]));
  Ints others;
  for (int d = 0; d < r; ++d) {
    if (d == axis) continue;
    others.push_back(d);
    if (dims(at)[size_t(d)] > dims(x)[size_t(d)])
      return fail(Code::invalid, cat("indices of ", ir::text(c.in[1].type()), " into ", ir::text(x.type())));
    x = TRY(c.b.slice_dim(x, d, 0, dims(at)[size_t(d)]));
  }
  Dims with_index = dims(at);
  with_index.push_back(1);
  return one(c.b.op(op::gather, {x, TRY(c.b.reshape(at, with_index))},
                    {{"offset_dims", Ints{}},
                     {"collapsed_slice_dims", Ints{axis}},
                     {"operand_batching_dims", others},
                     {"start_indices_batching_dims", others},
                     {"start_index_map", Ints{axis}},
                     {"index_vector_dim", int64_t(r)},
                     {"slice_sizes", Ints(size_t(r), 1)},
                     {"indices_are_sorted", false}}));
}

// Coordinates in the last dim, of the dims from `first` on.
Made coordinates_from_start(Build& b, Value indices, const Dims& of, int64_t first) {
  const int64_t count = dims(indices).back();
  return b.select(TRY(b.compare_number(TRY(b.convert(indices, Dtype::s64)), 0, "LT")),
                  TRY(b.binary(op::add, TRY(b.convert(indices, Dtype::s64)),
                               b.integers(Ints(of.begin() + first, of.begin() + first + count)))),
                  TRY(b.convert(indices, Dtype::s64)));
}

Lowered gather_nd(Call& c) {
  const Value x = c.in[0];
  const int64_t batch = c.integer("batch_dims", 0), q = rank(c.in[1]);
  const int64_t count = q > 0 ? dims(c.in[1])[size_t(q - 1)] : -1;
  if (batch < 0 || batch >= q || batch >= rank(x) || count < 1 || count > rank(x) - batch)
    return fail(Code::invalid, cat("indices of ", ir::text(c.in[1].type()), " into ", ir::text(x.type()), " with ",
                                   batch, " batch dims"));
  const Value at = TRY(coordinates_from_start(c.b, c.in[1], dims(x), batch));
  Ints sizes = dims(x);
  for (int64_t d = 0; d < batch + count; ++d) sizes[size_t(d)] = 1;
  return one(c.b.op(op::gather, {x, at},
                    {{"offset_dims", count_up(q - 1, q - 1 + rank(x) - batch - count)},
                     {"collapsed_slice_dims", count_up(batch, batch + count)},
                     {"operand_batching_dims", count_up(0, batch)},
                     {"start_indices_batching_dims", count_up(0, batch)},
                     {"start_index_map", count_up(batch, batch + count)},
                     {"index_vector_dim", q - 1},
                     {"slice_sizes", sizes},
                     {"indices_are_sorted", false}}));
}

Result<std::string> scatter_kind(Call& c) {
  const std::string_view reduction = c.text("reduction", "none");
  constexpr std::pair<std::string_view, const char*> kKinds[] = {
      {"none", "set"}, {"add", "add"}, {"mul", "multiply"}, {"max", "maximum"}, {"min", "minimum"}};
  for (const auto& [name, kind] : kKinds)
    if (name == reduction) return std::string(kind);
  return fail(Code::invalid, cat("reduction `", reduction, "`; expected none, add, mul, max or min"));
}

Made scatter(Call& c, Value x, Value at, Value updates, Ints window, Ints inserted, Ints to_dims) {
  if (dtype(x) != dtype(updates))
    return fail(Code::invalid, cat("updates of ", ir::text(updates.type()), " into ", ir::text(x.type())));
  return c.b.op(op::scatter, {x, at, updates},
                {{"update_window_dims", std::move(window)},
                 {"inserted_window_dims", std::move(inserted)},
                 {"input_batching_dims", Ints{}},
                 {"scatter_indices_batching_dims", Ints{}},
                 {"scatter_dims_to_operand_dims", std::move(to_dims)},
                 {"index_vector_dim", int64_t(rank(at) - 1)},
                 {"indices_are_sorted", false},
                 {"unique_indices", false},
                 {"kind", TRY(scatter_kind(c))}});
}

Lowered scatter_elements(Call& c) {
  const Value x = c.in[0];
  const int r = rank(x), axis = TRY(c.axis(c.integer("axis", 0), r));
  if (rank(c.in[1]) != r || dims(c.in[1]) != dims(c.in[2]))
    return fail(Code::invalid, cat("indices of ", ir::text(c.in[1].type()), " and updates of ",
                                   ir::text(c.in[2].type()), " into ", ir::text(x.type())));
  const Value at = TRY(from_start(c.b, c.in[1], dims(x)[size_t(axis)]));
  Dims column = dims(at);
  column.push_back(1);
  Values coordinates;
  for (int d = 0; d < r; ++d)
    coordinates.push_back(TRY(c.b.reshape(d == axis ? at : TRY(c.b.iota(Dtype::s64, dims(at), d)), column)));
  return one(scatter(c, x, TRY(c.b.concat(coordinates, r)), c.in[2], {}, count_up(0, r), count_up(0, r)));
}

Lowered scatter_nd(Call& c) {
  const Value x = c.in[0];
  const int64_t q = rank(c.in[1]), count = q > 0 ? dims(c.in[1])[size_t(q - 1)] : -1;
  if (count < 1 || count > rank(x))
    return fail(Code::invalid, cat("indices of ", ir::text(c.in[1].type()), " into ", ir::text(x.type())));
  const Value at = TRY(coordinates_from_start(c.b, c.in[1], dims(x), 0));
  return one(scatter(c, x, at, c.in[2], count_up(q - 1, rank(c.in[2])), count_up(0, count), count_up(0, count)));
}

Lowered one_hot(Call& c) {
  const Ints depths = is_float(c.in[1]) ? Ints{int64_t(std::min(std::max(0.0, TRY(c.need_number(1, "depth"))), 0x1p40))}
                                        : TRY(c.need_ints(1, "depth"));
  if (depths.size() != 1 || depths[0] < 0) return fail(Code::invalid, cat("a depth of ", ir::text(ir::Attr(depths))));
  const int r = rank(c.in[0]), axis = TRY(c.axis(c.integer("axis", -1), r + 1));
  if (dims(c.in[2]) != Dims{2})
    return fail(Code::invalid, cat("values of ", ir::text(c.in[2].type()), "; expected two"));
  const Value at = TRY(from_start(c.b, c.in[0], depths[0]));
  Dims to = dims(at);
  to.insert(to.begin() + axis, depths[0]);
  Ints positions;
  for (int d = 0; d < r; ++d) positions.push_back(d < axis ? d : d + 1);
  const Value hot = TRY(c.b.compare(TRY(c.b.iota(Dtype::s64, to, axis)), TRY(c.b.broadcast(at, to, positions)), "EQ"));
  const Value off = TRY(c.b.reshape(TRY(c.b.slice_dim(c.in[2], 0, 0, 1)), {})),
              on = TRY(c.b.reshape(TRY(c.b.slice_dim(c.in[2], 0, 1, 2)), {}));
  return one(c.b.select(hot, on, off));
}

Ints moved_last(int rank, int axis) {
  Ints order = count_up(0, rank);
  std::swap(order[size_t(axis)], order[size_t(rank - 1)]);
  return order;
}

// The smallest are the largest of what has the opposite order: -x, or all bits flipped for integers.
Lowered top_k(Call& c) {
  const int r = rank(c.in[0]), axis = TRY(c.axis(c.integer("axis", -1), r));
  const int64_t k = c.opset < 10                           ? c.integer("k", 0)
                    : TRY(c.need_ints(1, "k")).size() == 1 ? TRY(c.need_ints(1, "k"))[0]
                                                           : -1;
  if (k < 0 || k > dims(c.in[0])[size_t(axis)])
    return fail(Code::invalid, cat("k of ", k, " of a dim of ", dims(c.in[0])[size_t(axis)]));
  Value x = TRY(c.b.transpose(c.in[0], moved_last(r, axis)));
  const bool smallest = c.integer("largest", 1) == 0;
  const ir::OpId reverse = is_float(x) ? op::negate : op::not_;
  if (smallest) x = TRY(c.b.unary(reverse, x));
  const ir::Node* top = TRY(c.b.node({.op = op::top_k, .inputs = {x}, .attrs = {{"k", k}}}));
  Value values = top->result(0);
  if (smallest) values = TRY(c.b.unary(reverse, values));
  values = TRY(c.b.transpose(values, moved_last(r, axis)));
  const Value positions = TRY(c.b.transpose(TRY(c.b.convert(top->result(1), Dtype::s64)), moved_last(r, axis)));
  return Values{values, positions};
}

// In log2(n) steps: after step s each element combines the 2^s before it.
Lowered accumulate(Call& c, ir::OpId op, double neutral) {
  const Ints given = TRY(c.need_ints(1, "axis"));
  if (given.size() != 1) return fail(Code::invalid, cat("found ", given.size(), " axes; expected one"));
  Value x = c.in[0];
  const int axis = TRY(c.axis(given[0], rank(x)));
  const auto k = size_t(axis);
  const int64_t n = dims(x)[k];
  const bool from_end = c.integer("reverse", 0) != 0;
  const auto moved = [&](Value v, int64_t by) -> Made {
    Ints low(dims(v).size(), 0), high = low;
    (from_end ? high : low)[k] = by;
    (from_end ? low : high)[k] = -by;
    return c.b.pad(v, neutral, low, high);
  };
  if (c.integer("exclusive", 0) != 0 && n > 0) x = TRY(moved(x, 1));
  for (int64_t by = 1; by < n; by *= 2) x = TRY(c.b.binary(op, x, TRY(moved(x, by))));
  return Values{x};
}

Lowered cum_sum(Call& c) { return accumulate(c, op::add, 0); }
Lowered cum_prod(Call& c) { return accumulate(c, op::multiply, 1); }

// Results whose shape depends on values: only where those are known.
Result<const Tensor*> need_known(Call& c, size_t i) {
  const Tensor* t = c.b.known(c.in[i]);
  if (t == nullptr)
    return fail(Code::unsupported, cat("the shape of its result depends on the values of `", c.node.inputs[i],
                                       "`, which are not known when the model is read"));
  return t;
}

bool is_zero_at(const Tensor& t, int64_t i) {
  const auto size = int64_t(bytes(t.dtype));
  const std::byte* at = t.data.get() + i * size;
  bool sign_only = true;  // -0 is zero
  for (int64_t k = 0; k < size; ++k)
    sign_only = sign_only && (k + 1 == size && is_float(t.dtype) ? (at[k] & std::byte{0x7f}) : at[k]) == std::byte{0};
  return sign_only;
}

Lowered non_zero(Call& c) {
  const Tensor& t = *TRY(need_known(c, 0));
  std::vector<Ints> found(t.dims.size());
  ops::for_each_index(t.dims, [&](const Dims& index, int64_t at) {
    if (is_zero_at(t, at)) return;
    for (size_t d = 0; d < index.size(); ++d) found[d].push_back(index[d]);
  });
  Values rows;
  for (const Ints& row : found) rows.push_back(TRY(c.b.reshape(c.b.integers(row), {1, int64_t(row.size())})));
  if (rows.empty()) return one(c.b.number(Dtype::s64, 0, {0, is_zero_at(t, 0) ? 0 : 1}));
  return one(c.b.concat(rows, 0));
}

Lowered compress(Call& c) {
  const Tensor& keep = *TRY(need_known(c, 1));
  Value x = c.in[0];
  int axis = 0;
  if (c.find("axis") == nullptr) {
    x = TRY(c.b.reshape(x, {x.type().elements()}));
  } else {
    axis = TRY(c.axis(c.integer("axis", 0), rank(x)));
  }
  Ints positions;
  const int64_t size = dims(x)[size_t(axis)];
  for (int64_t i = 0; i < std::min(element_count(keep.dims), size); ++i)
    if (!is_zero_at(keep, i)) positions.push_back(i);
  return one(c.b.take(x, axis, c.b.integers(positions)));
}

const Row kRows[] = {
    {"Compress", 9, 2, 2, compress},
    {"CumProd", 26, 2, 2, cum_prod},
    {"CumSum", 11, 2, 2, cum_sum},
    {"Gather", 1, 2, 2, gather},
    {"GatherElements", 11, 2, 2, gather_elements},
    {"GatherND", 11, 2, 2, gather_nd},
    {"NonZero", 9, 1, 1, non_zero},
    {"OneHot", 9, 3, 3, one_hot},
    {"Scatter", 9, 3, 3, scatter_elements},
    {"ScatterElements", 11, 3, 3, scatter_elements},
    {"ScatterND", 11, 3, 3, scatter_nd},
    {"TopK", 1, 1, 2, top_k},
};

}  // namespace

std::span<const Row> rows_index() { return kRows; }

}  // namespace trine::front::onnx
