// Dimension numbers become strides; both kinds of groups become one.
#include "compile/host/conv.h"

#include "ir/op_ids.h"

namespace trine::compile {

bool is_host_conv(const ir::Node& node) {
  if (node.op != op::convolution) return false;
  const Dtype x = node.inputs[0].type().dtype, w = node.inputs[1].type().dtype, y = node.types[0].dtype;
  auto plain = [](Dtype d) { return is_floating(d) && bits(d) <= 32 && bits(d) >= 8 && d != Dtype::tf32; };
  return x == w && ((plain(x) && plain(y)) || (x == Dtype::f64 && y == Dtype::f64));
}

arch::ConvStep plan_conv(const ir::Node& conv, const Walk& x, const Walk& w) {
  const ir::Attrs& a = conv.attrs;
  const Dims &in = conv.inputs[0].type().dims, &kernel = conv.inputs[1].type().dims, &out = conv.types[0].dims;
  const Dims y = row_major_strides(out);
  auto at = [&](std::string_view name) { return size_t(a.integer(name)); };
  const size_t xb = at("input_batch"), xc = at("input_feature"), wi = at("kernel_input_feature"),
               wo = at("kernel_output_feature"), yb = at("output_batch"), yc = at("output_feature");
  const int64_t features = a.integer("feature_group_count", 1), batches = a.integer("batch_group_count", 1);
  arch::ConvStep c{.batch = in[xb] / batches,
                   .in_channels = kernel[wi],
                   .out_channels = kernel[wo] / (features * batches),
                   .groups = features * batches,
                   .x_offset = x.offset,
                   .w_offset = w.offset,
                   .x_batch = x.strides[xb],
                   .x_channel = x.strides[xc],
                   .w_in = w.strides[wi],
                   .w_out = w.strides[wo],
                   .y_batch = y[yb],
                   .y_channel = y[yc]};
  c.x_group = batches > 1 ? c.batch * c.x_batch : c.in_channels * c.x_channel;
  c.w_group = c.out_channels * c.w_out;
  c.y_group = c.out_channels * c.y_channel;
  auto entry = [&](std::string_view name, size_t i, int64_t otherwise) {
    const ir::Ints& list = a.ints(name);
    return list.empty() ? otherwise : list[i];
  };
  const ir::Ints &xs = a.ints("input_spatial"), &ws = a.ints("kernel_spatial"), &ys = a.ints("output_spatial");
  for (size_t i = 0; i < xs.size(); ++i) {
    const size_t xd = size_t(xs[i]), wd = size_t(ws[i]), yd = size_t(ys[i]);
    c.spatial.push_back({.in = in[xd],
                         .kernel = kernel[wd],
                         .out = out[yd],
                         .step = entry("window_strides", i, 1),
                         .low = entry("padding", 2 * i, 0),
                         .in_dilation = entry("lhs_dilation", i, 1),
                         .kernel_dilation = entry("rhs_dilation", i, 1),
                         .reversed = entry("window_reversal", i, 0) != 0,
                         .x = x.strides[xd],
                         .w = w.strides[wd],
                         .y = y[yd]});
  }
  return c;
}

}  // namespace trine::compile
