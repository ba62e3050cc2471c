// Steps of an engine in the log of runs, so that a serving run has a profile: of each program its bucket, and what the
// engine's clock gives it. Not the programs themselves: python/trine/profile/served.py makes them again from `about`.
#pragma once

#include <cstdint>
#include <string>

#include "serve/cost.h"

namespace trine::serve {

// Where nobody records, a step pays one load. `about`: JSON of the model and where it is served.
class StepLog {
 public:
  explicit StepLog(const std::string& about, int device) : about_(about), device_(device) {}
  static int64_t begin_ns();  // of the wall clock; 0 where nobody records
  void add(int64_t begin_ns, const CostTable& table, const StepPlan& plan, const StepCost& cost) const;
  // Of a draft model, whose decoding program runs once for each token that is guessed.
  void add_guesses(int64_t begin_ns, const CostTable& table, const StepPlan& plan, const StepCost& cost) const;

 private:
  void add(int64_t begin_ns, int64_t took_ns, const char* phase, int32_t size, int32_t context, int32_t runs,
           double seconds) const;

  std::string about_;
  int device_;
};

}  // namespace trine::serve
