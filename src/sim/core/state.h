// The timer's whole state between two steps. Plain data, so that it can be copied, compared relative to its own "now",
// and moved ahead: that is what jumping over repeating loop iterations rests on (jump.cpp).
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "sim/core/timing.h"

namespace trine::sim {

// A moment and how the critical path to it is made up; the parts always sum to the time.
struct Stamp {
  Fs time = 0;
  Parts path{};

  void spend(Part part, Fs d) {
    time += d;
    path[static_cast<size_t>(part)] += d;
  }
  void reach(Part part, Fs until) {
    if (until > time) spend(part, until - time);
  }
};

// Whole-number counters only: a jump adds m times what one period added.
struct Tally {
  std::array<EngineTotal, arch::kEngineCount> engines{};
  int64_t instructions = 0, transfers = 0, flops = 0, table_loads = 0;
  Fs dma_active = 0, dma_packets = 0, throttled = 0;
  Traffic traffic;
};
inline constexpr size_t kTallyWords = sizeof(Tally) / sizeof(int64_t);
static_assert(sizeof(Tally) % sizeof(int64_t) == 0 && std::is_trivially_copyable_v<Tally>);

// A result still in the engine's pipeline.
struct Inflight {
  uint8_t space = 0, core = 0;
  int16_t partition = 0, partitions = 0;
  int64_t low = 0, high = 0;
  Fs done = 0;
};
inline constexpr size_t kInflightMax = 8;

struct EngineState {
  Stamp time;                      // when the sequencer can issue its next instruction
  Fs ready = 0;                    // since when the unit has been free for it
  Fs multiply_free = 0;            // tensor engine: the array, all of it
  std::array<Fs, 16> cell_free{};  // and its 4 by 4 parts, which tiled matmuls occupy apart
  Fs issue_free = 0;               // descriptor generation of this engine
  bool blocked = false, rendezvous = false;
  uint8_t wait = 0;  // which of the instruction's waits
  int16_t table = -1;
  Part waited_for = Part::count;
  int64_t cause = -1;
  uint8_t inflights = 0;
  std::array<Inflight, kInflightMax> inflight{};
};

// The current limiter: recent idle gaps of the tensor engine and when the limit last engaged.
struct Throttle {
  struct Gap {
    Fs begin = 0, end = 0;
  };
  Fs engaged = 0;
  bool ever = false;
  uint8_t gaps = 0;
  std::array<Gap, 16> gap{};
};

struct CoreDma {
  std::vector<Fs> engine;  // free from
  std::vector<Fs> ring;    // of each queue in use: its next transfer not before
  Fs active_until = 0;
};

struct Pending {
  Stamp at;
  uint64_t sequence = 0;
  bool arrival = false;  // a transfer reaches its queue; else an instruction's semaphore updates
  uint8_t engine = 0;    // index in State::engines of the issuer
  Part from = Part::tensor;
  uint32_t insn = 0;
  int64_t event = -1;  // of the instruction, where it was recorded
  Fs waited = 0;       // arrival: how long its issuer had waited
  bool later_than(const Pending& o) const { return at.time != o.at.time ? at.time > o.at.time : sequence > o.sequence; }
};

struct State {
  std::vector<EngineState> engines;
  std::vector<std::vector<int64_t>> semaphores;         // [core][index among those in use]
  std::vector<CoreDma> dma;                             // per core
  std::vector<Fs> stack;                                // HBM stacks: free from
  std::vector<std::array<Fs, 2>> sbuf_port, psum_port;  // per core: {vector, the other engine} busy until
  std::vector<Throttle> throttle;                       // per core
  std::vector<Pending> pending;                         // heap by time
  std::vector<size_t> loaded;                           // register_load values consumed, per stream
  Fs last = 0;                                          // latest result so far
  Stamp last_stamp;
  Tally tally;
};

}  // namespace trine::sim
