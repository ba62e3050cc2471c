// Pieces as flows: each has work left, in ns alone, and a rate that follows from what runs beside it. Rates change only
// when a piece begins or ends. Times are whole picoseconds, so that equal ranks stay equal.
#include "sim/cluster/step.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "base/text.h"

namespace trine::sim {

namespace {

constexpr std::string_view kSpentNames[] = {"compute", "slowed", "collective", "waits"};
constexpr double kNsPerPs = 1e-3;

enum class State : uint8_t { waiting, ready, running, ended };

// What a lane of streams did, to say later what lane 0 waited for.
struct Past {
  int64_t begin, end;
  StepPart part;
};

struct Lane {
  std::vector<int32_t> queue = {};  // pieces, in order
  size_t next = 0;
  int64_t free_at = 0;  // end of the piece before
  std::vector<Past> past = {};
};

struct Flow {
  double left = 0, rate = 1;  // ns alone
  int64_t begin = 0, due = 0;
  std::vector<std::pair<int32_t, int32_t>> on = {};  // (rank, piece): one, or all who take part
};

// Rates of what runs on one rank: each unit is shared by weight, and nobody is given more than it asks for.
class Sharing {
 public:
  explicit Sharing(const Job& job) : job_(job) {}

  void apply(const std::array<const Piece*, kLanes>& at, std::array<double, kLanes>& rates) const {
    rates.fill(1);
    for (size_t unit = 0; unit < kUnits; ++unit) {
      double asked = 0;
      for (const Piece* p : at)
        if (p) asked += p->uses[unit];
      if (asked > 1) divide(at, unit, rates);
    }
  }

 private:
  double weight(const Piece& p, size_t unit) const {
    if (unit != static_cast<size_t>(Unit::dma)) return 1;
    return p.group >= 0 ? job_.packet_bytes_collective : job_.packet_bytes_compute;
  }

  void divide(const std::array<const Piece*, kLanes>& at, size_t unit, std::array<double, kLanes>& rates) const {
    std::array<bool, kLanes> open{};
    for (size_t i = 0; i < kLanes; ++i) open[i] = at[i] && at[i]->uses[unit] > 0;
    double left = 1, weights = 0;
    for (bool changed = true; changed;) {
      changed = false;
      weights = 0;
      for (size_t i = 0; i < kLanes; ++i)
        if (open[i]) weights += weight(*at[i], unit);
      const double before = left;
      for (size_t i = 0; i < kLanes; ++i) {
        if (!open[i] || at[i]->uses[unit] > before * weight(*at[i], unit) / weights) continue;
        open[i] = false;  // asks for less than its share: the others are given the rest
        left -= at[i]->uses[unit];
        changed = true;
      }
    }
    for (size_t i = 0; i < kLanes; ++i)
      if (open[i]) rates[i] = std::min(rates[i], left * weight(*at[i], unit) / weights / at[i]->uses[unit]);
  }

  const Job& job_;
};

class Simulator {
 public:
  Simulator(const Job& job, bool with_spans) : job_(job), sharing_(job), with_spans_(with_spans) {
    const size_t n = job.ranks.size();
    lanes_.resize(n);
    state_.resize(n);
    ended_.resize(n);
    counts_.resize(n);
    seats_.resize(job.groups.size());
    for (size_t r = 0; r < n; ++r) {
      const auto& pieces = job.ranks[r].pieces;
      state_[r].assign(pieces.size(), State::waiting);
      ended_[r].assign(pieces.size(), 0);
      counts_[r].assign(pieces.size(), 0);
      std::map<std::pair<int32_t, int32_t>, int32_t> met;  // (group, role) -> how often
      for (size_t i = 0; i < pieces.size(); ++i) {
        const Piece& p = pieces[i];
        lanes_[r][static_cast<size_t>(p.lane)].queue.push_back(static_cast<int32_t>(i));
        if (p.group >= 0) counts_[r][i] = met[{p.group, p.role}]++;
      }
      for (const auto& [key, count] : met)
        seats_[static_cast<size_t>(key.first)].push_back({static_cast<int32_t>(r), key.second, count});
      out_.ranks.push_back({job.ranks[r].count, {}, {}});
    }
  }

  Result<StepTime> run() {
    TRY(check_seats());
    for (;;) {
      start();
      if (flows_.empty()) break;
      set_rates();
      finish();
    }
    for (size_t r = 0; r < lanes_.size(); ++r)
      for (const Lane& lane : lanes_[r])
        if (lane.next < lane.queue.size()) return fail(Code::invalid, stuck());
    close();
    return std::move(out_);
  }

 private:
  struct Seat {
    int32_t rank, role, count;
  };
  struct Arrived {
    std::vector<std::pair<int32_t, int32_t>> who = {};  // (rank, piece)
    std::vector<int64_t> at = {};
  };
  const Piece& piece(int32_t rank, int32_t i) const {
    return job_.ranks[static_cast<size_t>(rank)].pieces[static_cast<size_t>(i)];
  }

  Result<void> check_seats() const {
    for (size_t g = 0; g < seats_.size(); ++g)
      for (const Seat& s : seats_[g])
        if (s.count != seats_[g][0].count)
          return fail(Code::invalid, cat("rank ", s.rank, " takes part in group ", g, " ", s.count, " times, rank ",
                                         seats_[g][0].rank, " ", seats_[g][0].count, " times"));
    return {};
  }

  // Begins all that can, until nothing more can.
  void start() {
    for (size_t r = 0; r < lanes_.size(); ++r)
      for (Lane& lane : lanes_[r]) try_lane(static_cast<int32_t>(r), lane);
  }

  void try_lane(int32_t rank, Lane& lane) {
    if (lane.next >= lane.queue.size()) return;
    const int32_t i = lane.queue[lane.next];
    State& state = state_[static_cast<size_t>(rank)][static_cast<size_t>(i)];
    if (state != State::waiting) return;
    const Piece& p = piece(rank, i);
    int64_t ready = lane.free_at;
    int32_t last = -1;
    for (const int32_t a : p.after) {
      if (state_[static_cast<size_t>(rank)][static_cast<size_t>(a)] != State::ended) return;
      const int64_t end = ended_[static_cast<size_t>(rank)][static_cast<size_t>(a)];
      if (end > ready) ready = end, last = a;
    }
    state = State::ready;
    if (p.lane == 0 && last >= 0) explain(rank, piece(rank, last), lane.free_at, ready);
    if (p.group < 0) {
      state = State::running;
      flows_.push_back({p.ns, 1, now_, 0, {{rank, i}}});
      return;
    }
    const int32_t nth = counts_[static_cast<size_t>(rank)][static_cast<size_t>(i)];
    Arrived& arrived = arrived_[{p.group, nth}];
    arrived.who.emplace_back(rank, i);
    arrived.at.push_back(ready);
    if (arrived.who.size() < seats_[static_cast<size_t>(p.group)].size()) return;
    meet(std::move(arrived));
    arrived_.erase({p.group, nth});
  }

  // All are there: the last one is whom the others waited for.
  void meet(Arrived&& arrived) {
    size_t last = 0;
    double ns = 0;
    for (size_t k = 0; k < arrived.who.size(); ++k) {
      if (std::pair(arrived.at[k], -arrived.who[k].first) > std::pair(arrived.at[last], -arrived.who[last].first))
        last = k;
      ns = std::max(ns, piece(arrived.who[k].first, arrived.who[k].second).ns);
    }
    for (size_t k = 0; k < arrived.who.size(); ++k) {
      const auto [rank, i] = arrived.who[k];
      const Piece& p = piece(rank, i);
      state_[static_cast<size_t>(rank)][static_cast<size_t>(i)] = State::running;
      const StepPart part{Spent::waits, p.what, arrived.who[last].first};
      if (arrived.at[k] < now_) note(rank, p.lane, arrived.at[k], now_, part);
    }
    flows_.push_back({ns, 1, now_, 0, std::move(arrived.who)});
  }

  // Time of a lane: of lane 0 it is the rank's own, of a stream it may come to be.
  void note(int32_t rank, int32_t lane, int64_t begin, int64_t end, const StepPart& part) {
    if (end <= begin) return;
    if (lane == 0) {
      out_.ranks[static_cast<size_t>(rank)].parts[part] += static_cast<double>(end - begin) * kNsPerPs;
    } else {
      lanes_[static_cast<size_t>(rank)][static_cast<size_t>(lane)].past.push_back({begin, end, part});
    }
  }

  // Lane 0 stood still for a piece of a stream: for what that stream did meanwhile, or its last piece could not begin.
  void explain(int32_t rank, const Piece& on, int64_t begin, int64_t end) {
    const std::vector<Past>& past = lanes_[static_cast<size_t>(rank)][static_cast<size_t>(on.lane)].past;
    int64_t left = end - begin;
    for (auto p = past.rbegin(); p != past.rend() && p->end > begin; ++p) {
      const int64_t from = std::max(begin, p->begin), to = std::min(end, p->end);
      note(rank, 0, from, to, p->part);
      left -= std::max<int64_t>(0, to - from);
    }
    if (left > 0) note(rank, 0, end - left, end, {Spent::collective, on.what, -1});
  }

  void set_rates() {
    const size_t n = job_.ranks.size();
    at_.assign(n, {});
    rates_.resize(n);
    for (const Flow& f : flows_)
      for (const auto& [rank, i] : f.on) {
        const Piece& p = piece(rank, i);
        at_[static_cast<size_t>(rank)][static_cast<size_t>(p.lane)] = &p;
      }
    for (size_t r = 0; r < n; ++r) sharing_.apply(at_[r], rates_[r]);
    for (Flow& f : flows_) {
      f.rate = 1;
      for (const auto& [rank, i] : f.on)
        f.rate = std::min(f.rate, rates_[static_cast<size_t>(rank)][static_cast<size_t>(piece(rank, i).lane)]);
      f.due = now_ + static_cast<int64_t>(std::ceil(f.left / f.rate / kNsPerPs - 1e-6));
    }
  }

  // Goes on to the next end of a piece and ends all that end then.
  void finish() {
    int64_t next = std::numeric_limits<int64_t>::max();
    for (const Flow& f : flows_) next = std::min(next, f.due);
    for (Flow& f : flows_) f.left = std::max(0.0, f.left - static_cast<double>(next - now_) * kNsPerPs * f.rate);
    now_ = next;
    const auto keep = std::stable_partition(flows_.begin(), flows_.end(), [&](const Flow& f) { return f.due > now_; });
    for (auto f = keep; f != flows_.end(); ++f)
      for (const auto& [rank, i] : f->on) end(*f, rank, i);
    flows_.erase(keep, flows_.end());
  }

  void end(const Flow& f, int32_t rank, int32_t i) {
    const Piece& p = piece(rank, i);
    const auto r = static_cast<size_t>(rank);
    Lane& lane = lanes_[r][static_cast<size_t>(p.lane)];
    state_[r][static_cast<size_t>(i)] = State::ended;
    ended_[r][static_cast<size_t>(i)] = now_;
    ++lane.next;
    lane.free_at = now_;
    const auto took = static_cast<double>(now_ - f.begin) * kNsPerPs;
    if (p.group >= 0) {
      note(rank, p.lane, f.begin, now_, {Spent::collective, p.what, -1});
      out_.ranks[r].collectives[p.what] += took;
    } else {
      const int64_t alone = std::min(now_ - f.begin, static_cast<int64_t>(std::ceil(p.ns / kNsPerPs - 1e-6)));
      note(rank, p.lane, f.begin, f.begin + alone, {Spent::compute, p.what, -1});
      note(rank, p.lane, f.begin + alone, now_, {Spent::slowed, p.what, -1});
    }
    if (with_spans_ && now_ > f.begin)
      out_.spans.push_back(
          {rank, p.lane, p.what, static_cast<double>(f.begin) * kNsPerPs, static_cast<double>(now_) * kNsPerPs});
  }

  // The step ends with its last rank; those that were done before wait for it.
  void close() {
    out_.ns = static_cast<double>(now_) * kNsPerPs;
    size_t last = 0;
    const auto end_of = [&](size_t r) { return lanes_[r][0].free_at; };
    for (size_t r = 0; r < lanes_.size(); ++r)
      if (end_of(r) > end_of(last)) last = r;
    for (size_t r = 0; r < lanes_.size(); ++r)
      note(static_cast<int32_t>(r), 0, end_of(r), now_, {Spent::waits, -1, static_cast<int32_t>(last)});
  }

  std::string stuck() const {
    for (size_t r = 0; r < lanes_.size(); ++r)
      for (const Lane& lane : lanes_[r]) {
        if (lane.next >= lane.queue.size()) continue;
        const int32_t i = lane.queue[lane.next];
        const Piece& p = piece(static_cast<int32_t>(r), i);
        if (state_[r][static_cast<size_t>(i)] != State::ready) continue;
        return cat("no rank can go on: rank ", r, " is at its piece ", i, " (", job_.names[static_cast<size_t>(p.what)],
                   "), a collective of group ", p.group, " to which not all members come");
      }
    return "no rank can go on: a piece waits for one of a later place in its lane";
  }

  const Job& job_;
  const Sharing sharing_;
  const bool with_spans_;
  int64_t now_ = 0;  // ps
  std::vector<std::array<Lane, kLanes>> lanes_ = {};
  std::vector<std::vector<State>> state_ = {};
  std::vector<std::vector<int64_t>> ended_ = {};
  std::vector<std::vector<int32_t>> counts_ = {};  // of a collective: how many of its group the rank had before
  std::vector<std::vector<Seat>> seats_ = {};      // of each group
  std::map<std::pair<int32_t, int32_t>, Arrived> arrived_ = {};
  std::vector<Flow> flows_ = {};
  std::vector<std::array<const Piece*, kLanes>> at_ = {};
  std::vector<std::array<double, kLanes>> rates_ = {};
  StepTime out_ = {};
};

}  // namespace

std::string_view name(Spent spent) { return kSpentNames[static_cast<size_t>(spent)]; }

double RankTime::sum(Spent spent) const {
  double ns = 0;
  for (const auto& [part, value] : parts) ns += part.spent == spent ? value : 0;
  return ns;
}

double RankTime::hidden_ns() const {
  double ran = 0;
  for (const auto& [what, ns] : collectives) ran += ns;
  return std::max(0.0, ran - sum(Spent::collective));
}

Result<StepTime> time_step(const Job& job, bool with_spans) {
  TRY(check(job));
  return Simulator(job, with_spans).run();
}

}  // namespace trine::sim
