// Transfer: what a DMA instruction asks of the DMA engines and memories, from its access patterns alone; no data is
// looked at, so it is the same for every execution of a static instruction. Not its time: sim/core makes that from
// these counts. Invariant: the shares' bytes add up to `bytes`, and no share is empty.
#pragma once

#include <cstdint>
#include <vector>

#include "arch/call.h"
#include "arch/chips/chip.h"

namespace trine::arch {

// Opcodes whose transfers are not plain copies; their rows are in insns/dma.cpp.
inline constexpr uint16_t kOpDmaTranspose = 0x81, kOpDmaCompute = 0x82;

struct Transfer {
  int64_t bytes = 0;  // through the engines: of the wider side where the dtype changes, of every source for dma_compute
  int64_t hbm_read = 0, hbm_write = 0, sbuf_read = 0, sbuf_write = 0;

  // The part one DMA engine moves. A descriptor is one run contiguous on both sides.
  struct Share {
    int engine = 0;
    int64_t bytes = 0;
    int64_t descriptors = 0;
    int64_t strided_descriptors = 0;  // whose HBM side does not continue the previous one's
  };
  std::vector<Share> shares;
  double rate_fraction = 1;  // of the engines' copy rate
  bool far = false;          // an HBM side jumps at least dma.far_bytes from descriptor to descriptor

  int64_t descriptors() const {
    int64_t n = 0;
    for (const Share& s : shares) n += s.descriptors;
    return n;
  }
};

// `call` is of a row with a `dst` tile and one or more tiles that are read. Indirect rows count as all in bounds.
Transfer describe_transfer(const Chip& chip, const Call& call);

}  // namespace trine::arch
