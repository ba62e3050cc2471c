// Vector clocks and semaphore histories; see order.h.
#include "run/drivers/exact/order.h"

#include <algorithm>

#include "arch/row.h"

namespace trine::run {

namespace {

void raise(Clock& to, const Clock& from) {
  for (size_t t = 0; t < to.size(); ++t) to[t] = std::max(to[t], from[t]);
}

int64_t sum_of(int64_t a, int64_t b) {
  int64_t r = 0;
  return __builtin_add_overflow(a, b, &r) ? (b < 0 ? INT64_MIN : INT64_MAX) : r;
}

}  // namespace

void Tally::add(int thread, const Clock& clock, int64_t value) {
  auto it = std::find_if(lists_.begin(), lists_.end(), [&](const List& l) { return l.thread == thread; });
  if (it == lists_.end()) it = lists_.insert(it, List{.thread = thread, .threads = clock.size()});
  it->totals.push_back(sum_of(it->total(it->size()), value));
  it->clocks.insert(it->clocks.end(), clock.begin(), clock.end());
}

size_t Tally::List::known_to(const Clock& clock) const {
  const uint64_t now = clock[static_cast<size_t>(thread)];
  size_t low = 0, high = size();
  while (low < high) {
    const size_t mid = (low + high) / 2;
    if (own(mid) <= now)
      low = mid + 1;
    else
      high = mid;
  }
  return low;
}

void Tally::List::fold() {
  folded = totals[gone++];
  if (gone < 16 || gone * 2 < totals.size()) return;
  totals.erase(totals.begin(), totals.begin() + static_cast<ptrdiff_t>(gone));
  clocks.erase(clocks.begin(), clocks.begin() + static_cast<ptrdiff_t>(gone * threads));
  gone = 0;
}

int64_t Tally::known_to(const Clock& clock) const {
  int64_t sum = 0;
  for (const List& l : lists_) sum = sum_of(sum, l.total(l.known_to(clock)));
  return sum;
}

// Entries are let in by what they know of thread t, least first. Each list counts at its best so far, since its thread
// may have stopped there. The entry that completes the sum bounds what must have happened in t. This stays closed:
// an entry that knows (t, e) knows all that (t, e) knew.
void Tally::learn(bool at_least, int64_t wanted, Clock& known) const {
  const int64_t sign = at_least ? 1 : -1;
  if (lists_.size() == 1) return learn_from_one(lists_[0], sign, wanted, known);
  struct Walk {
    size_t at = 0;
    int64_t best = 0;
  };
  std::vector<Walk> start;
  int64_t base = 0;
  for (const List& l : lists_) {
    const size_t n = l.known_to(known);
    start.push_back({n, sign * l.total(n)});
    base = sum_of(base, start.back().best);
  }
  if (base >= sign * wanted) return;
  Clock learned = known;
  std::vector<Walk> walks;
  for (size_t t = 0; t < known.size(); ++t) {
    walks = start;
    int64_t sum = base;
    while (sum < sign * wanted) {
      size_t next = lists_.size();
      for (size_t l = 0; l < lists_.size(); ++l)
        if (walks[l].at < lists_[l].size() &&
            (next == lists_.size() || lists_[l].knows(walks[l].at, t) < lists_[next].knows(walks[next].at, t)))
          next = l;
      if (next == lists_.size()) break;
      Walk& w = walks[next];
      learned[t] = std::max(learned[t], lists_[next].knows(w.at, t));
      const int64_t total = sign * lists_[next].total(++w.at);
      if (total <= w.best) continue;
      sum = sum_of(sum, total - w.best);
      w.best = total;
    }
  }
  known = learned;
}

// The same where one thread alone updates it: its entries up to the one that gets there, whose clock holds the others'.
void Tally::learn_from_one(const List& list, int64_t sign, int64_t wanted, Clock& known) const {
  size_t n = list.known_to(known);
  if (sign * list.total(n) >= sign * wanted || n == list.size()) return;
  while (++n < list.size() && sign * list.total(n) < sign * wanted) {
  }
  for (size_t t = 0; t < known.size(); ++t) known[t] = std::max(known[t], list.knows(n - 1, t));
}

bool Tally::all_known_to(const Clock& clock) const {
  return std::all_of(lists_.begin(), lists_.end(),
                     [&](const List& l) { return !l.size() || l.known_to(clock) == l.size(); });
}

void Tally::settle(const std::vector<const Clock*>& waiters) {
  for (List& l : lists_) {
    size_t known = l.size();
    for (const Clock* c : waiters) known = std::min(known, l.known_to(*c));
    for (; known; --known) l.fold();
  }
}

Order::Order(const arch::Program& program) : threads_(program.streams.size()), ended_(program.streams.size()) {
  for (size_t s = 0; s < program.streams.size(); ++s) stream_of_.push_back(static_cast<int>(s));
  for (const arch::Wait& w : program.waits) semaphores_each_ = std::max(semaphores_each_, w.semaphore + size_t{1});
  for (const arch::Update& u : program.updates) semaphores_each_ = std::max(semaphores_each_, u.semaphore + size_t{1});
  semaphores_.resize(semaphores_each_ * program.cores);
  std::map<std::pair<int, int64_t>, int> queues;  // (stream, queue) -> thread
  for (size_t s = 0; s < program.streams.size(); ++s) note_stream(program, static_cast<int>(s), queues);
  for (const auto& [key, thread] : queues)
    for (const auto& [other_key, other] : queues)
      if (other != thread && other_key.second == key.second &&
          program.streams[static_cast<size_t>(other_key.first)].core ==
              program.streams[static_cast<size_t>(key.first)].core)
        rivals_[thread].push_back(other);
  clocks_.assign(stream_of_.size(), Clock(stream_of_.size()));
  for (size_t t = 0; t < clocks_.size(); ++t) clocks_[t][t] = 1;
}

// Finds the threads of one stream, and the semaphores it waits for and updates.
void Order::note_stream(const arch::Program& program, int stream, std::map<std::pair<int, int64_t>, int>& queues) {
  const arch::Stream& s = program.streams[static_cast<size_t>(stream)];
  const auto note = [](std::vector<int>& list, int t) {
    if (std::find(list.begin(), list.end(), t) == list.end()) list.push_back(t);
  };
  for (const arch::Insn& insn : s.insns) {
    int thread = stream;
    const arch::RowInfo& info = *arch::row_by_opcode(insn.opcode);
    if (info.row->unit == arch::Unit::queue) {
      const int64_t queue = program.attrs[insn.attr + static_cast<size_t>(info.attr("queue"))];
      const auto [it, fresh] = queues.try_emplace({stream, queue}, static_cast<int>(stream_of_.size()));
      if (fresh) stream_of_.push_back(stream);
      thread = it->second;
    }
    threads_[static_cast<size_t>(stream)].push_back(thread);
    for (uint32_t i = 0; i < insn.waits; ++i)
      note(semaphore(s.core, program.waits[insn.wait + i].semaphore).waiters, stream);
    for (uint32_t i = 0; i < insn.updates; ++i)
      note(semaphore(s.core, program.updates[insn.update + i].semaphore).updaters, thread);
  }
}

bool Order::ambiguous(int stream, int core, const arch::Wait& w, int64_t value) const {
  const Semaphore& s = semaphore(core, w.semaphore);
  if (s.updaters.size() < 2) return false;
  const int64_t known = s.tally.known_to(clocks_[static_cast<size_t>(stream)]);
  return w.op == arch::WaitOp::ge ? known < value : known != value;
}

// A queue is in order whoever triggers it, but only triggers that are themselves ordered say what the order is.
void Order::trigger(int stream, int queue_thread) {
  Clock& engine = clocks_[static_cast<size_t>(stream)];
  Clock& queue = clocks_[static_cast<size_t>(queue_thread)];
  raise(queue, engine);
  if (const auto it = rivals_.find(queue_thread); it != rivals_.end())
    for (const int rival : it->second) {
      Past& past = past_[rival];
      const uint64_t known = engine[static_cast<size_t>(stream_of(rival))];
      while (past.triggered.size() > 1 && past.triggered[1] <= known && it->second.size() == 1) {
        past.triggered.pop_front();
        past.clocks.pop_front();
      }
      const auto last = std::upper_bound(past.triggered.begin(), past.triggered.end(), known);
      if (last != past.triggered.begin())
        raise(queue, past.clocks[static_cast<size_t>(last - past.triggered.begin() - 1)]);
    }
  if (rivals_.count(queue_thread)) {
    past_[queue_thread].triggered.push_back(engine[static_cast<size_t>(stream)]);
    past_[queue_thread].clocks.push_back(queue);
  }
  next_period(stream);
}

void Order::finish_transfer(int queue_thread) { next_period(queue_thread); }

bool Order::update(int thread, int core, const arch::Update& u) {
  Semaphore& s = semaphore(core, u.semaphore);
  if (s.waiters.empty()) return true;
  bool clean = true;
  const Clock& clock = clocks_[static_cast<size_t>(thread)];
  for (const auto& [stream, period] : s.waits_met)
    if (stream_of(thread) != stream && clock[static_cast<size_t>(stream)] <= period) hasty_.insert(stream);
  if (u.op == arch::UpdateOp::set) {
    clean = s.tally.all_known_to(clock);
    s.tally.clear();
  }
  s.tally.add(thread, clock, u.op == arch::UpdateOp::subtract ? -u.value : u.value);
  if (thread < static_cast<int>(ended_.size())) next_period(thread);
  return clean;
}

void Order::wait(int stream, int core, const arch::Wait& w, int64_t value) {
  Semaphore& s = semaphore(core, w.semaphore);
  Clock& clock = clocks_[static_cast<size_t>(stream)];
  if (ambiguous(stream, core, w, value)) {
    s.waits_met[stream] = period(stream);
    next_period(stream);
  }
  s.tally.learn(true, value, clock);
  if (w.op == arch::WaitOp::eq) s.tally.learn(false, value, clock);
  waiters_.clear();
  for (const int waiter : s.waiters)
    if (!ended_[static_cast<size_t>(waiter)]) waiters_.push_back(&clocks_[static_cast<size_t>(waiter)]);
  s.tally.settle(waiters_);
}

void Order::barrier(const std::vector<int>& streams) {
  Clock all(clocks_.size());
  for (const int s : streams) raise(all, clocks_[static_cast<size_t>(s)]);
  for (const int s : streams) {
    raise(clocks_[static_cast<size_t>(s)], all);
    next_period(s);
  }
}

void Order::end(int stream) { ended_[static_cast<size_t>(stream)] = true; }

}  // namespace trine::run
