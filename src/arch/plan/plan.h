// The host plan: a graph's computation as steps over slots of memory, in order, ready for the native executor.
// compile/ writes it, host/ runs it; neither sees the other. Invariants: every step's inputs are written before it;
// two temporaries share arena bytes only if their lifetimes do not meet; plans of loops and branches are
// self-contained.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "base/result.h"
#include "base/tensor.h"

namespace trine::arch {

using SlotId = uint32_t;

enum class SlotKind : uint8_t {
  input,      // the caller's memory, read only
  output,     // the caller's memory
  constant,   // HostPlan::constants[index]
  temporary,  // `offset` in the plan's arena
};

struct Slot {
  SlotKind kind = SlotKind::temporary;
  Dtype dtype = Dtype::f32;
  Dims dims = {};
  uint32_t index = 0;  // of input, output or constant
  int64_t offset = 0;  // of a temporary, in bytes, a multiple of 64

  size_t bytes() const { return size_t(element_count(dims)) * size_t(trine::bytes(dtype)); }
};

struct HostPlan;

// An op by its reference meaning. Made by compile/, which knows the ops; called from any thread.
struct CallStep {
  std::string op = {};
  std::function<Result<void>(std::span<const TensorView> in, std::span<const TensorView> out)> run = {};
};

// Copies in[0] to out[0]; slots may be the same memory.
struct CopyStep {};

// Inputs: carried values, then what cond and body use besides. Outputs: carried values after the last turn.
// Both plans take (carried ..., used ...); cond gives bool[], body the next carried values.
struct WhileStep {
  uint32_t carried = 0;
  std::shared_ptr<const HostPlan> cond = {}, body = {};
};

// Inputs: index s32[], then what the branches use; every branch takes all of those. An index out of range is the last.
struct CaseStep {
  std::vector<std::shared_ptr<const HostPlan>> branches = {};
};

enum class CollectiveKind : uint8_t {
  all_reduce,
  reduce_scatter,
  all_gather,
  all_to_all,
  permute,
  broadcast,
  partition_id,
  replica_id,
};

// Values meet between devices: the caller's Meeting does it.
struct CollectiveStep {
  CollectiveKind kind = CollectiveKind::all_reduce;
  std::string reduction = {};                   // "add", "maximum" ...; empty: `reduce` decides
  std::shared_ptr<const HostPlan> reduce = {};  // (a, b) -> c on scalars
  std::vector<std::vector<int64_t>> groups = {};
  std::vector<std::pair<int64_t, int64_t>> pairs = {};  // permute: source, target
  int64_t dim = 0, other_dim = 0, split_count = 1;
  int64_t channel = 0;
  bool is_global = false;  // groups name global device numbers
};

struct Step {
  std::variant<CallStep, CopyStep, WhileStep, CaseStep, CollectiveStep> what = CopyStep{};
  std::vector<SlotId> in = {}, out = {};
  uint32_t where = 0;  // HostPlan::places
};

struct HostPlan {
  std::vector<Slot> slots = {};
  std::vector<Step> steps = {};
  std::vector<SlotId> inputs = {}, outputs = {};
  std::vector<Tensor> constants = {};
  std::vector<int> donations = {};  // per input: the output that may take its memory, or -1
  std::vector<std::string> places = {""};
  int64_t arena_bytes = 0;
  double flops = 0;        // a rough count, to decide whether to run inline
  double moved_bytes = 0;  // likewise
};

}  // namespace trine::arch
