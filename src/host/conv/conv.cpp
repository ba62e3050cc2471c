// Checks, groups and phases; each is one blocked multiply.
#include "host/conv/conv.h"

#include <algorithm>

#include "base/pool.h"
#include "base/text.h"
#include "host/conv/depthwise.h"
#include "host/conv/direct.h"
#include "host/conv/im2col.h"
#include "host/conv/stencil.h"

namespace trine::host {

namespace {

Result<void> check_sizes(const Conv& c) {
  if (c.batch < 0 || c.in_features < 0 || c.out_features < 0 || c.groups < 1 || c.rank < 0 || c.rank > kSpaceMax) {
    return fail(Code::invalid, cat("a convolution of batch ", c.batch, ", ", c.in_features, " to ", c.out_features,
                                   " features, in ", c.groups, " groups and ", c.rank, " dimensions"));
  }
  for (int s = 0; s < c.rank; ++s) {
    const Conv::Dim& d = c.space[size_t(s)];
    if (std::min({d.in, d.window, d.out}) < 0 || std::min({d.stride, d.in_dilation, d.window_dilation}) < 1) {
      return fail(Code::invalid,
                  cat("a convolution with input ", d.in, ", window ", d.window, ", output ", d.out, ", stride ",
                      d.stride, ", dilations ", d.in_dilation, " and ", d.window_dilation, " in dimension ", s));
    }
  }
  return {};
}

Dtype weight_dtype(const Conv& c) { return c.packed_weights ? c.packed_weights->dtype() : c.weights.dtype; }

Result<Family> check(const Conv& c) {
  TRY(check_sizes(c));
  const Family family = TRY(family_of(c.input.dtype));
  if (TRY(family_of(weight_dtype(c))) != family || (c.output.data && !can_store(family, c.output.dtype))) {
    return fail(Code::unsupported, cat("cannot convolve ", row(c.input.dtype).name, " by ", row(weight_dtype(c)).name,
                                       " into ", row(c.output.dtype).name));
  }
  if (!c.output.data && !c.epilogue.run)
    return fail(Code::invalid, "a convolution with neither a result nor an epilogue");
  if (c.epilogue.run && !conv_fuses(c)) return fail(Code::unsupported, "no epilogue on a convolution of this layout");
  if (const PackedMatrix* p = c.packed_weights) {
    const int64_t k = make_walk(c, 0, 0).depth_count();
    if (phase_count(c) > 1 || p->batch() != c.groups || p->k() != k || p->n() != c.out_features) {
      return fail(Code::invalid, cat("weights packed as ", p->batch(), " x ", p->k(), "x", p->n(), "; expected ",
                                     c.groups, " x ", k, "x", c.out_features));
    }
  }
  return family;
}

void run_phase(const Conv& c, Family family, int64_t group, int64_t phase) {
  const Walk walk = make_walk(c, group, phase);
  const int64_t k = walk.depth_count();
  const auto* input = static_cast<const std::byte*>(c.input.data) + walk.in_begin * bytes(c.input.dtype);
  const Im2col a{walk, input, c.input.dtype, family, k, c.simd};
  const auto* weights = static_cast<const std::byte*>(c.weights.data);
  if (weights) weights += walk.w_begin * bytes(c.weights.dtype);
  const WeightPanels b{walk, weights, c.weights.batch_stride, c.weights.dtype, family, k, c.simd};
  Blocked w{.m = walk.position_count(), .n = c.out_features, .depth = depth_steps(family, k), .family = family};
  w.a = panel_source(a);
  w.b = panel_source(b);
  w.packed_b = c.packed_weights;
  w.packed_item = group;
  w.simd = c.simd;
  auto* out = static_cast<std::byte*>(c.output.data);
  if (out) out += walk.out_begin * bytes(c.output.dtype);
  w.out = {out, c.output.dtype, 0, c.output.feature_stride, c.epilogue, 0, group * c.out_features};
  RowMap rows;
  for (size_t i = 0; i < walk.positions.size(); ++i) {
    rows.extents[i] = walk.positions[i].extent;
    rows.strides[i] = walk.positions[i].out_step;
  }
  if (const auto step = rows.step()) {
    w.out.row_stride = *step;
  } else {
    w.out.rows = &rows;
  }
  run_blocked(w);
}

}  // namespace

bool conv_fuses(const Conv& c) { return phase_count(c) == 1 && make_walk(c, 0, 0).natural; }

std::optional<Matrix> weights_as_matrix(const Conv& c) {
  if (c.groups != 1 || phase_count(c) > 1) return std::nullopt;
  const Walk walk = make_walk(c, 0, 0);
  int64_t step = 0, next = 0;
  for (size_t i = size_t(walk.dims); i-- > 0;) {
    const Walk::Dim& d = walk.depth[i];
    if (d.extent == 1) continue;
    if (next != 0 && d.w_step != next) return std::nullopt;
    if (step == 0) step = d.w_step;
    next = d.w_step * d.extent;
  }
  const auto* data = static_cast<const std::byte*>(c.weights.data) + walk.w_begin * bytes(c.weights.dtype);
  return Matrix{data, c.weights.dtype, step, c.weights.batch_stride};
}

Result<PackedMatrix> pack_weights(const Conv& c) {
  TRY(check_sizes(c));
  if (phase_count(c) > 1) return fail(Code::unsupported, "weights of a dilated input are not packed ahead");
  PackedMatrix out =
      TRY(PackedMatrix::make(c.weights.dtype, make_walk(c, 0, 0).depth_count(), c.out_features, c.groups));
  const int64_t width = panel_width(out.family());
  parallel_for(c.groups * out.panels(), 4, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t group = i / out.panels(), panel = i % out.panels(), lane = panel * width;
      const Walk walk = make_walk(c, group, 0);
      const auto* data = static_cast<const std::byte*>(c.weights.data) + walk.w_begin * bytes(c.weights.dtype);
      const WeightPanels panels{walk, data, c.weights.batch_stride, c.weights.dtype, out.family(), out.k(), c.simd};
      store_panel(panels, lane, std::min(width, c.out_features - lane), out.panel(group, panel));
    }
  });
  return out;
}

Result<void> conv(const Conv& c) {
  const Family family = TRY(check(c));
  if (runs_depthwise(c, family)) {
    run_depthwise(c);
    return {};
  }
  if (runs_as_stencil(c, family)) {
    run_stencil(c);
    return {};
  }
  const int64_t phases = phase_count(c);
  const bool is_direct = runs_direct(c, family);
  auto run = [&](int64_t begin, int64_t end) {
    for (int64_t i = begin * phases; i < end * phases; ++i)
      is_direct ? run_direct(c, i / phases, i % phases) : run_phase(c, family, i / phases, i % phases);
  };
  if (c.groups >= pool_threads()) {
    parallel_for(c.groups, 1, run);
  } else {
    run(0, c.groups);
  }
  return {};
}

}  // namespace trine::host
