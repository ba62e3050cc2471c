// Footprints against an oracle: transfers walk one HBM tensor with random strides, on two queues that nothing orders.
// They race exactly where the sets of elements meet, and the byte that is named lies in both.
#include <random>
#include <set>
#include <string>

#include "base/text.h"
#include "tests/run/run_text.h"

using namespace trine;
using namespace trine::run;

namespace {

constexpr int kElements = 4096;  // of b: four cells

struct Walk {
  int offset = 0, rows = 1, row_stride = 1, columns = 1, stride = 1;

  std::set<int> elements() const {
    std::set<int> out;
    for (int r = 0; r < rows; ++r)
      for (int c = 0; c < columns; ++c) out.insert(offset + r * row_stride + c * stride);
    return out;
  }
  std::string text(int queue) const {
    return cat("  dma_copy dst=b[", offset, ", ", rows, "@", row_stride, " ", columns, "@", stride, "] src=t[0:", rows,
               ", 0, ", columns, "@1] queue=", queue, " wait s0>=16\n");
  }
};

Walk random_walk(std::mt19937& random) {
  const auto pick = [&](int low, int high) { return low + static_cast<int>(random() % unsigned(high - low + 1)); };
  Walk w;
  w.rows = pick(1, 32);
  w.columns = pick(1, 8);
  w.stride = pick(1, 20);
  w.row_stride = pick(1, (kElements - w.columns * w.stride) / w.rows);
  w.offset = pick(0, kElements - 1 - (w.rows - 1) * w.row_stride - (w.columns - 1) * w.stride);
  return w;
}

}  // namespace

TEST_CASE("scattered transfers race exactly where their elements meet") {
  std::mt19937 random(7);
  int races = 0;
  for (int round = 0; round < 300; ++round) {
    const Walk first = random_walk(random), second = random_walk(random), other = random_walk(random);
    const auto r =
        run_text(cat("program p\ntensor a hbm f32[64,64] input\ntensor b hbm f32[", kElements,
                     "]\ntensor t sbuf f32[64,64]\nstream sync\n  dma_copy dst=t src=a queue=2 then s0+=16\n",
                     first.text(0), second.text(0), other.text(1)));
    std::set<int> one = first.elements(), two = other.elements();
    one.merge(second.elements());
    bool overlap = false;
    for (const int e : one) overlap |= two.count(e) > 0;
    CHECK_EQ(r.kinds().empty(), !overlap);
    for (const Finding& f : r.result.findings) {
      REQUIRE(f.found.find("at byte ") != std::string::npos);
      const int element = std::stoi(f.found.substr(f.found.find("at byte ") + 8)) / 4;
      CHECK(one.count(element) + two.count(element) == 2);
    }
    races += overlap;
  }
  CHECK(races > 50);
  CHECK(races < 250);
}
