// What a step takes on the chip: programs timed for some buckets, and what lies between them.
// Not a timer: the seconds were made by it (trine.serve.cost). Batches and chunks go up to the next bucket,
// as the program that runs has that size; contexts in between are interpolated.
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "serve/scheduler.h"

namespace trine::serve {

// seconds[i * contexts.size() + j] of a program for sizes[i] tokens (or sequences) that see contexts[j] tokens.
struct CostGrid {
  std::vector<int32_t> sizes, contexts;
  std::vector<double> seconds;

  Result<void> check(const char* what) const;
  int32_t bucket(int32_t size) const;  // the largest where none is large enough
  double at(int32_t size, double context) const;
};

struct CostTable {
  CostGrid prompt, decode;
  double low = 1, high = 1;  // of a time's 90 % band
  double launch = 0;         // seconds between two steps on the host of the instance
  double watts = 0, idle_watts = 0;
  double dollars_per_hour = 0;
  double transfer_seconds_per_token = 0;  // of keys and values to another instance

  explicit operator bool() const { return !decode.sizes.empty(); }
  Result<void> check() const;
};

struct StepCost {
  double prompt = 0, decode = 0, launch = 0;  // seconds
  double draft = 0;                           // of the model that guesses
  double shares = 0;                          // of prompt: those in small chunks
  int32_t together = 0;                       // tokens of the others, which are one program
  double seconds() const { return prompt + decode + launch + draft; }
};

// A prompt that comes in chunks smaller than the table's programs (Sequence::in_shares) takes its share of the program
// that reads it whole; the step's other prompts are one program.
StepCost cost_of(const CostTable& table, const StepPlan& plan);
// Of a draft model: it reads the step's prompts, then guesses token after token, and reads the last guess too.
StepCost draft_cost_of(const CostTable& table, const StepPlan& plan);
double share_of(const CostTable& table, const StepRow& row);

}  // namespace trine::serve
