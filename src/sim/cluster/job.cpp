// Checks, and classes of equal ranks by refinement of colours; see job.h.
#include "sim/cluster/job.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "base/text.h"

namespace trine::sim {

namespace {

constexpr std::string_view kUnitNames[] = {"dma", "link", "network", "hbm"};

Result<void> check_piece(const Job& job, size_t rank, size_t i) {
  const Piece& p = job.ranks[rank].pieces[i];
  const auto bad = [&](auto&&... words) {
    return fail(Code::invalid, cat("rank ", rank, ", piece ", i, ": ", words...));
  };
  const auto in = [](int64_t value, size_t end) { return value >= 0 && value < static_cast<int64_t>(end); };
  if (!in(p.what, job.names.size())) return bad("name ", p.what, " of ", job.names.size());
  if (!in(p.lane, kLanes)) return bad("lane ", p.lane, "; there are ", kLanes);
  if (!(p.ns >= 0 && p.ns < 1e15)) return bad(p.ns, " ns; 0 to 1e15 are expected");
  for (const double use : p.uses)
    if (!(use >= 0 && use <= 1)) return bad("uses ", use, " of a unit; 0 to 1 is expected");
  for (const int32_t a : p.after)
    if (!in(a, i)) return bad("waits for piece ", a, ", which is no earlier one");
  if (p.group < 0) return {};
  if (!in(p.group, job.groups.size())) return bad("group ", p.group, " of ", job.groups.size());
  const auto& members = job.groups[static_cast<size_t>(p.group)];
  if (!std::count(members.begin(), members.end(), static_cast<int32_t>(rank)))
    return bad("takes part in group ", p.group, ", of which it is no member");
  return {};
}

// Numbers for keys, in the order in which keys compare.
template <class Key>
std::vector<int32_t> numbered(const std::vector<Key>& keys) {
  std::map<Key, int32_t> known;
  for (const Key& key : keys) known.emplace(key, 0);
  int32_t next = 0;
  for (auto& [key, number] : known) number = next++;
  std::vector<int32_t> out;
  for (const Key& key : keys) out.push_back(known.at(key));
  return out;
}

using PieceKey = std::tuple<int32_t, int32_t, double, std::array<double, kUnits>, bool, int32_t, std::vector<int32_t>>;

std::vector<int32_t> first_colours(const Job& job) {
  std::vector<std::pair<int64_t, std::vector<PieceKey>>> keys;
  for (const Rank& rank : job.ranks) {
    std::vector<PieceKey> key;
    for (const Piece& p : rank.pieces) key.emplace_back(p.what, p.lane, p.ns, p.uses, p.group >= 0, p.role, p.after);
    keys.emplace_back(rank.count, std::move(key));
  }
  return numbered(keys);
}

// In which order each rank first meets its groups, by (rank, group).
using Orders = std::vector<std::map<int32_t, int32_t>>;

Orders orders_of(const Job& job) {
  Orders out;
  for (const Rank& rank : job.ranks) {
    std::map<int32_t, int32_t>& seen = out.emplace_back();
    for (const Piece& p : rank.pieces)
      if (p.group >= 0) seen.emplace(p.group, static_cast<int32_t>(seen.size()));
  }
  return out;
}

// A group's: those of its members, each with the order in which it meets the group.
std::vector<int32_t> group_colours(const Job& job, const Orders& orders, const std::vector<int32_t>& ranks) {
  std::vector<std::vector<std::pair<int32_t, int32_t>>> keys;
  for (size_t g = 0; g < job.groups.size(); ++g) {
    auto& key = keys.emplace_back();
    for (const int32_t r : job.groups[g]) {
      const auto& seen = orders[static_cast<size_t>(r)];
      const auto at = seen.find(static_cast<int32_t>(g));
      key.emplace_back(ranks[static_cast<size_t>(r)], at == seen.end() ? -1 : at->second);
    }
    std::sort(key.begin(), key.end());
  }
  return numbered(keys);
}

// A rank's next colour: its own, and those of its groups as its pieces meet them.
std::vector<int32_t> refined(const Job& job, const Orders& orders, const std::vector<int32_t>& ranks,
                             const std::vector<int32_t>& groups) {
  std::vector<std::pair<int32_t, std::vector<std::pair<int32_t, int32_t>>>> keys;
  for (size_t r = 0; r < job.ranks.size(); ++r) {
    auto& [own, met] = keys.emplace_back();
    own = ranks[r];
    for (const Piece& p : job.ranks[r].pieces)
      if (p.group >= 0) met.emplace_back(orders[r].at(p.group), groups[static_cast<size_t>(p.group)]);
  }
  return numbered(keys);
}

int32_t distinct(const std::vector<int32_t>& colours) {
  return colours.empty() ? 0 : *std::max_element(colours.begin(), colours.end()) + 1;
}

}  // namespace

std::string_view name(Unit unit) { return kUnitNames[static_cast<size_t>(unit)]; }

Result<void> check(const Job& job) {
  for (const auto& members : job.groups)
    for (const int32_t r : members)
      if (r < 0 || static_cast<size_t>(r) >= job.ranks.size())
        return fail(Code::invalid, cat("a group of rank ", r, "; there are ", job.ranks.size(), " ranks"));
  for (size_t r = 0; r < job.ranks.size(); ++r)
    for (size_t i = 0; i < job.ranks[r].pieces.size(); ++i) TRY(check_piece(job, r, i));
  return {};
}

Folded fold(const Job& job) {
  const Orders orders = orders_of(job);
  std::vector<int32_t> ranks = first_colours(job), groups = group_colours(job, orders, ranks);
  for (int32_t had = 0; had != distinct(ranks);) {
    had = distinct(ranks);
    ranks = refined(job, orders, ranks, groups);
    groups = group_colours(job, orders, ranks);
  }
  Folded out{{job.names, {}, {}, job.packet_bytes_compute, job.packet_bytes_collective}, std::move(ranks)};
  const auto classes = static_cast<size_t>(distinct(out.class_of));
  out.job.ranks.resize(classes);
  std::vector<bool> is_known(classes);
  for (size_t r = 0; r < job.ranks.size(); ++r) {
    const auto c = static_cast<size_t>(out.class_of[r]);
    Rank& rank = out.job.ranks[c];
    if (is_known[c]) {
      rank.count += job.ranks[r].count;
      continue;
    }
    is_known[c] = true;
    rank = job.ranks[r];
    for (Piece& p : rank.pieces)
      if (p.group >= 0) p.group = groups[static_cast<size_t>(p.group)];
  }
  std::vector<std::set<int32_t>> members(static_cast<size_t>(distinct(groups)));
  for (size_t g = 0; g < job.groups.size(); ++g)
    for (const int32_t r : job.groups[g])
      members[static_cast<size_t>(groups[g])].insert(out.class_of[static_cast<size_t>(r)]);
  for (const auto& m : members) out.job.groups.emplace_back(m.begin(), m.end());
  return out;
}

}  // namespace trine::sim
