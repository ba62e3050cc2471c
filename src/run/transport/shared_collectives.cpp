// Sums and moves over the slots of a segment; see shared_collectives.h.
#include "run/transport/shared_collectives.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "base/text.h"

namespace trine::run {

namespace {

constexpr int64_t kLastSums = 1 << 20;     // bytes of all ranks up to which the last arrival takes the sums alone
constexpr int64_t kChunkBytes = 16 << 20;  // of the slots of all ranks in one phase
constexpr int64_t kChunkLeast = 256 << 10;

class Collective {
 public:
  Collective(Shared& shared, const Operation& operation, uint64_t number, const SumOrder* order)
      : shared_(shared),
        operation_(operation),
        number_(number),
        order_(order),
        deadline_(Clock::now() + operation.timeout) {}

  Result<void> run() {
    if (operation_.op == CollectiveOp::barrier) return shared_.meet(deadline_, [&] { return agree(); });
    return reduces(operation_.op) ? reduce() : move();
  }

 private:
  Result<void> agree() const { return shared_.agree(number_); }

  // The first phase of all but small sums: what ranks ask for is compared by each of them.
  Result<void> meet(bool is_first) {
    return shared_.meet(deadline_, is_first ? std::function<Result<void>()>([&] { return agree(); }) : nullptr);
  }

  Result<void> reduce() {
    const int64_t size = trine::bytes(operation_.dtype), elements = operation_.elements();
    const int64_t bytes = elements * size, ranks = shared_.ranks();
    const Elements taken = taken_by(operation_, shared_.rank(), shared_.ranks());
    const WhereIs where = elements ? pieces_of(operation_, *order_, shared_.ranks()) : WhereIs();
    if (bytes <= kSlotBytes && bytes * ranks <= kLastSums) return reduce_at_once(where, taken, elements);
    keeps_own_ = operation_.op == CollectiveOp::all_reduce && operation_.in.size() == 1 && operation_.out.size() == 1;
    const int64_t chunk_bytes = std::clamp(kChunkBytes / ranks, kChunkLeast, kSlotBytes);
    const int64_t chunk = chunk_bytes / size, chunks = (elements + chunk - 1) / chunk;
    for (int64_t t = 0; t < chunks + 2; ++t) {
      const uint32_t parity = shared_.parity();
      if (t < chunks) {
        const Elements all = part(t, chunk, elements);
        const Elements mine = keeps_own_ ? share(all, shared_.rank()) : Elements{all.end, all.end};
        bring(all, {all.begin, mine.begin}, parity);
        bring(all, {mine.end, all.end}, parity);
      }
      if (t >= 1 && t - 1 < chunks) sum_share(where, part(t - 1, chunk, elements), parity ^ 1);
      if (t >= 2) take_others(part(t - 2, chunk, elements), taken, parity);
      if (t < chunks + 1) TRY(meet(t == 0));
    }
    return {};
  }

  static Elements part(int64_t number, int64_t chunk, int64_t elements) {
    return {number * chunk, std::min((number + 1) * chunk, elements)};
  }

  Result<void> reduce_at_once(const WhereIs& where, Elements taken, int64_t elements) {
    const uint32_t parity = shared_.parity();
    const int64_t size = trine::bytes(operation_.dtype);
    copy_from(operation_.in, 0, shared_.slot(parity, shared_.rank()), elements * size);
    TRY(shared_.meet(deadline_, [&]() -> Result<void> {
      TRY(agree());
      if (elements) sum(where, {0, elements}, {0, elements}, parity);
      return {};
    }));
    take({0, elements}, {0, elements}, taken, parity);
    return {};
  }

  // Elements `some` of a chunk into this rank's slot.
  void bring(Elements chunk, Elements some, uint32_t parity) {
    const int64_t size = trine::bytes(operation_.dtype);
    copy_from(operation_.in, some.begin * size,
              shared_.slot(parity, shared_.rank()) + (some.begin - chunk.begin) * size, (some.end - some.begin) * size);
  }

  // What of a chunk a rank sums.
  Elements share(Elements all, int64_t rank) const {
    const int64_t ranks = shared_.ranks(), count = all.end - all.begin;
    const auto cut = [&](int64_t r) { return all.begin + (r == ranks ? count : count * r / ranks / 16 * 16); };
    return {cut(rank), cut(rank + 1)};
  }

  void sum_share(const WhereIs& where, Elements all, uint32_t parity) {
    sum(where, all, share(all, shared_.rank()), parity);
  }

  // Elements `some` of the chunk that lies in the slots of a parity.
  void sum(const WhereIs& where, Elements chunk, Elements some, uint32_t parity) {
    const int64_t size = trine::bytes(operation_.dtype);
    std::vector<const std::byte*> inputs;
    for (int r = 0; r < shared_.ranks(); ++r) inputs.push_back(shared_.slot(parity, r) - chunk.begin * size);
    std::byte* const out = shared_.result(parity) - chunk.begin * size;
    std::byte* const own = keeps_own_ ? operation_.out[0].data() : nullptr;
    if (keeps_own_) inputs[size_t(shared_.rank())] = operation_.in[0].data();
    combine(operation_.dtype, operation_.combine, inputs, *order_, some, where,
            [&](int64_t at, const std::byte* values, int64_t count) {
              std::memcpy(out + at * size, values, size_t(count * size));
              if (own) std::memmove(own + at * size, values, size_t(count * size));  // may be where values come from
            });
  }

  void take_others(Elements chunk, Elements taken, uint32_t parity) {
    const Elements mine = keeps_own_ ? share(chunk, shared_.rank()) : Elements{chunk.end, chunk.end};
    take(chunk, {chunk.begin, mine.begin}, taken, parity);
    take(chunk, {mine.end, chunk.end}, taken, parity);
  }

  // Elements `some` of a chunk, of those this rank gets.
  void take(Elements chunk, Elements some, Elements taken, uint32_t parity) {
    const int64_t size = trine::bytes(operation_.dtype);
    const int64_t begin = std::max(some.begin, taken.begin), end = std::min(some.end, taken.end);
    if (begin >= end) return;
    copy_to(operation_.out, (begin - taken.begin) * size, shared_.result(parity) + (begin - chunk.begin) * size,
            (end - begin) * size);
  }

  // Windows of what each rank brings for all alike, or for each other rank.
  Result<void> move() {
    const int ranks = shared_.ranks(), me = shared_.rank();
    const bool is_common = operation_.is_common();
    const int64_t window = is_common ? kSlotBytes : std::max<int64_t>(kSlotBytes / ranks / 64 * 64, 64);
    int64_t most = 0;
    for (int64_t t = 0; t == 0 || t * window < most; ++t) {
      const uint32_t parity = shared_.parity();
      bring(parity, t, window);
      if (t == 0) std::copy_n(operation_.to.begin(), ranks, shared_.counts(uint32_t(number_ & 1), me));
      TRY(meet(t == 0));
      if (t == 0) most = TRY(check_counts());
      int64_t at = 0;
      for (int from = 0; from < ranks; ++from) {
        const int64_t count = operation_.from[size_t(from)];
        const int64_t here = std::min(window, count - t * window);
        const std::byte* slot = shared_.slot(parity, from) + (is_common ? 0 : me * window);
        if (here > 0) copy_to(operation_.out, at + t * window, slot, here);
        at += count;
      }
    }
    return {};
  }

  void bring(uint32_t parity, int64_t t, int64_t window) {
    std::byte* const slot = shared_.slot(parity, shared_.rank());
    int64_t at = 0;
    for (int to = 0; to < shared_.ranks(); ++to) {
      const int64_t count = operation_.is_common() ? total_bytes(operation_.in) : operation_.to[size_t(to)];
      const int64_t here = std::min(window, count - t * window);
      if (here > 0) copy_from(operation_.in, at + t * window, slot + (operation_.is_common() ? 0 : to * window), here);
      if (operation_.is_common()) return;
      at += count;
    }
  }

  // What others bring for this rank is what it takes; the most that any brings for any.
  Result<int64_t> check_counts() {
    int64_t most = 0;
    for (int from = 0; from < shared_.ranks(); ++from) {
      const int64_t* counts = shared_.counts(uint32_t(number_ & 1), from);
      most = std::max(most, *std::max_element(counts, counts + shared_.ranks()));
      const int64_t expected = operation_.from[size_t(from)], found = counts[shared_.rank()];
      if (expected != found)
        return shared_.break_with(cat("rank ", shared_.number(from), " brings ", found, " bytes for rank ",
                                      shared_.number(shared_.rank()), ", which expects ", expected, "\n  rank ",
                                      shared_.number(from), ": ", shared_.at(from).entries[number_ & 1].text(),
                                      "\n  rank ", shared_.number(shared_.rank()), ": ",
                                      shared_.at(shared_.rank()).entries[number_ & 1].text()));
    }
    return most;
  }

  Shared& shared_;
  const Operation& operation_;
  const uint64_t number_;
  const SumOrder* const order_;
  const Clock::time_point deadline_;
  bool keeps_own_ = false;  // what this rank sums itself of its own input goes through no slot
};

}  // namespace

Result<void> run_shared(Shared& shared, const Operation& operation, uint64_t number, const SumOrder* order) {
  shared.enter(operation, number);
  const Result<void> done = Collective(shared, operation, number, order).run();
  if (done) shared.exit();
  return done;
}

}  // namespace trine::run
