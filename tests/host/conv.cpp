// Convolutions of random shape, layout, stride, dilation, padding, grouping and dtype against the formula in conv.h,
// summed in f64 or wrapping integers; then layers of ResNet-50 and their gradients by shape.
#include "host/conv/conv.h"

#include <numeric>
#include <string>

#include "base/pool.h"
#include "base/text.h"
#include "tests/host/matrices.h"
#include "tests/testing.h"

using namespace trine;
using namespace trine::host;

namespace {

struct Random {
  uint64_t seed, index = 0;
  int64_t below(int64_t n) { return int64_t(random_at(seed, index++) % uint64_t(n)); }
  int64_t between(int64_t low, int64_t high) { return low + below(high - low + 1); }
};

// Five dimensions (batch or output feature, feature, space) in memory of their own, in the order given.
struct Tensor5 {
  std::array<int64_t, 5> dims = {}, strides = {};
  Held held = {};

  Tensor5(Dtype dtype, std::array<int64_t, 5> sizes, const std::array<int, 5>& order, uint64_t seed) : dims(sizes) {
    int64_t count = 1;
    for (int i = 4; i >= 0; --i) {
      strides[size_t(order[size_t(i)])] = count;
      count *= sizes[size_t(order[size_t(i)])];
    }
    held = host::held(dtype, 1, 1, count, Layout::rows);
    if (seed) fill(held, seed);
  }
  int64_t at(std::array<int64_t, 5> i) const {
    return std::inner_product(i.begin(), i.end(), strides.begin(), int64_t{0});
  }
};

using Space = std::array<int64_t, 3>;

// A convolution as frameworks write it: whole tensors, groups of features or of the batch, three dimensions.
struct Shape {
  int64_t batch = 1, in_features = 1, out_features = 1;
  Space in_size = {1, 1, 1}, window = {1, 1, 1}, out_size = {1, 1, 1};
  Space stride = {1, 1, 1}, pad_low = {0, 0, 0}, in_dilation = {1, 1, 1}, window_dilation = {1, 1, 1};
  std::array<bool, 3> reversed = {};
  int64_t feature_groups = 1, batch_groups = 1;
};

struct Made {
  Shape shape;
  Tensor5 in, w, out;
  Conv c = {};
};

Made make(const Shape& c, Dtype in, Dtype w, Dtype out, const std::array<int, 5>& in_order,
          const std::array<int, 5>& w_order, const std::array<int, 5>& out_order) {
  const auto& [a, b, d] = c.in_size;
  const auto& [e, f, g] = c.window;
  const auto& [h, i, j] = c.out_size;
  Made m{c, Tensor5(in, {c.batch, c.in_features, a, b, d}, in_order, 11),
         Tensor5(w, {c.out_features, c.in_features / c.feature_groups, e, f, g}, w_order, 21),
         Tensor5(out, {c.batch / c.batch_groups, c.out_features, h, i, j}, out_order, 0)};
  const int64_t groups = c.feature_groups * c.batch_groups, outs = c.out_features / groups;
  m.c = {.batch = c.batch / c.batch_groups, .in_features = c.in_features / c.feature_groups, .out_features = outs};
  m.c.groups = groups;
  m.c.rank = 3;
  for (size_t s = 0; s < 3; ++s) {
    m.c.space[s] = {c.in_size[s],        c.window[s],        c.out_size[s],        c.stride[s],
                    c.pad_low[s],        c.in_dilation[s],   c.window_dilation[s], c.reversed[s],
                    m.in.strides[s + 2], m.w.strides[s + 2], m.out.strides[s + 2]};
  }
  const int64_t in_group = c.batch_groups > 1 ? m.c.batch * m.in.strides[0] : m.c.in_features * m.in.strides[1];
  m.c.input = {m.in.held.bytes.data(), in, m.in.strides[0], m.in.strides[1], in_group};
  m.c.weights = {m.w.held.bytes.data(), w, m.w.strides[0], m.w.strides[1], outs * m.w.strides[0]};
  m.c.output = {m.out.held.bytes.data(), out, m.out.strides[0], m.out.strides[1], outs * m.out.strides[1]};
  return m;
}

// Calls f(input offset, weight offset) for each product of one output element.
template <class F>
void products(const Made& m, const std::array<int64_t, 5>& o, F&& f) {
  const Shape& c = m.shape;
  const int64_t outs = c.out_features / (c.feature_groups * c.batch_groups), group = o[1] / outs;
  const int64_t features = c.in_features / c.feature_groups;
  for (int64_t k0 = 0; k0 < c.window[0]; ++k0) {
    for (int64_t k1 = 0; k1 < c.window[1]; ++k1) {
      for (int64_t k2 = 0; k2 < c.window[2]; ++k2) {
        Space k = {k0, k1, k2}, x = {};
        bool inside = true;
        for (size_t s = 0; s < 3; ++s) {
          int64_t at = o[s + 2] * c.stride[s] + k[s] * c.window_dilation[s] - c.pad_low[s];
          inside &= at >= 0 && at % c.in_dilation[s] == 0 && at / c.in_dilation[s] < c.in_size[s];
          x[s] = at / c.in_dilation[s];
          if (c.reversed[s]) k[s] = c.window[s] - 1 - k[s];
        }
        for (int64_t f_ = 0; inside && f_ < features; ++f_) {
          const int64_t n = c.batch_groups > 1 ? group * (c.batch / c.batch_groups) + o[0] : o[0];
          const int64_t feature = c.batch_groups > 1 ? f_ : group * features + f_;
          f(m.in.at({n, feature, x[0], x[1], x[2]}), m.w.at({o[1], f_, k[0], k[1], k[2]}));
        }
      }
    }
  }
}

// The first wrong element, or nothing; every `skip`th is looked at.
std::string wrong(Made& m, int64_t skip = 1) {
  const Dtype out = m.c.output.dtype;
  const int64_t count = std::accumulate(m.out.dims.begin(), m.out.dims.end(), int64_t{1}, std::multiplies<>());
  for (int64_t i = 0; i < count; i += skip) {
    std::array<int64_t, 5> o = {};
    int64_t rest = i, terms = 0;
    for (size_t d = 5; d-- > 0; rest /= m.out.dims[d]) o[d] = rest % m.out.dims[d];
    double sum = 0;
    uint64_t bits = 0;
    products(m, o, [&](int64_t x, int64_t w) {
      ++terms;
      if (is_integer(out)) {
        bits += m.in.held.integer(0, 0, x) * m.w.held.integer(0, 0, w);
      } else {
        sum += m.in.held.value(0, 0, x).real() * m.w.held.value(0, 0, w).real();
      }
    });
    const double found = m.out.held.value(0, 0, m.out.at(o)).real();
    if (is_integer(out)) sum = double(int32_t(uint32_t(bits)));
    const double slack = is_integer(out) ? 0
                         : out == Dtype::f64
                             ? 1e-14 * double(terms + 1)
                             : 1e-7 * double(terms + 10) + (out == Dtype::bf16 ? std::abs(sum) / 128 : 0);
    if (!(std::abs(found - sum) <= slack)) {
      return cat("at ", o[0], ",", o[1], ",", o[2], ",", o[3], ",", o[4], ": ", found, " for ", sum);
    }
  }
  return "";
}

Shape random_shape(Random& r, int rank) {
  Shape c;
  const int64_t grouping = r.below(4), groups = grouping == 0 ? r.between(2, 4) : 1;
  const int64_t batch_groups = grouping == 1 ? r.between(2, 3) : 1;
  c.feature_groups = groups;
  c.batch_groups = batch_groups;
  c.batch = batch_groups * r.between(1, 3);
  c.in_features = groups * r.between(1, 9);
  c.out_features = groups * batch_groups * r.between(1, 20);
  for (size_t s = size_t(3 - rank); s < 3; ++s) {
    c.in_size[s] = r.between(1, 9);
    c.window[s] = r.between(1, 4);
    c.stride[s] = r.between(1, 3);
    c.in_dilation[s] = r.below(3) == 0 ? r.between(2, 3) : 1;
    c.window_dilation[s] = r.below(3) == 0 ? r.between(2, 3) : 1;
    c.pad_low[s] = r.between(-2, 3);
    c.reversed[s] = r.below(4) == 0;
    const int64_t size = (c.in_size[s] - 1) * c.in_dilation[s] + 1 + c.pad_low[s] + r.between(-2, 3);
    const int64_t window = (c.window[s] - 1) * c.window_dilation[s] + 1;
    c.out_size[s] = size < window ? 0 : (size - window) / c.stride[s] + 1;
  }
  return c;
}

std::array<int, 5> random_order(Random& r) {
  std::array<int, 5> order = {0, 1, 2, 3, 4};
  for (size_t i = 4; i > 0; --i) std::swap(order[i], order[size_t(r.below(int64_t(i) + 1))]);
  return order;
}

constexpr std::array<int, 5> kNhwc = {0, 2, 3, 4, 1}, kNchw = {0, 1, 2, 3, 4}, kHwio = {2, 3, 4, 1, 0};

Shape conv2d(int64_t batch, int64_t features, int64_t outs, int64_t size, int64_t window, int64_t stride) {
  const int64_t pad = window / 2;
  Shape c{.batch = batch, .in_features = features, .out_features = outs};
  c.in_size = {1, size, size};
  c.window = {1, window, window};
  c.stride = {1, stride, stride};
  c.pad_low = {0, pad, pad};
  c.out_size = {1, (size + 2 * pad - window) / stride + 1, (size + 2 * pad - window) / stride + 1};
  return c;
}

}  // namespace

TEST_CASE("conv: random convolutions in random layouts") {
  const std::array<Dtype, 3> kDtypes3[] = {{Dtype::f32, Dtype::f32, Dtype::f32},
                                           {Dtype::bf16, Dtype::bf16, Dtype::bf16},
                                           {Dtype::s8, Dtype::s8, Dtype::s32},
                                           {Dtype::f64, Dtype::f64, Dtype::f64},
                                           {Dtype::bf16, Dtype::f32, Dtype::f32}};
  ThreadPool pool(3);
  for (uint64_t seed = 0; seed < 900; ++seed) {
    Random r{seed + 100};
    ThreadPool::Use use(pool);
    const auto& [in, w, out] = kDtypes3[seed % 5];
    const bool nhwc = r.below(3) == 0;
    const auto a = random_order(r), b = random_order(r), d = random_order(r);
    Made m = make(random_shape(r, int(seed % 3) + 1), in, w, out, nhwc ? kNhwc : a, nhwc ? kHwio : b, nhwc ? kNhwc : d);
    m.c.simd = r.below(3) == 0 ? Simd::portable : simd_best();
    CAPTURE(seed);
    REQUIRE(conv(m.c));
    REQUIRE(wrong(m) == "");
    auto packed = pack_weights(m.c);
    if (!packed) continue;
    std::fill(m.out.held.bytes.begin(), m.out.held.bytes.end(), std::byte{1});
    m.c.packed_weights = &*packed;
    REQUIRE(conv(m.c));
    REQUIRE(wrong(m) == "");
    if (const auto matrix = weights_as_matrix(m.c)) {
      auto same = pack_b(*matrix, packed->k(), packed->n());
      REQUIRE(same);
      REQUIRE(same->bytes() == packed->bytes());
      REQUIRE(std::memcmp(same->panel(0, 0), packed->panel(0, 0), packed_bytes(w, packed->k(), packed->n())) == 0);
    }
  }
}

TEST_CASE("conv: layers and their gradients") {
  struct Layer {
    int64_t batch, features, outs, size, window, stride;
  };
  for (Layer s : {Layer{1, 3, 64, 56, 7, 2}, Layer{2, 64, 64, 14, 3, 1}, Layer{1, 64, 256, 14, 1, 1},
                  Layer{2, 128, 128, 14, 3, 2}, Layer{1, 256, 512, 14, 1, 2}, Layer{1, 100, 24, 60, 3, 1},
                  Layer{3, 5, 7, 50, 3, 2}}) {
    for (const auto& order : {kNhwc, kNchw}) {
      CAPTURE(s.outs);
      CAPTURE(order[1]);
      const Shape f = conv2d(s.batch, s.features, s.outs, s.size, s.window, s.stride);
      Made forward = make(f, Dtype::f32, Dtype::f32, Dtype::f32, order, kHwio, order);
      REQUIRE(conv(forward.c));
      CHECK(wrong(forward, 97) == "");
      // The input's gradient: the output's, dilated, by the reversed weights with features swapped.
      Shape g = conv2d(s.batch, s.outs, s.features, f.out_size[1], s.window, 1);
      g.in_dilation = f.stride;
      g.pad_low = {0, s.window - 1 - f.pad_low[1], s.window - 1 - f.pad_low[2]};
      g.out_size = f.in_size;
      g.reversed = {false, true, true};
      Made input = make(g, Dtype::f32, Dtype::f32, Dtype::f32, order, {2, 3, 4, 0, 1}, order);
      REQUIRE(conv(input.c));
      CHECK(wrong(input, 97) == "");
      // The weights' gradient: the input by the output's gradient, batch and features swapped.
      Shape h{.batch = s.features, .in_features = s.batch, .out_features = s.outs};
      h.in_size = f.in_size;
      h.window = f.out_size;
      h.window_dilation = f.stride;
      h.pad_low = f.pad_low;
      h.out_size = f.window;
      const std::array<int, 5> swapped =
          order == kNhwc ? std::array<int, 5>{1, 2, 3, 4, 0} : std::array<int, 5>{1, 0, 2, 3, 4};
      Made weights = make(h, Dtype::f32, Dtype::f32, Dtype::f32, swapped, swapped, {2, 3, 4, 0, 1});
      REQUIRE(conv(weights.c));
      CHECK(wrong(weights, 197) == "");
    }
  }
}

TEST_CASE("conv: features by themselves") {
  for (Dtype d : {Dtype::f32, Dtype::bf16}) {
    for (const auto& order : {kNhwc, kNchw}) {
      for (int64_t features : {3, 32, 45}) {
        for (int64_t stride : {1, 2}) {
          Shape c = conv2d(2, features, features, 9, 3, stride);
          c.feature_groups = features;
          Made m = make(c, d, d, d, order, kHwio, order);
          m.c.simd = features == 32 ? Simd::portable : simd_best();
          REQUIRE(conv(m.c));
          CHECK(wrong(m) == "");
        }
      }
    }
  }
}

TEST_CASE("conv: one feature comes out, along rows") {
  for (const auto& order : {kNhwc, kNchw}) {
    for (int64_t features : {1, 3}) {
      for (int64_t window : {1, 3, 8}) {
        for (int64_t size : {16, 37, 90}) {
          Shape c = conv2d(2, features, 1, size, window, 1);
          c.reversed[2] = size == 37;
          c.window_dilation[1] = c.window_dilation[2] = size == 90 ? 2 : 1;
          Made m = make(c, Dtype::f32, Dtype::f32, Dtype::f32, order, kHwio, order);
          m.c.simd = window == 8 ? Simd::portable : simd_best();
          REQUIRE(conv(m.c));
          CHECK(wrong(m) == "");
        }
      }
    }
  }
}

TEST_CASE("conv: the same bits on any number of threads") {
  std::vector<std::byte> first;
  for (int threads : {1, 2, 5}) {
    ThreadPool pool(threads);
    ThreadPool::Use use(pool);
    Made m = make(conv2d(2, 40, 50, 13, 3, 1), Dtype::f32, Dtype::f32, Dtype::f32, kNhwc, kHwio, kNhwc);
    REQUIRE(conv(m.c));
    if (first.empty()) first = m.out.held.bytes;
    CHECK(bool(first == m.out.held.bytes));
  }
}

TEST_CASE("conv: the epilogue sees rows in order of batch and space") {
  for (const auto& order : {kNhwc, kNchw}) {
    for (int64_t groups : {1, 2, 8}) {
      Shape c = conv2d(2, 8, 8, 10, 3, 2);
      c.feature_groups = groups;
      Made plain = make(c, Dtype::f32, Dtype::f32, Dtype::f32, order, kHwio, order);
      Made fused = make(c, Dtype::f32, Dtype::f32, Dtype::f32, order, kHwio, order);
      REQUIRE(conv(plain.c));
      REQUIRE(conv_fuses(fused.c));
      fused.c.epilogue.run = [](void*, float* tile, int64_t row0, int64_t rows, int64_t col0, int64_t cols,
                                int64_t ld) {
        for (int64_t r = 0; r < rows; ++r) {
          for (int64_t j = 0; j < cols; ++j) tile[r * ld + j] += float((row0 + r) * 100 + col0 + j);
        }
      };
      REQUIRE(conv(fused.c));
      const auto& s = c.out_size;
      for (int64_t n = 0; n < 2; ++n) {
        for (int64_t f = 0; f < 8; ++f) {
          for (int64_t y = 0; y < s[1]; ++y) {
            for (int64_t x = 0; x < s[2]; ++x) {
              const int64_t at = plain.out.at({n, f, 0, y, x});
              const float add = float(((n * s[1] + y) * s[2] + x) * 100 + f);
              const float before = float(plain.out.held.value(0, 0, at).real());
              REQUIRE(float(fused.out.held.value(0, 0, at).real()) == before + add);
            }
          }
        }
      }
    }
  }
}

TEST_CASE("conv: what it refuses") {
  Shape c = conv2d(1, 6, 6, 5, 3, 1);
  Made m = make(c, Dtype::f32, Dtype::f32, Dtype::f32, kNhwc, kHwio, kNhwc);
  m.c.space[1].stride = 0;
  CHECK(conv(m.c).error().message ==
        "a convolution with input 5, window 3, output 5, stride 0, dilations 1 and 1 in dimension 1");
  m.c.space[1].stride = 1;
  m.c.rank = 7;
  CHECK(conv(m.c).error().code == Code::invalid);
  m.c.rank = 3;
  m.c.input.dtype = Dtype::s32;
  CHECK(conv(m.c).error().message == "cannot convolve s32 by f32 into f32");
  m.c.input.dtype = Dtype::f32;
  m.c.space[1].in_dilation = 2;
  CHECK(pack_weights(m.c).error().code == Code::unsupported);
}
