// Dims that lie evenly in every operand are merged; of what remains, the widest is the matrix's, the rest is batch.
#include "compile/host/dot.h"

#include "compile/thresholds.h"

#include <algorithm>

namespace trine::compile {

using arch::GemmStep;

namespace {

namespace tuned = thresholds::host_dot;

// One dim of the multiply with its stride in A, B and C; 0 where the matrix does not have it.
using Dim = GemmStep::Batch;

std::vector<Dim> merged(std::vector<Dim> dims) {
  std::erase_if(dims, [](const Dim& d) { return d.size == 1; });
  std::vector<Dim> out;
  for (const Dim& d : dims) {
    if (!out.empty()) {
      Dim& last = out.back();
      if (last.a == d.a * d.size && last.b == d.b * d.size && last.c == d.c * d.size) {
        last = {last.size * d.size, d.a, d.b, d.c};
        continue;
      }
    }
    out.push_back(d);
  }
  return out;
}

Dim widest_of(const std::vector<Dim>& dims) {
  if (dims.empty()) return {};
  return *std::max_element(dims.begin(), dims.end(), [](const Dim& x, const Dim& y) { return x.size < y.size; });
}

// The dims that the matrices get, of the left and of the right side.
struct Choice {
  Dim rows = {}, columns = {};
  bool swapped = false;  // the left side is B
  int64_t sums() const { return rows.size * columns.size; }
};

// Is the product of these small enough to be multiplied where it lies, a row of B and of the result by vectors?
bool is_small(const Dim& own, int64_t own_stride, const Dim& other, int64_t depth) {
  if (own_stride != 1 || own.size < tuned::kSmallColumnsMin || own.size > tuned::kSmallColumnsMax) return false;
  const int64_t sums = own.size * other.size;
  return other.size * depth <= tuned::kSmallLeft && sums <= tuned::kSmallTile && sums * depth >= tuned::kSmallWork;
}

// Where a side has dims that do not merge and the widest does not lie side by side, packing would collect single
// elements of it: another dim makes many small products instead, which need none. B first where it is no weight, whose
// packed form is asked for.
std::optional<Choice> small_products(const std::vector<Dim>& rows, const std::vector<Dim>& columns, int64_t depth,
                                     bool prefer_right_as_b) {
  if (rows.size() < 2 && columns.size() < 2) return std::nullopt;
  const Dim r0 = widest_of(rows), c0 = widest_of(columns);
  const bool is_small_as_it_is = prefer_right_as_b ? is_small(c0, c0.b, r0, depth) : is_small(r0, r0.a, c0, depth);
  if (is_small_as_it_is || r0.size * c0.size * depth <= tuned::kSmallDots) return std::nullopt;
  std::optional<Choice> best;
  for (const bool swapped : {prefer_right_as_b, !prefer_right_as_b}) {
    for (const Dim& r : rows)
      for (const Dim& c : columns) {
        if (!(swapped ? is_small(r, r.a, c, depth) : is_small(c, c.b, r, depth))) continue;
        if (const Choice found{r, c, swapped}; !best || found.sums() > best->sums()) best = found;
      }
    if (best) return best;
  }
  return best;
}

void add_others(const std::vector<Dim>& dims, const Dim& taken, std::vector<Dim>& batch) {
  for (const Dim& d : dims)
    if (d.c != taken.c) batch.push_back(d);  // no two dims of more than one element have the same stride there
}

bool contains(const ir::Ints& list, int64_t d) { return std::find(list.begin(), list.end(), d) != list.end(); }

// Depth dims in the order in which the given operand walks them, outermost first.
std::vector<size_t> depth_order(const ir::Ints& contract, const Walk& walk) {
  std::vector<size_t> order(contract.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](size_t x, size_t y) {
    return walk.strides[size_t(contract[x])] > walk.strides[size_t(contract[y])];
  });
  return order;
}

bool is_f32(const ir::Node& dot) {
  return dot.types[0].dtype == Dtype::f32 && dot.inputs[0].type().dtype == Dtype::f32 &&
         dot.inputs[1].type().dtype == Dtype::f32;
}

struct Sides {
  const ir::Ints &left_batch, &right_batch, &left_contract, &right_contract;
  const Dims &left, &right;

  int64_t left_size() const { return element_count(left); }
  int64_t right_size() const { return element_count(right); }
};

// One side's strides as if the other walked alike: whether it alone is even.
Walk left_only(const Sides& s, const Walk& left) {
  Walk other{0, std::vector<int64_t>(s.right.size())};
  for (size_t i = 0; i < s.left_contract.size(); ++i)
    other.strides[size_t(s.right_contract[i])] = left.strides[size_t(s.left_contract[i])];
  return other;
}
Walk right_only(const Sides& s, const Walk& right) {
  Walk other{0, std::vector<int64_t>(s.left.size())};
  for (size_t i = 0; i < s.left_contract.size(); ++i)
    other.strides[size_t(s.left_contract[i])] = right.strides[size_t(s.right_contract[i])];
  return other;
}

// The operand's dims with its free ones first and the depth ones last, in the given order.
std::vector<int64_t> dense_order(size_t rank, const ir::Ints& contract, const std::vector<size_t>& order) {
  std::vector<int64_t> out;
  for (int64_t d = 0; d < int64_t(rank); ++d)
    if (!contains(contract, d)) out.push_back(d);
  for (size_t i : order) out.push_back(contract[i]);
  return out;
}

std::vector<Dim> depth_dims(const Sides& s, const Walk& left, const Walk& right, const std::vector<size_t>& order) {
  std::vector<Dim> out;
  for (size_t i : order) {
    const size_t l = size_t(s.left_contract[i]), r = size_t(s.right_contract[i]);
    out.push_back({s.left[l], left.strides[l], right.strides[r], 0});
  }
  return merged(std::move(out));
}

}  // namespace

void swap_sides(GemmStep& g) {
  std::swap(g.m, g.n);
  std::swap(g.a, g.b);
  std::swap(g.a.row_stride, g.a.col_stride);
  std::swap(g.b.row_stride, g.b.col_stride);
  std::swap(g.c.row_stride, g.c.col_stride);
  for (Dim& d : g.batch) std::swap(d.a, d.b);
}

DotStep plan_dot(const ir::Node& dot, const DotOperand& left, const DotOperand& right, bool prefer_right_as_b) {
  const Sides s{dot.attrs.ints("lhs_batch"),    dot.attrs.ints("rhs_batch"), dot.attrs.ints("lhs_contract"),
                dot.attrs.ints("rhs_contract"), dot.inputs[0].type().dims,   dot.inputs[1].type().dims};
  DotStep out;
  const std::vector<size_t> by_left = depth_order(s.left_contract, left.walk);
  const std::vector<size_t> by_right = depth_order(s.right_contract, right.walk);
  std::vector<Dim> depth = depth_dims(s, left.walk, right.walk, by_left);
  if (depth.size() > 1) depth = depth_dims(s, left.walk, right.walk, by_right);
  if (depth.size() > 1) {
    const bool even_left = depth_dims(s, left.walk, left_only(s, left.walk), by_left).size() <= 1;
    const bool even_right = depth_dims(s, right_only(s, right.walk), right.walk, by_right).size() <= 1;
    const bool copy_left = !even_left || (even_right && s.left_size() <= s.right_size());
    out.copy = copy_left ? 0 : 1;
    out.copy_order = copy_left ? dense_order(s.left.size(), s.left_contract, by_right)
                               : dense_order(s.right.size(), s.right_contract, by_left);
    return out;
  }
  const Dims c = row_major_strides(dot.types[0].dims);
  size_t at = 0;
  std::vector<Dim> batch, rows, cols;
  for (size_t i = 0; i < s.left_batch.size(); ++i, ++at) {
    const size_t l = size_t(s.left_batch[i]), r = size_t(s.right_batch[i]);
    batch.push_back({s.left[l], left.walk.strides[l], right.walk.strides[r], c[at]});
  }
  for (size_t d = 0; d < s.left.size(); ++d)
    if (!contains(s.left_batch, int64_t(d)) && !contains(s.left_contract, int64_t(d)))
      rows.push_back({s.left[d], left.walk.strides[d], 0, c[at++]});
  for (size_t d = 0; d < s.right.size(); ++d)
    if (!contains(s.right_batch, int64_t(d)) && !contains(s.right_contract, int64_t(d)))
      cols.push_back({s.right[d], 0, right.walk.strides[d], c[at++]});
  batch = merged(std::move(batch));
  GemmStep& g = out.step;
  rows = merged(std::move(rows)), cols = merged(std::move(cols));
  const Dim k = depth.empty() ? Dim{} : depth[0];
  const auto few = is_f32(dot) ? small_products(rows, cols, k.size, prefer_right_as_b) : std::nullopt;
  const Dim m = few ? few->rows : widest_of(rows), n = few ? few->columns : widest_of(cols);
  add_others(rows, m, batch), add_others(cols, n, batch);
  g = {m.size,        n.size,          k.size, {left.walk.offset, m.a, k.a}, {right.walk.offset, k.b, n.b},
       {0, m.c, n.c}, std::move(batch)};
  // Of a vector and a matrix it is the matrix: its columns are then what kernels and epilogues take side by side.
  out.swapped = few ? few->swapped : g.m > 1 && (g.n == 1 || !prefer_right_as_b);
  if (out.swapped) swap_sides(g);
  return out;
}

std::optional<arch::LoopProgram> dot_loop(const GemmStep& step, const ir::Type& a, const ir::Type& b,
                                          const ir::Type& c) {
  if (step.k < 1 || c.elements() == 0) return std::nullopt;
  if ((step.m != 1 || step.n != 1) && c.elements() * step.k > tuned::kProductsMax) return std::nullopt;
  for (Dtype d : {a.dtype, b.dtype, c.dtype})
    if (!arch::is_loop_dtype(d) || d == Dtype::boolean || is_floating(d) != is_floating(c.dtype)) return std::nullopt;
  arch::LoopBuilder t;
  std::vector<int64_t> of_a, of_b, of_c;
  for (const Dim& d : step.batch) {
    t.dim(d.size);
    of_a.push_back(d.a), of_b.push_back(d.b), of_c.push_back(d.c);
  }
  t.dim(step.m);
  of_a.push_back(step.a.row_stride), of_b.push_back(0), of_c.push_back(step.c.row_stride);
  t.dim(step.n);
  of_a.push_back(0), of_b.push_back(step.b.col_stride), of_c.push_back(step.c.col_stride);
  t.dim(step.k, true);
  of_a.push_back(step.a.col_stride), of_b.push_back(step.b.row_stride), of_c.push_back(0);
  const uint32_t left = t.input(a.dtype, a.elements(), of_a, step.a.offset),
                 right = t.input(b.dtype, b.elements(), of_b, step.b.offset),
                 to = t.output(c.dtype, c.elements(), of_c, step.c.offset);
  const Dtype wide = arch::loop_value_type(c.dtype);
  auto value = [&](uint32_t operand) {
    const arch::LoopValue v = t.load(operand);
    return t.type_of(v) == wide ? v : t.convert(v, wide);
  };
  const arch::LoopValue x = value(left), y = value(right);
  const arch::LoopValue sum = t.unary(arch::LoopOp::reduce_sum, t.binary(arch::LoopOp::mul, x, y));
  t.once();
  t.store(to, sum);
  return t.take();
}

}  // namespace trine::compile
