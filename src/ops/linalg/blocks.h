// Blocks of matrices less products of others: where factorisations do most of their work. Of doubles by the kernels of
// lines.h, rows shared out among threads; each element's products are taken off one after the other, on any number.
#pragma once

#include <algorithm>

#include "base/pool.h"
#include "ops/linalg/lines.h"

namespace trine::ops {

constexpr int64_t kBlock = 32;  // columns factored before what is beyond hears of them

template <class W>
struct Block {
  W* data = nullptr;
  int64_t step = 0;  // from row to row
};

// c[m, n] -= a[m, k] b[k, n]
template <class W>
void subtract_product(Block<W> c, Block<W> a, Block<W> b, int64_t m, int64_t n, int64_t k) {
  constexpr int64_t kProducts = 1 << 18;  // products worth a task
  const int64_t rows = std::max<int64_t>(4, kProducts / std::max<int64_t>(n * k, 1) / 4 * 4);
  auto some = [&](int64_t begin, int64_t end) {
    const int64_t first = begin * rows, last = std::min(end * rows, m);
    if constexpr (std::is_same_v<W, double>) {
      line_kernels().subtract_product(c.data + first * c.step, c.step, a.data + first * a.step, a.step, b.data, b.step,
                                      last - first, n, k);
    } else {
      for (int64_t r = first; r < last; ++r)
        for (int64_t i = 0; i < k; ++i)
          subtract_line(c.data + r * c.step, a.data[r * a.step + i], b.data + i * b.step, n);
    }
  };
  m <= rows ? some(0, 1) : parallel_for((m + rows - 1) / rows, 1, some);
}

}  // namespace trine::ops
