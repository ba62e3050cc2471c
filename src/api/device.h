// A StableHLO program as instructions of a chip: front-end and device compiler in a row.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "arch/chips/chip.h"
#include "arch/program/program.h"
#include "base/result.h"
#include "base/tensor.h"
#include "run/drivers/exact/exact.h"
#include "run/report/finding.h"

namespace trine::compile {
struct SplitProgram;
}

namespace trine::api {

struct DeviceChoice {
  std::string auto_cast = "none";       // none, matmult or all
  std::string auto_cast_type = "bf16";  // bf16, f16, tf32, f8
  std::vector<int64_t> weights = {};    // inputs that stay the same from call to call
};

// What a run gives: values, and what real hardware would have left undefined.
struct Ran {
  std::vector<Tensor> outputs = {};
  std::vector<run::Finding> findings = {};
  int64_t instructions = 0, transfers = 0;
  bool finished = true;                                         // every part did
  std::vector<std::vector<std::vector<uint32_t>>> loaded = {};  // of each part: as run::RunResult
};

// A program for one core, and how its inputs are prepared. Where the device does not compute all of it, parts: programs
// with what the host runs between them.
class Compiled {
 public:
  explicit Compiled(std::shared_ptr<const compile::SplitProgram> split);
  const compile::SplitProgram& split() const { return *split_; }
  // The one program; an error names what runs on the host where there are parts.
  Result<const arch::Program*> program() const;
  size_t input_count() const;
  // The input's bytes as the program's tensor holds them; weights are cast and laid out.
  Result<Tensor> prepare(size_t input, const TensorView& given) const;
  // Every instruction on a simulated machine; the host's parts natively. What was made ready for one run serves the
  // next. prepared: of some inputs, by number, the bytes that prepare() gave; not where there are parts.
  using InputBytes = std::map<size_t, std::span<const std::byte>>;
  Result<Ran> run(std::vector<TensorView> inputs, const arch::Chip& chip, const run::ExactOptions& options = {},
                  const InputBytes& input_bytes = {}) const;
  // What it asks of other cores, as a JSON list of kind, bytes, ranks, count.
  const std::string& collectives() const { return collectives_; }
  void set_collectives(std::string json) { collectives_ = std::move(json); }
  // Was it in the compile cache, under which hash, and why the cache could not be used.
  struct Cached {
    bool found = false;
    std::string hash = {}, trouble = {};
  };
  const Cached& cached() const { return cached_; }
  void set_cached(Cached cached) { cached_ = std::move(cached); }

 private:
  struct Ready;  // parts that have run, for the next time
  std::shared_ptr<const compile::SplitProgram> split_;
  std::shared_ptr<Ready> ready_;
  std::string collectives_ = "[]";
  Cached cached_;
};

// artifact: StableHLO, portable artifact or text, or a graph's text. Goes through the compile cache that the
// environment names (docs/cache.md).
Result<Compiled> compile_for_device(const std::string& artifact, const arch::Chip& chip, const DeviceChoice& choice);

}  // namespace trine::api
