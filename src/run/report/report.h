// Report: what a timed program means to a person: time with its band, what bounds it, memory, energy, dollars.
// Derived from a Timing alone; prints itself as text and JSON. Pictures and traces are picture/picture.h and
// profile/trace.h.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "arch/instances/instance.h"
#include "arch/program/program.h"
#include "base/format/json.h"
#include "run/report/cost.h"
#include "sim/core/timing.h"

namespace trine::run {

// What limits a program; bands are kept by these classes.
enum class Bound : uint8_t { tensor, vector, scalar, gpsimd, dma, launch, collective, count };
std::string_view name(Bound b);
std::string bound_text(Bound b);  // "tensor engine", "data movement", "latency"

struct Report {
  std::string program, instance, chip;
  int cores = 1;
  double time_ns = 0;
  double band_low_ns = 0, band_high_ns = 0;  // nine in ten measurements of such programs lay inside
  std::string band_from = {};                // which measurements
  double launch_ns = 0;                      // preamble and teardown, part of time_ns
  Bound bound = Bound::tensor;
  double bound_share = 0;  // of the critical path

  struct Engine {
    std::string name;
    double busy_ns = 0, busy_share = 0;  // the share is of all cores' time
    int64_t instructions = 0;
    std::vector<std::pair<std::string, double>> waits_ns;  // by what it waited for, longest first
  };
  std::vector<Engine> engines;  // five, then dma
  std::vector<std::pair<std::string, double>> critical_ns;

  int64_t instructions = 0, transfers = 0, flops = 0, table_loads = 0;
  sim::Traffic traffic;
  double mfu = 0, mbu = 0;  // shares, as Neuron's profiler defines them
  double throttled_ns = 0;
  int64_t sbuf_peak_bytes = 0, sbuf_bytes = 0, psum_banks_used = 0, psum_banks = 0, hbm_used_bytes = 0, hbm_bytes = 0;
  std::vector<std::string> notes;  // what was assumed where data would have said it
  Cost cost;                       // of the cores in use, for one run; energy by instruction and byte

  std::string text() const;
  Json json() const;
};

Report make_report(const arch::Program& program, const arch::Instance& instance, const sim::Timing& timing);

// Memory the program's tensors cover, per core: highest byte in any partition and PSUM banks touched.
int64_t sbuf_peak(const arch::Program& program);
int64_t psum_banks_used(const arch::Program& program, const arch::Chip& chip);

}  // namespace trine::run
