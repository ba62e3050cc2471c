// Matching, and bytes as they can be moved; see mailbox.h.
#include "run/transport/mailbox.h"

#include <algorithm>
#include <cstring>
#include <set>

#include "base/text.h"

namespace trine::run {

Mailbox::Mailbox(Channels& channels)
    : channels_(channels), sends_(size_t(channels.ranks())), incoming_(size_t(channels.ranks())) {}

Mailbox::~Mailbox() {
  Finished finished;
  {
    std::lock_guard lock(mutex_);
    is_over_ = true;
    fail_all(fail(Code::cancelled, "the group has ended").error(), finished);
  }
  for (auto& f : finished) f();
  channels_.wake();
  if (thread_.joinable()) thread_.join();
}

void Mailbox::send(Message message) {
  auto transfer = std::make_unique<Transfer>(Transfer{std::move(message)});
  transfer->header = {transfer->tag, uint64_t(total_bytes(transfer->parts))};
  post([&](Finished&) { sends_[size_t(transfer->rank)].push_back(std::move(transfer)); });
}

void Mailbox::receive(Message message) {
  auto transfer = std::make_unique<Transfer>(Transfer{std::move(message)});
  transfer->header = {transfer->tag, uint64_t(total_bytes(transfer->parts))};
  post([&](Finished& finished) {
    const auto found = std::find_if(early_.begin(), early_.end(), [&](const Arrived& a) {
      return a.header.tag == transfer->tag && (transfer->rank == kAnyRank || transfer->rank == a.from);
    });
    if (found == early_.end()) return receives_.push_back(std::move(transfer));
    deliver(*found, *transfer, finished);
    early_.erase(found);
  });
}

void Mailbox::deliver(const Arrived& arrived, const Transfer& to, Finished& finished) {
  Result<void> result;
  if (arrived.header.bytes == to.header.bytes)
    copy_to(to.parts, 0, arrived.bytes.data(), int64_t(arrived.bytes.size()));
  else
    result = channels_.break_with(wrong_size(arrived.from, arrived.header, to));
  finished.push_back([done = to.done, result, from = arrived.from] { done(result, from); });
}

// Does what can be done at once on the caller's thread, and leaves the rest to the mailbox's.
void Mailbox::post(const std::function<void(Finished&)>& add) {
  Finished finished;
  bool has_rest = false;
  {
    std::lock_guard lock(mutex_);
    add(finished);
    while (progress(finished)) {
    }
    has_rest = !receives_.empty() || std::any_of(sends_.begin(), sends_.end(), [](auto& q) { return !q.empty(); }) ||
               std::any_of(incoming_.begin(), incoming_.end(), [](auto& i) { return i.into || i.early; });
    if (has_rest && !thread_.joinable()) thread_ = std::thread([this] { run(); });
  }
  for (auto& f : finished) f();
  if (has_rest) channels_.wake();
}

void Mailbox::run() {
  for (;;) {
    Finished finished;
    const uint32_t seen = channels_.news();
    bool has_moved = false;
    {
      std::lock_guard lock(mutex_);
      if (is_over_) return;
      has_moved = progress(finished);
      if (!has_moved) find_lost(finished);
      for (int r = 0; r < channels_.ranks(); ++r) {
        const Incoming& in = incoming_[size_t(r)];
        channels_.expect(r, in.into || in.early || is_wanted(r), !sends_[size_t(r)].empty());
      }
    }
    for (auto& f : finished) f();
    if (!has_moved && finished.empty()) channels_.wait(seen, kTick);
  }
}

bool Mailbox::progress(Finished& finished) {
  bool has_moved = false;
  for (int r = 0; r < channels_.ranks(); ++r) {
    has_moved |= push(r, finished);
    has_moved |= pull(r, finished);
  }
  return has_moved;
}

bool Mailbox::push(int to, Finished& finished) {
  auto& queue = sends_[size_t(to)];
  bool has_moved = false;
  while (!queue.empty()) {
    Transfer& transfer = *queue.front();
    size_t before = transfer.moved;
    if (before < sizeof(Header)) {
      const auto header = std::as_bytes(std::span(&transfer.header, 1)).subspan(before);
      transfer.moved += channels_.write(to, header);
    }
    size_t passed = sizeof(Header);
    for (const Bytes& part : transfer.parts) {
      if (transfer.moved >= passed && transfer.moved < passed + part.size())
        transfer.moved += channels_.write(to, part.subspan(transfer.moved - passed));
      passed += part.size();
    }
    has_moved |= transfer.moved != before;
    if (transfer.moved < sizeof(Header) + transfer.header.bytes) break;
    finished.push_back([done = transfer.done, to] { done({}, to); });
    queue.pop_front();
  }
  return has_moved;
}

bool Mailbox::is_wanted(int from) const {
  return std::any_of(receives_.begin(), receives_.end(),
                     [&](auto& t) { return t->rank == from || t->rank == kAnyRank; });
}

Mailbox::Receives::iterator Mailbox::find_receive(int from, uint64_t tag) {
  return std::find_if(receives_.begin(), receives_.end(),
                      [&](auto& t) { return t->tag == tag && (t->rank == from || t->rank == kAnyRank); });
}

// With a header complete: whose it is.
bool Mailbox::begin(int from, Incoming& incoming, Finished& finished) {
  const auto found = find_receive(from, incoming.header.tag);
  if (found == receives_.end()) {
    incoming.early = std::make_unique<Arrived>(
        Arrived{from, incoming.header, std::vector<std::byte>(size_t(incoming.header.bytes))});
    return true;
  }
  incoming.into = std::move(*found);
  receives_.erase(found);
  if (incoming.into->header.bytes == incoming.header.bytes) return true;
  const Failure failure = channels_.break_with(wrong_size(from, incoming.header, *incoming.into));
  finished.push_back([done = incoming.into->done, result = Result<void>(failure), from] { done(result, from); });
  incoming = {};
  return false;
}

bool Mailbox::pull(int from, Finished& finished) {
  Incoming& incoming = incoming_[size_t(from)];
  bool has_moved = false;
  while (!channels_.is_broken() && (incoming.into || incoming.early || is_wanted(from))) {
    const size_t before = incoming.moved;
    if (incoming.moved < sizeof(Header)) {
      incoming.moved += channels_.read(from, std::as_writable_bytes(std::span(&incoming.header, 1)).subspan(before));
      has_moved |= incoming.moved != before;
      if (incoming.moved < sizeof(Header)) break;
    }
    if (!incoming.into && !incoming.early && !begin(from, incoming, finished)) break;
    const BytesList early = incoming.early ? BytesList{Bytes(incoming.early->bytes)} : BytesList();
    size_t passed = sizeof(Header);
    for (const Bytes& part : incoming.early ? early : incoming.into->parts) {
      if (incoming.moved >= passed && incoming.moved < passed + part.size())
        incoming.moved += channels_.read(from, part.subspan(incoming.moved - passed));
      passed += part.size();
    }
    has_moved |= incoming.moved != before;
    if (incoming.moved < sizeof(Header) + incoming.header.bytes) break;
    if (incoming.into)
      finished.push_back([done = incoming.into->done, from] { done({}, from); });
    else if (const auto asked = find_receive(from, incoming.header.tag); asked != receives_.end())
      deliver(*incoming.early, **asked, finished), receives_.erase(asked);
    else
      early_.push_back(std::move(*incoming.early));
    incoming = {};
  }
  return has_moved;
}

std::string Mailbox::wrong_size(int from, const Header& found, const Transfer& expected) const {
  return cat("rank ", channels_.number(from), " sends ", found.bytes, " bytes; expected ", expected.header.bytes,
             " by ", what(expected, false));
}

std::string Mailbox::what(const Transfer& transfer, bool is_send) const {
  return cat(is_send ? "a send to " : "a receive from ",
             transfer.rank == kAnyRank ? std::string("any rank") : cat("rank ", channels_.number(transfer.rank)),
             " of ", transfer.header.bytes, " bytes on rank ", channels_.number(channels_.rank()),
             transfer.line.empty() ? "" : cat(" (", transfer.line, ")"));
}

// Nothing moved: whether a rank that something waits for is gone, or its time is up.
void Mailbox::find_lost(Finished& finished) {
  if (channels_.is_broken()) return fail_all(channels_.failure().error(), finished);
  std::set<int> late;
  std::string late_text;
  const auto trouble = [&](const Transfer& t, int rank, bool is_send) -> std::string {
    const std::string gone = rank == kAnyRank ? std::string() : channels_.gone(rank, is_send);
    if (!gone.empty())
      return cat("rank ", channels_.number(rank), " ", gone, " while others wait for it\n  ", what(t, is_send));
    if (Clock::now() < t.deadline) return {};
    if (rank != kAnyRank) late.insert(channels_.number(rank));
    if (late_text.empty()) late_text = what(t, is_send);
    return {};
  };
  std::string found;
  for (size_t r = 0; r < sends_.size(); ++r)
    if (found.empty() && !sends_[r].empty()) found = trouble(*sends_[r].front(), int(r), true);
  for (const auto& t : receives_)
    if (found.empty()) found = trouble(*t, t->rank, false);
  for (size_t r = 0; r < incoming_.size(); ++r)
    if (found.empty() && incoming_[r].into) found = trouble(*incoming_[r].into, int(r), false);
  if (found.empty() && !late_text.empty())
    found = cat(
        late.empty() ? std::string("nobody answered") : cat(ranks_text({late.begin(), late.end()}), " did not answer"),
        " in time\n  ", late_text);
  if (found.empty() || progress(finished)) return;  // what a rank wrote before it went is there
  fail_all(channels_.break_with(found).error(), finished);
}

void Mailbox::fail_all(const Error& error, Finished& finished) {
  const auto drop = [&](std::unique_ptr<Transfer>& t) {
    if (t) finished.push_back([done = t->done, result = Result<void>(error), rank = t->rank] { done(result, rank); });
    t.reset();
  };
  for (auto& queue : sends_) {
    for (auto& t : queue) drop(t);
    queue.clear();
  }
  for (auto& t : receives_) drop(t);
  receives_.clear();
  for (Incoming& i : incoming_) drop(i.into);
}

}  // namespace trine::run
