// rng_bit_generator: random bits from a state, and the next state; counter-based, so equal states give equal bits.
// Bits are those of XLA's generators: THREE_FRY is Threefry-2x32 with 20 rounds, PHILOX (and DEFAULT) Philox-4x32 with
// 10 (Salmon et al., SC 2011). The state is key and counter: u64[2], for PHILOX also u64[3] with a 128-bit counter.
// C1: the state is u64[2] or u64[3]; both results are declared, the first as the state. C2: bits have 2 to 64 bits.
#include <array>
#include <cstring>

#include "base/number/random.h"
#include "ops/shape.h"

namespace trine::ops {

namespace {

using Pair = std::array<uint32_t, 2>;

Result<std::vector<ir::Type>> infer(const Call& call) {
  const ir::Type& state = call.inputs[0];
  if (call.declared.size() != 2) return fail(Code::invalid, "its result types must be given");
  const std::string_view algorithm = call.attrs.text("rng_algorithm", "DEFAULT");
  if (algorithm != "DEFAULT" && algorithm != "THREE_FRY" && algorithm != "PHILOX")
    return fail(Code::invalid, cat("rng_algorithm is `", algorithm, "`; DEFAULT, THREE_FRY or PHILOX was expected"));
  const bool fits = state.rank() == 1 && (state.dims[0] == 2 || (state.dims[0] == 3 && algorithm != "THREE_FRY"));
  if (state.dtype != Dtype::u64 || !fits)
    return fail(Code::invalid, cat("the state is ", ir::text(state), "; u64[2] was expected"));
  const ir::Type& bits = call.declared[1];
  if (!is_integer(bits.dtype) && !is_floating(bits.dtype))
    return fail(Code::invalid, cat("there are no random ", row(bits.dtype).name));
  return std::vector<ir::Type>{ir::tensor_type(Dtype::u64, state.dims), ir::tensor_type(bits.dtype, bits.dims)};
}

uint32_t rotate(uint32_t v, int by) { return v << by | v >> (32 - by); }

Pair halves(uint64_t v) { return {uint32_t(v), uint32_t(v >> 32)}; }

Pair threefry(uint64_t counter, uint64_t key) {
  static constexpr int kRotations[2][4] = {{13, 15, 26, 6}, {17, 29, 16, 24}};
  const Pair k = halves(key);
  const uint32_t keys[3] = {k[0], k[1], 0x1BD11BDA ^ k[0] ^ k[1]};
  Pair x = halves(counter);
  x[0] += keys[0];
  x[1] += keys[1];
  for (uint32_t round = 0; round < 5; ++round) {
    for (int by : kRotations[round % 2]) {
      x[0] += x[1];
      x[1] = rotate(x[1], by) ^ x[0];
    }
    x[0] += keys[(round + 1) % 3];
    x[1] += keys[(round + 2) % 3] + round + 1;
  }
  return x;
}

// Sub-byte integers live sign-extended in a byte; all else takes the low bits as they are.
void put(const TensorView& to, int64_t at, uint64_t v) {
  dispatch_element(to.dtype, [&](auto element) {
    using E = decltype(element);
    if constexpr (E::kIsInteger) {
      to.as<typename E::Storage>()[at] = E::store(typename E::Wide(v));
    } else if constexpr (!E::kIsComplex) {
      const typename E::Bits low = typename E::Bits(v);
      static_assert(sizeof low == sizeof(typename E::Storage));
      std::memcpy(to.as<typename E::Storage>() + at, &low, sizeof low);
    }
  });
}

// The dim whose neighbours share a counter: the first even one, else the largest.
size_t shared_dim(const Dims& dims) {
  for (size_t d = 0; d < dims.size(); ++d)
    if (dims[d] % 2 == 0) return d;
  size_t best = 0;
  for (size_t d = 1; d < dims.size(); ++d)
    if (dims[d] > dims[best]) best = d;
  return best;
}

// Returns how many counters were used.
uint64_t threefry_bits(const TensorView& out, uint64_t key, uint64_t counter) {
  if (bits(out.dtype) == 64) {
    for (int64_t i = 0; i < out.elements(); ++i) {
      const Pair x = threefry(counter + uint64_t(i), key);
      put(out, i, x[0] | uint64_t(x[1]) << 32);
    }
    return uint64_t(out.elements());
  }
  if (out.dims.empty()) {
    put(out, 0, threefry(counter, key)[0]);
    return 1;
  }
  const size_t shared = shared_dim(out.dims);
  Dims half = out.dims;
  half[shared] = (half[shared] + 1) / 2;
  const Dims strides = row_major_strides(out.dims);
  for_each_index(half, [&](const Dims& index, int64_t i) {
    const Pair x = threefry(counter + uint64_t(i), key);
    const int64_t at = offset_of(index, strides) + index[shared] * strides[shared];
    put(out, at, x[0]);
    if (2 * index[shared] + 1 < out.dims[shared]) put(out, at + strides[shared], x[1]);
  });
  return uint64_t(element_count(half));
}

// Counters are 128 bits: `low` steps, `high` takes the carry.
uint64_t philox_bits(const TensorView& out, uint64_t key, uint64_t low, uint64_t high) {
  const bool is_long = bits(out.dtype) == 64;
  const int64_t each = is_long ? 2 : 4, blocks = (out.elements() + each - 1) / each;
  for (int64_t b = 0; b < blocks; ++b) {
    const uint64_t at = low + uint64_t(b);
    const Pair l = halves(at), h = halves(high + (at < low));
    const auto x = philox({l[0], l[1], h[0], h[1]}, halves(key));
    for (int64_t i = 0; i < each && b * each + i < out.elements(); ++i)
      put(out, b * each + i, is_long ? x[size_t(2 * i)] | uint64_t(x[size_t(2 * i + 1)]) << 32 : x[size_t(i)]);
  }
  return uint64_t(blocks);
}

Result<void> eval(const Eval& e) {
  const uint64_t* state = e.in[0].as<const uint64_t>();
  uint64_t* next = e.out[0].as<uint64_t>();
  const uint64_t key = state[0];
  if (e.node.attrs.text("rng_algorithm", "DEFAULT") == "THREE_FRY") {
    const uint64_t counter = state[1];
    next[0] = key;
    next[1] = counter + threefry_bits(e.out[1], key, counter);
    return {};
  }
  // With two words the key is the counter's upper half as well.
  const bool is_full = e.in[0].dims[0] == 3;
  const uint64_t low = state[1], high = is_full ? state[2] : key;
  const uint64_t after = low + philox_bits(e.out[1], key, low, high);
  next[0] = key;
  next[1] = after;
  if (is_full) next[2] = high + (after < low);
  return {};
}

}  // namespace

extern const Op op_rng_bit_generator{.name = "rng_bit_generator",
                                     .kind = OpKind::other,
                                     .arity = 1,
                                     .attrs = "rng_algorithm",
                                     .infer = infer,
                                     .eval = eval};

}  // namespace trine::ops
