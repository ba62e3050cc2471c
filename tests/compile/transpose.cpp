// Rows and columns exchanged by the tensor engine, by DMA and by the vector engine: each gives the same bytes, each
// wins somewhere, and the one that is taken is the one whose whole program ends first.
#include "compile/device/memory/transpose.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "base/text.h"
#include "compile/device/device.h"
#include "ir/text.h"
#include "run/drivers/exact/exact.h"
#include "run/drivers/timed/timed.h"
#include "tests/compile/verify_each.h"

namespace trine::compile {

using device::TransposeEngine;

static bool transposed_by(const arch::Program& program, TransposeEngine by) {
  for (const arch::Stream& stream : program.streams)
    for (const arch::Insn& insn : stream.insns) {
      const std::string_view name = arch::row_by_opcode(insn.opcode)->row->name;
      if (by == TransposeEngine::dma
              ? name == "dma_transpose"
              : name == "nc_transpose" && (stream.engine == arch::Engine::vector) == (by == TransposeEngine::vector))
        return true;
    }
  return false;
}

// A timer for which hardly anything counts but which engine transposes.
template <TransposeEngine by>
static Result<int64_t> prefers(const arch::Program& program, const arch::Chip&) {
  return program.instruction_count() * (transposed_by(program, by) ? 1'000'000'000 : 1'000'000'000'000);
}
static const std::pair<TransposeEngine, device::Timer> kEach[] = {
    {TransposeEngine::tensor, prefers<TransposeEngine::tensor>},
    {TransposeEngine::dma, prefers<TransposeEngine::dma>},
    {TransposeEngine::vector, prefers<TransposeEngine::vector>},
};

struct TransposeCase {
  const char* chip;
  const char* dtype;
  int64_t rows, columns;
  const char* what;
  TransposeEngine wins;
};
// sum: a transpose of what the chip has just made. dot: rows in HBM whose minor dim is contracted.
static const TransposeCase kCases[] = {
    {"trn1", "bf16", 64, 64, "sum", TransposeEngine::vector},
    {"trn2", "f32", 32, 32, "sum", TransposeEngine::vector},
    {"trn1", "f32", 512, 512, "sum", TransposeEngine::dma},
    {"trn2", "bf16", 256, 256, "sum", TransposeEngine::tensor},
    {"trn1", "s32", 512, 512, "sum", TransposeEngine::dma},
    {"trn2", "bf16", 512, 1024, "dot", TransposeEngine::dma},
};

static ir::Graph graph_of(const TransposeCase& c) {
  const auto type = [&](int64_t a, int64_t b) { return cat(c.dtype, "[", a, ",", b, "]"); };
  const std::string rows = type(c.rows, c.columns), transposed = type(c.columns, c.rows);
  std::string text = cat("graph \"g\" (%0: ", rows, ", %1: ", transposed, ") {\n  ");
  if (std::string_view(c.what) == "sum")
    append_text(text, cat("%2 = add %0, %0 : ", rows, "\n  %3 = transpose %2 {permutation = [1, 0]} : ", transposed,
                          "\n  %4 = add %3, %1 : ", transposed, "\n  return %2, %4 }"));
  else
    append_text(text, cat("%2 = dot_general %0, %1 {lhs_batch = [], lhs_contract = [1], rhs_batch = [], rhs_contract = "
                          "[0]} : ",
                          type(c.rows, c.rows), "\n  return %2 }"));
  auto graph = ir::parse_graph(text, "g");
  REQUIRE_MESSAGE(graph, graph.error().text());
  return *std::move(graph);
}

static arch::Program program_of(const TransposeCase& c, device::Timer timer) {
  auto made = compile_device(graph_of(c), **arch::find_chip(c.chip), {.timer = timer}, kVerifiedProgram);
  REQUIRE_MESSAGE(made, made.error().text());
  return std::move(made->program);
}

static std::vector<std::vector<std::byte>> values_of(const TransposeCase& c, const arch::Program& program) {
  std::vector<std::byte> bytes(size_t(c.rows * c.columns * 4));
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = std::byte(i % 4 == 3 || i % 4 == 1 ? 63 : i * 2654435761u >> 24);
  const size_t used = size_t(c.rows * c.columns) * (std::string_view(c.dtype) == "bf16" ? 2 : 4);
  const std::span<const std::byte> in(bytes.data(), used);
  auto ran = run::run_exact(program, **arch::find_chip(c.chip), {{"arg0", in}, {"arg1", in}});
  REQUIRE_MESSAGE(ran, ran.error().text());
  CHECK(ran->findings.empty());
  std::vector<std::vector<std::byte>> out;
  for (run::Output& o : ran->outputs) out.push_back(std::move(o.bytes));
  return out;
}

TEST_CASE("of tensor engine, DMA and vector engine the one turns that ends first, and all give the same bytes") {
  for (const TransposeCase& c : kCases) {
    CAPTURE(cat(c.chip, " ", c.what, " ", c.dtype, " ", c.rows, " ", c.columns));
    const arch::Chip& chip = **arch::find_chip(c.chip);
    const arch::Program taken = program_of(c, run::time_among_others);
    CHECK(transposed_by(taken, c.wins));
    const int64_t time = *run::time_among_others(taken, chip);
    const auto values = values_of(c, taken);
    int slower = 0;
    for (const auto& [by, timer] : kEach) {
      const arch::Program other = program_of(c, timer);
      if (!transposed_by(other, by)) continue;  // the chip's tensor engine does not transpose integers
      const int64_t others = *run::time_among_others(other, chip);
      CAPTURE(int(by));
      CHECK(time <= others);
      slower += others > time;
      CHECK(values_of(c, other) == values);
    }
    CHECK(slower >= 1);
  }
}

// A timer for which DMA transposes fastest, but not where the whole program does: units alone have no outputs.
static Result<int64_t> prefers_dma_in_units(const arch::Program& program, const arch::Chip&) {
  const bool whole = std::any_of(program.tensors.begin(), program.tensors.end(),
                                 [](const arch::Tensor& t) { return t.kind == arch::TensorKind::output; });
  return transposed_by(program, TransposeEngine::dma) == whole ? 2'000'000'000 : 1'000'000'000;
}

TEST_CASE("what units gain by others than the tensor engine and the program loses is not taken") {
  const TransposeCase dot{"trn2", "bf16", 512, 1024, "dot", TransposeEngine::dma};
  CHECK(transposed_by(program_of(dot, prefers<TransposeEngine::dma>), TransposeEngine::dma));
  const arch::Program program = program_of(dot, prefers_dma_in_units);
  CHECK(transposed_by(program, TransposeEngine::tensor));
  CHECK_FALSE(transposed_by(program, TransposeEngine::dma));
}

}  // namespace trine::compile
