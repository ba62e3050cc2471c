// Convolutions, plain and transposed, and the window they slide.
#include <algorithm>
#include <numeric>

#include "base/text.h"
#include "front/onnx/window.h"
#include "ir/op_ids.h"

namespace trine::front::onnx {

namespace {

constexpr int64_t kGeometryMax = int64_t{1} << 31;  // of a stride, a dilation, a pad

Result<Ints> geometry(Call& c, std::string_view name, size_t count, int64_t otherwise, int64_t low) {
  Ints out = c.find(name) != nullptr ? c.ints(name) : Ints(count, otherwise);
  if (out.size() != count) return fail(Code::invalid, cat("found ", out.size(), " ", name, "; expected ", count));
  for (int64_t v : out)
    if (v < low || v > kGeometryMax) return fail(Code::invalid, cat(name, " of ", v));
  return out;
}

// Padding that keeps ceil(size / stride) positions; the odd one goes after in SAME_UPPER.
void pad_same(Window& w, size_t d, int64_t size, bool upper) {
  w.result[d] = (size + w.strides[d] - 1) / w.strides[d];
  const int64_t reach = (w.kernel[d] - 1) * w.dilations[d] + 1;
  const int64_t all = std::max<int64_t>((w.result[d] - 1) * w.strides[d] + reach - size, 0);
  w.low[d] = upper ? all / 2 : all - all / 2;
  w.high[d] = all - w.low[d];
}

Result<Ints> kernel_of(Call& c, size_t n, Ints kernel) {
  if (kernel.empty()) return geometry(c, "kernel_shape", n, 0, 1);
  if (c.find("kernel_shape") != nullptr && c.ints("kernel_shape") != kernel)
    return fail(Code::invalid, cat("kernel_shape ", ir::text(ir::Attr(c.ints("kernel_shape"))), " of a kernel of ",
                                   ir::text(ir::Attr(kernel))));
  for (int64_t k : kernel)
    if (k < 1 || k > kGeometryMax) return fail(Code::invalid, cat("a kernel of ", k));
  return kernel;
}

Made with_bias(Call& c, Value y, Value bias) { return c.b.binary(op::add, y, TRY(c.b.broadcast(bias, dims(y), {1}))); }

Result<void> check_image(Value x, Value w) {
  if (rank(x) < 3 || rank(w) != rank(x) || dtype(x) != dtype(w))
    return fail(Code::invalid, cat("an image of ", ir::text(x.type()), " and a kernel of ", ir::text(w.type())));
  return {};
}

Attrs conv_attrs(const Window& w, bool transposed, int64_t groups) {
  const size_t n = w.kernel.size();
  Ints padding;
  for (size_t d = 0; d < n; ++d) padding.insert(padding.end(), {w.low[d], w.high[d]});
  const Ints spatial = count_up(2, int64_t(n) + 2);
  return {{"input_batch", int64_t{0}},
          {"input_feature", int64_t{1}},
          {"input_spatial", spatial},
          {"kernel_input_feature", int64_t(!transposed)},
          {"kernel_output_feature", int64_t(transposed)},
          {"kernel_spatial", spatial},
          {"output_batch", int64_t{0}},
          {"output_feature", int64_t{1}},
          {"output_spatial", spatial},
          {"window_strides", transposed ? Ints(n, 1) : w.strides},
          {"padding", padding},
          {"lhs_dilation", transposed ? w.strides : Ints(n, 1)},
          {"rhs_dilation", w.dilations},
          {"window_reversal", Ints(n, transposed)},
          {"feature_group_count", groups},
          {"batch_group_count", int64_t{1}},
          {"precision", ir::Strings{"DEFAULT", "DEFAULT"}}};
}

}  // namespace

Result<Window> window_of(Call& c, const Dims& image, Ints kernel) {
  const size_t n = image.size() - 2;
  const std::string_view automatic = c.text("auto_pad", "NOTSET");
  Window w{.low = Ints(n, 0), .high = Ints(n, 0), .spill = Ints(n, 0), .result = Dims(n, 0)};
  w.kernel = TRY(kernel_of(c, n, std::move(kernel)));
  w.strides = TRY(geometry(c, "strides", n, 1, 1));
  w.dilations = TRY(geometry(c, "dilations", n, 1, 1));
  const Ints pads = automatic == "NOTSET" || automatic.empty() ? TRY(geometry(c, "pads", 2 * n, 0, 0)) : Ints(2 * n, 0);
  const bool same = automatic.starts_with("SAME_");
  if (!same && automatic != "NOTSET" && automatic != "VALID" && !automatic.empty())
    return fail(Code::invalid, cat("auto_pad `", automatic, "`; expected NOTSET, SAME_UPPER, SAME_LOWER or VALID"));
  const bool ceil = c.integer("ceil_mode", 0) != 0;
  for (size_t d = 0; d < n; ++d) {
    const int64_t size = image[d + 2];
    if (w.dilations[d] * w.kernel[d] > (int64_t{1} << 46)) return fail(Code::invalid, "a window too large");
    if (same) {
      pad_same(w, d, size, automatic == "SAME_UPPER");
      continue;
    }
    w.low[d] = pads[d];
    w.high[d] = pads[d + n];
    const int64_t reach = (w.kernel[d] - 1) * w.dilations[d] + 1, room = size + w.low[d] + w.high[d] - reach;
    if (room < 0)
      return fail(Code::invalid, cat("a window of ", reach, " in dim ", d + 2, " of size ", size, " with padding ",
                                     w.low[d], " and ", w.high[d]));
    w.result[d] = room / w.strides[d] + 1;
    // One more position, where the window begins inside the image or the padding before it.
    if (ceil && room % w.strides[d] != 0 && w.result[d] * w.strides[d] < size + w.low[d]) {
      w.spill[d] = w.result[d] * w.strides[d] - room;
      w.high[d] += w.spill[d];
      ++w.result[d];
    }
  }
  return w;
}

Made convolve(Call& c, Value x, Value w, Dtype result) {
  TRY(check_image(x, w));
  const Window window = TRY(window_of(c, dims(x), Ints(dims(w).begin() + 2, dims(w).end())));
  Dims to = {dims(x)[0], dims(w)[0]};
  to.insert(to.end(), window.result.begin(), window.result.end());
  return c.b.op(op::convolution, {x, w}, conv_attrs(window, false, c.integer("group", 1)),
                {ir::tensor_type(result, to)});
}

namespace {

Lowered conv(Call& c) {
  const Value y = TRY(convolve(c, c.in[0], c.in[1], dtype(c.in[0])));
  return c.has(2) ? one(with_bias(c, y, c.in[2])) : Values{y};
}

// The image is spread by the stride and convolved with the kernel reversed.
Result<Window> enlarged(Call& c, const Dims& image, const Ints& kernel) {
  const size_t n = kernel.size();
  Window w{.kernel = TRY(kernel_of(c, n, kernel)), .low = Ints(n, 0), .high = Ints(n, 0), .result = Dims(n, 0)};
  w.strides = TRY(geometry(c, "strides", n, 1, 1));
  w.dilations = TRY(geometry(c, "dilations", n, 1, 1));
  const Ints pads = TRY(geometry(c, "pads", 2 * n, 0, 0)), extra = TRY(geometry(c, "output_padding", n, 0, 0));
  Ints wanted = c.ints("output_shape");
  if (wanted.size() == n + 2) wanted.erase(wanted.begin(), wanted.begin() + 2);
  if (!wanted.empty() && wanted.size() != n)
    return fail(Code::invalid, cat("an output_shape of ", wanted.size(), " sizes"));
  const std::string_view automatic = c.text("auto_pad", "NOTSET");
  for (size_t d = 0; d < n; ++d) {
    if (w.dilations[d] * w.kernel[d] > (int64_t{1} << 46) || image[d + 2] > kGeometryMax)
      return fail(Code::invalid, "a window too large");
    const int64_t reach = (w.kernel[d] - 1) * w.dilations[d] + 1;
    int64_t low = pads[d], high = pads[d + n];
    const bool same = automatic.starts_with("SAME_");
    if (!wanted.empty() || same) {
      const int64_t size = !wanted.empty() ? wanted[d] : image[d + 2] * w.strides[d];
      if (size < 0 || size > (int64_t{1} << 46)) return fail(Code::invalid, cat("an output_shape of ", size));
      const int64_t all = w.strides[d] * (image[d + 2] - 1) + extra[d] + reach - size;
      low = automatic == "SAME_UPPER" || automatic == "NOTSET" ? all / 2 : all - all / 2;
      high = all - low;
    }
    w.low[d] = reach - 1 - low;
    w.high[d] = reach - 1 - high + extra[d];
  }
  return w;
}

Lowered conv_transpose(Call& c) {
  const Value x = c.in[0];
  Value w = c.in[1];
  TRY(check_image(x, w));
  const int64_t groups = c.integer("group", 1), channels = dims(w)[0], each = dims(w)[1];
  if (groups < 1 || channels % groups != 0 || each > (int64_t{1} << 31) || groups > (int64_t{1} << 31))
    return fail(Code::invalid, cat("a kernel of ", ir::text(w.type()), " in ", groups, " groups"));
  const Ints kernel(dims(w).begin() + 2, dims(w).end());
  if (groups > 1) {  // [g * c, m, ...] to [c, g * m, ...]
    Dims apart = {groups, channels / groups, each}, joined = {channels / groups, groups * each};
    apart.insert(apart.end(), kernel.begin(), kernel.end());
    joined.insert(joined.end(), kernel.begin(), kernel.end());
    Ints order = count_up(0, int64_t(apart.size()));
    std::swap(order[0], order[1]);
    w = TRY(c.b.reshape(TRY(c.b.transpose(TRY(c.b.reshape(w, apart)), order)), joined));
  }
  const Window around = TRY(enlarged(c, dims(x), kernel));
  const Value y = TRY(c.b.op(op::convolution, {x, w}, conv_attrs(around, true, groups)));
  return c.has(2) ? one(with_bias(c, y, c.in[2])) : Values{y};
}

const Row kRows[] = {
    {"Conv", 1, 2, 3, conv},
    {"ConvTranspose", 1, 2, 3, conv_transpose},
};

}  // namespace

std::span<const Row> rows_conv() { return kRows; }

}  // namespace trine::front::onnx
