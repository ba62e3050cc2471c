// Injected faults: a text, rows of it. `KIND:key=value,…`, several joined by `;`. Deterministic: rates draw from a
// seed.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "arch/program/program.h"
#include "base/result.h"
#include "run/counters/page.h"

namespace trine::run {

enum class FaultSort : uint8_t { flip, stuck, slow, throttle, lost, ecc };

struct InjectedFault {
  FaultSort sort = FaultSort::flip;
  int64_t core = -1;        // logical; -1: every one
  int64_t after = 0;        // runs that go well before it; of a flip in an exact run also `instructions`
  int64_t bit = 0;          // flip: in the byte
  double rate = 0;          // flip: of a bit, per run, over inputs and outputs; 0: one place
  uint64_t seed = 0;        // of a rate
  std::string tensor = {};  // flip: a tensor's name, and the byte in it; else an address
  arch::Space space = arch::Space::hbm;
  int64_t partition = 0, address = 0, instructions = 0;
  int64_t semaphore = 0;  // stuck
  int64_t engine = 0;     // slow: a DMA engine
  double by = 1;          // slow, throttle: times as long
  PageEcc ecc = PageEcc::mem_corrected;
  int64_t count = 0;      // ecc: events
  std::string text = {};  // as it was given
};
using Faults = std::vector<InjectedFault>;

Result<Faults> parse_faults(std::string_view text);
std::string faults_help();  // the kinds, one line each

// Those that change time, as a text that parse_faults reads; empty: none.
std::string time_faults(const Faults& faults);

}  // namespace trine::run
