// Explain: what bounds a timed program, by how much, what to change first, and which instructions to look at.
// Every "would take" is the model's own: the program is timed again with one thing changed, or bounded by its busiest
// unit ("at best"). Rules are rows of rules.cpp; how it reads is text.cpp.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "arch/instances/instance.h"
#include "arch/program/program.h"
#include "base/format/json.h"
#include "base/result.h"
#include "run/report/report.h"
#include "sim/core/timing.h"

namespace trine::run {

// An instruction as people see it.
struct Site {
  std::string engine, instruction, at;  // at: "kernel.py:12" or empty
};

struct Advice {
  std::string_view rule = {};
  std::string what = {}, why = {}, fix = {};  // sentences; fix ends before "about 230 µs"
  double would_ns = 0;                        // the whole program, if heeded
  bool at_best = false;                       // a bound, not a re-timing
  Site site = {};                             // empty when no instruction is to blame
};

// An instruction over all its executions, and those that differ from it only in their tensors or loop iteration.
struct Hotspot {
  Site site;          // of the busiest
  int64_t alike = 0;  // how many more there are
  int64_t count = 0;
  double busy_ns = 0, waited_ns = 0;
  double without_ns = 0;  // the whole program, if its work took no time
};

struct Explanation {
  Report report;
  double without_bound_ns = 0;  // the program if what bounds it took no time
  std::vector<Advice> advice;   // what saves most first
  std::vector<Hotspot> hotspots;

  std::string text(bool all = false) const;  // else the first three pieces of advice
  Json json() const;
};

// `program` has passed arch::verify; `timing` is its own with `options`, and not of a deadlock.
Explanation explain(const arch::Program& program, const arch::Instance& instance, const sim::TimeOptions& options,
                    const sim::Timing& timing);

std::string explain_markdown();  // docs/explain.md

}  // namespace trine::run
