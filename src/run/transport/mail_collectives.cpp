// Exchanges between all ranks; see mail_collectives.h.
#include "run/transport/mail_collectives.h"

#include <condition_variable>
#include <cstring>

#include "base/text.h"

namespace trine::run {

namespace {

constexpr uint64_t kOurTags = uint64_t{1} << 63;  // above all tags of users

// Sends and receives that are waited for together.
class Exchange {
 public:
  Exchange(Mailbox& mailbox, int rank, uint64_t tag, std::string line, Clock::time_point deadline)
      : mailbox_(mailbox), rank_(rank), tag_(tag), line_(std::move(line)), deadline_(deadline) {}

  void send(int to, BytesList parts) { post(to, std::move(parts), true); }
  void receive(int from, BytesList parts) { post(from, std::move(parts), false); }

  Result<void> wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return left_ == 0; });
    return outcome_;
  }

 private:
  void post(int rank, BytesList parts, bool is_send) {
    if (rank == rank_ || total_bytes(parts) == 0) return;
    {
      std::lock_guard lock(mutex_);
      ++left_;
    }
    Mailbox::Message message{rank, tag_, std::move(parts), line_, deadline_, [this](const Result<void>& result, int) {
                               std::lock_guard lock(mutex_);
                               if (outcome_ && !result) outcome_ = result;
                               --left_;
                               changed_.notify_all();
                             }};
    is_send ? mailbox_.send(std::move(message)) : mailbox_.receive(std::move(message));
  }

  Mailbox& mailbox_;
  const int rank_;
  const uint64_t tag_;
  const std::string line_;
  const Clock::time_point deadline_;
  std::mutex mutex_;
  std::condition_variable changed_;
  int left_ = 0;
  Result<void> outcome_ = {};
};

struct Announced {
  Entry entry = {};
  int64_t bytes = 0;  // for the rank it is sent to
};

class Collective {
 public:
  Collective(Mailbox& mailbox, Channels& channels, const Operation& operation, uint64_t number, const SumOrder* order)
      : mailbox_(mailbox),
        channels_(channels),
        operation_(operation),
        number_(number),
        order_(order),
        entry_(Entry::of(operation, number)),
        deadline_(Clock::now() + operation.timeout) {}

  Result<void> run() {
    TRY(agree());
    if (operation_.op == CollectiveOp::barrier) return {};
    return reduces(operation_.op) ? reduce() : move();
  }

 private:
  Exchange exchange(uint64_t part) {
    return Exchange(mailbox_, me(), kOurTags | number_ << 2 | part, entry_.text(), deadline_);
  }
  int me() const { return channels_.rank(); }
  int ranks() const { return channels_.ranks(); }

  // Everyone hears from everyone what it does, before a byte of it moves.
  Result<void> agree() {
    std::vector<Announced> mine(size_t(ranks()), Announced{entry_, 0}), others(size_t(ranks()), Announced{entry_, 0});
    Exchange all = exchange(0);
    for (int r = 0; r < ranks(); ++r) {
      if (!operation_.to.empty()) mine[size_t(r)].bytes = operation_.to[size_t(r)];
      all.send(r, {std::as_writable_bytes(std::span(&mine[size_t(r)], 1))});
      all.receive(r, {std::as_writable_bytes(std::span(&others[size_t(r)], 1))});
    }
    TRY(all.wait());
    others[size_t(me())] = mine[size_t(me())];
    std::vector<std::pair<int, Entry>> entries;
    for (int r = 0; r < ranks(); ++r) entries.emplace_back(channels_.number(r), others[size_t(r)].entry);
    if (const std::string why = difference(entries); !why.empty()) return channels_.break_with(why);
    for (int r = 0; r < ranks() && !operation_.from.empty(); ++r) {
      const int64_t found = others[size_t(r)].bytes, expected = operation_.from[size_t(r)];
      if (found != expected)
        return channels_.break_with(cat("rank ", channels_.number(r), " brings ", found, " bytes for rank ",
                                        channels_.number(me()), ", which expects ", expected, "\n  rank ",
                                        channels_.number(r), ": ", others[size_t(r)].entry.text(), "\n  rank ",
                                        channels_.number(me()), ": ", entry_.text()));
    }
    return {};
  }

  // Elements whose sums rank r takes.
  Elements share(int r) const {
    if (operation_.op == CollectiveOp::reduce_scatter) return taken_by(operation_, r, ranks());
    const int64_t elements = operation_.elements();
    return {elements * r / ranks(), elements * (r + 1) / ranks()};
  }

  Result<void> reduce() {
    const int64_t size = trine::bytes(operation_.dtype);
    const Elements mine = share(me());
    const int64_t count = mine.end - mine.begin;
    std::vector<std::byte> brought(size_t(count * size * ranks())), sums(size_t(count * size));
    const auto of = [&](int r) { return Bytes(brought).subspan(size_t(r * count * size), size_t(count * size)); };
    Exchange inputs = exchange(1);
    for (int r = 0; r < ranks(); ++r) {
      inputs.send(r, slice(operation_.in, share(r).begin * size, (share(r).end - share(r).begin) * size));
      inputs.receive(r, {of(r)});
    }
    copy_from(operation_.in, mine.begin * size, of(me()).data(), count * size);
    TRY(inputs.wait());
    if (count) sum(mine, brought, sums);
    if (operation_.op == CollectiveOp::reduce_scatter)
      return copy_to(operation_.out, 0, sums.data(), count * size), Result<void>();
    return spread(mine, sums);
  }

  void sum(Elements mine, const std::vector<std::byte>& brought, std::vector<std::byte>& sums) const {
    const int64_t size = trine::bytes(operation_.dtype), count = mine.end - mine.begin;
    std::vector<const std::byte*> inputs;
    for (int r = 0; r < ranks(); ++r) inputs.push_back(brought.data() + (r * count - mine.begin) * size);
    combine(operation_.dtype, operation_.combine, inputs, *order_, mine, pieces_of(operation_, *order_, ranks()),
            [&](int64_t at, const std::byte* values, int64_t n) {
              std::memcpy(sums.data() + (at - mine.begin) * size, values, size_t(n * size));
            });
  }

  // Shares of the result to whoever gets them.
  Result<void> spread(Elements mine, std::vector<std::byte>& sums) {
    const int64_t size = trine::bytes(operation_.dtype);
    const bool is_all = operation_.op == CollectiveOp::all_reduce;
    Exchange results = exchange(2);
    for (int r = 0; r < ranks(); ++r) {
      if (is_all || r == operation_.root) results.send(r, {Bytes(sums)});
      if (is_all || me() == operation_.root)
        results.receive(r, slice(operation_.out, share(r).begin * size, (share(r).end - share(r).begin) * size));
    }
    if (is_all || me() == operation_.root)
      copy_to(operation_.out, mine.begin * size, sums.data(), int64_t(sums.size()));
    return results.wait();
  }

  Result<void> move() {
    std::vector<BytesList> brought, taken;
    int64_t bring = 0, take = 0;
    for (int r = 0; r < ranks(); ++r) {
      const int64_t to = operation_.to[size_t(r)], from = operation_.from[size_t(r)];
      brought.push_back(slice(operation_.in, bring, to));
      taken.push_back(slice(operation_.out, take, from));
      if (!operation_.is_common()) bring += to;
      take += from;
    }
    move_own(brought[size_t(me())], taken[size_t(me())]);
    Exchange all = exchange(1);
    for (int r = 0; r < ranks(); ++r) {
      all.send(r, brought[size_t(r)]);
      all.receive(r, taken[size_t(r)]);
    }
    return all.wait();
  }

  // Before anything is sent: input and result may be one memory, which the mailbox's thread then reads.
  static void move_own(const BytesList& brought, const BytesList& taken) {
    std::vector<std::byte> flat(size_t(total_bytes(brought)));
    copy_from(brought, 0, flat.data(), int64_t(flat.size()));
    copy_to(taken, 0, flat.data(), int64_t(flat.size()));
  }

  Mailbox& mailbox_;
  Channels& channels_;
  const Operation& operation_;
  const uint64_t number_;
  const SumOrder* const order_;
  const Entry entry_;
  const Clock::time_point deadline_;
};

}  // namespace

Result<void> run_mailed(Mailbox& mailbox, Channels& channels, const Operation& operation, uint64_t number,
                        const SumOrder* order) {
  return Collective(mailbox, channels, operation, number, order).run();
}

}  // namespace trine::run
