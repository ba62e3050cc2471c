// attention_gradient: the gradients of queries, keys and values of softmax(scale · q kᵀ + bias) v. Inputs are q, k, v,
// the attention's result, the gradient of that, and of each row of scores the highest and the sum of exp(score -
// highest); then, optionally, a bias that is added, or a boolean mask of the keys that are seen. `sizes` are batch,
// heads of keys, heads that share one of them, queries, keys, elements of a key, elements of a value. An operand's
// attribute (`q`, `k`, `v`, `out`, `gradient`, `top`, `sum`, `bias`, `dq`, `dk`, `dv`) names its dim for each of the
// first five and for its elements, -1 for none. With weights p = exp(score - top) and g = gradient / sum: ds = p (g · v
// - g · out), dv = Σ p g, dk = Σ ds q, dq = Σ ds k, times `dq_factor`, `dk_factor`, `dv_factor`. Where `causal`, query
// i sees the keys up to i + `causal_offset`. A row whose mask hides every key weighs all alike, and no gradient goes
// back through its scores. C1: seven or eight floats, or a boolean for the bias. C2: sizes are seven, above 0. C3: an
// operand's dims are named once, have their sizes, and others are of one. C4: results have all dims that are theirs.
// C5: scale and factors are given.
#include <array>
#include <cmath>

#include "ops/internal.h"
#include "ops/wide.h"

namespace trine::ops {

namespace {

enum Size : uint8_t { kBatch, kHeads, kShared, kQueries, kKeys, kDim, kValueDim, kSizes };
constexpr size_t kAxes = 6;  // an operand's: the first five and its elements
enum Input : uint8_t { kQ, kK, kV, kOut, kGradient };

// Which sizes an operand may vary with, its elements last.
constexpr uint8_t kNone = kSizes;
using Axes = std::array<uint8_t, kAxes>;
constexpr Axes kOfQueries = {kBatch, kHeads, kShared, kQueries, kNone, kDim};
constexpr Axes kOfKeys = {kBatch, kHeads, kNone, kNone, kKeys, kDim};
constexpr Axes kOfValues = {kBatch, kHeads, kNone, kNone, kKeys, kValueDim};
constexpr Axes kOfOut = {kBatch, kHeads, kShared, kQueries, kNone, kValueDim};
constexpr Axes kOfRows = {kBatch, kHeads, kShared, kQueries, kNone, kNone};
constexpr Axes kOfScores = {kBatch, kHeads, kShared, kQueries, kKeys, kNone};
constexpr Axes kInputAxes[] = {kOfQueries, kOfKeys, kOfValues, kOfOut, kOfOut, kOfRows, kOfRows, kOfScores};
constexpr Axes kResultAxes[] = {kOfQueries, kOfKeys, kOfValues};
static_assert(std::size(kInputAxes) == std::size(kGradientInputs));

Result<void> check_operand(std::string_view name, const ir::Attrs& attrs, const ir::Type& type, const Axes& axes,
                           bool is_result) {
  const ir::Ints &sizes = attrs.ints("sizes"), &dims = attrs.ints(name);
  if (dims.size() != kAxes) return fail(Code::invalid, cat(name, " has ", dims.size(), " of ", kAxes, " dims"));
  int64_t named = 1;
  for (size_t i = 0; i < kAxes; ++i) {
    if (dims[i] < 0 && is_result && axes[i] != kNone && sizes[axes[i]] != 1)
      return fail(Code::invalid, cat(name, " has no dim of ", sizes[axes[i]], " elements at ", i));
    if (dims[i] < 0) continue;
    for (size_t j = 0; j < i; ++j)
      if (dims[j] == dims[i]) return fail(Code::invalid, cat(name, " names dim ", dims[i], " twice"));
    if (axes[i] == kNone || dims[i] >= type.rank() || type.dims[size_t(dims[i])] != sizes[axes[i]])
      return fail(Code::invalid,
                  cat(name, " names dim ", dims[i], " of ", ir::text(type), " at ", i, "; ",
                      axes[i] == kNone ? std::string("none") : cat("one of ", sizes[axes[i]]), " was expected"));
    named *= type.dims[size_t(dims[i])];
  }
  if (named == type.elements()) return {};
  return fail(Code::invalid, cat(name, " leaves out dims of ", ir::text(type)));
}

Inferred infer(const Call& call) {
  const size_t n = call.inputs.size();
  if ((n != kBiasInput && n != kBiasInput + 1) || call.declared.size() != 3)
    return fail(Code::invalid, cat(n, " inputs and ", call.declared.size(), " results; 7 or 8, and 3, were expected"));
  for (int64_t size : TRY(need_ints(call, "sizes", kSizes)))
    if (size < 1) return fail(Code::invalid, cat("sizes has ", size, "; all are above 0"));
  for (size_t i = 0; i < n; ++i) {
    const ir::Type& t = call.inputs[i];
    if (!is_floating(t.dtype) && (i != kBiasInput || t.dtype != Dtype::boolean))
      return fail(Code::invalid, cat(kGradientInputs[i], " is ", ir::text(t), "; floats were expected"));
    TRY(check_operand(kGradientInputs[i], call.attrs, t, kInputAxes[i], false));
  }
  std::vector<ir::Type> types;
  for (size_t i = 0; i < 3; ++i) {
    const ir::Type& t = call.declared[i];
    if (t.is_token || !is_floating(t.dtype))
      return fail(Code::invalid, cat(kGradientResults[i], " is ", ir::text(t), "; floats were expected"));
    TRY(check_operand(kGradientResults[i], call.attrs, t, kResultAxes[i], true));
    types.push_back(ir::tensor_type(t.dtype, t.dims));
  }
  for (std::string_view name :
       {std::string_view("scale"), kGradientFactors[0], kGradientFactors[1], kGradientFactors[2]})
    if (const ir::Attr* given = call.attrs.find(name); !given || !std::holds_alternative<double>(*given))
      return fail(Code::invalid, cat("needs the number `", name, "`"));
  return types;
}

// An operand, and how far apart its elements are along each axis.
struct Operand {
  WideArray<double> data = {};
  std::array<int64_t, kAxes> strides = {};

  Operand(const TensorView& view, const ir::Ints& dims, bool is_result)
      : data(is_result ? WideArray<double>(view.elements()) : load_wide<double>(view)) {
    const Dims all = row_major_strides(view.dims);
    for (size_t i = 0; i < kAxes; ++i) strides[i] = dims[i] < 0 ? 0 : all[size_t(dims[i])];
  }
  double& at(const std::array<int64_t, kAxes>& index) {
    int64_t offset = 0;
    for (size_t i = 0; i < kAxes; ++i) offset += index[i] * strides[i];
    return data[offset];
  }
};

struct Gradient {
  const ir::Ints& sizes;
  double scale = 1;
  bool is_causal = false, is_mask = false;
  int64_t causal_offset = 0;
  std::vector<Operand> in = {}, out = {};

  using Index = std::array<int64_t, kAxes>;

  double dot(Input a, Input b, Index at, int64_t count) {
    double sum = 0;
    for (at[5] = 0; at[5] < count; ++at[5]) sum += in[a].at(at) * in[b].at(at);
    return sum;
  }
  bool is_seen(const Index& at) {
    if (is_causal && at[kKeys] - at[kQueries] > causal_offset) return false;
    return !is_mask || in[kBiasInput].at(at) != 0;
  }

  // All that one query gives.
  void row(Index at) {
    bool is_blind = is_mask;  // no key is seen
    for (at[kKeys] = 0; at[kKeys] < sizes[kKeys]; ++at[kKeys]) is_blind = is_blind && !is_seen(at);
    at[kKeys] = 0;
    const double top = in[kTopInput].at(at), sum = in[kSumInput].at(at);
    const double mean = dot(kGradient, kOut, at, sizes[kValueDim]) / sum;
    for (at[kKeys] = 0; at[kKeys] < sizes[kKeys]; ++at[kKeys]) {
      if (!is_blind && !is_seen(at)) continue;
      double score = scale * dot(kQ, kK, at, sizes[kDim]);
      if (in.size() > kBiasInput && !is_mask) score += in[kBiasInput].at(at);
      const double weight = is_blind ? 1 : std::exp(score - top);
      const double slope = is_blind ? 0 : weight * (dot(kGradient, kV, at, sizes[kValueDim]) / sum - mean);
      for (at[5] = 0; at[5] < sizes[kDim]; ++at[5]) {
        out[0].at(at) += slope * in[kK].at(at);
        out[1].at(at) += slope * in[kQ].at(at);
      }
      for (at[5] = 0; at[5] < sizes[kValueDim]; ++at[5]) out[2].at(at) += weight * in[kGradient].at(at) / sum;
      at[5] = 0;
    }
  }
};

Result<void> eval(const Eval& e) {
  const ir::Attrs& attrs = e.node.attrs;
  Gradient g{.sizes = attrs.ints("sizes"),
             .scale = attrs.real("scale"),
             .is_causal = attrs.flag("causal"),
             .is_mask = e.in.size() > kBiasInput && e.in[kBiasInput].dtype == Dtype::boolean,
             .causal_offset = attrs.integer("causal_offset")};
  for (size_t i = 0; i < e.in.size(); ++i) g.in.emplace_back(e.in[i], attrs.ints(kGradientInputs[i]), false);
  for (size_t i = 0; i < 3; ++i) g.out.emplace_back(e.out[i], attrs.ints(kGradientResults[i]), true);
  for_each_index({g.sizes[kBatch], g.sizes[kHeads], g.sizes[kShared], g.sizes[kQueries]},
                 [&](const Dims& at, int64_t) { g.row({at[0], at[1], at[2], at[3], 0, 0}); });
  for (size_t i = 0; i < 3; ++i) {
    for (int64_t k = 0; k < g.out[i].data.size; ++k) g.out[i].data[k] *= attrs.real(kGradientFactors[i]);
    store_wide(g.out[i].data, e.out[i]);
  }
  return {};
}

}  // namespace

extern const Op op_attention_gradient{
    .name = "attention_gradient",
    .kind = OpKind::contraction,
    .attrs = "sizes q k v out gradient top sum bias dq dk dv scale causal causal_offset dq_factor dk_factor dv_factor",
    .infer = infer,
    .eval = eval,
    .is_internal = true};

}  // namespace trine::ops
