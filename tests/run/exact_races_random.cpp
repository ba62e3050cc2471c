// The race check against an oracle: small random programs, every interleaving of which is walked. Two instructions race
// when some reachable state lets both run, or when either can be first. The check must report a race exactly where the
// oracle has one, and only pairs that the oracle has.
#include <algorithm>
#include <array>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "tests/run/run_text.h"

using namespace trine;
using namespace trine::run;

namespace {

constexpr int kStreams = 4, kSemaphores = 2, kColumns = 3;
constexpr std::string_view kNames[kStreams] = {"vector", "gpsimd", "sync", "scalar"};  // the last two trigger transfers

struct Op {
  int wait = -1, wait_value = 0;      // semaphore
  int update = -1, update_value = 0;  // negative: taken
  int read = -1, write = -1;          // columns
  int queue = -1;                     // a transfer
};
using Case = std::array<std::vector<Op>, kStreams>;
using Pair = std::pair<int, int>;  // stream·16 + index, the smaller first

Case random_case(std::mt19937& random, bool takes) {
  const auto pick = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  Case c;
  for (size_t s = 0; s < kStreams; ++s)
    for (int n = pick(4); n > 0; --n) {
      Op op;
      if (s >= 2) op.queue = pick(2);
      if (pick(2)) op.wait = pick(kSemaphores), op.wait_value = pick(4);
      if (pick(3)) op.update = pick(kSemaphores), op.update_value = 1 + pick(2);
      // A consumer takes what it waited for; only the first stream consumes, and it is alone in waiting for s1.
      if (takes && s > 0 && op.wait == 1) op.wait = -1;
      if (takes && s == 0 && op.wait == 1 && op.wait_value > 0) op.update = 1, op.update_value = -op.wait_value;
      op.write = pick(kColumns);
      if (pick(2)) op.read = pick(kColumns);
      if (op.read == op.write) op.read = -1;
      c[s].push_back(op);
    }
  return c;
}

std::string text_of(const Case& c) {
  std::string out = "program p\ntensor a hbm f32[1,1] input\ntensor t sbuf f32[1,8] at 0:0\n";
  for (size_t s = 0; s < kStreams; ++s) {
    if (c[s].empty()) continue;
    out += "stream " + std::string(kNames[s]) + "\n";
    for (const Op& op : c[s]) {
      const auto column = [](int p) { return "t[0:1, " + std::to_string(p) + ", 1@1]"; };
      if (op.queue >= 0)
        out += "  dma_copy dst=" + column(op.write) + " src=" + (op.read < 0 ? "a" : column(op.read)) +
               " queue=" + std::to_string(op.queue);
      else if (op.read < 0)
        out += "  memset dst=" + column(op.write) + " value=1";
      else
        out += "  tensor_copy dst=" + column(op.write) + " src=" + column(op.read);
      if (op.wait >= 0) out += " wait s" + std::to_string(op.wait) + ">=" + std::to_string(op.wait_value);
      if (op.update >= 0)
        out += " then s" + std::to_string(op.update) + (op.update_value < 0 ? "-=" : "+=") +
               std::to_string(std::abs(op.update_value));
      out += "\n";
    }
  }
  return out;
}

// Walks every reachable state: where each stream stands, which transfers are out on each queue, the semaphores.
class Oracle {
 public:
  explicit Oracle(const Case& c) : case_(c) {
    walk({});
    for (const Pair& p : orders_)
      if (p.first < p.second && orders_.contains({p.second, p.first})) pairs.insert(p);
  }
  std::set<Pair> pairs;

 private:
  struct State {
    std::array<int, kStreams> pc{};
    std::array<bool, kStreams> started{};  // its waits held; they need not hold any more
    std::array<int, kSemaphores> semaphores{};
    std::array<std::vector<int>, 2> queues{};  // stream·16 + index, oldest first
    auto operator<=>(const State&) const = default;
  };
  const Op& op(int id) const { return case_[static_cast<size_t>(id / 16)][static_cast<size_t>(id % 16)]; }

  void walk(const State& s) {
    if (!seen_.insert(s).second) return;
    std::vector<int> running;  // accesses that may happen now
    for (const auto& queue : s.queues)
      if (!queue.empty()) running.push_back(queue[0]);
    std::vector<int> ready;
    for (int i = 0; i < kStreams; ++i) {
      const size_t at = static_cast<size_t>(i);
      if (s.pc[at] >= static_cast<int>(case_[at].size())) continue;
      const int id = i * 16 + s.pc[at];
      const Op& o = op(id);
      if (s.started[at])
        running.push_back(id);
      else if (o.wait < 0 || s.semaphores[static_cast<size_t>(o.wait)] >= o.wait_value)
        ready.push_back(id);
    }
    for (int a : running)
      for (int b : running)
        if (a < b && clash(op(a), op(b))) pairs.insert({a, b});
    for (size_t q = 0; q < s.queues.size(); ++q) {
      if (s.queues[q].empty()) continue;
      State next = s;
      note_order(s, s.queues[q][0]);
      finish(next, op(s.queues[q][0]));
      next.queues[q].erase(next.queues[q].begin());
      walk(next);
    }
    for (int id : ready) {
      State next = s;
      if (op(id).queue >= 0) {
        ++next.pc[static_cast<size_t>(id / 16)];
        next.queues[static_cast<size_t>(op(id).queue)].push_back(id);
      } else {
        next.started[static_cast<size_t>(id / 16)] = true;
      }
      walk(next);
    }
    for (size_t i = 0; i < kStreams; ++i) {
      if (!s.started[i]) continue;
      const int id = static_cast<int>(i) * 16 + s.pc[i];
      State next = s;
      note_order(s, id);
      finish(next, op(id));
      next.started[i] = false;
      ++next.pc[i];
      walk(next);
    }
  }
  // Everything that is done comes before `id` here.
  void note_order(const State& s, int id) {
    for (int i = 0; i < kStreams; ++i)
      for (int n = 0; n < s.pc[static_cast<size_t>(i)]; ++n) {
        const int done = i * 16 + n;
        bool out = false;
        for (const auto& queue : s.queues) out |= std::find(queue.begin(), queue.end(), done) != queue.end();
        if (!out && clash(op(done), op(id))) orders_.insert({done, id});
      }
  }
  static bool clash(const Op& a, const Op& b) { return a.write == b.write || a.write == b.read || a.read == b.write; }
  static void finish(State& s, const Op& o) {
    if (o.update >= 0) s.semaphores[static_cast<size_t>(o.update)] += o.update_value;
  }

  const Case& case_;
  std::set<State> seen_;
  std::set<Pair> orders_;  // (first, second) as seen in some interleaving
};

struct Reported {
  std::set<Pair> pairs;
  bool deadlock = false;
};

Reported reported(const Case& c) {
  std::vector<int> streams;  // the program has only those that are not empty
  for (int s = 0; s < kStreams; ++s)
    if (!c[static_cast<size_t>(s)].empty()) streams.push_back(s);
  const auto r = run_text(text_of(c), {.findings_max = 1000});
  Reported out;
  for (const Finding& f : r.result.findings) {
    out.deadlock |= f.kind == arch::FaultKind::deadlock;
    if (f.kind != arch::FaultKind::race) continue;
    const int later = streams[static_cast<size_t>(f.point.stream)] * 16 + static_cast<int>(f.point.index);
    // "… while sync's dma_copy #3 may still be …"
    const size_t at = f.found.find(" while ") + 7, number = f.found.find('#') + 1;
    const std::string engine = f.found.substr(at, f.found.find('\'', at) - at);
    const auto stream = std::find(std::begin(kNames), std::end(kNames), engine) - std::begin(kNames);
    const int earlier = static_cast<int>(stream) * 16 + std::stoi(f.found.substr(number));
    out.pairs.insert(std::minmax(earlier, later));
  }
  return out;
}

}  // namespace

TEST_CASE("random programs: a race is reported exactly where an interleaving has one") {
  std::mt19937 random(7);
  int racy = 0, clean = 0;
  for (int i = 0; i < 3000; ++i) {
    const Case c = random_case(random, false);
    const Oracle oracle(c);
    const Reported r = reported(c);
    INFO(text_of(c));
    CHECK(r.pairs.empty() == oracle.pairs.empty());
    CHECK(std::includes(oracle.pairs.begin(), oracle.pairs.end(), r.pairs.begin(), r.pairs.end()));
    (oracle.pairs.empty() ? clean : racy)++;
  }
  CHECK(racy > 300);
  CHECK(clean > 300);
}

TEST_CASE("random programs with a consumer that takes: likewise") {
  std::mt19937 random(8);
  for (int i = 0; i < 2000; ++i) {
    const Case c = random_case(random, true);
    const Oracle oracle(c);
    const Reported r = reported(c);
    INFO(text_of(c));
    CHECK(r.pairs.empty() == oracle.pairs.empty());
    CHECK(std::includes(oracle.pairs.begin(), oracle.pairs.end(), r.pairs.begin(), r.pairs.end()));
  }
}
