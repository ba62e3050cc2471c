// Convolutions as others that fill the tensor engine: windows that do not overlap as one multiply, few channels as more
// of them, planes as images, groups of few channels as one group whose weights are zero between them; see decompose.h.
#include <algorithm>
#include <optional>

#include "compile/device/decompose/decompose.h"
#include "compile/device/multiplies/conv_shift.h"
#include "compile/device/multiplies/dot.h"
#include "compile/thresholds.h"
#include "ir/op_ids.h"
#include "ops/build.h"
#include "ops/network/convolution_shape.h"

namespace trine::compile::device {

using ir::Value;

namespace {

namespace tuned = thresholds::convolution;

constexpr int64_t kLanes = 128;

std::optional<ops::ConvolutionShape> shape_of(const ir::Node& node) {
  const ir::Type &x = node.inputs[0].type(), &k = node.inputs[1].type();
  if (x.elements() == 0 || k.elements() == 0 || node.types[0].elements() == 0) return std::nullopt;
  if (!multiplies(x.dtype) || !multiplies(k.dtype) || !multiplies(node.types[0].dtype)) return std::nullopt;
  const auto shape = ops::ConvolutionShape::from(node.attrs, x.dims, k.dims);
  return shape ? std::optional(*shape) : std::nullopt;
}

}  // namespace

// Images cut into patches: each is a row, the channels and taps of the kernel its columns.
ir::Replacement convolve_patches(ir::Graph& graph, const ir::Node& node) {
  const auto shape = shape_of(node);
  if (!shape || can_shift(node) || shape->feature_groups != 1 || shape->batch_groups != 1) return {};
  // Windows side by side, of more than one element: then an image is cut without copies.
  const auto overlaps = [](const ops::WindowDim& w) {
    return w.low || w.high || w.base_dilation != 1 || w.window_dilation != 1 || w.stride != w.size || w.is_reversed;
  };
  if (std::any_of(shape->windows.begin(), shape->windows.end(), overlaps)) return {};
  const auto one = [](const ops::WindowDim& w) { return w.size == 1; };
  if (std::all_of(shape->windows.begin(), shape->windows.end(), one)) return {};
  ops::Make make(graph, node.where);
  const Dims &out = node.types[0].dims, &x = node.inputs[0].type().dims;
  const size_t rank = x.size(), spatial = shape->windows.size();
  // Whole windows alone, and each spatial dim as [window, position]; where the dims are then.
  Dims begin(rank, 0), end = x;
  for (size_t s = 0; s < spatial; ++s)
    end[size_t(shape->input_spatial[s])] = out[size_t(shape->output_spatial[s])] * shape->windows[s].size;
  Dims cut;
  std::vector<int64_t> at(rank);
  for (size_t d = 0; d < rank; ++d) {
    at[d] = int64_t(cut.size());
    const auto s = std::find(shape->input_spatial.begin(), shape->input_spatial.end(), int64_t(d));
    if (s == shape->input_spatial.end()) {
      cut.push_back(x[d]);
    } else {
      const int64_t size = shape->windows[size_t(s - shape->input_spatial.begin())].size;
      cut.insert(cut.end(), {end[d] / size, size});
    }
  }
  const auto position = [&](int64_t d) { return at[size_t(d)]; };
  // Rows [batch, windows], columns in the order that the image has them, and the kernel's in the same.
  ir::Ints permutation = {position(shape->input_batch)}, kernel_permutation;
  Dims made = {x[size_t(shape->input_batch)]};
  std::vector<std::pair<int64_t, int64_t>> columns = {{position(shape->input_feature), shape->kernel_input_feature}};
  for (size_t s = 0; s < spatial; ++s) {
    permutation.push_back(position(shape->input_spatial[s]));
    made.push_back(out[size_t(shape->output_spatial[s])]);
    columns.emplace_back(position(shape->input_spatial[s]) + 1, shape->kernel_spatial[s]);
  }
  std::sort(columns.begin(), columns.end());
  for (const auto& [from, kernel] : columns) permutation.push_back(from), kernel_permutation.push_back(kernel);
  kernel_permutation.push_back(shape->kernel_output_feature);
  const int64_t features = out[size_t(shape->output_feature)], rows = node.types[0].elements() / features,
                depth = node.inputs[1].type().elements() / features;
  const Value patches = make.reshape(
      make.transpose(make.reshape(make.slice(node.inputs[0], begin, end), cut), permutation), {rows, depth});
  const Value weights = make.reshape(make.transpose(node.inputs[1], kernel_permutation), {depth, features});
  const Value product = make.own(op::dot_general, {patches, weights}, {node.types[0].dtype, {rows, features}},
                                 {{"lhs_batch", ir::Ints{}},
                                  {"rhs_batch", ir::Ints{}},
                                  {"lhs_contract", ir::Ints{1}},
                                  {"rhs_contract", ir::Ints{0}}});
  made.push_back(features);
  ir::Ints back(rank);
  back[size_t(shape->output_batch)] = 0;
  for (size_t s = 0; s < spatial; ++s) back[size_t(shape->output_spatial[s])] = int64_t(s) + 1;
  back[size_t(shape->output_feature)] = int64_t(spatial) + 1;
  return {make.transpose(make.reshape(product, made), back)};
}

// Of few channels that lie first: rows that a window's own rows see are channels besides, and columns where those are
// too few still. Rows stay whole, and the tensor engine has that many more of its own to fill.
ir::Replacement rows_as_channels(ir::Graph& graph, const ir::Node& node) {
  constexpr int64_t kEnough = 16;  // what can_shift asks for
  const auto shape = shape_of(node);
  const Value &x = node.inputs[0], &kernel = node.inputs[1];
  if (!shape || can_shift(node) || shape->feature_groups != 1 || shape->batch_groups != 1) return {};
  if (shape->input_batch != 0 || shape->input_feature != 1 || shape->input_spatial != ir::Ints{2, 3}) return {};
  const auto unusual = [](const ops::WindowDim& w) {
    return w.low < 0 || w.high < 0 || w.base_dilation != 1 || w.is_reversed;
  };
  if (std::any_of(shape->windows.begin(), shape->windows.end(), unusual)) return {};
  const ops::WindowDim &high = shape->windows[0], &wide = shape->windows[1];
  const int64_t channels = x.type().dims[1];
  const bool rows_do = channels * high.size >= kEnough;
  const int64_t taps = high.size * (rows_do ? 1 : wide.size);
  if (channels >= kEnough || taps < 2 || channels * taps < kEnough || channels * taps > kLanes) return {};
  ops::Make make(graph, node.where);
  const Value padded =
      make.pad(x, make.number(x.type().dtype, 0), {0, 0, high.low, wide.low}, {0, 0, high.high, wide.high});
  const Dims &all = padded.type().dims, &out = node.types[0].dims;
  const int64_t rows = out[size_t(shape->output_spatial[0])], columns = out[size_t(shape->output_spatial[1])];
  ops::Values parts;
  for (int64_t tap = 0; tap < taps; ++tap) {
    const int64_t row = (rows_do ? tap : tap / wide.size) * high.window_dilation;
    const int64_t column = rows_do ? 0 : tap % wide.size * wide.window_dilation;
    const int64_t last = rows_do ? all[3] : column + (columns - 1) * wide.stride + 1;
    parts.push_back(make.slice(padded, {0, 0, row, column}, {all[0], all[1], row + (rows - 1) * high.stride + 1, last},
                               {1, 1, high.stride, rows_do ? 1 : wide.stride}));
  }
  // The kernel as [output, (rows, columns where they are taken, channels), 1, columns that are left].
  const Value transposed = make.transpose(kernel, {shape->kernel_output_feature, shape->kernel_spatial[0],
                                                   shape->kernel_spatial[1], shape->kernel_input_feature});
  const int64_t features = transposed.type().dims[0];
  const Value weights =
      rows_do ? make.reshape(make.transpose(transposed, {0, 1, 3, 2}), {features, taps * channels, 1, wide.size})
              : make.reshape(transposed, {features, taps * channels, 1, 1});
  ir::Attrs attrs = node.attrs;
  attrs.set("window_strides", ir::Ints{1, rows_do ? wide.stride : 1});
  attrs.set("padding", ir::Ints{0, 0, 0, 0});
  attrs.set("rhs_dilation", ir::Ints{1, rows_do ? wide.window_dilation : 1});
  attrs.set("kernel_output_feature", int64_t{0});
  attrs.set("kernel_input_feature", int64_t{1});
  attrs.set("kernel_spatial", ir::Ints{2, 3});
  return {make.op(op::convolution, {make.concat(parts, int64_t{1}), weights}, attrs, node.types)};
}

// Sound and other lines as images one pixel wide, where bands of rows are brought in: a line that does not fit on the
// chip is then read once, not once for each tap.
ir::Replacement line_as_image(ir::Graph& graph, const ir::Node& node) {
  const auto shape = shape_of(node);
  if (!shape || shape->windows.size() != 1 || shape->feature_groups != 1 || shape->batch_groups != 1) return {};
  const ops::WindowDim& w = shape->windows[0];
  if (w.low < 0 || w.high < 0 || w.base_dilation != 1 || w.size == 1) return {};
  if (shape->input_batch != 0 || shape->output_batch != 0) return {};
  if (node.inputs[0].type().dims[size_t(shape->input_feature)] < tuned::kChannelsLeast) return {};
  ops::Make make(graph, node.where);
  const auto widened = [](Dims dims, int64_t spatial) {
    dims.insert(dims.begin() + spatial + 1, 1);
    return dims;
  };
  const auto image = [&](const Value& v, int64_t spatial) { return make.reshape(v, widened(v.type().dims, spatial)); };
  ir::Attrs attrs = node.attrs;
  const auto add_side = [&](const std::string& side, const std::string& outer, const std::string& inner) {
    const int64_t spatial = attrs.ints(side + "_spatial")[0];
    for (const std::string& name : {side + outer, side + inner})
      if (const int64_t at = attrs.integer(name); at > spatial) attrs.set(name, at + 1);
    attrs.set(side + "_spatial", ir::Ints{spatial, spatial + 1});
    return spatial;
  };
  const int64_t in = add_side("input", "_batch", "_feature"), out = add_side("output", "_batch", "_feature"),
                kernel = add_side("kernel", "_input_feature", "_output_feature");
  attrs.set("window_strides", ir::Ints{w.stride, 1});
  attrs.set("padding", ir::Ints{w.low, w.high, 0, 0});
  attrs.set("lhs_dilation", ir::Ints{1, 1});
  attrs.set("rhs_dilation", ir::Ints{w.window_dilation, 1});
  attrs.set("window_reversal", ir::Ints{w.is_reversed, 0});
  const ir::Type type = ir::tensor_type(node.types[0].dtype, widened(node.types[0].dims, out));
  const Value made =
      make.op(op::convolution, {image(node.inputs[0], in), image(node.inputs[1], kernel)}, attrs, {type});
  return {make.reshape(made, node.types[0].dims)};
}

// Of three spatial dims the first: planes that a window's own planes see are channels besides, and each plane made is
// an image.
ir::Replacement planes_as_channels(ir::Graph& graph, const ir::Node& node) {
  const auto shape = shape_of(node);
  if (!shape || shape->windows.size() != 3 || shape->feature_groups != 1 || shape->batch_groups != 1) return {};
  const ops::WindowDim& deep = shape->windows[0];
  if (deep.low < 0 || deep.high < 0 || deep.base_dilation != 1 || deep.is_reversed) return {};
  const auto order = [](int64_t batch, int64_t feature, const ir::Ints& spatial) {
    ir::Ints out = {batch, spatial[0], spatial[1], spatial[2]};
    out.insert(feature < spatial[0] ? out.begin() + 2 : out.end(), feature);
    return out;  // planes beside the images, channels as far out as they are
  };
  // Channels stay before or after the rows and columns, as they lie: to move them would be a transpose more.
  const bool first_in = shape->input_feature < shape->input_spatial[0],
             first_out = shape->output_feature < shape->output_spatial[0];
  ops::Make make(graph, node.where);
  const Value transposed =
      make.transpose(node.inputs[0], order(shape->input_batch, shape->input_feature, shape->input_spatial));
  // Padding of planes is done here, since the convolution that is left has two spatial dims.
  const Dims none(5, 0);
  Dims low = none, high = none;
  low[1] = deep.low, high[1] = deep.high;
  const Value padded = make.pad(transposed, make.number(transposed.type().dtype, 0), low, high);
  const int64_t planes = node.types[0].dims[size_t(shape->output_spatial[0])], channel = first_in ? 2 : 4;
  ops::Values parts;
  // Each plane of the window is a slice; side by side along the channels the multiply sums them all.
  for (int64_t tap = 0; tap < deep.size; ++tap) {
    Dims begin = none, end = padded.type().dims, step(5, 1);
    begin[1] = tap * deep.window_dilation, step[1] = deep.stride;
    end[1] = begin[1] + (planes - 1) * deep.stride + 1;
    parts.push_back(make.slice(padded, begin, end, step));
  }
  const auto flat = [](const Dims& d) { return Dims{d[0] * d[1], d[2], d[3], d[4]}; };
  const Value stacked = make.concat(parts, channel);
  const Value images = make.reshape(stacked, flat(stacked.type().dims));
  // The kernel as [rows, columns, (planes, channels), outputs].
  const Value kernel =
      make.transpose(node.inputs[1], {shape->kernel_spatial[1], shape->kernel_spatial[2], shape->kernel_spatial[0],
                                      shape->kernel_input_feature, shape->kernel_output_feature});
  const Dims& k = kernel.type().dims;
  const Value weights = make.reshape(kernel, {k[0], k[1], k[2] * k[3], k[4]});
  ir::Attrs attrs = node.attrs;
  // The same convolution over the two dims that are left.
  const auto two = [&](const char* name, size_t each) {
    const ir::Ints all = attrs.ints(name);
    if (all.size() == 3 * each) attrs.set(name, ir::Ints(all.begin() + int64_t(each), all.end()));
  };
  for (const char* name : {"window_strides", "lhs_dilation", "rhs_dilation", "window_reversal"}) two(name, 1);
  two("padding", 2);
  const auto add_side = [&](const std::string& side, bool first) {
    attrs.set(side + "_batch", int64_t{0});
    attrs.set(side + "_feature", int64_t{first ? 1 : 3});
    attrs.set(side + "_spatial", first ? ir::Ints{2, 3} : ir::Ints{1, 2});
  };
  add_side("input", first_in);
  add_side("output", first_out);
  attrs.set("kernel_spatial", ir::Ints{0, 1});
  attrs.set("kernel_input_feature", int64_t{2});
  attrs.set("kernel_output_feature", int64_t{3});
  // Its result as [images, planes], which are split again, and back in the order of the node.
  const ir::Ints to = order(shape->output_batch, shape->output_feature, shape->output_spatial);
  Dims made;
  for (int64_t d : to) made.push_back(node.types[0].dims[size_t(d)]);
  const Value out =
      make.op(op::convolution, {images, weights}, attrs, {ir::tensor_type(node.types[0].dtype, flat(made))});
  ir::Ints back(5);
  for (size_t i = 0; i < 5; ++i) back[size_t(to[i])] = int64_t(i);
  return {make.transpose(make.reshape(out, made), back)};
}

// The gradient of a kernel whose images have their channels first: images are summed over and channels taken one by
// one, so with channels last each pixel is a row of them.
ir::Replacement kernel_gradient_last(ir::Graph& graph, const ir::Node& node) {
  const auto shape = shape_of(node);
  if (!shape || shape->windows.size() != 2 || shape->feature_groups != 1 || shape->batch_groups != 1) return {};
  const ir::Ints after = {2, 3};
  if (shape->input_feature != 0 || shape->input_batch != 1 || shape->input_spatial != after ||
      shape->kernel_input_feature != 0 || shape->kernel_output_feature != 1 || shape->kernel_spatial != after)
    return {};
  const auto taps = [&](size_t s) { return node.types[0].dims[size_t(shape->output_spatial[s])]; };
  if (taps(0) * taps(1) == 1) return {};  // a multiply over pixels as they lie
  ops::Make make(graph, node.where);
  const ir::Ints last = {0, 2, 3, 1};
  ir::Attrs attrs = node.attrs;
  for (const char* name : {"input_spatial", "kernel_spatial"}) attrs.set(name, ir::Ints{1, 2});
  for (const char* name : {"input_batch", "kernel_output_feature", "output_feature"}) attrs.set(name, int64_t{3});
  attrs.set("output_spatial", ir::Ints{0, 1});
  attrs.set("output_batch", int64_t{2});
  const ir::Ints made = {shape->output_spatial[0], shape->output_spatial[1], shape->output_batch,
                         shape->output_feature};
  Dims dims;
  ir::Ints back(4);
  for (size_t i = 0; i < 4; ++i) {
    dims.push_back(node.types[0].dims[size_t(made[i])]);
    back[size_t(made[i])] = int64_t(i);
  }
  const Value out =
      make.op(op::convolution, {make.transpose(node.inputs[0], last), make.transpose(node.inputs[1], last)}, attrs,
              {ir::tensor_type(node.types[0].dtype, dims)});
  return {make.transpose(out, back)};
}

// As many groups as fill the rows of the tensor engine are one, each output's weights zero but for its own group.
ir::Replacement groups_together(ir::Graph& graph, const ir::Node& node) {
  const auto shape = shape_of(node);
  if (!shape || shape->feature_groups < 2 || shape->batch_groups != 1) return {};
  const Value &x = node.inputs[0], &kernel = node.inputs[1];
  const Dims& k = kernel.type().dims;
  const auto in_dim = size_t(shape->kernel_input_feature), out_dim = size_t(shape->kernel_output_feature);
  const int64_t groups = shape->feature_groups, in = k[in_dim], out = k[out_dim] / groups;
  int64_t many = std::min(groups, kLanes / in);
  while (many > 1 && groups % many) --many;
  if (in == 1 || many < 2) return {};
  ops::Make make(graph, node.where);
  Dims apart = k, wide = k;
  apart.insert(apart.begin() + int64_t(in_dim), many);
  wide[in_dim] = many * in;
  ir::Ints to;
  for (size_t d = 0; d < apart.size(); ++d)
    if (d != in_dim) to.push_back(int64_t(d));
  const Value repeated = make.reshape(make.broadcast(kernel, apart, to), wide);
  const Dims both = {many, in, groups / many, many, out};
  const Value own = make.reshape(make.compare(make.iota(Dtype::s32, both, 0), make.iota(Dtype::s32, both, 3), "EQ"),
                                 {many * in, groups * out});
  const Value mask = make.broadcast(own, wide, {int64_t(in_dim), int64_t(out_dim)});
  const Value weights = make.op(op::select, {mask, repeated, make.number(kernel.type().dtype, 0, wide)});
  ir::Attrs attrs = node.attrs;
  attrs.set("feature_group_count", int64_t{1});
  const int64_t parts = groups / many;
  ops::Values made;
  for (int64_t p = 0; p < parts; ++p) {
    const Value channels = make.slice_dim(x, size_t(shape->input_feature), p * many * in, (p + 1) * many * in);
    const Value own_weights = make.slice_dim(weights, out_dim, p * many * out, (p + 1) * many * out);
    ir::Type type = node.types[0];
    type.dims[size_t(shape->output_feature)] = many * out;
    made.push_back(make.op(op::convolution, {channels, own_weights}, attrs, {type}));
  }
  if (parts == 1) return {made[0]};
  return {make.concat(made, shape->output_feature)};
}

}  // namespace trine::compile::device
