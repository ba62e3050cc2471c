// Strides of windows.
#include "compile/host/pool.h"

#include <algorithm>
#include <cmath>

#include "base/number/scalar.h"
#include "compile/graph/loop_ops.h"
#include "compile/thresholds.h"
#include "ir/op_ids.h"
#include "ops/identity.h"

namespace trine::compile {

namespace {

namespace tuned = thresholds::host_pool;

// A long window that ends or begins at each element, as of a running sum: the op itself goes over it once.
bool is_running(const ir::Node& node) {
  const Dims& dims = node.inputs[0].type().dims;
  const ir::Ints &window = node.attrs.ints("window_dimensions"), &padding = node.attrs.ints("padding");
  for (size_t d = 0; d < dims.size() && !padding.empty(); ++d)
    if (window[d] > tuned::kRunMax && window[d] == dims[d] &&
        std::max(padding[2 * d], padding[2 * d + 1]) == dims[d] - 1)
      return true;
  return false;
}

bool is_pool(const ir::Node& node) {
  if (node.op != op::reduce_window || node.inputs.size() != 2 || !node.regions.empty()) return false;
  const Dtype dtype = node.types[0].dtype;
  const std::string_view kind = node.attrs.text("kind");
  const bool is_number = dtype == Dtype::f32 || dtype == Dtype::f64 || dtype == Dtype::bf16 || dtype == Dtype::f16 ||
                         (is_integer(dtype) && bits(dtype) >= 8);
  const bool is_truth = dtype == Dtype::boolean && (kind == "or" || kind == "and");
  const bool is_known = kind == "add" || kind == "multiply" || kind == "maximum" || kind == "minimum";
  auto all = [&](std::string_view name, int64_t value) {
    const ir::Ints& ints = node.attrs.ints(name);
    return std::all_of(ints.begin(), ints.end(), [&](int64_t i) { return i == value; });
  };
  return ((is_number && is_known) || is_truth) && arch::is_loop_dtype(dtype) && all("base_dilations", 1) &&
         !all("window_dimensions", 1) && element_count(node.attrs.ints("window_dimensions")) <= tuned::kWindowMax &&
         element_count(node.types[0].dims) > 0 && !is_running(node);
}

int64_t at(const ir::Ints& ints, size_t d) { return ints.empty() ? 1 : ints[d]; }

// Of the elements of a window, from its first.
std::vector<int64_t> window_offsets(const ir::Ints& window, const ir::Ints& apart, const Dims& strides) {
  std::vector<int64_t> out = {0};
  for (size_t d = 0; d < window.size(); ++d) {
    std::vector<int64_t> wider;
    for (int64_t offset : out)
      for (int64_t i = 0; i < window[d]; ++i) wider.push_back(offset + i * at(apart, d) * strides[d]);
    out = std::move(wider);
  }
  return out;
}

}  // namespace

std::optional<Pool> plan_pool(const ir::Node& node) {
  if (!is_pool(node)) return std::nullopt;
  const Dims &dims = node.inputs[0].type().dims, &out = node.types[0].dims;
  const ir::Ints &window = node.attrs.ints("window_dimensions"), &steps = node.attrs.ints("window_strides"),
                 &apart = node.attrs.ints("window_dilations"), &padding = node.attrs.ints("padding");
  Pool pool{.padded = dims};
  arch::MoveStep pad{.kind = arch::MoveKind::pad, .low = Dims(dims.size(), 0), .gaps = Dims(dims.size(), 0)};
  for (size_t d = 0; d < dims.size() && !padding.empty(); ++d) {
    pad.low[d] = padding[2 * d];
    pool.padded[d] += padding[2 * d] + padding[2 * d + 1];
  }
  if (pool.padded != dims || pad.low != Dims(dims.size(), 0)) pool.pad = std::move(pad);
  const Dtype dtype = node.types[0].dtype;
  pool.neutral = scalar(dtype, ops::identity(node.attrs.text("kind"), dtype));
  const Dims strides = row_major_strides(pool.padded), out_strides = row_major_strides(out);
  arch::LoopBuilder b;
  std::vector<int64_t> in_walk, out_walk = {out_strides.begin(), out_strides.end()};
  for (size_t d = 0; d < dims.size(); ++d) {
    b.dim(out[d]);
    in_walk.push_back(strides[d] * at(steps, d));
  }
  const std::string_view kind = node.attrs.text("kind");
  const arch::LoopOp combine = loop_row(ir::op_named(kind))->op;
  const int64_t elements = element_count(pool.padded);
  // Few elements are loaded side by side; of more, the window is a loop of its own.
  const bool is_unrolled = element_count(window) <= tuned::kUnrollMax;
  std::vector<uint32_t> operands;
  if (is_unrolled) {
    for (int64_t offset : window_offsets(window, apart, strides))
      operands.push_back(b.input(dtype, elements, in_walk, offset));
  } else {
    for (size_t d = 0; d < dims.size(); ++d) {
      if (window[d] == 1) continue;
      b.dim(window[d], true);
      in_walk.push_back(strides[d] * at(apart, d));
      out_walk.push_back(0);
    }
    operands.push_back(b.input(dtype, elements, in_walk));
  }
  pool.loads = operands.size();
  const uint32_t start = b.input(dtype, 1, std::vector<int64_t>(in_walk.size(), 0)),
                 y = b.output(dtype, element_count(out), out_walk);
  arch::LoopValue total = b.load(operands[0]);
  for (size_t i = 1; i < operands.size(); ++i) total = b.binary(combine, total, b.load(operands[i]));
  if (!is_unrolled) {
    total = b.unary(loop_reduce(kind), total);
    b.once();
  }
  b.store(y, b.binary(combine, b.load(start), total));
  pool.program = b.take();
  return pool;
}

}  // namespace trine::compile
