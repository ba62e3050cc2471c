// Prepared: one static instruction with all that timing needs of it, computed once, so that walking is cheap.
// Durations are whole femtoseconds on the chip in hand.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "arch/row.h"
#include "arch/transfer.h"
#include "sim/core/timing.h"

namespace trine::sim {

enum class Kind : uint8_t { control, semaphore, engine, matmul, queue, register_load, rendezvous };

// Bytes an on-chip operand may touch; the affine part is added when it is walked.
struct Footprint {
  arch::Space space = arch::Space::sbuf;
  bool writes = false;
  uint8_t core = 0;
  int16_t partition = 0, partitions = 0;
  int64_t low = 0, high = 0;         // byte range inside the partition
  uint32_t tensor = 0, pattern = 0;  // pattern: for the loop steps
  int32_t element_bytes = 1;
};

struct TimedInsn {
  Kind kind = Kind::control;
  uint8_t waits = 0, updates = 0;
  bool touches_sbuf = false, touches_psum = false, fast = false;
  int16_t table = -1;
  uint16_t cells = 0xffff;  // matmuls: parts of the array, row by row of a 4 by 4 grid
  uint16_t queue = 0;
  arch::Dge dge = arch::Dge::none;
  uint32_t wait = 0, update = 0;
  uint32_t footprint = 0, footprints = 0;
  uint32_t transfer = 0;  // in Plan::transfers
  Fs interval = 0, load = 0, latency = 0;
  int64_t flops = 0;
  Traffic traffic;
};

struct TransferTime {
  std::vector<Fs> engine;  // time on each DMA engine; zero: no share
  Fs stack = 0;            // time on the HBM stack
  Fs issue = 0;            // time of descriptor generation on its issuer
  Fs start = 0;            // trigger to first byte
  Fs packets = 0;          // sum over engines
};

struct Plan {
  std::vector<std::vector<TimedInsn>> streams;
  std::vector<Footprint> footprints;
  std::vector<TransferTime> transfers;
  Fs semaphore_latency = 0, completion = 0, turnaround = 0, table_load = 0;
  Fs lookback = 0;  // the longest from descriptors in the ring to first byte
};

Fs cycles_to_fs(double cycles, double ghz);
Plan make_plan(const arch::Program& program, const arch::Chip& chip, const TimeOptions& options);

}  // namespace trine::sim
