// Strided reads as runs: what is loaded, how the tile is walked, which reads share one.
#include "compile/device/loops/cover.h"

#include "tests/compile/testing.h"

namespace trine::compile::device {

// Elements of memory, in the order the read walks them, by way of the tile that was loaded.
static std::vector<int64_t> walked(const Cover& cover, int64_t start) {
  const auto indices = [](const Axes& axes, int64_t first) {
    std::vector<int64_t> out = {first};
    for (const Axis& a : axes) {
      std::vector<int64_t> next;
      for (int64_t at : out)
        for (int64_t i = 0; i < a.count; ++i) next.push_back(at + i * a.stride);
      out = std::move(next);
    }
    return out;
  };
  const std::vector<int64_t> loaded = indices(cover.memory, -cover.back);
  std::vector<int64_t> out;
  for (int64_t at : indices(cover.tile, cover.first + start)) out.push_back(loaded[size_t(at)]);
  return out;
}

TEST_CASE("a strided read loads what lies between, as far as that is quicker") {
  const Axes near = {{64, 3}, {2, 4}}, far = {{5000, 3}, {2, 4}}, dense = {{4, 3}, {1, 4}};
  CHECK(cover_of(near, 0, 4).memory == Axes{{1, 135}});
  CHECK(cover_of(far, 0, 4).memory == Axes{{5000, 3}, {1, 7}});
  CHECK(walked(cover_of(far, 1, 4), 1) ==
        std::vector<int64_t>{1, 3, 5, 7, 5001, 5003, 5005, 5007, 10001, 10003, 10005, 10007});
  CHECK(walked(cover_of(near, 0, 4), 0) == std::vector<int64_t>{0, 2, 4, 6, 64, 66, 68, 70, 128, 130, 132, 134});
  CHECK(pays(cover_of(near, 0, 4), near));
  CHECK_FALSE(pays(cover_of(dense, 0, 4), dense));
}

TEST_CASE("a read that goes backwards, or through dims in another order, loads them as they lie") {
  const Axes backwards = {{-1, 5}}, both = {{-5000, 2}, {-2, 3}}, crossed = {{1, 3}, {3, 2}};
  CHECK(pays(cover_of(backwards, 0, 4), backwards));
  CHECK(walked(cover_of(backwards, 0, 4), 0) == std::vector<int64_t>{0, -1, -2, -3, -4});
  CHECK(walked(cover_of(both, 0, 4), 0) == std::vector<int64_t>{0, -2, -4, -5000, -5002, -5004});
  CHECK(pays(cover_of(crossed, 0, 4), crossed));
  CHECK(cover_of(crossed, 0, 4).memory == Axes{{1, 6}});
  CHECK(walked(cover_of(crossed, 0, 4), 0) == std::vector<int64_t>{0, 3, 1, 4, 2, 5});
}

TEST_CASE("reads that begin near one another share a run") {
  Memory m;
  Reads reads;
  const std::vector<int64_t> strides = {0, 8, 1};
  for (int64_t start : {16, 0, 8, 4000, 4008}) reads.add(m, strides, start);
  const Axes free = {{8, 6}, {1, 8}};
  using Run = std::pair<int64_t, int64_t>;
  CHECK(reads.together(m, strides, 8, free) == Run{0, 16});
  CHECK(reads.together(m, strides, 4000, free) == Run{4000, 4008});
  CHECK(reads.together(m, {0, 16, 1}, 8, free) == Run{8, 8});
}

}  // namespace trine::compile::device
