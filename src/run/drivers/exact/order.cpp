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
  if (it == lists_.end()) it = lists_.insert(it, List{thread, {}, {}, 0});
  it->totals.push_back(sum_of(it->total(it->totals.size()), value));
  it->clocks.push_back(clock);
}

size_t Tally::List::known_to(const Clock& clock) const {
  const size_t t = static_cast<size_t>(thread);
  const auto past = [&](const Clock& c) { return c[t] <= clock[t]; };
  return static_cast<size_t>(std::partition_point(clocks.begin(), clocks.end(), past) - clocks.begin());
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
  for (size_t t = 0; t < known.size(); ++t) {
    std::vector<Walk> walks = start;
    int64_t sum = base;
    while (sum < sign * wanted) {
      size_t next = lists_.size();
      for (size_t l = 0; l < lists_.size(); ++l)
        if (walks[l].at < lists_[l].totals.size() &&
            (next == lists_.size() || lists_[l].clocks[walks[l].at][t] < lists_[next].clocks[walks[next].at][t]))
          next = l;
      if (next == lists_.size()) break;
      Walk& w = walks[next];
      learned[t] = std::max(learned[t], lists_[next].clocks[w.at][t]);
      const int64_t total = sign * lists_[next].totals[w.at++];
      if (total <= w.best) continue;
      sum = sum_of(sum, total - w.best);
      w.best = total;
    }
  }
  known = learned;
}

bool Tally::all_known_to(const Clock& clock) const {
  return std::all_of(lists_.begin(), lists_.end(), [&](const List& l) {
    const size_t t = static_cast<size_t>(l.thread);
    return l.clocks.empty() || l.clocks.back()[t] <= clock[t];
  });
}

void Tally::settle(const std::vector<const Clock*>& waiters) {
  for (List& l : lists_) {
    const size_t t = static_cast<size_t>(l.thread);
    while (!l.clocks.empty() && std::all_of(waiters.begin(), waiters.end(),
                                            [&](const Clock* c) { return l.clocks.front()[t] <= (*c)[t]; })) {
      l.folded = l.totals.front();
      l.totals.pop_front();
      l.clocks.pop_front();
    }
  }
}

Order::Order(const arch::Program& program) : ended_(program.streams.size()) {
  for (size_t s = 0; s < program.streams.size(); ++s) stream_of_.push_back(static_cast<int>(s));
  for (size_t s = 0; s < program.streams.size(); ++s) note_stream(program, static_cast<int>(s));
  for (const auto& [key, thread] : queues_)
    for (const auto& [other_key, other] : queues_)
      if (other != thread && other_key.second == key.second &&
          program.streams[static_cast<size_t>(other_key.first)].core ==
              program.streams[static_cast<size_t>(key.first)].core)
        rivals_[thread].push_back(other);
  clocks_.assign(stream_of_.size(), Clock(stream_of_.size()));
  for (size_t t = 0; t < clocks_.size(); ++t) clocks_[t][t] = 1;
}

// Finds the threads of one stream, and the semaphores it waits for and updates.
void Order::note_stream(const arch::Program& program, int stream) {
  const arch::Stream& s = program.streams[static_cast<size_t>(stream)];
  for (const arch::Insn& insn : s.insns) {
    int thread = stream;
    const arch::RowInfo& info = *arch::row_by_opcode(insn.opcode);
    if (info.row->unit == arch::Unit::queue) {
      const int64_t queue = program.attrs[insn.attr + static_cast<size_t>(info.attr("queue"))];
      const auto [it, fresh] = queues_.try_emplace({stream, queue}, static_cast<int>(stream_of_.size()));
      if (fresh) stream_of_.push_back(stream);
      thread = it->second;
    }
    const auto note = [](std::vector<int>& list, int t) {
      if (std::find(list.begin(), list.end(), t) == list.end()) list.push_back(t);
    };
    for (uint32_t i = 0; i < insn.waits; ++i)
      note(semaphores_[{s.core, program.waits[insn.wait + i].semaphore}].waiters, stream);
    for (uint32_t i = 0; i < insn.updates; ++i)
      note(semaphores_[{s.core, program.updates[insn.update + i].semaphore}].updaters, thread);
  }
}

int Order::queue_thread(int stream, int64_t queue) const { return queues_.find({stream, queue})->second; }

Order::Semaphore* Order::find(int core, uint16_t semaphore) {
  const auto it = semaphores_.find({core, semaphore});
  return it == semaphores_.end() || it->second.waiters.empty() ? nullptr : &it->second;
}

bool Order::ambiguous(int stream, int core, const arch::Wait& w, int64_t value) const {
  const auto it = semaphores_.find({core, w.semaphore});
  if (it == semaphores_.end() || it->second.updaters.size() < 2) return false;
  const int64_t known = it->second.tally.known_to(clocks_[static_cast<size_t>(stream)]);
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
  Semaphore* const s = find(core, u.semaphore);
  if (!s) return true;
  bool clean = true;
  const Clock& clock = clocks_[static_cast<size_t>(thread)];
  for (const auto& [stream, period] : s->met)
    if (stream_of(thread) != stream && clock[static_cast<size_t>(stream)] <= period) hasty_.insert(stream);
  if (u.op == arch::UpdateOp::set) {
    clean = s->tally.all_known_to(clock);
    s->tally.clear();
  }
  s->tally.add(thread, clock, u.op == arch::UpdateOp::subtract ? -u.value : u.value);
  if (thread < static_cast<int>(ended_.size())) next_period(thread);
  return clean;
}

void Order::wait(int stream, int core, const arch::Wait& w, int64_t value) {
  Semaphore* const s = find(core, w.semaphore);
  Clock& clock = clocks_[static_cast<size_t>(stream)];
  if (ambiguous(stream, core, w, value)) {
    s->met[stream] = period(stream);
    next_period(stream);
  }
  s->tally.learn(true, value, clock);
  if (w.op == arch::WaitOp::eq) s->tally.learn(false, value, clock);
  std::vector<const Clock*> waiters;
  for (const int waiter : s->waiters)
    if (!ended_[static_cast<size_t>(waiter)]) waiters.push_back(&clocks_[static_cast<size_t>(waiter)]);
  s->tally.settle(waiters);
}

void Order::meet(const std::vector<int>& streams) {
  Clock all(clocks_.size());
  for (const int s : streams) raise(all, clocks_[static_cast<size_t>(s)]);
  for (const int s : streams) {
    raise(clocks_[static_cast<size_t>(s)], all);
    next_period(s);
  }
}

void Order::end(int stream) { ended_[static_cast<size_t>(stream)] = true; }

}  // namespace trine::run
