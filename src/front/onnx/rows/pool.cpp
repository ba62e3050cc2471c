// Pools over windows and over whole images.
#include <algorithm>
#include <cmath>

#include "base/text.h"
#include "front/onnx/window.h"
#include "ir/op_ids.h"

namespace trine::front::onnx {

namespace {

constexpr int64_t kCountsMax = int64_t{1} << 24;  // of divisors written into the graph

Result<Window> pool_window(Call& c) {
  if (rank(c.in[0]) < 3)
    return fail(Code::invalid, cat("of ", ir::text(c.in[0].type()), "; expected batch, channels and an image"));
  return window_of(c, dims(c.in[0]), {});
}

Attrs pool_attrs(const Window& w, std::string_view kind) {
  const auto whole = [](const Ints& of) {
    Ints out = {1, 1};
    out.insert(out.end(), of.begin(), of.end());
    return out;
  };
  Ints padding(4, 0);
  for (size_t d = 0; d < w.low.size(); ++d) padding.insert(padding.end(), {w.low[d], w.high[d]});
  Attrs out = {{"window_dimensions", whole(w.kernel)},
               {"window_strides", whole(w.strides)},
               {"base_dilations", Ints(w.kernel.size() + 2, 1)},
               {"window_dilations", whole(w.dilations)},
               {"padding", padding}};
  if (!kind.empty()) out.set("kind", std::string(kind));
  return out;
}

Made pool(Call& c, Value x, const Window& w, std::string_view kind) {
  return c.b.op(op::reduce_window, {x, TRY(c.b.identity(kind, dtype(x)))}, pool_attrs(w, kind));
}

// Indices are counted in the whole tensor, or with the spatial dims column by column.
Made flat_indices(Build& b, const Dims& of, bool by_column) {
  Dims strides = row_major_strides(of);
  if (by_column) {
    int64_t step = 1;
    for (size_t d = 2; d < of.size(); step *= std::max<int64_t>(of[d++], 1)) strides[d] = step;
  }
  Value out = TRY(b.number(Dtype::s64, 0, of));
  for (size_t d = 0; d < of.size(); ++d) {
    const Value at = TRY(b.iota(Dtype::s64, of, int(d)));
    out = TRY(b.binary(op::add, out, TRY(b.binary(op::multiply, at, b.integer(strides[d])))));
  }
  return out;
}

Made max_indices(Call& c, const Window& w) {
  const Value x = c.in[0];
  ir::Region region;
  for (Dtype d : {dtype(x), Dtype::s64, dtype(x), Dtype::s64})
    region.params.push_back(c.b.graph.parameter(ir::tensor_type(d, {})));
  const auto& p = region.params;
  const Value later =
      TRY(c.b.binary(op::or_, TRY(c.b.compare(p[2], p[0], "GT")), TRY(c.b.compare_number(p[1], 0, "LT"))));
  region.results = {TRY(c.b.select(later, p[2], p[0])), TRY(c.b.select(later, p[3], p[1]))};
  const Value indices = TRY(flat_indices(c.b, dims(x), c.integer("storage_order", 0) != 0));
  const ir::Node* node = TRY(c.b.node({.op = op::reduce_window,
                                       .inputs = {x, indices, TRY(c.b.identity("maximum", dtype(x))), c.b.integer(-1)},
                                       .attrs = pool_attrs(w, {}),
                                       .regions = {std::move(region)}}));
  return node->result(1);
}

Lowered max_pool(Call& c) {
  const Window w = TRY(pool_window(c));
  Values out = {TRY(pool(c, c.in[0], w, "maximum"))};
  if (c.wants(1)) out.push_back(TRY(max_indices(c, w)));
  return out;
}

// How many elements of the image (or of it and its padding) each position of the window covers, in one dim.
Ints covered(const Window& w, size_t d, int64_t size, int64_t low, int64_t high) {
  Ints out;
  for (int64_t i = 0; i < w.result[d]; ++i) {
    int64_t count = 0;
    for (int64_t k = 0; k < w.kernel[d]; ++k) {
      const int64_t at = i * w.strides[d] - w.low[d] + k * w.dilations[d];
      count += at >= -low && at < size + high;
    }
    out.push_back(std::max<int64_t>(count, 1));
  }
  return out;
}

Lowered average_pool(Call& c) {
  const Window w = TRY(pool_window(c));
  const size_t n = w.kernel.size();
  const bool with_padding = c.integer("count_include_pad", 0) != 0;
  Value x = TRY(c.b.widen(c.in[0]));
  Value sum = TRY(pool(c, x, w, "add"));
  double all = 1;
  for (size_t d = 0; d < n; ++d) {
    if (w.result[d] > kCountsMax / w.kernel[d])
      return fail(Code::out_of_range, cat("windows of ", w.kernel[d], " at ", w.result[d], " positions"));
    // Positions added by ceil_mode reach past the padding; what is there never counts.
    const int64_t low = with_padding ? w.low[d] : 0, high = with_padding ? w.high[d] - w.spill[d] : 0;
    const Ints counts = covered(w, d, dims(x)[d + 2], low, high);
    if (std::all_of(counts.begin(), counts.end(), [&](int64_t k) { return k == w.kernel[d]; })) {
      all *= double(w.kernel[d]);
      continue;
    }
    const Value divisor = TRY(c.b.convert(c.b.integers(counts), dtype(x)));
    sum = TRY(c.b.binary(op::divide, sum, TRY(c.b.broadcast(divisor, dims(sum), {int64_t(d) + 2}))));
  }
  return one(c.b.convert(TRY(c.b.with_number(op::divide, sum, all)), dtype(c.in[0])));
}

// (sum |x|^p)^(1/p)
Made to_power(Build& b, Value x, int64_t p) {
  const Value size = TRY(b.unary(op::abs, x));
  return p == 1 ? Made(size) : p == 2 ? b.binary(op::multiply, x, x) : b.with_number(op::power, size, double(p));
}
Made root(Build& b, Value x, int64_t p) {
  return p == 1 ? Made(x) : p == 2 ? b.unary(op::sqrt, x) : b.with_number(op::power, x, 1.0 / double(p));
}

Lowered lp_pool(Call& c) {
  const int64_t p = c.integer("p", 2);
  const Window w = TRY(pool_window(c));
  return one(root(c.b, TRY(pool(c, TRY(to_power(c.b, c.in[0], p)), w, "add")), p));
}

Result<Ints> spatial(Call& c) {
  if (rank(c.in[0]) < 2)
    return fail(Code::invalid, cat("of ", ir::text(c.in[0].type()), "; expected batch, channels and an image"));
  return count_up(2, rank(c.in[0]));
}

Lowered global_average_pool(Call& c) {
  const Value x = TRY(c.b.widen(c.in[0]));
  return one(c.b.convert(TRY(c.b.mean(x, TRY(spatial(c)), true)), dtype(c.in[0])));
}
Lowered global_max_pool(Call& c) { return one(c.b.reduce(c.in[0], "maximum", TRY(spatial(c)), true)); }
Lowered global_lp_pool(Call& c) {
  const int64_t p = c.integer("p", 2);
  return one(root(c.b, TRY(c.b.reduce(TRY(to_power(c.b, c.in[0], p)), "add", TRY(spatial(c)), true)), p));
}

// Each element goes back to its index, counted in the image that was pooled; elsewhere is zero.
Lowered max_unpool(Call& c) {
  const Value x = c.in[0];
  if (rank(x) < 3 || dims(c.in[1]) != dims(x))
    return fail(Code::invalid, cat("places of ", ir::text(c.in[1].type()), " for ", ir::text(x.type())));
  const size_t n = dims(x).size() - 2;
  const Ints kernel = c.ints("kernel_shape"), pads = c.find("pads") ? c.ints("pads") : Ints(2 * n, 0);
  const Ints strides = c.find("strides") ? c.ints("strides") : Ints(n, 1);
  if (kernel.size() != n || strides.size() != n || pads.size() != 2 * n)
    return fail(Code::invalid, "kernel_shape, strides or pads of another rank");
  Dims pooled = {dims(x)[0], dims(x)[1]};
  for (size_t d = 0; d < n; ++d) {
    for (int64_t v : {kernel[d], strides[d], pads[d], pads[d + n], dims(x)[d + 2]})
      if (v < 0 || v > (int64_t{1} << 30)) return fail(Code::invalid, cat("a window of ", v));
    pooled.push_back((dims(x)[d + 2] - 1) * strides[d] + kernel[d] - pads[d] - pads[d + n]);
  }
  const Dims to = c.has(2) ? TRY(c.need_ints(2, "output_shape")) : pooled;
  const ir::Type type = ir::tensor_type(dtype(x), to), small = ir::tensor_type(dtype(x), pooled);
  if (to.size() != pooled.size() || !ir::is_countable(type) || !ir::is_countable(small))
    return fail(Code::invalid, cat("into ", ir::text(type)));
  const int64_t count = x.type().elements();
  const Value zeros = TRY(c.b.number(dtype(x), 0, {small.elements()}));
  const Value flat =
      TRY(c.b.op(op::scatter, {zeros, TRY(c.b.reshape(c.in[1], {count, 1})), TRY(c.b.reshape(x, {count}))},
                 {{"update_window_dims", Ints{}},
                  {"inserted_window_dims", Ints{0}},
                  {"input_batching_dims", Ints{}},
                  {"scatter_indices_batching_dims", Ints{}},
                  {"scatter_dims_to_operand_dims", Ints{0}},
                  {"index_vector_dim", int64_t{1}},
                  {"indices_are_sorted", false},
                  {"unique_indices", false},
                  {"kind", std::string("set")}}));
  const Value image = TRY(c.b.reshape(flat, pooled));
  Ints more;
  for (size_t d = 0; d < to.size(); ++d) more.push_back(to[d] - pooled[d]);
  return one(c.b.pad(image, 0, Ints(to.size(), 0), more));
}

const Row kRows[] = {
    {"AveragePool", 1, 1, 1, average_pool},
    {"GlobalAveragePool", 1, 1, 1, global_average_pool},
    {"GlobalLpPool", 2, 1, 1, global_lp_pool},
    {"GlobalMaxPool", 1, 1, 1, global_max_pool},
    {"LpPool", 2, 1, 1, lp_pool},
    {"MaxPool", 1, 1, 1, max_pool},
    {"MaxUnpool", 9, 2, 3, max_unpool},
};

}  // namespace

std::span<const Row> rows_pool() { return kRows; }

}  // namespace trine::front::onnx
