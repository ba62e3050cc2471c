// Trace: records an NKI kernel call by call. Every call is checked where it is made, so that an error carries the
// user's line. What was recorded becomes a Program in compile/stream. Invariant: the same calls give the same kernel.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "arch/program/kernel.h"
#include "arch/program/verify.h"
#include "base/diagnostic.h"

namespace trine::front {

using arch::Kernel;
using arch::KernelInsn;

struct TensorArgs {
  std::string name = {};
  arch::Space space = arch::Space::sbuf;
  std::string dtype = "f32";
  std::vector<int64_t> shape = {};  // on chip: partitions first
  arch::TensorKind kind = arch::TensorKind::scratch;
  std::optional<std::pair<int64_t, int64_t>> address = {};  // partition, byte; the scheduler's choice without it
  std::span<const std::byte> data = {};                     // of a constant
  int core = 0;
  int64_t alias = -1;  // an output that is this input's storage
  std::string file = {};
  uint32_t line = 0;
};

// How an operand walks a tensor, in elements of its dtype; see arch::Pattern.
struct TileArgs {
  uint32_t tensor = 0;
  std::string dtype = {};  // empty: the tensor's
  int64_t partition = 0, partitions = 1, offset = 0, partition_stride = 0;
  std::vector<std::pair<int64_t, int64_t>> dims = {};  // stride, count
  std::vector<int64_t> steps = {};
  // A register's number, or an operand of indices, and the scale.
  std::optional<std::pair<int64_t, int64_t>> reg = {}, rows = {}, free = {};
};

using AttrValue = std::variant<int64_t, double, std::string, std::vector<int64_t>>;

struct EmitArgs {
  std::string_view row = {};
  std::string_view engine = {};  // empty: the scheduler's choice
  std::vector<std::pair<std::string_view, uint32_t>> operands = {};
  std::vector<std::pair<std::string_view, AttrValue>> attrs = {};
  int core = 0;
  std::string_view file = {};
  uint32_t line = 0;
  std::vector<uint32_t> after = {};
  bool fixed_order = false;
};

// Whose a kernel's buffers and order are.
enum class Dialect : uint8_t {
  current,           // the user's: what is allocated once is one place
  functional,        // the compiler's: tiles are values, which Neuron's tensorizer rearranges
  functional_as_is,  // the same without that: skip_middle_end_transformations
};

class Trace {
 public:
  static Result<Trace> make(std::string name, std::string_view chip, int cores = 1, Dialect = Dialect::current);
  // On a chip of one's own, which must outlive the trace.
  static Result<Trace> make(std::string name, const arch::Chip& chip, int cores = 1, Dialect = Dialect::current);

  Result<uint32_t> tensor(const TensorArgs& args);
  Result<uint32_t> tile(const TileArgs& args);
  uint32_t immediate(double value);
  Result<uint32_t> register_(int64_t number);
  Result<uint32_t> emit(const EmitArgs& args);
  // `iterations` or `reg` is given. With `while_nonzero` it goes on for as long as the register is not zero, and its
  // index stays 0; else the register holds the number of iterations.
  Result<void> loop(std::optional<int64_t> iterations, std::optional<int64_t> reg, int core = 0,
                    bool while_nonzero = false);
  Result<void> end_loop(int core = 0);

  // One more order: the consumer begins when the producers, recorded before it, are over.
  Result<void> depends(uint32_t consumer, std::span<const uint32_t> producers);

  // Ends the recording, once: what compile/stream makes a Program of. It stays the trace's.
  Result<arch::Kernel*> close();

  const std::vector<std::string>& messages() const { return kernel_.messages; }
  const Diagnostic& diagnostic() const { return diagnostic_; }  // of the last error

 private:
  Trace() = default;
  Error diagnose(Diagnostic c);
  Error wrong(std::string_view rule, std::string found, std::string expected, std::string fix = {});
  Result<Dtype> dtype_of(std::string_view name);
  Result<void> check_core(int core);
  Result<uint32_t> dynamic_of(const TileArgs& args);
  Result<void> set_operands(const EmitArgs& args, arch::Draft& draft);
  Result<void> set_attrs(const EmitArgs& args, arch::Draft& draft, KernelInsn& insn);
  Result<int64_t> encode(const arch::RowInfo& info, const arch::AttrSlot& slot, const AttrValue& value);
  Result<void> choose_engines(const EmitArgs& args, KernelInsn& insn);
  void join_depends();

  Kernel kernel_;
  std::vector<arch::Operand> handles_;
  std::vector<std::pair<uint32_t, uint32_t>> depends_;  // consumer, producer
  std::vector<arch::LoopNest> loops_;                   // of each core
  std::unordered_map<std::string, int> names_;
  Diagnostic diagnostic_;
  std::string_view file_;  // of the call in hand
  uint32_t line_ = 0;
  bool own_buffers_ = true;
  bool closed_ = false;
};

}  // namespace trine::front
