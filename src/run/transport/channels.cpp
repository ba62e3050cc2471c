// Rings with one writer and one reader each; see channels.h.
#include "run/transport/channels.h"

#include <algorithm>
#include <cstring>

#include "run/transport/futex.h"

namespace trine::run {

size_t SharedChannels::write(int to, std::span<const std::byte> bytes) {
  Ring& ring = shared_.ring(shared_.rank(), to);
  const uint64_t at = ring.written.load(std::memory_order_relaxed);
  const uint64_t free = kRingBytes - (at - ring.read.load(std::memory_order_acquire));
  const size_t count = std::min<size_t>(bytes.size(), free),
               first = std::min<size_t>(count, kRingBytes - at % kRingBytes);
  if (count == 0) return 0;
  std::memcpy(ring.bytes + at % kRingBytes, bytes.data(), first);
  std::memcpy(ring.bytes, bytes.data() + first, count - first);
  ring.written.store(at + count, std::memory_order_release);
  shared_.wake_rank(to);
  return count;
}

size_t SharedChannels::read(int from, std::span<std::byte> bytes) {
  Ring& ring = shared_.ring(from, shared_.rank());
  const uint64_t at = ring.read.load(std::memory_order_relaxed);
  const uint64_t there = ring.written.load(std::memory_order_acquire) - at;
  const size_t count = std::min<size_t>(bytes.size(), there),
               first = std::min<size_t>(count, kRingBytes - at % kRingBytes);
  if (count == 0) return 0;
  std::memcpy(bytes.data(), ring.bytes + at % kRingBytes, first);
  std::memcpy(bytes.data() + first, ring.bytes, count - first);
  ring.read.store(at + count, std::memory_order_release);
  shared_.wake_rank(from);
  return count;
}

void SharedChannels::wait(uint32_t seen, std::chrono::milliseconds most) {
  SharedRank& me = shared_.at(shared_.rank());
  me.is_asleep.store(1);
  if (me.doorbell.load() == seen) futex_wait(me.doorbell, seen, most);
  me.is_asleep.store(0);
}

}  // namespace trine::run
