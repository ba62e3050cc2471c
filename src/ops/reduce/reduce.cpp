// reduce: combines all elements along `dimensions`, starting from an init, by `kind` or by a region.
// Several operands are combined together by one region (arg max). Inputs are operands, then as many scalar inits.
// C1: operands have one shape, inits are scalars of their operand's dtype. C2: dimensions are in range, named once.
// C3: without a region there is one operand and a kind defined for its dtype.
#include <algorithm>

#include "ops/axes.h"
#include "ops/reduce/combine.h"

namespace trine::ops {

namespace {

constexpr int64_t kLanes = 1024;

Result<std::vector<ir::Type>> infer(const Call& call) {
  if (call.inputs.empty()) return fail(Code::invalid, "needs an operand");
  const ir::Ints& dimensions = call.attrs.ints("dimensions");
  TRY(check_axes("dimensions", dimensions, call.inputs[0].rank()));
  const Dims unreduced = sizes_of(call.inputs[0].dims, axes_besides(call.inputs[0].rank(), dimensions));
  return reduced_types(call, unreduced);
}

// Reads the operand once, in order; the inner loop is over its last dim, kept or reduced.
template <class W, class F>
void reduce_kind(const Eval& e, F combine) {
  const ir::Ints& dimensions = e.node.attrs.ints("dimensions");
  const Dims& dims = e.in[0].dims;
  const size_t rank = dims.size();
  Dims strides(rank, 0);  // in the result, of each operand dim
  const ir::Ints unreduced = axes_besides(int(rank), dimensions);
  const Dims out_strides = row_major_strides(e.out[0].dims);
  for (size_t i = 0; i < unreduced.size(); ++i) strides[size_t(unreduced[i])] = out_strides[i];
  W init;
  load_wide(e.in[1], 0, 1, &init);
  WideArray<W> sums(e.out[0].elements());
  std::fill_n(sums.data.get(), sums.size, init);
  const int64_t columns = rank ? dims[rank - 1] : 1, step = rank ? strides[rank - 1] : 0;
  WideArray<W> line(columns);
  const Dims outer(dims.begin(), dims.end() - (rank ? 1 : 0));
  for_each_index(outer, [&](const Dims& index, int64_t at) {
    load_wide(e.in[0], at * columns, columns, line.data.get());
    W* to = sums.at(offset_of(index, strides));
    if (step == 0) {
      W sum = *to;
      for (int64_t i = 0; i < columns; ++i) sum = combine(sum, line[i]);
      *to = sum;
    } else {
      for (int64_t i = 0; i < columns; ++i) to[i] = combine(to[i], line[i]);
    }
  });
  store_wide(sums, e.out[0]);
}

struct RegionReduce {
  const Eval& e;
  LaneBody body;
  size_t n = 0;                             // operands
  std::vector<int64_t> unreduced, reduced;  // offsets in an operand

  // All results at once, element by element.
  Result<void> by_result() {
    const int64_t outs = int64_t(unreduced.size());
    for (int64_t start = 0; start < outs; start += body.lanes()) {
      const int64_t lanes = std::min(body.lanes(), outs - start);
      for (size_t i = 0; i < n; ++i)
        for (int64_t l = 0; l < lanes; ++l) copy_element(e.out[i], start + l, e.in[n + i], 0);
      for (int64_t r : reduced) {
        for (size_t i = 0; i < n; ++i) {
          copy_run(body.param(i), 0, e.out[i], start, lanes);
          for (int64_t l = 0; l < lanes; ++l)
            copy_element(body.param(n + i), l, e.in[i], unreduced[size_t(start + l)] + r);
        }
        TRY(body.run(lanes));
        for (size_t i = 0; i < n; ++i) copy_run(e.out[i], start, body.result(i), 0, lanes);
      }
    }
    return {};
  }

  // One result at a time as a tree of neighbours, which the op allows: many lanes although results are few.
  Result<void> by_tree() {
    for (size_t o = 0; o < unreduced.size(); ++o) {
      std::vector<Tensor> line;
      for (size_t i = 0; i < n; ++i) {
        line.push_back(Tensor::make(e.in[i].dtype, {int64_t(reduced.size())}));
        for (size_t r = 0; r < reduced.size(); ++r)
          copy_element(line[i].view(), int64_t(r), e.in[i], unreduced[o] + reduced[r]);
      }
      for (int64_t left = int64_t(reduced.size()); left > 1; left = (left + 1) / 2) TRY(halve(line, left));
      for (size_t i = 0; i < n; ++i) {
        copy_element(body.param(i), 0, e.in[n + i], 0);
        copy_element(body.param(n + i), 0, line[i].view(), 0);
      }
      TRY(body.run(1));
      for (size_t i = 0; i < n; ++i) copy_element(e.out[i], int64_t(o), body.result(i), 0);
    }
    return {};
  }

  Result<void> halve(std::vector<Tensor>& line, int64_t left) {
    for (int64_t start = 0; start < left / 2; start += body.lanes()) {
      const int64_t lanes = std::min(body.lanes(), left / 2 - start);
      for (size_t i = 0; i < n; ++i)
        for (int64_t l = 0; l < lanes; ++l) {
          copy_element(body.param(i), l, line[i].view(), 2 * (start + l));
          copy_element(body.param(n + i), l, line[i].view(), 2 * (start + l) + 1);
        }
      TRY(body.run(lanes));
      for (size_t i = 0; i < n; ++i) copy_run(line[i].view(), start, body.result(i), 0, lanes);
    }
    if (left % 2)
      for (Tensor& t : line) copy_element(t.view(), left / 2, t.view(), left - 1);
    return {};
  }
};

Result<void> eval(const Eval& e) {
  if (e.node.regions.empty()) {
    const Kind kind = TRY(kind_from(e.node.attrs.text("kind")));
    dispatch_wide(e.in[0].dtype,
                  [&]<class W>() { dispatch_kind<W>(kind, [&](auto combine) { reduce_kind<W>(e, combine); }); });
    return {};
  }
  ir::Ints dimensions = e.node.attrs.ints("dimensions");
  std::sort(dimensions.begin(), dimensions.end());
  const Dims& dims = e.in[0].dims;
  RegionReduce reduce{.e = e,
                      .body = TRY(LaneBody::make(e, e.node.regions[0], kLanes)),
                      .n = e.in.size() / 2,
                      .unreduced = offsets_of(dims, axes_besides(int(dims.size()), dimensions)),
                      .reduced = offsets_of(dims, dimensions)};
  const bool is_long = reduce.body.lanes() > 1 && reduce.reduced.size() > 16 * reduce.unreduced.size();
  return is_long ? reduce.by_tree() : reduce.by_result();
}

}  // namespace

extern const Op op_reduce{
    .name = "reduce", .kind = OpKind::reduction, .attrs = "dimensions kind", .infer = infer, .eval = eval};

}  // namespace trine::ops
