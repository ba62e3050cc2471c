// Tile programs on the finished tiles of a multiply, while they are in cache, on the thread that finished them.
#include <algorithm>

#include "base/text.h"
#include "host/tile.h"
#include "host/tile_plan.h"
#include "host/tile_walk.h"

namespace trine::host {

namespace {

// The tile's operands as if the tile were the whole result: element (0, 0) lies before it.
struct Region {
  const TilePlan& plan;
  const TileEpilogueCall& call;
  std::byte* tile;  // element (0, 0)
  int64_t ld_bytes;
  int64_t row0, rows, col0, cols;

  bool is_tile(uint32_t o) const { return o == call.epilogue->in || o == call.epilogue->out; }
  std::byte* base(uint32_t o) const {
    return is_tile(o) ? tile : static_cast<std::byte*>(call.operands[o]) + plan.nest.offsets[o];
  }
  int64_t step(uint32_t o) const { return is_tile(o) ? ld_bytes : plan.nest.rows[0].steps[o]; }

  void run_in_code() const {
    const size_t count = plan.nest.operands.size(), tables = round_up(count * 16);
    std::byte* memory = thread_scratch(tables + code_scratch_bytes(*plan.code));
    auto** pointers = reinterpret_cast<std::byte**>(memory);
    auto* steps = reinterpret_cast<int64_t*>(pointers + count);
    for (uint32_t o = 0; o < count; ++o) pointers[o] = base(o), steps[o] = step(o);
    TileRange range{row0, rows, col0, col0 + cols};
    const int64_t block = is_unblocked(*plan.code) ? cols : plan.interp.block;
    for (int64_t c = col0; c < col0 + cols; c += block) {
      range.begin = c;
      range.end = std::min(c + block, col0 + cols);
      run_code(*plan.code, {pointers, count}, {steps, count}, {}, range, memory + tables);
    }
  }

  void interpret() const {
    TileWalker w{plan, call.operands};
    const size_t own = TileWalker::table_bytes(plan) + TileWalker::slots_bytes(plan);
    std::byte* memory = thread_scratch(own + TileWalker::unit_bytes(plan));
    w.place_all(memory, memory + own);
    for (int64_t r = row0; r < row0 + rows; ++r) {
      w.index[0] = r;
      for (uint32_t o = 0; o < plan.nest.operands.size(); ++o) w.row[o] = base(o) + r * step(o);
      for (int64_t c = col0; c < col0 + cols; c += plan.interp.block) {
        w.lane0 = c;
        w.lanes = std::min(plan.interp.block, col0 + cols - c);
        w.run_unit();
      }
    }
  }
};

}  // namespace

Result<TileEpilogue> prepare_epilogue(const arch::TileProgram& program, uint32_t in, uint32_t out,
                                      const TileOptions& options) {
  TRY(verify(program));
  auto bad = [](std::string what) { return fail(Code::invalid, cat("epilogue: ", what), "tile program"); };
  if (program.dims.size() != 2 || program.dims[0].inner || program.dims[1].inner) {
    return bad("its dims are not the rows and columns of a result");
  }
  for (uint32_t o : {in, out}) {
    if (o == kNoOperand && o == out && out != in) continue;
    if (o >= program.operands.size()) return bad(cat("operand @", o, " of ", program.operands.size()));
    const arch::TileOperand& operand = program.operands[o];
    const bool words = operand.dtype == Dtype::f32 || operand.dtype == Dtype::s32;
    const bool dense = operand.strides[1] == 1 && operand.strides[0] >= 1;
    if (!words || !dense || operand.output != (o == out)) return bad(cat("operand @", o, " cannot be the tile"));
  }
  return TileEpilogue{TileKernel(make_plan(program, options, true)), in, out};
}

void run_epilogue(void* ctx, float* tile, int64_t row0, int64_t rows, int64_t col0, int64_t cols, int64_t ld) {
  const auto& call = *static_cast<const TileEpilogueCall*>(ctx);
  const TilePlan& plan = call.epilogue->kernel.plan();
  auto* origin = reinterpret_cast<std::byte*>(tile) - 4 * (row0 * ld + col0);
  Region region{plan, call, origin, 4 * ld, row0, rows, col0, cols};
  if (plan.code) return region.run_in_code();
  region.interpret();
}

}  // namespace trine::host
