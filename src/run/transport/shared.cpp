// Phases, and who is to blame when one does not end; see shared.h.
#include "run/transport/shared.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <thread>

#include "base/text.h"
#include "run/transport/futex.h"

namespace trine::run {

namespace {

constexpr int kSpins = 10'000;  // up to 0.2 ms, where every rank has a core
constexpr size_t kAlign = 4096;

size_t aligned(size_t bytes) { return (bytes + kAlign - 1) / kAlign * kAlign; }

// Where each part begins.
struct Layout {
  size_t ranks, counts, slots, rings, end;

  explicit Layout(size_t n)
      : ranks(aligned(sizeof(SharedHeader))),
        counts(ranks + aligned(n * sizeof(SharedRank))),
        slots(counts + aligned(2 * n * n * sizeof(int64_t))),
        rings(slots + (2 * n + 2) * size_t(kSlotBytes)),
        end(rings + n * n * sizeof(Ring)) {}
};

}  // namespace

size_t Shared::bytes_for(int ranks) { return Layout(size_t(ranks)).end; }

Shared::Shared(Segment segment, int rank, std::vector<int> numbers)
    : segment_(std::move(segment)),
      rank_(rank),
      numbers_(std::move(numbers)),
      can_spin_(ranks() <= int(std::thread::hardware_concurrency())) {
  const Layout layout{numbers_.size()};
  std::byte* const at = segment_.data();
  header_ = reinterpret_cast<SharedHeader*>(at);
  ranks_at_ = reinterpret_cast<SharedRank*>(at + layout.ranks);
  counts_ = reinterpret_cast<int64_t*>(at + layout.counts);
  slots_ = at + layout.slots;
  rings_ = reinterpret_cast<Ring*>(at + layout.rings);
}

Result<std::unique_ptr<Shared>> Shared::make(Segment segment, int rank, std::vector<int> numbers) {
  TRY(segment.hold(rank));
  std::unique_ptr<Shared> out(new Shared(std::move(segment), rank, std::move(numbers)));
  out->at(rank).process = getpid();
  return out;
}

Shared::~Shared() { leave(); }

void Shared::enter(const Operation& operation, uint64_t number) {
  at(rank_).entries[number & 1] = Entry::of(operation, number);
  at(rank_).is_inside.store(uint32_t(number & 1) + 1, std::memory_order_release);
}

void Shared::exit() { at(rank_).is_inside.store(0, std::memory_order_release); }

Result<void> Shared::meet(Clock::time_point deadline, const std::function<Result<void>()>& last) {
  if (is_broken()) return failure();
  const uint32_t phase = phase_++;
  at(rank_).arrived.store(phase + 1, std::memory_order_release);
  if (header_->arrived.fetch_add(1, std::memory_order_acq_rel) + 1 == uint32_t(ranks())) {
    header_->arrived.store(0, std::memory_order_relaxed);
    if (last) {
      const Result<void> done = last();
      if (!done) return break_with(done.error().message);
    }
    header_->phase.store(phase + 1, std::memory_order_release);
    if (ranks() > 1) futex_wake_all(header_->phase);
    return {};
  }
  for (int spin = 0; can_spin_ && spin < kSpins; ++spin) {
    if (header_->phase.load(std::memory_order_acquire) != phase) return {};
    __builtin_ia32_pause();
  }
  while (header_->phase.load(std::memory_order_acquire) == phase) {
    if (is_broken()) return failure();
    futex_wait(header_->phase, phase, kTick);
    if (header_->phase.load(std::memory_order_acquire) == phase) TRY(look_round(deadline));
  }
  return {};
}

std::string Shared::gone(int rank) const {
  const SharedRank& other = at(rank);
  if (other.has_left.load(std::memory_order_acquire)) return "has left the group";
  if (rank == rank_ || other.process == getpid() || segment_.is_held(rank)) return {};
  return other.process == 0 ? "" : "has ended";
}

// With the phase not complete: whether a rank it needs is gone, before it came or as the last, or time is up.
Result<void> Shared::look_round(Clock::time_point deadline) {
  if (is_broken()) return failure();
  std::vector<int> late, waiting;
  int lost = -1;
  for (int r = 0; r < ranks(); ++r) {
    (at(r).arrived.load(std::memory_order_acquire) == phase_ ? waiting : late).push_back(r);
    if (!gone(r).empty()) lost = r;
  }
  const bool is_late = Clock::now() >= deadline;
  if ((lost < 0 && !is_late) || header_->phase.load(std::memory_order_acquire) == phase_) return {};
  const uint32_t inside = at(rank_).is_inside.load(std::memory_order_relaxed);
  const Entry mine = inside ? at(rank_).entries[(inside - 1) & 1] : Entry{};
  if (lost >= 0) {
    std::erase(waiting, lost);
    return break_with(cat(mine.missing({number(lost)}), "rank ", number(lost), " ", gone(lost),
                          " while others wait for it", who_does_what({lost}), who_does_what(waiting)));
  }
  std::vector<int> numbers;
  for (const int r : late) numbers.push_back(number(r));
  const std::string limit = inside ? cat(", a timeout of ", mine.timeout_ms, " ms") : std::string();
  return break_with(cat(mine.missing(numbers), ranks_text(numbers), " did not come in time", limit, who_does_what(late),
                        who_does_what(waiting)));
}

// A line for all ranks that do the same.
std::string Shared::who_does_what(const std::vector<int>& ranks) const {
  std::map<std::string, std::vector<int>> by_text;
  for (const int r : ranks) {
    const SharedRank& rank = at(r);
    const uint32_t inside = rank.is_inside.load(std::memory_order_acquire);
    const Entry& last = rank.entries[rank.entries[1].number > rank.entries[0].number];
    const Entry& entry = inside ? rank.entries[(inside - 1) & 1] : last;
    const std::string text = inside              ? cat("waiting in ", entry.text())
                             : entry.number == 0 ? std::string("was in no collective yet")
                                                 : cat("finished ", entry.text(), " and did not come to the next");
    by_text[text].push_back(number(r));
  }
  std::string out;
  for (const auto& [text, numbers] : by_text) out += cat("\n  ", ranks_text(numbers), ": ", text);
  return out;
}

Result<void> Shared::agree(uint64_t number) const {
  const Entry& mine = at(rank_).entries[number & 1];
  bool same = true;
  for (int r = 0; r < ranks(); ++r) same = same && mine.agrees(at(r).entries[number & 1]);
  if (same) return {};
  std::vector<std::pair<int, Entry>> entries;
  for (int r = 0; r < ranks(); ++r) entries.emplace_back(this->number(r), at(r).entries[number & 1]);
  return fail(Code::invalid, difference(entries));
}

Failure Shared::failure() const {
  if (header_->broken.load(std::memory_order_acquire) != 2) return fail(Code::io, "the group is broken");
  return fail(Code::io, std::string(header_->why, strnlen(header_->why, sizeof(header_->why))));
}

Failure Shared::break_with(const std::string& why) {
  uint32_t none = 0;
  if (!header_->broken.compare_exchange_strong(none, 1)) {
    for (int i = 0; i < 1000 && header_->broken.load(std::memory_order_acquire) == 1; ++i) usleep(10);
    return failure();
  }
  std::copy_n(why.data(), std::min(why.size(), sizeof(header_->why) - 1), header_->why);
  header_->broken.store(2, std::memory_order_release);
  futex_wake_all(header_->phase);
  for (int r = 0; r < ranks(); ++r) wake_rank(r);
  return fail(Code::io, why);
}

void Shared::wake_rank(int rank) const {
  at(rank).doorbell.fetch_add(1);
  if (at(rank).is_asleep.load()) futex_wake_all(at(rank).doorbell);
}

void Shared::leave() {
  at(rank_).has_left.store(1, std::memory_order_release);
  segment_.release(rank_);
}

}  // namespace trine::run
