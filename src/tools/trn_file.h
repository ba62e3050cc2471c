// Compiled models by file name, for `trine run`: inputs in the model's own names and shapes, weights from where they
// lie, values exactly or natively.
#pragma once

#include <string>
#include <vector>

#include "api/machine.h"
#include "compile/aot/trn.h"
#include "run/drivers/exact/exact.h"
#include "tools/cli.h"

namespace trine::tools {

// The machine a compiled model runs on: its own chip's where none was asked for; another chip is refused.
Result<api::Machine> machine_for(const Args& args, const std::string& chip, const std::string& path);

struct TrnInputs {
  std::vector<Tensor> owned = {};
  std::vector<TensorView> given = {};  // of each parameter, in the graph's types
  bool random = false;                 // some were made up
};
// --input NAME=FILE.npy by the model's names; weights from the file; what is left made up from the seed.
Result<TrnInputs> read_inputs(const Args& args, const compile::Trn& trn, uint64_t seed);

// Every instruction, and the host's parts natively; outputs as `out0`, `out1`, …
struct TrnRun {
  run::RunResult result = {};
  std::vector<std::vector<std::vector<uint32_t>>> loaded = {};  // of each part
};
Result<TrnRun> run_exactly(const compile::Trn& trn, const TrnInputs& inputs, const arch::Chip& chip,
                           const run::ExactOptions& options);

// By the graph, at host speed; outputs as `out0`, `out1`, …
Result<std::vector<run::Output>> run_native(const compile::Trn& trn, const TrnInputs& inputs);

// Elements as f32; of a complex one both parts.
std::vector<float> floats(const run::Output& o);

// The largest difference of each output, over its largest value.
std::vector<double> differences(const std::vector<run::Output>& a, const std::vector<run::Output>& b);

}  // namespace trine::tools
