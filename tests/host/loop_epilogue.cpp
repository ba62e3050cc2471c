// Epilogues: a program over tiles of a result, cut anyhow, gives what it gives over the whole.
#include <algorithm>
#include <cstring>

#include "tests/host/loop_case.h"
#include "tests/testing.h"

using namespace trine;
using namespace trine::arch;

namespace {

constexpr int64_t kRows = 37, kColumns = 101;

// max(tile + bias[column], 0) * scale[row] + index of the column, to bf16 and back to the tile.
LoopProgram finish_program() {
  LoopBuilder t;
  t.dim(kRows);
  uint32_t columns = t.dim(kColumns);
  uint32_t tile = t.input(Dtype::f32, kRows * kColumns, {kColumns, 1}), bias = t.input(Dtype::f32, kColumns, {0, 1}),
           scale = t.input(Dtype::bf16, kRows, {1, 0});
  uint32_t narrow = t.output(Dtype::bf16, kRows * kColumns, {kColumns, 1}),
           back = t.output(Dtype::f32, kRows * kColumns, {kColumns, 1});
  LoopValue sum = t.binary(LoopOp::add, t.load(tile), t.load(bias));
  LoopValue most = t.binary(LoopOp::max, sum, t.constant(Dtype::f32, 0));
  LoopValue v = t.binary(LoopOp::add, t.binary(LoopOp::mul, most, t.load(scale)), t.iota(Dtype::f32, columns));
  t.store(narrow, v);
  t.store(back, v);
  return t.take();
}

}  // namespace

TEST_CASE("tiles of any size give the same as the whole") {
  const LoopProgram p = finish_program();
  for (const host::LoopOptions& build : test::kBuilds) {
    test::LoopBuffers whole = test::random_buffers(p, 1), cut = whole;
    auto kernel = host::prepare(p, build);
    auto epilogue = host::prepare_epilogue(p, 0, 4, build);
    REQUIRE(kernel);
    REQUIRE_MESSAGE(epilogue, epilogue.error().message);
    host::run(*kernel, whole.pointers());
    std::vector<void*> operands = cut.pointers();
    host::LoopEpilogueCall call{&*epilogue, operands};
    std::vector<float> tile(64 * 80);
    for (int64_t r = 0; r < kRows; r += 6) {
      for (int64_t c = 0; c < kColumns; c += 35) {
        int64_t rows = std::min<int64_t>(6, kRows - r), cols = std::min<int64_t>(35, kColumns - c), ld = 64;
        auto* sums = reinterpret_cast<float*>(cut.data[0].data());
        auto* back = reinterpret_cast<float*>(cut.data[4].data());
        for (int64_t i = 0; i < rows; ++i)
          std::memcpy(&tile[size_t(i * ld)], &sums[(r + i) * kColumns + c], size_t(cols) * 4);
        host::run_epilogue(&call, tile.data(), r, rows, c, cols, ld);
        for (int64_t i = 0; i < rows; ++i)
          std::memcpy(&back[(r + i) * kColumns + c], &tile[size_t(i * ld)], size_t(cols) * 4);
      }
    }
    CHECK(test::difference(p, cut, whole) == "");
  }
}

TEST_CASE("epilogues want rows, columns and a dense tile") {
  LoopProgram p = finish_program();
  CHECK(!host::prepare_epilogue(p, 2));
  CHECK(!host::prepare_epilogue(p, 0, 3));
  CHECK(!host::prepare_epilogue(p, 9));
  CHECK(!host::prepare_epilogue(p, 4));
  p.dims[1].inner = true;
  CHECK(!host::prepare_epilogue(p, 0, 4));
}
