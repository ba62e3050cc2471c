// Sums as multiplies, and multiplies whose operands are swapped; see decompose.h.
#include <algorithm>
#include <numeric>
#include <optional>

#include "compile/device/decompose/decompose.h"
#include "compile/device/multiplies/dot.h"
#include "compile/thresholds.h"
#include "ir/op_ids.h"
#include "ops/build.h"

namespace trine::compile::device {

using ir::Value;

namespace {

namespace tuned = thresholds::reduce;

// A reduction's dims as [lead, rows, columns], the rows folded; nothing where others lie between.
struct Folded {
  int64_t lead = 1, rows = 1, columns = 1;
};
std::optional<Folded> folded(const Dims& dims, const ir::Ints& reduced) {
  Folded f;
  bool begun = false;
  for (size_t d = 0; d < dims.size(); ++d) {
    if (dims[d] == 1) continue;
    const bool over = std::find(reduced.begin(), reduced.end(), int64_t(d)) != reduced.end();
    if (over && f.columns != 1) return std::nullopt;
    begun = begun || over;
    (over ? f.rows : begun ? f.columns : f.lead) *= dims[d];
  }
  return f;
}

bool folds_floats(const ir::Node& node) {
  const Dtype dtype = node.types[0].dtype;
  return node.regions.empty() && node.inputs.size() == 2 && !is_integer(dtype) && dtype != Dtype::boolean;
}

}  // namespace

// Of all elements, or of very many for each of a few results: rows first, which lie on partitions, then what they gave.
// On a partition for each result most of the chip would have nothing to do.
ir::Replacement reduce_by_rows(ir::Graph& graph, const ir::Node& node) {
  constexpr int64_t kLanes = 128;
  if (!node.regions.empty() || node.inputs.size() != 2) return {};
  Dims dims = node.inputs[0].type().dims;
  const ir::Ints& reduced = node.attrs.ints("dimensions");
  const int64_t results = node.types[0].elements(), outer = int64_t(dims.size() - reduced.size());
  const int64_t all = results ? node.inputs[0].type().elements() / results : 0;
  if (results >= tuned::kResultsFew || all < (outer ? tuned::kEachLeast : tuned::kTotalLeast)) return {};
  for (size_t i = 0; i < reduced.size(); ++i)
    if (reduced[i] != outer + int64_t(i)) return {};
  ops::Make make(graph, node.where);
  Value x = node.inputs[0];
  // Dims of rows: as few as fill the partitions. Where the last is needed for that, it becomes two.
  size_t rows = size_t(outer);
  int64_t lanes = results;
  while (lanes < kLanes && rows + 1 < dims.size()) lanes *= dims[rows++];
  if (lanes < tuned::kResultsFew) {
    int64_t parts = kLanes / lanes;
    while (parts > 1 && dims.back() % parts) --parts;
    if (lanes * parts < tuned::kResultsFew) return {};
    dims.insert(dims.end() - 1, parts);
    dims.back() /= parts;
    x = make.reshape(x, dims);
    ++rows;
  }
  const std::string kind(node.attrs.text("kind"));
  const auto over = [&](const Value& from, const Value& start, size_t first, const Dims& out) {
    ir::Ints axes;
    for (size_t d = first; d < from.type().dims.size(); ++d) axes.push_back(int64_t(d));
    return make.own(op::reduce, {from, start}, ir::tensor_type(node.types[0].dtype, out),
                    {{"dimensions", axes}, {"kind", kind}});
  };
  const Value each =
      over(x, make.identity(kind, node.types[0].dtype), rows, Dims(dims.begin(), dims.begin() + long(rows)));
  return {over(each, node.inputs[1], size_t(outer), node.types[0].dims)};
}

// Over pixels and the few channels of a group at once: over pixels first, where channels lie side by side.
ir::Replacement reduce_apart(ir::Graph& graph, const ir::Node& node) {
  if (!folds_floats(node)) return {};
  const Dims& dims = node.inputs[0].type().dims;
  const ir::Ints& reduced = node.attrs.ints("dimensions");
  if (reduced.empty() || reduced.back() + 1 != int64_t(dims.size())) return {};
  ir::Ints major, minor;
  int64_t majors = 1, minors = 1, between = 1;
  for (size_t d = dims.size(); d-- > 0;) {
    if (std::find(reduced.begin(), reduced.end(), int64_t(d)) == reduced.end()) {
      if (major.empty()) between *= dims[d];
    } else {
      (between == 1 ? minors : majors) *= dims[d];
      (between == 1 ? minor : major).push_back(int64_t(d));
    }
  }
  if (majors < tuned::kMajorLeast || minors > tuned::kMinorMost) return {};
  std::reverse(major.begin(), major.end());
  ops::Make make(graph, node.where);
  const std::string_view kind = node.attrs.text("kind");
  Dims outer;
  for (size_t d = 0; d < dims.size(); ++d)
    if (std::find(major.begin(), major.end(), int64_t(d)) == major.end()) outer.push_back(dims[d]);
  const auto over = [&](const Value& x, const Value& start, const ir::Ints& axes, const Dims& out) {
    return make.own(op::reduce, {x, start}, ir::tensor_type(node.types[0].dtype, out),
                    {{"dimensions", axes}, {"kind", std::string(kind)}});
  };
  ir::Ints last;
  for (size_t i = outer.size() - minor.size(); i < outer.size(); ++i) last.push_back(int64_t(i));
  const Value first = over(node.inputs[0], make.identity(kind, node.types[0].dtype), major, outer);
  return {over(first, node.inputs[1], last, node.types[0].dims)};
}

// A sum over long vectors that have no rows and no columns: of their products, on all partitions.
ir::Replacement product_of_vectors(ir::Graph& graph, const ir::Node& node) {
  const ir::Type &left = node.inputs[0].type(), &right = node.inputs[1].type();
  const Dtype dtype = node.types[0].dtype;
  const ir::Ints &lc = node.attrs.ints("lhs_contract"), &rc = node.attrs.ints("rhs_contract");
  if (node.types[0].rank() || left.elements() < tuned::kVectorLeast || lc != rc || !is_floating(dtype) ||
      !is_floating(left.dtype) || !is_floating(right.dtype))
    return {};
  ops::Make make(graph, node.where);
  const Value products =
      make.op(op::multiply, {make.convert(node.inputs[0], dtype), make.convert(node.inputs[1], dtype)});
  ir::Ints all(lc.size());
  std::iota(all.begin(), all.end(), 0);
  return {make.own(op::reduce, {products, make.number(dtype, 0)}, node.types[0],
                   {{"dimensions", all}, {"kind", std::string("add")}})};
}

// Nothing is summed over: what the tensor engine would do with one row of its array.
ir::Replacement product_without_sum(ir::Graph& graph, const ir::Node& node) {
  const Dtype dtype = node.types[0].dtype;
  const Dims& out = node.types[0].dims;
  if (!is_floating(dtype) || node.types[0].elements() == 0) return {};
  ops::Make make(graph, node.where);
  ops::Values sides;
  const char* const names[2][2] = {{"lhs_batch", "lhs_contract"}, {"rhs_batch", "rhs_contract"}};
  auto at = int64_t(node.attrs.ints("lhs_batch").size());
  for (size_t side : {0, 1}) {
    const ir::Ints &batch = node.attrs.ints(names[side][0]), &contract = node.attrs.ints(names[side][1]);
    const Value& v = node.inputs[side];
    if (!is_floating(v.type().dtype)) return {};
    Dims dims;
    ir::Ints to;
    for (int64_t d = 0; d < v.type().rank(); ++d) {
      const int64_t size = v.type().dims[size_t(d)];
      if (std::find(contract.begin(), contract.end(), d) != contract.end()) {
        if (size != 1) return {};
        continue;
      }
      const auto found = std::find(batch.begin(), batch.end(), d);
      to.push_back(found == batch.end() ? at++ : found - batch.begin());
      dims.push_back(size);
    }
    sides.push_back(make.broadcast(make.convert(make.reshape(v, dims), dtype), out, to));
  }
  return {make.op(op::multiply, sides)};
}

// A few numbers for each of many batches against a tensor: as that lies, element by element. The tensor engine would
// take one batch at a time.
ir::Replacement product_of_few(ir::Graph& graph, const ir::Node& node) {
  const char* const names[2][2] = {{"lhs_batch", "lhs_contract"}, {"rhs_batch", "rhs_contract"}};
  const ir::Ints& batches = node.attrs.ints("lhs_batch");
  const int64_t left = node.inputs[0].type().elements(), right = node.inputs[1].type().elements();
  if (node.types[0].elements() == 0 || left == right) return {};
  const size_t big = left < right ? 1 : 0;
  const Value &few = node.inputs[1 - big], &many = node.inputs[big];
  if (!is_floating(few.type().dtype) || !is_floating(many.type().dtype) || !is_floating(node.types[0].dtype)) return {};
  int64_t count = 1, depth = 1;
  for (int64_t d : batches) count *= node.inputs[0].type().dims[size_t(d)];
  const ir::Ints &batch = node.attrs.ints(names[big][0]), &contract = node.attrs.ints(names[big][1]),
                 &few_batch = node.attrs.ints(names[1 - big][0]), &few_contract = node.attrs.ints(names[1 - big][1]);
  for (int64_t d : contract) depth *= many.type().dims[size_t(d)];
  if (count < tuned::kBatchesMany || depth > tuned::kFactorsFew || few.type().elements() != count * depth) return {};
  ops::Make make(graph, node.where);
  ir::Ints to(size_t(few.type().rank()), 0);
  for (size_t i = 0; i < batch.size(); ++i) to[size_t(few_batch[i])] = batch[i];
  for (size_t i = 0; i < contract.size(); ++i) to[size_t(few_contract[i])] = contract[i];
  if (size_t(few.type().rank()) != batch.size() + contract.size()) return {};
  const Value products = make.op(op::multiply, {make.convert(many, Dtype::f32),
                                                make.broadcast(make.convert(few, Dtype::f32), many.type().dims, to)});
  // What is left of the big operand's dims in its own order, and where the result has them.
  Dims outer;
  std::vector<int64_t> position;
  auto at = int64_t(batch.size());
  for (int64_t d = 0; d < many.type().rank(); ++d) {
    if (std::find(contract.begin(), contract.end(), d) != contract.end()) continue;
    outer.push_back(many.type().dims[size_t(d)]);
    const auto found = std::find(batch.begin(), batch.end(), d);
    position.push_back(found == batch.end() ? at++ : found - batch.begin());
  }
  ir::Ints dims = contract;
  std::sort(dims.begin(), dims.end());
  const Value sum = make.own(op::reduce, {products, make.number(Dtype::f32, 0)}, {Dtype::f32, outer},
                             {{"dimensions", dims}, {"kind", std::string("add")}});
  ir::Ints permutation(position.size());
  for (size_t i = 0; i < position.size(); ++i) permutation[size_t(position[i])] = int64_t(i);
  return {make.transpose(make.convert(sum, node.types[0].dtype), permutation)};
}

// Over major dims by anything but a sum: blocks of rows, element by element, until a block is left that is transposed
// as a whole, or a row that fills the partitions by itself.
ir::Replacement reduce_by_blocks(ir::Graph& graph, const ir::Node& node) {
  constexpr int64_t kLanes = 128;
  if (!folds_floats(node) || node.attrs.text("kind") == "add") return {};
  const auto f = folded(node.inputs[0].type().dims, node.attrs.ints("dimensions"));
  if (!f || f->columns < tuned::kBlockColumnsMin) return {};
  // Rows that are left.
  int64_t left = f->lead == 1 && f->columns >= tuned::kBlockColumnsLong ? 1 : kLanes;
  while (f->rows / left > tuned::kBlocksMost) left *= 2;
  const int64_t blocks = f->rows / left, rest = f->rows % left;
  if (blocks < tuned::kBlocksLeast) return {};
  ops::Make make(graph, node.where);
  const std::string kind(node.attrs.text("kind"));
  const Dims& out = node.types[0].dims;
  const Value x = make.reshape(node.inputs[0], {f->lead, f->rows, f->columns});
  // Few rows that are long fill the partitions with parts of them; of short ones each takes several. What is then not
  // transposed where it lies goes through memory: worth it for one group alone.
  int64_t parts = std::max<int64_t>(1, kLanes / (f->lead * left)), joined = 1;
  while (f->columns % parts) --parts;
  while (f->lead == 1 && joined * f->columns < tuned::kBlockRowLeast && left % (2 * joined) == 0 &&
         left >= 2 * joined * kLanes)
    joined *= 2;
  const Dims each = {f->lead, left / joined, parts, joined * f->columns / parts};
  const Value even = make.reshape(make.slice_dim(x, 1, 0, blocks * left), {f->lead, blocks, each[1], each[2], each[3]});
  Value best;
  for (int64_t b = 0; b < blocks; ++b) {
    const Value one = make.reshape(make.slice_dim(even, 1, b, b + 1), each);
    best = b ? make.combine(kind, {best, one}) : one;
  }
  best = make.reshape(best, {f->lead, left, f->columns});
  best = make.reduce(best, kind, {1});
  if (rest) best = make.combine(kind, {best, make.reduce(make.slice_dim(x, 1, f->rows - rest, f->rows), kind, {1})});
  return {make.combine(kind, {make.reshape(best, out), make.broadcast(node.inputs[1], out, {})})};
}

// Over major dims, rows would have to be transposed first. Few are combined one after the other; many are summed by a
// multiply with ones, which takes them as they lie.
ir::Replacement reduce_major(ir::Graph& graph, const ir::Node& node) {
  if (!folds_floats(node)) return {};
  const Dtype dtype = node.types[0].dtype;
  const auto f = folded(node.inputs[0].type().dims, node.attrs.ints("dimensions"));
  if (!f || f->rows < 2 || (f->lead > 1 && f->rows < tuned::kMajorRowsMin)) return {};
  if (f->columns < (f->rows < tuned::kMajorRowsLong ? tuned::kMajorColumnsMin : tuned::kMajorFew)) return {};
  const std::string_view kind = node.attrs.text("kind");
  if (f->rows > tuned::kMajorFew && (kind != "add" || !multiplies(dtype))) return {};
  ops::Make make(graph, node.where);
  const Dims& out = node.types[0].dims;
  Value sum;
  if (f->rows <= tuned::kMajorFew) {
    // Each with dims of its own, which go to partitions.
    const bool even = f->columns % tuned::kMajorColumnsMin == 0;
    const Dims dims =
        out.size() > 1 || !even ? out : Dims{tuned::kMajorColumnsMin, f->columns / tuned::kMajorColumnsMin};
    Dims each = dims;
    each.insert(each.begin(), f->rows);
    const Value x = make.reshape(node.inputs[0], each);
    for (int64_t r = 0; r < f->rows; ++r) {
      const Value one = make.reshape(make.slice_dim(x, 0, r, r + 1), dims);
      sum = r ? make.combine(kind, {sum, one}) : one;
    }
  } else {
    const ir::Ints none, rows = {0}, middle = {1};
    // The multiply widens by itself.
    const ir::Node& from = *node.inputs[0].node;
    const Value given =
        from.op == op::convert && multiplies(from.inputs[0].type().dtype) ? from.inputs[0] : node.inputs[0];
    const Value x = make.reshape(given, {f->lead, f->rows, f->columns});
    sum = make.own(op::dot_general, {make.number(x.type().dtype, 1, {f->rows}), x},
                   ir::tensor_type(dtype, {f->lead, f->columns}),
                   {{"lhs_batch", none},
                    {"rhs_batch", none},
                    {"lhs_contract", rows},
                    {"rhs_contract", middle},
                    {std::string(kKeepsFormat), true}});
  }
  return {make.combine(kind, {make.reshape(sum, out), make.broadcast(node.inputs[1], out, {})})};
}

// A product transposed is the product of its operands the other way round.
ir::Replacement transposed_product(ir::Graph& graph, const ir::Node& node) {
  const ir::Node& dot = *node.inputs[0].node;
  if (dot.op != op::dot_general) return {};
  const ir::Ints& from = node.attrs.ints("permutation");
  const size_t batch = dot.attrs.ints("lhs_batch").size(), rank = from.size();
  const size_t rows = dot.inputs[0].type().dims.size() - batch - dot.attrs.ints("lhs_contract").size();
  if (rows == 0 || rows + batch == rank) return {};
  for (size_t d = 0; d < rank; ++d) {
    const size_t columns = rank - batch - rows;
    const size_t want = d < batch ? d : d < batch + columns ? d + rows : d - columns;
    if (from[d] != int64_t(want)) return {};
  }
  ir::Attrs attrs = dot.attrs;
  attrs.set("lhs_batch", dot.attrs.ints("rhs_batch"));
  attrs.set("rhs_batch", dot.attrs.ints("lhs_batch"));
  attrs.set("lhs_contract", dot.attrs.ints("rhs_contract"));
  attrs.set("rhs_contract", dot.attrs.ints("lhs_contract"));
  return {graph.add1(op::dot_general, {dot.inputs[1], dot.inputs[0]}, node.types[0], std::move(attrs), node.where)};
}

}  // namespace trine::compile::device
