// List scheduling; see schedule.h. Instructions become available when all they depend on has been issued; at any moment
// the engine that can start something first takes, of what is ready, the instruction with the highest rank. Three ranks
// are tried (program order, the longest path to the end, no reordering at all) and the one that ends first by the rows'
// own costs is kept. Between fences everything is scheduled apart.
#include "compile/stream/schedule.h"

#include <algorithm>
#include <limits>
#include <queue>

#include "compile/stream/cost.h"

namespace trine::compile {

using arch::Engine;

namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
// Transfers are issued this long before the DMA engines run dry, so that a store which becomes ready later need not
// stand behind every load there is memory for.
constexpr double kDmaLeadNs = 4000;
// A second engine takes an instruction only when it gains at least this: what it costs when the estimate is a little
// off.
constexpr double kSwitchNs = 200;
// DMA queues of each issuer, by engine: a queue belongs to one, so that its count means one thing.
struct QueueRange {
  int first, count;
};
constexpr QueueRange kQueues[kEngines] = {{15, 1}, {14, 1}, {8, 3}, {11, 3}, {0, 8}};
constexpr int kTableLookahead = 8;  // how many instructions may be passed over to save an activation-table load

constexpr arch::EngineMask kEither = arch::kVector | arch::kScalar;

enum class Rank : uint8_t { program, critical, fixed };

// The instructions between two fences of one core, and one order to issue them.
class Segment {
 public:
  Segment(Kernel& kernel, const Edges& edges, const Costs& costs, std::vector<uint32_t> insns)
      : kernel_(kernel), edges_(edges), costs_(costs), chip_(*kernel.chip), insns_(std::move(insns)) {
    if (insns_.empty()) return;
    local_.assign(insns_.back() - insns_.front() + 1, UINT32_MAX);
    for (uint32_t i = 0; i < insns_.size(); ++i) local_[insns_[i] - insns_.front()] = i;
    for (uint32_t i = 0; i < insns_.size(); ++i) home_.push_back(find_home(i));
    link();
    find_paths();
  }

  // When the last result is there, in ns.
  double run(Rank rank, std::vector<Step>& out);

 private:
  struct Candidate {
    double key = 0;  // when it is ready, or its rank
    uint32_t insn = 0;
    bool operator>(const Candidate& o) const { return key != o.key ? key > o.key : insn > o.insn; }
  };
  using Heap = std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>>;
  struct Lane {                       // one engine
    double free = 0, issue_free = 0;  // its sequencer; its descriptor generation
    double multiply_start = 0, multiply_free = 0;
    double backlog = 0;  // ns of instructions that are available and would rather run here
    double ready = 0;    // of these, ns of computation whose operands are there
    int table = -1, passed_over = 0;
    Heap later;       // by the time they are ready
    Heap now, moves;  // ready instructions of its own, ready transfers; by rank
  };

  const KernelInsn& insn(uint32_t i) const { return kernel_.insns[insns_[i]]; }
  const Cost& cost(uint32_t i, Engine e) const { return costs_.of(insns_[i], e); }
  bool transfers(uint32_t i) const { return insn(i).unit() == arch::Unit::queue; }
  bool stores(uint32_t i) const {
    const auto& p = kernel_.program();
    return p.tensors[p.operands[insn(i).operand].tensor].space == arch::Space::hbm;
  }
  Lane& lane(Engine e) { return lanes_[static_cast<size_t>(e)]; }
  const Lane& lane(Engine e) const { return lanes_[static_cast<size_t>(e)]; }
  uint32_t local(uint32_t insn) const {
    return insn < insns_.front() || insn > insns_.back() ? UINT32_MAX : local_[insn - insns_.front()];
  }
  // The engines worth considering, the preferred one first.
  arch::EngineMask choices(uint32_t i) const;
  Engine preferred(uint32_t i) const { return home_[i]; }
  Engine find_home(uint32_t i) const;
  double weight(uint32_t i, Engine e) const { return transfers(i) ? cost(i, e).issue : cost(i, e).interval; }

  void link();
  void find_paths();
  void reset();
  double ready_on(uint32_t i, Engine e) const;
  double backlog_of(uint32_t i) const;
  double start_on(uint32_t i, Engine e, double ready) const;
  double port_free(uint32_t i, Engine e) const;
  void release(uint32_t i);
  void run_in_order(std::vector<Step>& out);
  void run_by_rank(Rank rank, std::vector<Step>& out);
  void refill(Engine e, Rank rank);
  double gate(Engine e) const;
  double earliest(Engine e) const;
  bool pick(Engine e, double at, Candidate& out);
  bool put_off(uint32_t i, Engine e, double at);
  Candidate keep_table(Lane& l, const Candidate& first);
  void issue(uint32_t i, Engine e, double start, std::vector<Step>& out);
  double multiply(uint32_t i, double start);
  double transfer(uint32_t i, Engine e, double start, Step& step);

  Kernel& kernel_;
  const Edges& edges_;
  const Costs& costs_;
  const arch::Chip& chip_;
  std::vector<uint32_t> insns_, local_;      // local_: number in the segment of each instruction
  std::vector<uint32_t> next_begin_, next_;  // who depends on it
  std::vector<Engine> home_;                 // where it would rather run
  std::vector<uint32_t> needs_;              // how many it depends on
  std::vector<double> path_;                 // ns from its start to the end of all that depends on it
  // The run in hand.
  std::array<Lane, kEngines> lanes_;
  std::vector<uint32_t> missing_;
  std::vector<double> done_;
  std::vector<Engine> on_;
  std::vector<char> issued_, waits_;  // waits_: counted in the `ready` of its home
  std::array<double, kDmaEnginesMax> dma_{};
  std::array<double, 256> ring_{};
  std::array<double, 2> sbuf_port_{}, psum_port_{};  // until when Vector holds it, until when the other does
  double stack_ = 0, end_ = 0;
};

// What Vector and Scalar both can do, such as draining PSUM, goes to the one that does it sooner, as in the profiles of
// Neuron's programs; GpSimd and Sync have what nobody else takes.
Engine Segment::find_home(uint32_t i) const {
  static constexpr Engine kCompute[] = {Engine::tensor, Engine::vector, Engine::scalar, Engine::gpsimd, Engine::sync};
  static constexpr Engine kIssuers[] = {Engine::sync, Engine::scalar, Engine::gpsimd, Engine::vector, Engine::tensor};
  if (!transfers(i) && (insn(i).engines & kEither) == kEither)
    return cost(i, Engine::scalar).interval < cost(i, Engine::vector).interval ? Engine::scalar : Engine::vector;
  for (const Engine e : transfers(i) ? kIssuers : kCompute)
    if (insn(i).engines & arch::bit(e)) return e;
  return Engine::sync;
}

arch::EngineMask Segment::choices(uint32_t i) const {
  const arch::EngineMask open = insn(i).engines;
  if (!(open & (open - 1))) return open;
  const arch::EngineMask first = arch::bit(preferred(i));
  if (insn(i).fixed_order) return first;
  // Neuron's compiler does not even out the load: profiles of NeuronCore-v2 have Vector idle beside a busy Scalar.
  const bool shared_ports = chip_.has(arch::Feature::shared_ports);
  if (kernel_.one_engine && shared_ports && !transfers(i) && (open & kEither) == kEither) return first;
  // Loads have one issuer, as in the published profiles; stores may go around it, but for the functional dialect's,
  // whose measured loops take the issue time of every transfer.
  if (transfers(i)) {
    const bool around = chip_.has(arch::Feature::hwdge) && !kernel_.one_engine && stores(i);
    return around ? open & (arch::kSync | arch::kScalar) : first;
  }
  // Where Vector and GpSimd exclude each other nothing is gained.
  if (shared_ports && (open & arch::kVector)) return open & ~arch::kGpsimd;
  return open;
}

void Segment::link() {
  needs_.assign(insns_.size(), 0);
  std::vector<std::pair<uint32_t, uint32_t>> pairs;
  std::array<uint32_t, kEngines> last_fixed;
  last_fixed.fill(UINT32_MAX);
  for (uint32_t i = 0; i < insns_.size(); ++i) {
    for (const Edge& e : edges_.before(insns_[i]))
      if (const uint32_t before = local(e.insn); before != UINT32_MAX) pairs.emplace_back(before, i);
    if (!insn(i).fixed_order) continue;
    uint32_t& last = last_fixed[static_cast<size_t>(preferred(i))];
    if (last != UINT32_MAX) pairs.emplace_back(last, i);
    last = i;
  }
  next_begin_.assign(insns_.size() + 1, 0);
  for (const auto& [before, after] : pairs) ++next_begin_[before + 1], ++needs_[after];
  for (size_t i = 1; i < next_begin_.size(); ++i) next_begin_[i] += next_begin_[i - 1];
  next_.resize(pairs.size());
  std::vector<uint32_t> at(next_begin_.begin(), next_begin_.end() - 1);
  for (const auto& [before, after] : pairs) next_[at[before]++] = after;
}

void Segment::find_paths() {
  path_.assign(insns_.size(), 0);
  for (uint32_t i = static_cast<uint32_t>(insns_.size()); i-- > 0;) {
    const Cost& c = cost(i, preferred(i));
    double own = c.interval + c.latency;
    if (transfers(i)) own = c.start + c.latency + *std::max_element(c.dma.begin(), c.dma.end());
    double rest = 0;
    for (uint32_t n = next_begin_[i]; n < next_begin_[i + 1]; ++n) rest = std::max(rest, path_[next_[n]]);
    path_[i] = own + rest;
  }
}

void Segment::reset() {
  lanes_ = {};
  missing_ = needs_;
  done_.assign(insns_.size(), 0);
  on_.assign(insns_.size(), Engine::sync);
  issued_.assign(insns_.size(), 0);
  waits_.assign(insns_.size(), 0);
  dma_.fill(0);
  ring_.fill(0);
  sbuf_port_ = psum_port_ = {};
  stack_ = end_ = 0;
}

// When what it depends on can be seen from this engine.
double Segment::ready_on(uint32_t i, Engine e) const {
  double ready = 0;
  for (const Edge& edge : edges_.before(insns_[i])) {
    const uint32_t before = local(edge.insn);
    if (before == UINT32_MAX) continue;
    double seen = done_[before];
    if (!transfers(before)) {
      const bool same = on_[before] == e && !transfers(i);
      if (same && (e == Engine::tensor || edge.kind == EdgeKind::anti)) continue;
      if (!same) seen += chip_.semaphore.latency_ns;
    }
    ready = std::max(ready, seen);
  }
  return ready;
}

// Until when the DMA engines it would use are taken.
double Segment::backlog_of(uint32_t i) const {
  const Cost& c = cost(i, preferred(i));
  double until = 0;
  for (size_t k = 0; k < kDmaEnginesMax; ++k)
    if (c.dma[k] > 0) until = std::max(until, dma_[k]);
  return until;
}

double Segment::start_on(uint32_t i, Engine e, double ready) const {
  const Lane& l = lane(e);
  return std::max({ready, l.free, transfers(i) && cost(i, e).hardware ? l.issue_free : 0, port_free(i, e)});
}

// Until when another engine holds a port that it needs; see Cost.
double Segment::port_free(uint32_t i, Engine e) const {
  const Cost& c = cost(i, e);
  const size_t other = e == Engine::vector ? 1 : 0;
  return std::max(c.sbuf ? sbuf_port_[other] : 0, c.psum ? psum_port_[other] : 0);
}

double Segment::multiply(uint32_t i, double start) {
  const Cost& c = cost(i, Engine::tensor);
  Lane& l = lane(Engine::tensor);
  start = std::max({std::max(start, l.multiply_start) + c.load, l.multiply_free});
  l.multiply_start = l.free = start;
  l.multiply_free = start + c.interval;
  return l.multiply_free + c.latency;
}

double Segment::transfer(uint32_t i, Engine e, double start, Step& step) {
  const Cost& c = cost(i, e);
  Lane& l = lane(e);
  l.free = start + c.interval;
  l.issue_free = start + c.issue;
  const double arrival = start + c.start;
  const auto [first, count] = kQueues[static_cast<size_t>(e)];
  int queue = first;
  for (int q = first + 1; q < first + count; ++q)
    if (std::max(ring_[static_cast<size_t>(q)], arrival) < std::max(ring_[static_cast<size_t>(queue)], arrival))
      queue = q;
  if (insn(i).queue_given)
    queue = static_cast<int>(kernel_.program().attrs[insn(i).attr + static_cast<size_t>(insn(i).info->attr("queue"))]);
  step.queue = static_cast<uint8_t>(queue % chip_.dma.rings);
  double& ring = ring_[step.queue];
  const double begin = std::max(arrival, ring);
  double earliest = kNever, end = begin;
  for (size_t k = 0; k < kDmaEnginesMax; ++k) {
    if (c.dma[k] <= 0) continue;
    const double from = std::max(begin, dma_[k]);
    dma_[k] = from + c.dma[k];
    earliest = std::min(earliest, from);
    end = std::max(end, dma_[k]);
  }
  stack_ = std::max(stack_, begin) + c.stack;
  end = std::max(end, stack_);
  ring = std::min(earliest, end) + chip_.dma.ring_turnaround_ns;
  return end + c.latency;
}

void Segment::issue(uint32_t i, Engine e, double start, std::vector<Step>& out) {
  Step step{insns_[i], e, 0};
  const Cost& c = cost(i, e);
  Lane& l = lane(e);
  if (transfers(i)) {
    done_[i] = transfer(i, e, start, step);
  } else if (e == Engine::tensor) {
    done_[i] = multiply(i, start);
  } else {
    if (c.table >= 0 && c.table != l.table) {
      start += chip_.scalar.table_load_ns;
      l.table = c.table;
    }
    l.free = start + c.interval;
    done_[i] = l.free + c.latency;
    const size_t self = e == Engine::vector ? 0 : 1;
    if (c.sbuf) sbuf_port_[self] = l.free;
    if (c.psum) psum_port_[self] = l.free;
  }
  on_[i] = e;
  issued_[i] = 1;
  end_ = std::max(end_, done_[i]);
  out.push_back(step);
}

void Segment::run_in_order(std::vector<Step>& out) {
  for (uint32_t i = 0; i < insns_.size(); ++i) {
    const arch::EngineMask open = choices(i);
    Engine best = preferred(i);
    double start = start_on(i, best, ready_on(i, best));
    for (int n = 0; n < kEngines; ++n) {
      const auto e = static_cast<Engine>(n);
      if (!(open & arch::bit(e)) || e == best) continue;
      const double other = start_on(i, e, ready_on(i, e));
      if (other + cost(i, e).interval + kSwitchNs < start + cost(i, best).interval) best = e, start = other;
    }
    issue(i, best, start, out);
  }
}

void Segment::release(uint32_t i) {
  const arch::EngineMask open = choices(i);
  for (int n = 0; n < kEngines; ++n)
    if (open & (1 << n)) {
      const auto e = static_cast<Engine>(n);
      lane(e).later.push({ready_on(i, e), i});
    }
  lane(preferred(i)).backlog += weight(i, preferred(i));
}

void Segment::refill(Engine e, Rank rank) {
  Lane& l = lane(e);
  while (!l.later.empty() && (l.later.top().key <= l.free || issued_[l.later.top().insn])) {
    const uint32_t i = l.later.top().insn;
    l.later.pop();
    if (issued_[i]) continue;
    (transfers(i) ? l.moves : l.now).push({rank == Rank::critical ? -path_[i] : double(i), i});
    if (transfers(i) || waits_[i] || preferred(i) != e) continue;
    waits_[i] = 1;
    l.ready += weight(i, e);
  }
  for (Heap* heap : {&l.now, &l.moves})
    while (!heap->empty() && issued_[heap->top().insn]) heap->pop();
}

// When the first of the ready transfers should be triggered from this engine.
double Segment::gate(Engine e) const {
  const Lane& l = lane(e);
  if (l.moves.empty()) return kNever;
  const uint32_t i = l.moves.top().insn;
  const Engine home = preferred(i);
  const double start = std::max(start_on(i, e, 0), backlog_of(i) - kDmaLeadNs);
  if (e == home) return start;
  const double there =
      std::max(start_on(i, home, 0) + lane(home).backlog - weight(i, home), backlog_of(i) - kDmaLeadNs);
  return start + kSwitchNs < there ? start : kNever;
}

double Segment::earliest(Engine e) const {
  const Lane& l = lane(e);
  const double compute = l.now.empty() ? kNever : l.free, later = l.later.empty() ? kNever : l.later.top().key;
  return std::max(l.free, std::min({compute, later, gate(e)}));
}

// True when its own engine would end the instruction at the head sooner; it is then looked at again later.
bool Segment::put_off(uint32_t i, Engine e, double at) {
  const Engine home = preferred(i);
  if (e == home) return false;
  const double margin = e == Engine::gpsimd ? cost(i, e).interval : kSwitchNs;
  // Scalar is left for the slower Vector only when it has work at hand; what still waits for the tensor engine comes
  // one by one.
  const double ahead = home == Engine::scalar ? lane(home).ready - (waits_[i] ? weight(i, home) : 0)
                                              : lane(home).backlog - weight(i, home);
  const double there = start_on(i, home, ready_on(i, home)) + ahead + cost(i, home).interval;
  const double gain = there - (at + cost(i, e).interval) - margin;
  if (gain >= 0) return false;
  lane(e).later.push({std::max(at - gain, at + 1), i});
  return true;
}

// Of the next few instructions, one that needs no other activation table.
Segment::Candidate Segment::keep_table(Lane& l, const Candidate& first) {
  const auto fits = [&](uint32_t i) {
    const int table = cost(i, Engine::scalar).table;
    return table < 0 || table == l.table;
  };
  if (fits(first.insn) || l.table < 0 || l.passed_over >= kTableLookahead) {
    l.passed_over = 0;
    return first;
  }
  std::vector<Candidate> held{first};
  while (!l.now.empty() && static_cast<int>(held.size()) < kTableLookahead) {
    held.push_back(l.now.top());
    l.now.pop();
    if (!issued_[held.back().insn] && fits(held.back().insn)) {
      std::swap(held.front(), held.back());
      ++l.passed_over;
      break;
    }
  }
  for (size_t h = 1; h < held.size(); ++h) l.now.push(held[h]);
  return held.front();
}

// The best of what engine e can start at this moment, if anything.
bool Segment::pick(Engine e, double at, Candidate& out) {
  Lane& l = lane(e);
  const bool move = gate(e) <= at && (l.now.empty() || !(l.moves.top() > l.now.top()));
  Heap& heap = move ? l.moves : l.now;
  if (heap.empty()) return false;
  out = heap.top();
  heap.pop();
  if (move) return true;
  if (const double port = port_free(out.insn, e); port > at) {
    l.later.push({port, out.insn});
    return false;
  }
  if (put_off(out.insn, e, at)) return false;
  if (e == Engine::scalar) out = keep_table(l, out);
  return true;
}

void Segment::run_by_rank(Rank rank, std::vector<Step>& out) {
  for (uint32_t i = 0; i < insns_.size(); ++i)
    if (!missing_[i]) release(i);
  for (size_t left = insns_.size(); left;) {
    Engine best = Engine::tensor;
    double at = kNever;
    for (int n = 0; n < kEngines; ++n) {
      const auto e = static_cast<Engine>(n);
      refill(e, rank);
      if (const double t = earliest(e); t < at) at = t, best = e;
    }
    lane(best).free = at;  // it idles until then
    refill(best, rank);
    Candidate next;
    if (!pick(best, at, next)) continue;
    const uint32_t i = next.insn;
    issue(i, best, at, out);
    lane(preferred(i)).backlog -= weight(i, preferred(i));
    if (waits_[i]) lane(preferred(i)).ready -= weight(i, preferred(i));
    --left;
    for (uint32_t n = next_begin_[i]; n < next_begin_[i + 1]; ++n)
      if (!--missing_[next_[n]]) release(next_[n]);
  }
}

double Segment::run(Rank rank, std::vector<Step>& out) {
  reset();
  out.clear();
  out.reserve(insns_.size());
  if (rank == Rank::fixed)
    run_in_order(out);
  else
    run_by_rank(rank, out);
  return end_;
}

// Returns the segment's time.
double add_segment(Kernel& kernel, const Edges& edges, const Costs& costs, std::vector<uint32_t>& insns,
                   std::vector<Step>& out) {
  if (insns.empty()) return 0;
  Segment segment(kernel, edges, costs, std::move(insns));
  insns.clear();
  std::vector<Step> best, other;
  double end = segment.run(Rank::program, best);
  for (const Rank rank : {Rank::critical, Rank::fixed})
    if (const double t = segment.run(rank, other); t < end) {
      end = t;
      std::swap(best, other);
    }
  out.insert(out.end(), best.begin(), best.end());
  return end;
}

// The lists of all cores, and how long each takes.
std::vector<double> fill(Kernel& kernel, const Edges& edges, std::vector<std::vector<Step>>& out) {
  const Costs costs(kernel);
  std::vector<double> ns(kernel.program().cores);
  out.resize(kernel.program().cores);
  std::vector<std::vector<uint32_t>> open(kernel.program().cores);
  for (uint32_t w = 0; w < kernel.insns.size(); ++w) {
    const KernelInsn& insn = kernel.insns[w];
    if (!is_fence(insn)) {
      open[insn.core].push_back(w);
      continue;
    }
    ns[insn.core] += add_segment(kernel, edges, costs, open[insn.core], out[insn.core]);
    out[insn.core].push_back({w, only_engine(insn.engines & arch::kSync ? arch::kSync : insn.engines), 0});
  }
  for (size_t c = 0; c < open.size(); ++c) ns[c] += add_segment(kernel, edges, costs, open[c], out[c]);
  return ns;
}

}  // namespace

std::vector<std::vector<Step>> schedule(Kernel& kernel, const Edges& edges) {
  std::vector<std::vector<Step>> out;
  fill(kernel, edges, out);
  return out;
}

double scheduled_ns(Kernel& kernel, const Edges& edges) {
  std::vector<std::vector<Step>> out;
  const std::vector<double> ns = fill(kernel, edges, out);
  return *std::max_element(ns.begin(), ns.end());
}

}  // namespace trine::compile
