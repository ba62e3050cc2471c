// The exact driver on programs built by hand: values, semaphores, findings. Text programs are in exact_programs.cpp.
#include <cstring>
#include <vector>

#include "arch/chip.h"
#include "arch/row.h"
#include "run/drivers/exact/exact.h"
#include "tests/testing.h"

using namespace trine;
using namespace trine::arch;

namespace {

// in -> SBUF on queue 0, SBUF -> out by another engine once the first transfer is done.
Program copy_program(bool with_wait, int64_t wanted = 16) {
  Program p;
  p.name = "copy";
  p.tensors.push_back({.name = "in", .kind = TensorKind::input, .shape = {4, 8}});
  p.tensors.push_back({.name = "tile", .space = Space::sbuf, .shape = {4, 8}});
  p.tensors.push_back({.name = "out", .kind = TensorKind::output, .shape = {4, 8}});
  Pattern pattern;
  pattern.rank = 1;
  pattern.partitions = 4;
  pattern.partition_stride = 8;
  pattern.dims[0] = {1, 8};
  p.patterns.push_back(pattern);
  for (uint32_t tensor : {1u, 0u, 2u, 1u}) {
    Operand o;
    o.kind = OperandKind::tile;
    o.tensor = tensor;
    p.operands.push_back(o);
  }
  p.attrs = {0, 0, 0, 0};
  p.updates.push_back({.semaphore = 3, .value = 16});
  p.waits.push_back({.semaphore = 3, .value = wanted});
  p.streams.push_back({.engine = Engine::sync, .insns = {{.opcode = 0x80, .updates = 1, .operand = 0}}});
  p.streams.push_back(
      {.engine = Engine::scalar, .insns = {{.opcode = 0x80, .waits = static_cast<uint8_t>(with_wait), .operand = 2}}});
  return p;
}

std::vector<std::byte> numbers(int n) {
  std::vector<float> v(static_cast<size_t>(n));
  for (int i = 0; i < n; ++i) v[static_cast<size_t>(i)] = static_cast<float>(i) + 0.5f;
  std::vector<std::byte> out(v.size() * 4);
  std::memcpy(out.data(), v.data(), out.size());
  return out;
}

const Chip& trn2() { return **find_chip("trn2"); }

}  // namespace

TEST_CASE("a copy through SBUF gives the input back") {
  const auto in = numbers(32);
  const auto r = run::run_exact(copy_program(true), trn2(), {{"in", in}});
  REQUIRE(r);
  CHECK(r->finished);
  CHECK(r->findings.empty());
  REQUIRE(r->outputs.size() == 1);
  CHECK(r->outputs[0].bytes == in);
  CHECK(r->counts.transfers == 2);
}

TEST_CASE("a wait that nobody satisfies is a deadlock, not a hang") {
  const auto in = numbers(32);
  const auto r = run::run_exact(copy_program(true, 17), trn2(), {{"in", in}});
  REQUIRE(r);
  CHECK(!r->finished);
  REQUIRE(r->findings.size() == 1);
  CHECK(r->findings[0].kind == FaultKind::deadlock);
  CHECK(r->findings[0].found.find("s3>=17 (is 16)") != std::string::npos);
}

TEST_CASE("inputs are checked by name and size") {
  const auto in = numbers(32);
  const auto program = copy_program(true);
  CHECK(run::run_exact(program, trn2(), {}).error().message == "input in is missing");
  CHECK(!run::run_exact(program, trn2(), {{"in", std::span(in).subspan(1)}}));
  CHECK(!run::run_exact(program, trn2(), {{"in", in}, {"bias", in}}));
}

TEST_CASE("without the wait the two transfers race, and the finding names both") {
  const auto in = numbers(32);
  const auto r = run::run_exact(copy_program(false), trn2(), {{"in", in}});
  REQUIRE(r);
  CHECK(r->finished);
  REQUIRE(r->findings.size() == 1);
  CHECK(r->findings[0].kind == FaultKind::race);
  CHECK(r->findings[0].stream == "scalar");
  CHECK(r->findings[0].operand == "src");
  CHECK(r->findings[0].found.find("sync's dma_copy #0 may still be writing it") != std::string::npos);
}
