// A compiled program, not yet on any device: what the PJRT plugin, the C API and Python make from StableHLO bytes.
// Immutable; keeps the bytes it was made from, which are also its saved form.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "arch/plan/plan.h"
#include "base/result.h"
#include "compile/graph/layout.h"
#include "compile/host/native.h"
#include "compile/partition/sharding.h"

namespace trine::api {

struct CompileOptions {
  int64_t replicas = 1, partitions = 1;
  compile::Numerics numerics = {};
  compile::FindHostFunction host_functions = {};  // empty: programs that call any are refused
  bool has_layouts = false;          // inputs and outputs lie as the program says; otherwise all are row-major
  bool has_choosing_truths = false;  // a factor that is a converted truth chooses, as in XLA
};

struct Executable {
  CompileOptions options = {};
  std::shared_ptr<const arch::HostPlan> plan = {};
  compile::ShardingTexts shardings = {};
  compile::Layouts layouts = {};               // slots of inputs and outputs have the dims as they lie
  std::vector<std::string> output_kinds = {};  // of memory, one per output; empty: the device's own
  std::string text = {};                       // the plan as a StableHLO module of calls, for people and for JAX
  std::string fingerprint = {};                // of everything that decides what is computed

  const std::string& name() const { return plan->source->name; }
  const std::string& artifact() const { return plan->source->artifact; }
  size_t input_count() const { return plan->inputs.size(); }
  size_t output_count() const { return plan->outputs.size(); }
  const arch::Slot& input(size_t i) const { return plan->slots[plan->inputs[i]]; }
  const arch::Slot& output(size_t i) const { return plan->slots[plan->outputs[i]]; }
  const Dims& input_layout(size_t i) const { return layouts.params[i]; }
  const Dims& output_layout(size_t i) const { return layouts.results[i]; }
  Dims input_dims(size_t i) const { return compile::dims_from_memory(input(i).dims, input_layout(i)); }
  Dims output_dims(size_t i) const { return compile::dims_from_memory(output(i).dims, output_layout(i)); }
  int64_t input_bytes() const;
  int64_t output_bytes() const;
  int64_t donated_bytes() const;  // of outputs that take an input's memory
};

using ExecutablePtr = std::shared_ptr<const Executable>;

Result<ExecutablePtr> compile(std::string artifact, const CompileOptions& options);
// With numbers as the environment says (api/numerics.h), then as `flags` do.
Result<ExecutablePtr> compile_with_flags(std::string artifact, std::string_view flags = {});

// The saved form: a header with versions and a checksum, `extra` for the caller, the artifact.
std::string save(const Executable& executable, std::string_view extra = {});
std::string sealed(std::string_view head_and_body);  // with what goes before them: the format's name and the checksum
struct Loaded {
  ExecutablePtr executable;
  std::string extra;
};
Result<Loaded> load(std::string_view bytes);
Result<std::string> saved_as_hlo(std::string_view bytes);  // its ops, as XLA would write them

}  // namespace trine::api
