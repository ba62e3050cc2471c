// Strides of a convolution's dims; see conv.h.
#include "compile/device/multiplies/conv.h"

#include <algorithm>

#include "base/text.h"
#include "compile/device/multiplies/conv_shift.h"
#include "ops/network/convolution_shape.h"

namespace trine::compile::device {

// Features are the rows of the result where they are not its minor dim.
static Strides swapped(Strides p) {
  std::swap(p.left, p.right);
  std::swap(p.rows, p.columns);
  for (auto* dims : {&p.batch, &p.rows, &p.columns, &p.depth})
    for (Shared& d : *dims) std::swap(d.left, d.right);
  return p;
}

std::string conv_obstacle(const ir::Node& conv) {
  for (const ir::Value& v : conv.inputs)
    if (!multiplies(v.type().dtype)) return cat("the tensor engine does not multiply ", shape_text(v.type().dtype, {}));
  if (!multiplies(conv.types[0].dtype)) return cat("a product of ", shape_text(conv.types[0].dtype, {}));
  if (conv.inputs[0].type().elements() == 0 || conv.inputs[1].type().elements() == 0) return "a convolution of nothing";
  return {};
}

static Strides strides_of(Store& store, const ir::Node& conv) {
  const Dims &x = conv.inputs[0].type().dims, &k = conv.inputs[1].type().dims, &y = conv.types[0].dims;
  Strides p{.left = side_of(store, conv.inputs[0]), .right = side_of(store, conv.inputs[1]), .out = conv.result()};
  const Dims xs = p.left.walk.strides, ks = p.right.walk.strides, ys = row_major_strides(y);
  const auto shape = ops::ConvolutionShape::from(conv.attrs, x, k);
  CHECK(shape, "a convolution's own type rule");
  const auto at = [](const Dims& list, int64_t d) { return list[size_t(d)]; };
  const int64_t out = at(k, shape->kernel_output_feature), in = at(k, shape->kernel_input_feature);
  const int64_t fg = shape->feature_groups, bg = shape->batch_groups, groups = fg * bg;
  const int64_t x_in = at(xs, shape->input_feature), k_out = at(ks, shape->kernel_output_feature),
                y_out = at(ys, shape->output_feature), batch = at(x, shape->input_batch) / bg;
  if (groups > 1) {
    const int64_t step = fg > 1 ? in * x_in : batch * at(xs, shape->input_batch);
    p.batch.push_back({groups, step, out / groups * k_out, out / groups * y_out});
  }
  p.rows.push_back({batch, at(xs, shape->input_batch), 0, at(ys, shape->output_batch)});
  for (size_t s = 0; s < shape->windows.size(); ++s) {
    const ops::WindowDim& w = shape->windows[s];
    const int64_t across = at(xs, shape->input_spatial[s]), tap = at(ks, shape->kernel_spatial[s]);
    p.rows.push_back({at(y, shape->output_spatial[s]), w.stride * across, 0, at(ys, shape->output_spatial[s])});
    p.depth.push_back({w.size, w.window_dilation * across, w.is_reversed ? -tap : tap, 0});
    if (w.is_reversed) p.right.walk.offset += (w.size - 1) * tap;
  }
  p.columns.push_back({out / groups, 0, k_out, y_out});
  p.depth.push_back({in, x_in, at(ks, shape->kernel_input_feature), 0});
  // The longest of the contracted dims goes to partitions; channels that lie densely are one with the taps beside them.
  if (x_in != 1)
    std::stable_sort(p.depth.begin(), p.depth.end(),
                     [](const Shared& a, const Shared& b) { return a.count < b.count; });
  // Of a kernel's gradient the channels lie where images do elsewhere: they, and not its few taps, are the rows.
  if (at(xs, shape->input_batch) == 1) std::rotate(p.rows.begin(), p.rows.begin() + 1, p.rows.end());
  p.windows = x_in == 1 && groups == 1 && at(xs, shape->input_batch) != 1 && y_out == 1;
  return y_out == 1 ? p : swapped(p);
}

void lower_conv(Recorder& rec, Store& store, const ir::Node& conv, const DotPolicy& policy) {
  if (conv.types[0].elements() == 0) return;
  if (can_shift(conv)) return lower_shifted(rec, store, conv, policy);
  lower_strides(rec, store, strides_of(store, conv), policy);
}

std::unique_ptr<Product> product_of_conv(Recorder& rec, Store& store, const ir::Node& conv, const DotPolicy& policy) {
  if (conv.types[0].elements() == 0) return nullptr;
  if (can_shift(conv)) return product_of_shifted(rec, store, conv, policy);
  const Strides p = strides_of(store, conv);
  return p.windows ? product_of(rec, store, p, policy) : nullptr;
}

}  // namespace trine::compile::device
