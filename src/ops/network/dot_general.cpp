// dot_general: sums of products over the contracting dims; result dims are batch, free dims of lhs, free dims of rhs.
// The result's dtype may be another than the inputs' (preferred_element_type); sums are wide and rounded once, so
// `precision` and `algorithm` ask for no more than this gives. Where the compiler sets `keeps_format`, the device does
// not cast the operands to a narrower dtype either. C1: axes are in range and named once. C2: batch and contracting
// dims have equal sizes on both sides.
#include "ops/axes.h"
#include "ops/wide.h"

namespace trine::ops {

namespace {

struct Axes {
  const ir::Ints &lhs_batch, &rhs_batch, &lhs_contract, &rhs_contract;
  ir::Ints lhs_free, rhs_free;
};

Axes axes_from(const ir::Attrs& attrs, int lhs_rank, int rhs_rank) {
  Axes a{
      attrs.ints("lhs_batch"), attrs.ints("rhs_batch"), attrs.ints("lhs_contract"), attrs.ints("rhs_contract"), {}, {}};
  auto both = [](ir::Ints x, const ir::Ints& y) {
    x.insert(x.end(), y.begin(), y.end());
    return x;
  };
  a.lhs_free = axes_besides(lhs_rank, both(a.lhs_batch, a.lhs_contract));
  a.rhs_free = axes_besides(rhs_rank, both(a.rhs_batch, a.rhs_contract));
  return a;
}

Result<void> check_pairs(std::string_view what, const Dims& lhs, const Dims& rhs) {
  if (lhs == rhs) return {};
  return fail(Code::invalid, cat(what, " dims of lhs are ", shape_text(Dtype::s64, lhs).substr(3), ", of rhs ",
                                 shape_text(Dtype::s64, rhs).substr(3)));
}

Result<std::vector<ir::Type>> infer(const Call& call) {
  const ir::Type &lhs = call.inputs[0], &rhs = call.inputs[1];
  const Axes a = axes_from(call.attrs, lhs.rank(), rhs.rank());
  TRY(check_axes("lhs_batch", a.lhs_batch, lhs.rank()));
  TRY(check_axes("rhs_batch", a.rhs_batch, rhs.rank()));
  TRY(check_axes("lhs_contract", a.lhs_contract, lhs.rank()));
  TRY(check_axes("rhs_contract", a.rhs_contract, rhs.rank()));
  if (a.lhs_batch.size() + a.lhs_contract.size() + a.lhs_free.size() != lhs.dims.size() ||
      a.rhs_batch.size() + a.rhs_contract.size() + a.rhs_free.size() != rhs.dims.size())
    return fail(Code::invalid, "a dim is both of the batch and contracting");
  TRY(check_pairs("batch", sizes_of(lhs.dims, a.lhs_batch), sizes_of(rhs.dims, a.rhs_batch)));
  TRY(check_pairs("contracting", sizes_of(lhs.dims, a.lhs_contract), sizes_of(rhs.dims, a.rhs_contract)));
  Dims dims = sizes_of(lhs.dims, a.lhs_batch);
  for (int64_t d : a.lhs_free) dims.push_back(lhs.dims[size_t(d)]);
  for (int64_t d : a.rhs_free) dims.push_back(rhs.dims[size_t(d)]);
  return std::vector<ir::Type>{
      ir::tensor_type(call.declared.empty() ? lhs.dtype : call.declared[0].dtype, std::move(dims))};
}

// Rows of lhs times a matrix of rhs packed row-major, so that the inner loop runs over neighbours.
template <class W>
void multiply(const Eval& e) {
  const Axes a = axes_from(e.node.attrs, int(e.in[0].dims.size()), int(e.in[1].dims.size()));
  const auto lhs_batch = offsets_of(e.in[0].dims, a.lhs_batch), lhs_free = offsets_of(e.in[0].dims, a.lhs_free),
             lhs_contract = offsets_of(e.in[0].dims, a.lhs_contract);
  const auto rhs_batch = offsets_of(e.in[1].dims, a.rhs_batch), rhs_free = offsets_of(e.in[1].dims, a.rhs_free),
             rhs_contract = offsets_of(e.in[1].dims, a.rhs_contract);
  const WideArray<W> lhs = load_wide<W>(e.in[0]), rhs = load_wide<W>(e.in[1]);
  const int64_t columns = int64_t(rhs_free.size()), depth = int64_t(rhs_contract.size());
  WideArray<W> packed(depth * columns), sums(columns);
  int64_t at = 0;
  for (size_t b = 0; b < lhs_batch.size(); ++b) {
    for (int64_t k = 0; k < depth; ++k)
      for (int64_t n = 0; n < columns; ++n)
        packed[k * columns + n] = rhs[rhs_batch[b] + rhs_contract[size_t(k)] + rhs_free[size_t(n)]];
    for (int64_t m : lhs_free) {
      std::fill_n(sums.data.get(), columns, W{});
      for (int64_t k = 0; k < depth; ++k) {
        const W x = lhs[lhs_batch[b] + m + lhs_contract[size_t(k)]];
        const W* row = packed.at(k * columns);
        for (int64_t n = 0; n < columns; ++n) sums[n] = wide_add(sums[n], wide_multiply(x, row[n]));
      }
      store_wide(sums.data.get(), columns, e.out[0], at);
      at += columns;
    }
  }
}

Result<void> eval(const Eval& e) {
  dispatch_wide(e.out[0].dtype, [&]<class W>() { multiply<W>(e); });
  return {};
}

}  // namespace

extern const Op op_dot_general{
    .name = "dot_general",
    .kind = OpKind::contraction,
    .arity = 2,
    .attrs = "lhs_batch rhs_batch lhs_contract rhs_contract precision algorithm keeps_format",
    .infer = infer,
    .eval = eval};

}  // namespace trine::ops
