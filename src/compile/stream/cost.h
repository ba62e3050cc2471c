// Costs: what an instruction takes on an engine, in nanoseconds, from its row's `cycles` and the chip's numbers: the
// simulator's own cost without what crosses instructions. Instructions of one shape share one entry.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "compile/stream/kernel.h"

namespace trine::compile {

inline constexpr int kDmaEnginesMax = 16;

struct Cost {
  double interval = 0;                       // of the engine: it can start its next instruction after this
  double latency = 0;                        // from then to the result
  double load = 0;                           // tensor engine: weights, hidden behind the multiply before
  int table = -1;                            // scalar engine: which activation table
  bool sbuf = false, psum = false;           // what it touches through a port that engines share
  bool hardware = false;                     // transfers: descriptors by the issuer's own hardware, one after the other
  double issue = 0;                          // transfers: how long descriptors take
  double start = 0;                          // transfers: trigger to first byte
  double stack = 0;                          // transfers: time on the HBM stack
  std::array<double, kDmaEnginesMax> dma{};  // transfers: time on each DMA engine
};

class Costs {
 public:
  explicit Costs(Kernel& kernel);
  const Cost& of(uint32_t insn, arch::Engine e) const {
    return table_[shape_[insn] * static_cast<size_t>(kEngines) + static_cast<size_t>(e)];
  }
  // Of each instruction: how long the busiest engine of this core, or its busiest DMA engine, has worked when it is
  // reached in program order. What the kernel takes is not less.
  std::vector<double> elapsed(int core) const;
  // Of all cores together: what the busiest engine has to do that no other can, or the busiest DMA engine.
  double busiest() const;

 private:
  Cost measure(const KernelInsn& w, arch::Engine e) const;
  std::string key_of(const KernelInsn& w) const;

  Kernel& kernel_;
  std::vector<uint32_t> shape_;  // of each instruction
  std::vector<Cost> table_;      // of each shape and engine
};

}  // namespace trine::compile
