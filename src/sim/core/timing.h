// Timing: when every instruction of a program starts and ends on a chip, and where the time went.
// Deterministic: whole femtoseconds, no floating-point time. Needs no data unless an address or a loop bound does.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "arch/chips/chip.h"
#include "arch/program/program.h"
#include "base/result.h"

namespace trine::sim {

using Fs = int64_t;  // femtoseconds
inline constexpr double kFsPerNs = 1e6;
constexpr double to_ns(Fs t) { return static_cast<double>(t) / kFsPerNs; }

// What time is spent on or waited for. The first five are arch::Engine's values.
enum class Part : uint8_t {
  tensor,
  vector,
  scalar,
  gpsimd,
  sync,
  dma,        // transfers
  semaphore,  // the way of a signal between engines
  issue,      // descriptor generation busy
  port,       // a memory port another engine holds
  result,     // an earlier result of the same engine still in its pipeline
  launch,     // preamble and teardown
  count,
};
inline constexpr size_t kParts = static_cast<size_t>(Part::count);
std::string_view name(Part p);
using Parts = std::array<Fs, kParts>;

struct EventObserver;

// What if: every execution of an instruction takes this much of its own time.
struct Scale {
  uint32_t stream = 0, insn = 0;
  double execute = 1, load = 1, issue = 1;  // work: on its engine or the DMA engines; load: of weights
};

struct TimeOptions {
  bool jump = true;              // skip over loop iterations once they repeat exactly
  int64_t events_max = 1 << 20;  // recorded instructions; the rest is in the summaries
  // A window in ns, counted from the launch: what starts in it is recorded in full and never jumped over.
  double window_begin_ns = 0, window_end_ns = 0;
  int cores_on_stack = 0;  // busy cores that share an HBM stack; 0: the program's own
  int64_t steps_max = int64_t{1} << 29;
  // Values that register_load got in an exact run, per stream in order; needed only when control flow depends on data.
  std::vector<std::vector<uint32_t>> loaded;
  // Where there are none: what each register_load of a stream is taken to give, in the order they stand in it. Empty:
  // see assume.h.
  std::vector<std::vector<uint32_t>> assumed;
  std::vector<Scale> scales;
  std::vector<double> dma_engine_scale;  // of each DMA engine: its transfers take so many times as long; may be shorter
  EventObserver* observer = nullptr;     // is shown what is recorded, and what would be past events_max
};

// What an event is of its instruction. A DMA instruction makes two: `issue` on its engine, `execute` on its queue.
enum class Doing : uint8_t { execute, issue, table };  // table: an activation table is loaded first

// One executed instruction.
struct Event {
  uint32_t stream = 0, insn = 0;
  Part part = Part::tensor;  // the engine, or dma
  Doing doing = Doing::execute;
  uint8_t core = 0;
  uint16_t queue = 0;     // dma
  Fs start = 0, end = 0;  // of its interval on the unit, without the latency
  Fs done = 0;            // its result and its semaphore updates
  Fs waited = 0;          // since the unit was free
  Part waited_for = Part::count;
  int64_t cause = -1;  // the event whose update let it start (of a transfer: its issue), or -1
};

// Sees events one by one, so that a long program need not be kept.
struct EventObserver {
  virtual ~EventObserver() = default;
  virtual void on_event(const Event& e) = 0;
};

// One static instruction, over all its executions.
struct InsnTotal {
  int64_t count = 0;
  Fs busy = 0, waited = 0;
};

struct EngineTotal {
  int64_t instructions = 0;
  Fs busy = 0;     // initiation intervals: the share of time the profiler calls active
  Parts waited{};  // by what it waited for
};

struct Traffic {
  int64_t hbm_read = 0, hbm_write = 0, sbuf_read = 0, sbuf_write = 0, psum_read = 0, psum_write = 0;
  int64_t spill_save = 0, spill_reload = 0;  // DMA between SBUF and HBM scratch tensors

  Traffic& operator+=(const Traffic& o) {
    hbm_read += o.hbm_read, hbm_write += o.hbm_write, sbuf_read += o.sbuf_read, sbuf_write += o.sbuf_write;
    psum_read += o.psum_read, psum_write += o.psum_write, spill_save += o.spill_save, spill_reload += o.spill_reload;
    return *this;
  }
};

struct Timing {
  Fs end = 0;  // of the last result, preamble and teardown included
  Fs preamble = 0, teardown = 0;
  int64_t instructions = 0;                               // executed
  int64_t jumped = 0;                                     // of these, jumped over and not walked
  std::array<EngineTotal, arch::kEngineCount> engines{};  // summed over the program's cores
  int64_t transfers = 0;
  Fs dma_active = 0;   // time in which some DMA engine of the core moves data, summed over cores
  Fs dma_packets = 0;  // the same, summed over DMA engines
  int64_t flops = 0;
  Traffic traffic;
  Parts critical{};  // what `end` is made of, along the critical path; sums to it
  Fs throttled = 0;  // extra tensor time because of the current limiter
  int64_t table_loads = 0;
  std::vector<std::vector<InsnTotal>> totals;  // [stream][instruction]
  std::vector<Event> events;
  bool events_complete = true;

  struct Stuck {  // an engine that still waits when nothing can move any more
    uint32_t stream = 0, insn = 0;
    bool at_rendezvous = false;  // waits for other cores, not for a semaphore
    uint16_t semaphore = 0;
    int64_t value = 0, wanted = 0;
  };
  std::vector<Stuck> stuck;  // not empty: the program deadlocks

  struct Assumed {  // a register that decides where the program goes, without data
    uint32_t stream = 0, insn = 0;
    int64_t paths = 1;  // of a branch, the longest of them was taken; 1: a loop, of which one iteration was
    uint32_t path = 0;
  };
  std::vector<Assumed> assumed;
};

Result<Timing> time_program(const arch::Program& program, const arch::Chip& chip, const TimeOptions& options = {});

// From launch to end alone, the other cores of the HBM stack busy too: what the compiler compares variants of a unit
// by.
Result<Fs> time_among_others(const arch::Program& program, const arch::Chip& chip);

}  // namespace trine::sim
