// Assumptions: what registers hold that decide where a program goes, where no data says it. Of each branch every path
// is timed and the longest is taken, one branch after the other; a loop whose iterations depend on data makes one.
#pragma once

#include <vector>

#include "sim/core/timing.h"

namespace trine::sim {

// What each stream's register_loads give, in the order they stand in it.
using Loads = std::vector<std::vector<uint32_t>>;

class Assumptions {
 public:
  explicit Assumptions(const arch::Program& program);

  // Is there anything to assume, and do the streams that go by registers load as many of them?
  bool applies() const { return !sites_.empty(); }
  Result<Timing> time(const arch::Chip& chip, const TimeOptions& options);

 private:
  struct Site {
    size_t datum = 0;  // loads of one address give one value
    uint32_t first = 1;
  };
  struct Datum {
    uint32_t insn = 0;
    int64_t paths = 1;  // that a branch by it has; 1: none
    bool steers = false;
    uint32_t value = 0;
  };
  Loads loads() const;
  void look(size_t stream);

  const arch::Program& program_;
  std::vector<char> steers_;  // of each stream
  uint32_t stream_ = 0;       // the first that goes by registers; the others load the same
  std::vector<Site> sites_;   // its loads
  std::vector<Datum> data_;
};

}  // namespace trine::sim
