// Dims of the loop are found again in the product by their strides; all other operands must go along evenly.
#include "compile/host/epilogue.h"

#include <algorithm>
#include <cstdlib>

#include "compile/graph/fuse.h"
#include "compile/host/conv.h"

namespace trine::compile {

using arch::LoopOp;
using arch::LoopOperand;
using arch::LoopProgram;

namespace {

// The loop's dims that one dim of the product is made of, outermost first.
using Chain = std::vector<size_t>;

class Collapse {
 public:
  Collapse(const LoopProgram& loop, uint32_t read) : loop_(loop), read_(loop.operands[read]) {
    for (size_t d = 0; d < loop.dims.size(); ++d)
      if (loop.dims[d].size != 1) by_stride_.push_back(d);
    std::sort(by_stride_.begin(), by_stride_.end(),
              [&](size_t x, size_t y) { return read_.strides[x] > read_.strides[y]; });
  }

  // False where the dim is not made of whole dims of the loop.
  bool add(const ProductDim& dim, Chain& chain) {
    int64_t size = 1, stride = dim.stride * dim.size;
    for (size_t d : by_stride_) {
      const int64_t step = read_.strides[d], n = loop_.dims[d].size;
      if (step < dim.stride || step * n > dim.stride * dim.size) continue;
      if (step * n != stride) return false;
      stride = step;
      size *= n;
      chain.push_back(d);
      ++used_;
    }
    return size == dim.size;
  }
  bool is_whole() const { return used_ == by_stride_.size() && read_.offset == 0; }

  // An operand's stride along a chain; nothing where it is not even.
  std::optional<int64_t> stride(const LoopOperand& o, const Chain& chain) const {
    if (chain.empty()) return 0;
    for (size_t i = 0; i + 1 < chain.size(); ++i)
      if (o.strides[chain[i]] != o.strides[chain[i + 1]] * loop_.dims[chain[i + 1]].size) return std::nullopt;
    return o.strides[chain.back()];
  }

 private:
  const LoopProgram& loop_;
  const LoopOperand& read_;
  std::vector<size_t> by_stride_ = {};
  size_t used_ = 0;
};

}  // namespace

Product product_of(const arch::GemmStep& step) {
  Product out;
  for (const arch::GemmStep::Batch& b : step.batch) out.rows.push_back({b.size, b.c});
  out.rows.push_back({step.m, step.c.row_stride});
  out.columns = {step.n, step.c.col_stride};
  return out;
}

std::optional<Product> product_of(const arch::ConvStep& step) {
  if (step.groups > 1 && step.y_group != step.out_channels * step.y_channel) return std::nullopt;
  Product out;
  int64_t last = INT64_MAX;  // rows count through the input as it lies: only then is the order ours
  auto add = [&](int64_t size, int64_t stride, int64_t from) {
    out.rows.push_back({size, stride});
    if (size > 1 && std::abs(from) > last) return false;
    if (size > 1) last = std::abs(from);
    return true;
  };
  if (!add(step.batch, step.y_batch, step.x_batch)) return std::nullopt;
  for (const arch::ConvStep::Spatial& s : step.spatial)
    if (s.in_dilation != 1 || !add(s.out, s.y, s.step * s.x)) return std::nullopt;
  if (step.groups * step.out_channels == 1) return std::nullopt;  // no columns: the loop goes along rows by itself
  out.columns = {step.groups * step.out_channels, step.y_channel};
  return out;
}

bool narrow_to_read(arch::GemmStep& step, LoopProgram& loop, uint32_t read) {
  LoopOperand& operand = loop.operands[read];
  arch::GemmStep out = step;
  int64_t rest = operand.offset;
  // Of a dim of the product the elements that are read: one loop dim may take steps, several go through it one by one.
  struct Part {
    int64_t first = 0, step = 1;
  };
  auto narrow = [&](int64_t& size, int64_t& stride) -> std::optional<Part> {
    if (size <= 1) return Part{};
    Part part{.first = operand.offset / stride % size};
    int64_t count = 1, dims = 0;
    for (size_t d = 0; d < loop.dims.size(); ++d) {
      const int64_t by = operand.strides[d];
      if (loop.dims[d].size == 1 || by < stride || by >= stride * size) continue;
      part.step = ++dims == 1 && by % stride == 0 ? by / stride : 1;
      count *= loop.dims[d].size;
    }
    if (part.first + (count - 1) * part.step >= size) return std::nullopt;
    rest -= part.first * stride;
    size = count;
    stride *= part.step;
    return part;
  };
  for (arch::GemmStep::Batch& b : out.batch) {
    const auto part = narrow(b.size, b.c);
    if (!part) return false;
    out.a.offset += part->first * b.a;
    out.b.offset += part->first * b.b;
    b.a *= part->step;
    b.b *= part->step;
  }
  const auto rows = narrow(out.m, out.c.row_stride), columns = narrow(out.n, out.c.col_stride);
  if (!rows || !columns || rest != 0) return false;
  out.a.offset += rows->first * out.a.row_stride;
  out.b.offset += columns->first * out.b.col_stride;
  out.a.row_stride *= rows->step;
  out.b.col_stride *= columns->step;
  operand.offset = 0;
  step = std::move(out);
  return true;
}

bool makes_products(const ir::Node& node) {
  if (!walks_operands(node)) return false;
  auto narrow = [](Dtype d) { return is_floating(d) && bits(d) <= 32 && d != Dtype::tf32; };
  return narrow(node.inputs[0].type().dtype) && narrow(node.types[0].dtype) && node.types[0].elements() > 0;
}

std::optional<LoopProgram> as_epilogue(const LoopProgram& loop, uint32_t read, const Product& product) {
  Collapse collapse(loop, read);
  Chain chains[2];
  LoopProgram out{.dims = {{1, false}, {product.columns.size, false}}, .stages = loop.stages, .insns = loop.insns};
  for (const ProductDim& dim : product.rows) {
    out.dims[0].size *= dim.size;
    if (dim.size > 1 && !collapse.add(dim, chains[0])) return std::nullopt;
  }
  if (product.columns.size > 1 && !collapse.add(product.columns, chains[1])) return std::nullopt;
  if (!collapse.is_whole()) return std::nullopt;
  const int64_t cols = out.dims[1].size;
  out.operands.push_back({Dtype::f32, false, out.dims[0].size * cols, 0, {cols, 1}});
  std::vector<uint32_t> renamed(loop.operands.size(), 0);
  for (uint32_t o = 0; o < loop.operands.size(); ++o) {
    if (o == read) continue;
    const auto by_row = collapse.stride(loop.operands[o], chains[0]),
               by_col = collapse.stride(loop.operands[o], chains[1]);
    if (!by_row || !by_col) return std::nullopt;
    renamed[o] = uint32_t(out.operands.size());
    out.operands.push_back(loop.operands[o]);
    out.operands.back().strides = {*by_row, *by_col};
    if (int64_t& beside = out.operands.back().beside; beside >= 0) beside = renamed[size_t(beside)];
  }
  for (arch::LoopInsn& n : out.insns) {
    if (n.op == LoopOp::load || n.op == LoopOp::store || n.op == LoopOp::pick) n.at = renamed[n.at];
    if (n.op != LoopOp::iota) continue;
    const auto side =
        std::find_if(std::begin(chains), std::end(chains), [&](const Chain& c) { return c == Chain{n.at}; });
    if (side == std::end(chains)) return std::nullopt;
    n.at = uint32_t(side - chains);
  }
  return out;
}

bool writes_along_columns(const LoopProgram& epilogue) {
  return epilogue.dims[1].size == 1 || std::all_of(epilogue.operands.begin(), epilogue.operands.end(),
                                                   [](const LoopOperand& o) { return !o.output || o.strides[1] == 1; });
}

}  // namespace trine::compile
