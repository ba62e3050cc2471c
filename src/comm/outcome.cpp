// Runs a schedule over names of values instead of bytes; see outcome.h.
#include "comm/outcome.h"

#include <algorithm>
#include <map>

#include "base/text.h"

namespace trine::comm {

namespace {

struct PieceMove {
  int32_t step, from, to;
  bool reduce;
};

// Who brings something of this piece.
bool brings(const Schedule& s, int32_t piece, int32_t rank, int32_t root) {
  switch (s.kind) {
    case Collective::all_reduce:
    case Collective::reduce_scatter:
      return true;
    case Collective::all_gather:
      return s.owner(piece) == rank;
    case Collective::all_to_all:
      return piece / s.ranks == rank;
    case Collective::permute:
      return piece == rank;
    case Collective::broadcast:
      return rank == root;
  }
  return false;
}

// The root of a broadcast is who sends and never receives before; with one rank it does not matter.
int32_t root_of(const Schedule& s) {
  for (const Step& step : s.steps)
    if (!step.moves.empty()) return step.moves[0].from;
  return 0;
}

class PieceRun {
 public:
  PieceRun(const Schedule& s, int32_t piece, int32_t root) : ranks_(s.ranks) {
    for (int32_t r = 0; r < s.ranks; ++r) out_.holds.push_back(brings(s, piece, r, root) ? r : -1);
  }

  PieceOutcome run(const std::vector<PieceMove>& moves) {
    for (size_t begin = 0; begin < moves.size();) {
      size_t end = begin;
      while (end < moves.size() && moves[end].step == moves[begin].step) ++end;
      step({moves.data() + begin, end - begin});
      begin = end;
    }
    return std::move(out_);
  }

 private:
  void step(std::span<const PieceMove> moves) {
    const std::vector<int32_t> before = out_.holds;
    std::map<int32_t, std::vector<int32_t>> combined;  // receiver -> senders
    for (const PieceMove& m : moves) {
      if (m.reduce)
        combined[m.to].push_back(m.from);
      else
        out_.holds[static_cast<size_t>(m.to)] = before[static_cast<size_t>(m.from)];
    }
    for (auto& [to, from] : combined) {
      from.push_back(to);
      std::sort(from.begin(), from.end());
      std::vector<int32_t> terms;
      for (const int32_t r : from) terms.push_back(before[static_cast<size_t>(r)]);
      out_.holds[static_cast<size_t>(to)] = value(std::move(terms));
    }
  }

  int32_t value(std::vector<int32_t> terms) {
    if (std::count(terms.begin(), terms.end(), -1)) return -1;
    const auto [at, is_new] = known_.try_emplace(terms, ranks_ + static_cast<int32_t>(out_.sums.size()));
    if (is_new) out_.sums.push_back(std::move(terms));
    return at->second;
  }

  const int32_t ranks_;
  PieceOutcome out_ = {};
  std::map<std::vector<int32_t>, int32_t> known_ = {};
};

// How often each rank's own value is in each value.
std::vector<std::vector<int32_t>> contents(const PieceOutcome& o, int32_t ranks) {
  std::vector<std::vector<int32_t>> out;
  for (int32_t r = 0; r < ranks; ++r) {
    out.emplace_back(static_cast<size_t>(ranks), 0);
    out.back()[static_cast<size_t>(r)] = 1;
  }
  for (const auto& terms : o.sums) {
    std::vector<int32_t> sum(static_cast<size_t>(ranks), 0);
    for (const int32_t t : terms)
      for (size_t r = 0; r < sum.size(); ++r) sum[r] += out[static_cast<size_t>(t)][r];
    out.push_back(std::move(sum));
  }
  return out;
}

// The rank whose value `rank` must end with; -1: all combined; -2: anything.
int32_t wanted(const Schedule& s, const Request& request, int32_t piece, int32_t rank) {
  switch (s.kind) {
    case Collective::all_reduce:
      return -1;
    case Collective::reduce_scatter:
      return s.owner(piece) == rank ? -1 : -2;
    case Collective::all_gather:
      return s.owner(piece);
    case Collective::all_to_all:
      return piece % s.ranks == rank ? piece / s.ranks : -2;
    case Collective::permute:
      for (const auto& [from, to] : request.pairs)
        if (from == piece && to == rank) return from;
      return -2;
    case Collective::broadcast:
      return request.root;
  }
  return -2;
}

}  // namespace

std::vector<PieceOutcome> outcome(const Schedule& schedule) {
  std::vector<std::vector<PieceMove>> moves(static_cast<size_t>(schedule.pieces));
  for (size_t i = 0; i < schedule.steps.size(); ++i)
    for (const Move& m : schedule.steps[i].moves)
      for (int32_t p = m.first; p < m.first + m.count; ++p)
        moves[static_cast<size_t>(p)].push_back({static_cast<int32_t>(i), m.from, m.to, m.reduce});
  const int32_t root = root_of(schedule);
  std::vector<PieceOutcome> out;
  for (int32_t p = 0; p < schedule.pieces; ++p)
    out.push_back(PieceRun(schedule, p, root).run(moves[static_cast<size_t>(p)]));
  return out;
}

Result<void> verify(const Schedule& schedule, const Request& request) {
  const std::vector<PieceOutcome> pieces = outcome(schedule);
  for (int32_t p = 0; p < schedule.pieces; ++p) {
    const PieceOutcome& o = pieces[static_cast<size_t>(p)];
    const auto inside = contents(o, schedule.ranks);
    for (int32_t r = 0; r < schedule.ranks; ++r) {
      const int32_t want = wanted(schedule, request, p, r), has = o.holds[static_cast<size_t>(r)];
      if (want == -2) continue;
      bool right = has >= 0;
      for (int32_t x = 0; right && x < schedule.ranks; ++x)
        right = inside[static_cast<size_t>(has)][static_cast<size_t>(x)] == (want == -1 || want == x ? 1 : 0);
      if (!right)
        return fail(Code::internal, cat(schedule.text(), " ", name(schedule.kind), " among ", schedule.ranks, ": rank ",
                                        r, " ends without what it should have of piece ", p));
    }
  }
  return {};
}

}  // namespace trine::comm
