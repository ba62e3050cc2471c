// Loop programs on the finished tiles of a multiply, while they are in cache, on the thread that finished them.
#include <algorithm>

#include "base/text.h"
#include "host/loops/loop.h"
#include "host/loops/plan.h"
#include "host/loops/walk.h"

namespace trine::host {

Result<LoopEpilogue> prepare_epilogue(const arch::LoopProgram& program, uint32_t in, uint32_t out,
                                      const LoopOptions& options) {
  TRY(verify(program));
  auto bad = [](std::string what) { return fail(Code::invalid, cat("epilogue: ", what), "tile program"); };
  if (program.dims.size() != 2 || program.dims[0].inner || program.dims[1].inner) {
    return bad("its dims are not the rows and columns of a result");
  }
  for (uint32_t o : {in, out}) {
    if (o == kNoOperand && o == out && out != in) continue;
    if (o >= program.operands.size()) return bad(cat("operand @", o, " of ", program.operands.size()));
    const arch::LoopOperand& operand = program.operands[o];
    const bool words = operand.dtype == Dtype::f32 || operand.dtype == Dtype::s32;
    const bool dense = operand.strides[1] == 1 && operand.strides[0] >= 1;
    if (!words || !dense || operand.output != (o == out)) return bad(cat("operand @", o, " cannot be the tile"));
  }
  for (const arch::LoopInsn& n : program.insns)
    if (n.op == arch::LoopOp::pick && n.at == in) return bad("it picks from the tile, of which there is only a part");
  return LoopEpilogue{LoopKernel(make_plan(program, options, true)), in, out};
}

// The tile's operands are addressed as if the tile were the whole result: its element (0, 0) lies before it.
void run_epilogue(void* ctx, float* tile, int64_t row0, int64_t rows, int64_t col0, int64_t cols, int64_t ld) {
  const auto& call = *static_cast<const LoopEpilogueCall*>(ctx);
  const LoopPlan& plan = call.epilogue->kernel.plan();
  const size_t count = plan.nest.operands.size(), tables = round_up(count * 16);
  std::byte* memory = thread_scratch(tables + region_bytes(plan));
  auto** bases = reinterpret_cast<std::byte**>(memory);
  auto* steps = reinterpret_cast<int64_t*>(bases + count);
  for (uint32_t o = 0; o < count; ++o) {
    const bool is_tile = o == call.epilogue->in || o == call.epilogue->out;
    bases[o] = is_tile ? reinterpret_cast<std::byte*>(tile) - 4 * (row0 * ld + col0)
                       : static_cast<std::byte*>(call.operands[o]) + plan.nest.offsets[o];
    steps[o] = is_tile ? 4 * ld : plan.nest.rows[0].steps[o];
  }
  run_region(plan, {{bases, count}, {steps, count}, {}, {row0, rows, col0, col0 + cols}}, memory + tables);
}

}  // namespace trine::host
