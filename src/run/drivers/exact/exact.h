// The exact driver: runs every instruction of a program on simulated HBM, SBUF and PSUM and gives the values.
// No time here (drivers/timed). Deterministic: same program, chip, inputs and options, same bytes and findings.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "arch/chips/chip.h"
#include "arch/program/program.h"
#include "base/number/number.h"
#include "base/result.h"
#include "run/report/finding.h"

namespace trine::run {

// Bytes of each input tensor, row major. Borrowed for the run; copied only where the program writes them.
using Inputs = std::map<std::string, std::span<const std::byte>, std::less<>>;

// A bit that is flipped while a program runs: of a tensor in HBM, or of a partition on chip.
struct Flip {
  int64_t tensor = -1;  // its number; -1: on chip
  arch::Space space = arch::Space::sbuf;
  int core = 0;
  int64_t partition = 0, byte = 0;
  int bit = 0;
  int64_t after = 0;    // instructions, of all engines together
  bool at_end = false;  // once the program has ended, instead
};

// Where an engine stood when a program came to a stop.
struct EngineState {
  std::string stream = {}, state = {};  // "vector"; "ended", "waits", "could go on"
  int core = 0;
  uint32_t index = 0;
  std::string instruction = {}, where = {}, waits_for = {};
  std::vector<int64_t> loops = {};
};

// Bytes that an instruction at which an engine stood was to touch.
struct MemoryPiece {
  std::string stream = {}, operand = {}, tensor = {}, space = {}, dtype = {};
  int64_t address = 0, partition = 0;
  std::vector<std::byte> bytes = {};
};

struct StopState {
  std::vector<EngineState> engines = {};
  std::vector<std::vector<int64_t>> semaphores = {};  // by core
  std::vector<MemoryPiece> memory = {};
};

struct ExactOptions {
  uint64_t seed = 0;
  bool stochastic = false;  // rounding of results, seeded
  bool trap_nan = false;    // a NaN that an instruction writes is a finding
  bool check_races = true;
  int findings_max = 20;
  int64_t steps_max = 0;  // instructions, loops expanded; 0: no limit
  // A read of what nobody wrote is a warning where no output depends on what was there: further runs, with other values
  // there, give the same.
  bool weigh_unwritten = false;
  std::vector<Flip> flips = {};  // by `after`; with any, races are not looked for
  bool keeps_state = false;      // of a run that did not finish or has findings: where it stood
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
  std::vector<std::vector<uint32_t>> loaded;      // of each stream: what its register_loads gave, for the timer
  std::shared_ptr<const StopState> stopped = {};  // where options.keeps_state
};

struct DecodedProgram;

// A program made ready for a chip, to be run many times. Whether it races, reads what nobody wrote or breaks a PSUM
// group rarely depends on data: once a run has shown that no data can make it, later runs do not look again, and give
// the same values and findings. Threads may share it. `program` and `chip` have to outlive it.
class ExactProgram {
 public:
  // The error is what arch::verify says.
  static Result<std::shared_ptr<const ExactProgram>> make(const arch::Program& program, const arch::Chip& chip);
  ~ExactProgram();
  // The error is about the inputs or the host; never about how the run went.
  Result<RunResult> run(const Inputs& inputs, const ExactOptions& options = {}) const;
  bool settled() const { return state_ == State::settled; }
  const arch::Chip& chip() const;

 private:
  enum class State : uint8_t { open, settled, never };
  ExactProgram(const arch::Program& program, const arch::Chip& chip);
  Result<RunResult> run_tracked(const Inputs& inputs, const ExactOptions& options, bool strict, bool& settled) const;
  Result<bool> run_settled(const Inputs& inputs, const ExactOptions& options, RunResult& result) const;
  Result<RunResult> run_faulted(const Inputs& inputs, const ExactOptions& options) const;
  Result<RunResult> run_filled(const Inputs& inputs, const ExactOptions& options, std::byte fill) const;
  Result<void> weigh(const Inputs& inputs, const ExactOptions& options, RunResult& result) const;

  std::unique_ptr<const DecodedProgram> decoded_;
  std::vector<Finding> unfit_;  // what does not fit the chip
  mutable std::atomic<State> state_ = State::open;
};

// Made ready and run once. The error is what arch::verify says, or about the inputs or the host; never about how the
// run went.
Result<RunResult> run_exact(const arch::Program& program, const arch::Chip& chip, const Inputs& inputs,
                            const ExactOptions& options = {});

}  // namespace trine::run
