// Blocks in which one side runs along rows and the other along columns go through registers, a square at a time.
#include "host/loops/transpose.h"

#include <algorithm>
#include <cstring>

#if defined(__x86_64__)
#include <emmintrin.h>
#endif

namespace trine::host {

namespace {

template <class T>
T get(const std::byte* p) {
  T v;
  std::memcpy(&v, p, sizeof v);
  return v;
}

// n elements from s downwards.
template <class T>
void move_reversed(std::byte* d, const std::byte* s, int64_t n) {
  int64_t c = 0;
#if defined(__x86_64__)
  if constexpr (sizeof(T) == 4 || sizeof(T) == 8) {
    constexpr int64_t kLanes = 16 / sizeof(T);
    constexpr int kOrder = sizeof(T) == 4 ? 0x1b : 0x4e;
    for (; c + kLanes <= n; c += kLanes) {
      const auto* from = reinterpret_cast<const __m128i*>(s - (c + kLanes - 1) * int64_t(sizeof(T)));
      _mm_storeu_si128(reinterpret_cast<__m128i*>(d + c * int64_t(sizeof(T))),
                       _mm_shuffle_epi32(_mm_loadu_si128(from), kOrder));
    }
  }
#endif
  for (; c < n; ++c) {
    const T v = get<T>(s - c * int64_t(sizeof(T)));
    std::memcpy(d + c * int64_t(sizeof(T)), &v, sizeof v);
  }
}

// Every second or third of words, side by side: kStep loads and kStep - 1 shuffles for four.
template <int kStep>
void move_every(std::byte* d, const std::byte* s, int64_t n) {
  int64_t c = 0;
#if defined(__x86_64__)
  auto words = [&](int64_t i) { return _mm_loadu_ps(reinterpret_cast<const float*>(s) + kStep * c + 4 * i); };
  for (; c + 4 < n; c += 4) {  // one is left, since loads go past the last that is wanted
    __m128 all;
    if constexpr (kStep == 2) {
      all = _mm_shuffle_ps(words(0), words(1), 0x88);
    } else {
      const __m128 last = _mm_shuffle_ps(words(1), words(2), 0x5a);
      all = _mm_shuffle_ps(words(0), last, 0x8c);
    }
    _mm_storeu_ps(reinterpret_cast<float*>(d) + c, all);
  }
#endif
  for (; c < n; ++c) std::memcpy(d + 4 * c, s + 4 * kStep * c, 4);
}

// Sides by value: bytes that are written could be those of any other.
template <class T>
void move_plain(BlockSide to, BlockSide from, int64_t rows, int64_t columns) {
  for (int64_t r = 0; r < rows; ++r) {
    std::byte* d = to.data + r * to.row;
    const std::byte* s = from.data + r * from.row;
    if (to.column == sizeof(T) && from.column == sizeof(T)) {
      std::memcpy(d, s, size_t(columns) * sizeof(T));
      continue;
    }
    if (to.column == sizeof(T) && from.column == -int64_t(sizeof(T))) {
      move_reversed<T>(d, s, columns);
      continue;
    }
    if (sizeof(T) == 4 && to.column == 4 && (from.column == 8 || from.column == 12)) {
      from.column == 8 ? move_every<2>(d, s, columns) : move_every<3>(d, s, columns);
      continue;
    }
    for (int64_t c = 0; c < columns; ++c) {
      T v = get<T>(s + c * from.column);
      std::memcpy(d + c * to.column, &v, sizeof v);
    }
  }
}

// Squares: the source's columns, each `n` elements down its rows, become the result's rows.
template <class T>
struct Square {
  static constexpr int64_t kSide = 0;  // none
};

#if defined(__x86_64__)
__m128i load(const std::byte* p) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p)); }
void store(std::byte* p, __m128i v) { _mm_storeu_si128(reinterpret_cast<__m128i*>(p), v); }

template <>
struct Square<uint32_t> {
  static constexpr int64_t kSide = 4;
  static void transpose_square(std::byte* to, int64_t to_row, const std::byte* from, int64_t from_column) {
    __m128i a = load(from), b = load(from + from_column), c = load(from + 2 * from_column),
            d = load(from + 3 * from_column);
    __m128i ab = _mm_unpacklo_epi32(a, b), cd = _mm_unpacklo_epi32(c, d);
    __m128i ab2 = _mm_unpackhi_epi32(a, b), cd2 = _mm_unpackhi_epi32(c, d);
    store(to, _mm_unpacklo_epi64(ab, cd));
    store(to + to_row, _mm_unpackhi_epi64(ab, cd));
    store(to + 2 * to_row, _mm_unpacklo_epi64(ab2, cd2));
    store(to + 3 * to_row, _mm_unpackhi_epi64(ab2, cd2));
  }
};

template <>
struct Square<uint64_t> {
  static constexpr int64_t kSide = 2;
  static void transpose_square(std::byte* to, int64_t to_row, const std::byte* from, int64_t from_column) {
    const __m128i a = load(from), b = load(from + from_column);
    store(to, _mm_unpacklo_epi64(a, b));
    store(to + to_row, _mm_unpackhi_epi64(a, b));
  }
};

template <>
struct Square<uint16_t> {
  static constexpr int64_t kSide = 8;
  static void transpose_square(std::byte* to, int64_t to_row, const std::byte* from, int64_t from_column) {
    __m128i x[8], y[8];
    for (int i = 0; i < 8; ++i) x[i] = load(from + i * from_column);
    for (int i = 0; i < 4; ++i) {
      y[i] = _mm_unpacklo_epi16(x[2 * i], x[2 * i + 1]);
      y[i + 4] = _mm_unpackhi_epi16(x[2 * i], x[2 * i + 1]);
    }
    for (int half = 0; half < 2; ++half) {
      const __m128i* v = y + 4 * half;
      __m128i low = _mm_unpacklo_epi32(v[0], v[1]), high = _mm_unpackhi_epi32(v[0], v[1]);
      __m128i low2 = _mm_unpacklo_epi32(v[2], v[3]), high2 = _mm_unpackhi_epi32(v[2], v[3]);
      std::byte* d = to + 4 * half * to_row;
      store(d, _mm_unpacklo_epi64(low, low2));
      store(d + to_row, _mm_unpackhi_epi64(low, low2));
      store(d + 2 * to_row, _mm_unpacklo_epi64(high, high2));
      store(d + 3 * to_row, _mm_unpackhi_epi64(high, high2));
    }
  }
};
#endif

// from.row and to.column are one element.
template <class T>
void transpose(BlockSide to, BlockSide from, int64_t rows, int64_t columns) {
  constexpr int64_t kSide = Square<T>::kSide;
  int64_t full_rows = 0, full_columns = 0;
  if constexpr (kSide > 0) {
    full_rows = rows / kSide * kSide;
    full_columns = columns / kSide * kSide;
    for (int64_t r = 0; r < full_rows; r += kSide) {
      for (int64_t c = 0; c < full_columns; c += kSide) {
        Square<T>::transpose_square(to.data + r * to.row + c * int64_t(sizeof(T)), to.row,
                                    from.data + r * int64_t(sizeof(T)) + c * from.column, from.column);
      }
    }
  }
  auto part = [&](int64_t r, int64_t c, int64_t n_rows, int64_t n_columns) {
    move_plain<T>({to.data + r * to.row + c * to.column, to.row, to.column},
                  {from.data + r * from.row + c * from.column, from.row, from.column}, n_rows, n_columns);
  };
  part(0, full_columns, full_rows, columns - full_columns);
  part(full_rows, 0, rows - full_rows, columns);
}

// Each element kTimes, side by side.
template <class T, int64_t kTimes>
void repeat(BlockSide to, BlockSide from, int64_t columns) {
  for (int64_t c = 0; c < columns; ++c) {
    T v[kTimes];
    for (T& each : v) each = get<T>(from.data + c * from.column);
    std::memcpy(to.data + c * to.column, v, sizeof v);
  }
}

template <class T>
void move(const BlockSide& to, const BlockSide& from, int64_t rows, int64_t columns) {
  constexpr int64_t kOne = sizeof(T);
  if (from.row == 0 && to.row == kOne) {
    if (rows == 2) return repeat<T, 2>(to, from, columns);
    if (rows == 3) return repeat<T, 3>(to, from, columns);
    if (rows == 4) return repeat<T, 4>(to, from, columns);
  }
  if (from.row == kOne && to.column == kOne) return transpose<T>(to, from, rows, columns);
  if (from.column == kOne && to.row == kOne) {
    return transpose<T>({to.data, to.column, to.row}, {from.data, from.column, from.row}, columns, rows);
  }
  move_plain<T>(to, from, rows, columns);
}

}  // namespace

void move_block(const BlockSide& to, const BlockSide& from, int64_t rows, int64_t columns, int size) {
  switch (size) {
    case 1:
      return move<uint8_t>(to, from, rows, columns);
    case 2:
      return move<uint16_t>(to, from, rows, columns);
    case 4:
      return move<uint32_t>(to, from, rows, columns);
    default:
      return move<uint64_t>(to, from, rows, columns);
  }
}

}  // namespace trine::host
