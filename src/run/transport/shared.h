// What the ranks of one host have in common: a segment with a header, a record of each rank, and buffers. Ranks go
// through it in phases: everyone arrives, the last wakes the others. Who waits also looks whether the others are still
// there; the first to find something wrong breaks the group, for all, with one message.
#pragma once

#include <atomic>
#include <functional>
#include <memory>

#include "run/transport/operation.h"
#include "run/transport/segment.h"

namespace trine::run {

constexpr int64_t kSlotBytes = 4 << 20;         // of a rank, in each of two phases
constexpr int64_t kRingBytes = 64 << 10;        // between two ranks, one direction
constexpr std::chrono::milliseconds kTick{50};  // who waits looks round this often

struct SharedHeader {
  alignas(64) std::atomic<uint32_t> phase;  // phases that are complete
  alignas(64) std::atomic<uint32_t> arrived;
  alignas(64) std::atomic<uint32_t> broken;  // 1: `why` is being written, 2: it is there
  char why[8192];
};

struct SharedRank {
  alignas(64) std::atomic<uint32_t> doorbell;  // something this rank waits for may have changed
  std::atomic<uint32_t> is_asleep;
  std::atomic<uint32_t> arrived;  // phases it came to
  std::atomic<uint32_t> has_left, is_inside;
  int32_t process;
  Entry entries[2];  // by a collective's number
};

struct Ring {
  alignas(64) std::atomic<uint64_t> written;
  alignas(64) std::atomic<uint64_t> read;
  std::byte bytes[kRingBytes];
};

class Shared {
 public:
  // `numbers`: of ranks, as the user knows them.
  static size_t bytes_for(int ranks);
  static Result<std::unique_ptr<Shared>> make(Segment segment, int rank, std::vector<int> numbers);
  ~Shared();

  int rank() const { return rank_; }
  int ranks() const { return int(numbers_.size()); }
  int number(int rank) const { return numbers_[size_t(rank)]; }

  // Everyone comes; the last does `last` before the others go on.
  Result<void> meet(Clock::time_point deadline, const std::function<Result<void>()>& last = {});
  uint32_t parity() const { return phase_ & 1; }  // of the phase to come: its buffers are free for it

  void enter(const Operation& operation, uint64_t number);  // says what this rank does
  void exit();
  Result<void> agree(uint64_t number) const;  // all that came do the same

  std::byte* slot(uint32_t parity, int rank) const { return slots_ + (int64_t(parity) * ranks() + rank) * kSlotBytes; }
  std::byte* result(uint32_t parity) const { return slots_ + (2 * ranks() + int64_t(parity)) * kSlotBytes; }
  int64_t* counts(uint32_t parity, int from) const { return counts_ + (int64_t(parity) * ranks() + from) * ranks(); }
  Ring& ring(int from, int to) const { return rings_[from * ranks() + to]; }
  SharedRank& at(int rank) const { return ranks_at_[rank]; }

  bool is_broken() const { return header_->broken.load(std::memory_order_acquire) != 0; }
  Failure failure() const;
  Failure break_with(const std::string& why);
  std::string gone(int rank) const;  // why that rank will not come any more, or nothing
  void leave();
  void wake_rank(int rank) const;

 private:
  Shared(Segment segment, int rank, std::vector<int> numbers);
  Result<void> look_round(Clock::time_point deadline);
  std::string who_does_what(const std::vector<int>& ranks) const;

  Segment segment_;
  const int rank_;
  const std::vector<int> numbers_;
  const bool can_spin_;
  SharedHeader* header_;
  SharedRank* ranks_at_;
  int64_t* counts_;
  std::byte* slots_;
  Ring* rings_;
  uint32_t phase_ = 0;
};

}  // namespace trine::run
