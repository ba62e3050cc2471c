// Portable row kernels, the choice of kernels, and convert() over whole buffers in blocks that stay in L1.
#include "base/number/convert.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>

#include "base/number/random.h"
#include "base/text.h"

#if defined(__x86_64__)
#include <emmintrin.h>
#endif

namespace trine {

WidenLoop widen_avx2(Dtype dtype);  // null where the portable loop serves
RoundLoop round_avx2(Dtype dtype);

namespace {

constexpr size_t kBlock = 2048;                   // elements; f32 and result together stay well inside L1
constexpr size_t kStreamBytes = size_t{8} << 20;  // results this large bypass the cache, like a large memcpy

template <class N>
constexpr auto widen_table() {
  std::array<float, size_t{1} << N::kBits> out{};
  for (size_t i = 0; i < out.size(); ++i) out[i] = N::widen_bits(i);
  return out;
}

template <class N>
void widen_portable(const void* from, float* to, size_t n) {
  if constexpr (N::kBits == 4) {
    static constexpr auto kTable = widen_table<N>();
    auto* p = static_cast<const uint8_t*>(from);
    for (size_t i = 0; i < n; ++i) to[i] = kTable[i % 2 ? p[i / 2] >> 4 : p[i / 2] & 15];
  } else if constexpr (N::kIsFloating && N::kBits == 8) {
    static constexpr auto kTable = widen_table<N>();
    auto* p = static_cast<const uint8_t*>(from);
    for (size_t i = 0; i < n; ++i) to[i] = kTable[p[i]];
  } else {
    auto* p = static_cast<const std::byte*>(from);
    for (size_t i = 0; i < n; ++i) {
      typename N::Storage stored;
      std::memcpy(&stored, p + i * sizeof stored, sizeof stored);
      to[i] = N::widen(stored);
    }
  }
}

template <class N>
void round_portable(const float* from, void* to, size_t n, const uint32_t* random) {
  auto value = [&](size_t i) { return random ? N::round(from[i], random[i]) : N::round(from[i]); };
  if constexpr (N::kBits == 4) {
    auto* p = static_cast<uint8_t*>(to);
    for (size_t i = 0; i < n; i += 2) {
      p[i / 2] = uint8_t((value(i) & 15) | (i + 1 < n ? (value(i + 1) & 15) << 4 : 0));
    }
  } else {
    auto* p = static_cast<std::byte*>(to);
    for (size_t i = 0; i < n; ++i) {
      auto stored = value(i);
      std::memcpy(p + i * sizeof stored, &stored, sizeof stored);
    }
  }
}

using KernelTable = std::array<RowKernels, kDtypes.size()>;  // null for those that no chip has

KernelTable make_kernels(Simd simd) {
  KernelTable out;
  for (const DtypeRow& r : kChipDtypes) {
    RowKernels& k = out[size_t(r.dtype)];
    dispatch(r.dtype, [&](auto number) {
      using N = decltype(number);
      if constexpr (!N::kIsPacked) k = {widen_portable<N>, round_portable<N>};
    });
#if defined(__x86_64__)
    if (simd == Simd::avx2) {
      if (WidenLoop fast = widen_avx2(r.dtype)) k.widen = fast;
      if (RoundLoop fast = round_avx2(r.dtype)) k.round = fast;
    }
#else
    (void)simd;
#endif
  }
  return out;
}

void copy_streaming(std::byte* to, const std::byte* from, size_t n) {
#if defined(__x86_64__)
  size_t head = std::min(n, size_t(-reinterpret_cast<uintptr_t>(to)) % 16);
  std::memcpy(to, from, head);
  size_t i = head;
  for (; i + 16 <= n; i += 16) {
    _mm_stream_si128(reinterpret_cast<__m128i*>(to + i), _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i)));
  }
  std::memcpy(to + i, from + i, n - i);
#else
  std::memcpy(to, from, n);
#endif
}

void round_with(const RowKernels& kernels, bool stochastic, const float* from, void* to, size_t n, Rounding& rounding,
                Simd simd) {
  uint32_t random[kBlock];
  if (stochastic) random_fill(rounding.seed, rounding.index, random, n, simd);
  kernels.round(from, to, n, stochastic ? random : nullptr);
  rounding.index += n;
}

bool is_stochastic(Dtype dtype, const Rounding& rounding) {
  return rounding.mode == RoundingMode::stochastic && is_floating(dtype) && dtype != Dtype::f32;
}

// Integers and booleans through int64. Clamping u64 to the largest int64 is exact: every other type is narrower.
void to_int64(const std::byte* from, Dtype dtype, int64_t* to, size_t n) {
  dispatch(dtype, [&](auto number) {
    using N = decltype(number);
    if constexpr (!N::kIsPacked && !N::kIsFloating) {
      using S = typename N::Storage;
      for (size_t i = 0; i < n; ++i) {
        S v;
        if constexpr (N::kBits == 4) {
          v = int_from_bits<S, 4>(uint8_t(from[i / 2]) >> (i % 2 * 4));
        } else {
          std::memcpy(&v, from + i * sizeof v, sizeof v);
        }
        if constexpr (!N::kIsInteger) v = v != 0;
        if constexpr (sizeof(S) == 8 && !std::is_signed_v<S>) v = std::min<S>(v, std::numeric_limits<int64_t>::max());
        to[i] = int64_t(v);
      }
    }
  });
}

void from_int64(const int64_t* from, std::byte* to, Dtype dtype, size_t n) {
  dispatch(dtype, [&](auto number) {
    using N = decltype(number);
    if constexpr (!N::kIsPacked && !N::kIsFloating) {
      using S = typename N::Storage;
      constexpr int kValueBits = N::kBits - std::is_signed_v<S>;
      constexpr int64_t kMax = kValueBits >= 63 ? std::numeric_limits<int64_t>::max() : (int64_t{1} << kValueBits) - 1;
      constexpr int64_t kMin = std::is_signed_v<S> ? -kMax - 1 : 0;
      if constexpr (N::kBits == 4) std::fill_n(to, (n + 1) / 2, std::byte{0});
      for (size_t i = 0; i < n; ++i) {
        S v = N::kIsInteger ? S(std::clamp(from[i], kMin, kMax)) : S(from[i] != 0);
        if constexpr (N::kBits == 4) {
          to[i / 2] |= std::byte(uint8_t(v & 15) << (i % 2 * 4));
        } else {
          std::memcpy(to + i * sizeof v, &v, sizeof v);
        }
      }
    }
  });
}

// How many elements both sides hold; sub-byte sides take the other's count when it is odd.
Result<size_t> element_count(size_t from_bytes, Dtype from, size_t to_bytes, Dtype to) {
  size_t n = bits(from) >= 8 ? from_bytes / bytes(from) : bits(to) >= 8 ? to_bytes / bytes(to) : from_bytes * 2;
  if (bytes(from, n) == from_bytes && bytes(to, n) == to_bytes) return n;
  return fail(Code::invalid,
              cat("cannot convert ", from_bytes, " bytes of ", row(from).name, " into ", to_bytes, " bytes of ",
                  row(to).name, "; ", n, " elements take ", bytes(from, n), " and ", bytes(to, n), " bytes"));
}

}  // namespace

const RowKernels& row_kernels(Dtype dtype, Simd simd) {
  static const KernelTable portable = make_kernels(Simd::portable);
  static const KernelTable avx2 = make_kernels(simd_best());
  return (simd == Simd::portable ? portable : avx2)[size_t(dtype)];
}

void widen_row(const void* from, Dtype dtype, float* to, size_t n) {
  const RowKernels& kernels = row_kernels(dtype, simd_best());
  CHECK(kernels.widen, "packed carriers have no scalar value");
  kernels.widen(from, to, n);
}

void round_row(const float* from, void* to, Dtype dtype, size_t n, Rounding& rounding) {
  const Simd simd = simd_best();
  const RowKernels& kernels = row_kernels(dtype, simd);
  CHECK(kernels.round, "packed carriers have no scalar value");
  if (!is_stochastic(dtype, rounding)) {
    kernels.round(from, to, n, nullptr);
    rounding.index += n;
    return;
  }
  for (size_t i = 0; i < n; i += kBlock) {
    std::byte* out = static_cast<std::byte*>(to) + bytes(dtype, i);
    round_with(kernels, true, from + i, out, std::min(kBlock, n - i), rounding, simd);
  }
}

Result<void> convert(std::span<const std::byte> from, Dtype from_dtype, std::span<std::byte> to, Dtype to_dtype,
                     Rounding rounding, Simd simd) {
  size_t n = TRY(element_count(from.size(), from_dtype, to.size(), to_dtype));
  if (from_dtype == to_dtype) {
    if (n > 0) std::memcpy(to.data(), from.data(), from.size());
    return {};
  }
  if (is_packed(from_dtype) || is_packed(to_dtype)) {
    return fail(Code::unsupported, cat("cannot convert ", row(from_dtype).name, " to ", row(to_dtype).name,
                                       ": packed MX carriers need their scales (quantize or dequantize them)"));
  }
  const RowKernels& in = row_kernels(from_dtype, simd);
  const RowKernels& out = row_kernels(to_dtype, simd);
  const bool exact = !is_floating(from_dtype) && !is_floating(to_dtype);
  const bool stochastic = is_stochastic(to_dtype, rounding);
  const bool stream = to.size() >= kStreamBytes;
  const bool stage = stream || reinterpret_cast<uintptr_t>(to.data()) % alignof(float) != 0;
  alignas(64) float wide[kBlock];
  alignas(64) int64_t whole[kBlock];
  alignas(64) std::byte staged[kBlock * 8];
  for (size_t i = 0; i < n; i += kBlock) {
    size_t count = std::min(kBlock, n - i);
    const std::byte* source = from.data() + bytes(from_dtype, i);
    std::byte* target = to.data() + bytes(to_dtype, i);
    std::byte* result = stage ? staged : target;
    if (exact) {
      to_int64(source, from_dtype, whole, count);
      from_int64(whole, result, to_dtype, count);
    } else if (to_dtype == Dtype::f32) {
      in.widen(source, reinterpret_cast<float*>(result), count);
    } else {
      bool direct = from_dtype == Dtype::f32 && reinterpret_cast<uintptr_t>(source) % alignof(float) == 0;
      if (!direct) in.widen(source, wide, count);
      round_with(out, stochastic, direct ? reinterpret_cast<const float*>(source) : wide, result, count, rounding,
                 simd);
    }
    if (stream) {
      copy_streaming(target, staged, bytes(to_dtype, count));
    } else if (stage) {
      std::memcpy(target, staged, bytes(to_dtype, count));
    }
  }
#if defined(__x86_64__)
  if (stream) _mm_sfence();
#endif
  return {};
}

}  // namespace trine
