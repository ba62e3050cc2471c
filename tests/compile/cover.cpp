// Strided reads as runs: what is loaded, how the tile is walked, which reads share one.
#include "compile/device/cover.h"

#include "tests/compile/testing.h"

namespace trine::compile::device {

// Elements of memory, in the order the read walks them, by way of the tile that was loaded.
static std::vector<int64_t> walked(const Cover& cover, int64_t start) {
  const auto places = [](const Axes& axes, int64_t first) {
    std::vector<int64_t> out = {first};
    for (const Axis& a : axes) {
      std::vector<int64_t> next;
      for (int64_t at : out)
        for (int64_t i = 0; i < a.count; ++i) next.push_back(at + i * a.stride);
      out = std::move(next);
    }
    return out;
  };
  const std::vector<int64_t> loaded = places(cover.memory, 0);
  std::vector<int64_t> out;
  for (int64_t at : places(cover.tile, start)) out.push_back(loaded[size_t(at)]);
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
  CHECK_FALSE(pays(cover_of({{-1, 8}}, 0, 4), {{-1, 8}}));
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
