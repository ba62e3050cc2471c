// The exact driver: runs every instruction of a program on simulated HBM, SBUF and PSUM and gives the values.
// No time here (drivers/timed). Deterministic: same program, chip, inputs and options, same bytes and findings.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "arch/chip.h"
#include "arch/program.h"
#include "base/number.h"
#include "base/result.h"
#include "run/finding.h"

namespace trine::run {

// Bytes of each input tensor, row major. Borrowed for the run; copied only where the program writes them.
using Inputs = std::map<std::string, std::span<const std::byte>, std::less<>>;

struct ExactOptions {
  uint64_t seed = 0;
  bool stochastic = false;  // rounding of results, seeded
  bool trap_nan = false;    // a NaN that an instruction writes is a finding
  bool check_races = true;
  int findings_max = 20;
  int64_t steps_max = 0;  // instructions, loops expanded; 0: no limit
};

struct Output {
  std::string name;
  Dtype dtype = Dtype::f32;
  std::vector<int64_t> shape;
  std::vector<std::byte> bytes;
};

struct Counts {
  int64_t instructions = 0;  // executed, control flow included
  int64_t transfers = 0;     // DMA
};

struct RunResult {
  std::vector<Output> outputs;
  std::vector<Finding> findings;
  int64_t findings_dropped = 0;  // beyond findings_max
  bool finished = false;         // every stream reached its end
  Counts counts;
  std::vector<std::vector<uint32_t>> loaded;  // of each stream: what its register_loads gave, for the timer
};

// The error is what arch::verify says, or about the inputs or the host; never about how the run went.
Result<RunResult> run_exact(const arch::Program& program, const arch::Chip& chip, const Inputs& inputs,
                            const ExactOptions& options = {});

}  // namespace trine::run
