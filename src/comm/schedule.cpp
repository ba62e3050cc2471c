// From a request to its steps: checks, cuts the buffer into pieces, and puts the builders' parts together.
#include "comm/schedule.h"

#include <algorithm>
#include <set>
#include <tuple>

#include "base/text.h"
#include "comm/build.h"

namespace trine::comm {

namespace {

constexpr std::string_view kAlgorithms[] = {"none", "direct", "mesh",      "single_step",
                                            "rdh",  "ring",   "kangaring", "hierarchical"};
static_assert(std::size(kAlgorithms) == static_cast<size_t>(Algorithm::count));
constexpr int64_t kMovesMax = 8 << 20;  // all_to_all and mesh among more ranks than this allows are refused

std::span<const std::string_view> collective_names() { return arch::enum_by_name("collective")->members; }

Steps reduce_scatter_steps(const Cluster& cluster, const Party& party, Algorithm how) {
  switch (how) {
    case Algorithm::rdh:
      return rdh_reduce_scatter(party, rdh_sides(*cluster.instance, party));
    case Algorithm::ring:
      return ring_reduce_scatter(party, ring_walks(cluster, party));
    case Algorithm::kangaring:
      return kangaring_reduce_scatter(party, ring_walks(cluster, party));
    default:
      return mesh_reduce_scatter(party);
  }
}

Steps all_gather_steps(const Cluster& cluster, const Party& party, Algorithm how) {
  switch (how) {
    case Algorithm::rdh:
      return rdh_all_gather(party, rdh_sides(*cluster.instance, party));
    case Algorithm::ring:
      return ring_all_gather(party, ring_walks(cluster, party));
    case Algorithm::kangaring:
      return kangaring_all_gather(party, ring_walks(cluster, party));
    default:
      return mesh_all_gather(party);
  }
}

Steps all_reduce_steps(const Cluster& cluster, const Party& party, Algorithm how) {
  if (how == Algorithm::single_step) return single_step_all_reduce(party);
  Steps steps = reduce_scatter_steps(cluster, party, how);
  append(steps, all_gather_steps(cluster, party, how));
  return steps;
}

// Large: every rank gets a chunk, then all gather; small: to each chip, then within. Neither is published.
Steps broadcast_steps(const Cluster& cluster, const Party& party, Algorithm how, int32_t root) {
  if (how == Algorithm::mesh) return mesh_broadcast(party, root);
  Steps steps = scatter(party, root);
  append(steps, all_gather_steps(cluster, party, how));
  return steps;
}

Result<void> check_algorithm(const Party& party, const Request& request, Algorithm how) {
  const auto cannot = [&](std::string_view why) -> Result<void> {
    return fail(Code::unsupported,
                cat(name(how), " cannot do ", name(request.kind), " among these ", party.size(), " ranks: ", why));
  };
  const bool moves_only = request.kind == Collective::all_to_all || request.kind == Collective::permute;
  if ((how == Algorithm::direct) != moves_only) return cannot("direct is for all_to_all and permute, and they for it");
  if (how == Algorithm::single_step && request.kind != Collective::all_reduce) return cannot("it is an all_reduce");
  if (how == Algorithm::rdh && !can_rdh(party))
    return cannot("it needs a power of two of chips, two or more, with as many ranks on each");
  if (how == Algorithm::kangaring && !can_kangaring(party))
    return cannot("it needs two chips or more, each with the same even number of ranks");
  return {};
}

class Builder {
 public:
  Builder(const Cluster& cluster, std::span<const Place> ranks, const Request& request)
      : cluster_(cluster), ranks_(ranks), request_(request) {
    out_.kind = request.kind;
    out_.ranks = static_cast<int32_t>(ranks.size());
  }

  Result<Schedule> run() {
    TRY(check());
    out_.algorithm = request_.algorithm ? *request_.algorithm : choose(cluster_, ranks_, request_);
    if (ranks_.size() < 2) out_.algorithm = Algorithm::none;
    Party party;
    for (int32_t r = 0; r < out_.ranks; ++r) party.ranks.push_back(r);
    party.places.assign(ranks_.begin(), ranks_.end());
    if (out_.algorithm == Algorithm::none) return pieces(1, 1);
    TRY(check_algorithm(party, request_, out_.algorithm));
    if (out_.algorithm == Algorithm::hierarchical) return hierarchical();
    if (out_.algorithm == Algorithm::direct) return direct();
    const Algorithm how = out_.algorithm;
    const bool by_walks = how == Algorithm::ring || how == Algorithm::kangaring;
    party.subs = by_walks ? static_cast<int32_t>(ring_walks(cluster_, party).size()) : 1;
    party.chunk_stride = party.subs;
    const bool uncut = how == Algorithm::single_step || (how == Algorithm::mesh && out_.kind == Collective::broadcast);
    if (uncut) {
      party.chunks = 1;
      out_.position = {0};
    } else {
      pieces(party.subs, 1);
    }
    out_.steps = steps_of(party, how);
    return std::move(out_);
  }

 private:
  Result<void> check() {
    if (ranks_.empty()) return fail(Code::invalid, "a collective among no ranks");
    if (int64_t{out_.ranks} * out_.ranks > kMovesMax)
      return fail(Code::unsupported, cat("a collective among ", ranks_.size(), " ranks; up to 2896 are scheduled"));
    std::set<std::tuple<int64_t, int64_t, int64_t>> seen;
    for (const Place& p : ranks_) {
      const bool is_there = p.node >= 0 && p.node < cluster_.nodes && p.chip >= 0 &&
                            p.chip < cluster_.instance->chips && p.core >= 0 && p.core < cluster_.ranks_per_chip();
      if (!is_there || !seen.insert({p.node, p.chip, p.core}).second)
        return fail(Code::invalid, cat("rank at node ", p.node, ", chip ", p.chip, ", core ", p.core,
                                       is_there ? " is there twice" : " is not there"));
    }
    if (request_.bytes < 0) return fail(Code::invalid, cat("a collective of ", request_.bytes, " bytes"));
    if (request_.root < 0 || request_.root >= out_.ranks)
      return fail(Code::invalid, cat("root ", request_.root, " of ", out_.ranks, " ranks"));
    for (const auto& [from, to] : request_.pairs)
      if (from < 0 || to < 0 || from >= out_.ranks || to >= out_.ranks)
        return fail(Code::invalid, cat("a permute from ", from, " to ", to, " among ", out_.ranks, " ranks"));
    return {};
  }

  // Cuts the buffer; pieces lie [rank in the node][sub-chunk][node], see hierarchical().
  Schedule pieces(int32_t subs, int32_t nodes) {
    const int32_t local = out_.ranks / nodes;
    out_.parts = out_.pieces = out_.ranks * subs;
    for (int32_t y = 0; y < local; ++y)
      for (int32_t s = 0; s < subs; ++s)
        for (int32_t x = 0; x < nodes; ++x) out_.position.push_back(rank_at(x, y) * subs + s);
    return out_;
  }

  Result<Schedule> direct() {
    Step& step = out_.steps.emplace_back();
    const int32_t n = out_.ranks;
    const bool exchange = out_.kind == Collective::all_to_all;
    out_.parts = exchange ? n : 1;
    out_.pieces = exchange ? n * n : n;
    for (int32_t p = 0; p < out_.pieces; ++p) out_.position.push_back(p);
    if (exchange)
      for (int32_t from = 0; from < n; ++from)
        for (int32_t to = 0; to < n; ++to)
          if (from != to) step.moves.push_back({from, to, from * n + to, 1, false});
    for (const auto& [from, to] : request_.pairs)
      if (from != to && !exchange) step.moves.push_back({from, to, from, 1, false});
    if (step.moves.empty()) out_.steps.clear();
    return std::move(out_);
  }

  Steps steps_of(const Party& party, Algorithm how) const {
    switch (request_.kind) {
      case Collective::all_reduce:
        return all_reduce_steps(cluster_, party, how);
      case Collective::all_gather:
        return all_gather_steps(cluster_, party, how);
      case Collective::reduce_scatter:
        return reduce_scatter_steps(cluster_, party, how);
      default:
        return broadcast_steps(cluster_, party, how, request_.root);
    }
  }

  int32_t rank_at(int32_t node, int32_t local) const {
    return by_node_.empty() ? local : by_node_[static_cast<size_t>(node)][static_cast<size_t>(local)];
  }

  // Ranks of each node in order; empty when nodes do not have equally many.
  std::vector<std::vector<int32_t>> nodes_of() const {
    std::vector<int64_t> nodes;
    std::vector<std::vector<int32_t>> out;
    for (size_t r = 0; r < ranks_.size(); ++r) {
      const auto at = static_cast<size_t>(std::find(nodes.begin(), nodes.end(), ranks_[r].node) - nodes.begin());
      if (at == nodes.size()) {
        nodes.push_back(ranks_[r].node);
        out.emplace_back();
      }
      out[at].push_back(static_cast<int32_t>(r));
    }
    for (const auto& node : out)
      if (node.size() != out[0].size()) return {};
    return out;
  }

  // reduce_scatter: inside nodes, then between; all_gather: between, then inside; all_reduce: inside, between, inside.
  // A chunk inside a node is the pieces of all ranks with that number in theirs; between nodes it is one rank's.
  Result<Schedule> hierarchical() {
    by_node_ = nodes_of();
    const int32_t nodes = static_cast<int32_t>(by_node_.size());
    const bool flat =
        !request_.algorithm && flat_between_nodes(*cluster_.instance) && request_.kind != Collective::broadcast;
    if (nodes < 2 || flat) {  // one node, or an uneven group: a ring does for both
      by_node_.clear();
      out_.algorithm = Algorithm::ring;
      return flat_ring();
    }
    const int32_t local = out_.ranks / nodes;
    std::vector<Party> inside, between;
    for (int32_t x = 0; x < nodes; ++x) inside.push_back(party_of(by_node_[static_cast<size_t>(x)]));
    for (int32_t y = 0; y < local; ++y) {
      std::vector<int32_t> peers;
      for (int32_t x = 0; x < nodes; ++x) peers.push_back(rank_at(x, y));
      between.push_back(party_of(peers));
    }
    out_.outer = choose_between_nodes(cluster_, request_, nodes, local);
    if (local > 1) {
      Request part = request_;
      if (part.kind == Collective::all_reduce) part.kind = Collective::reduce_scatter;  // one step has no half
      part.algorithm = {};
      out_.inner = choose(cluster_, inside[0].places, part);
    }
    const bool by_walks = out_.inner == Algorithm::ring || out_.inner == Algorithm::kangaring;
    const int32_t subs = by_walks ? static_cast<int32_t>(ring_walks(cluster_, inside[0]).size()) : 1;
    pieces(subs, nodes);
    for (Party& p : inside) p.chunk_stride = subs * nodes, p.sub_stride = p.count = nodes, p.subs = subs;
    for (int32_t y = 0; y < local; ++y) {
      Party& p = between[static_cast<size_t>(y)];
      p.base = y * subs * nodes, p.chunk_stride = 1, p.sub_stride = nodes, p.subs = subs, p.count = 1;
    }
    stages(inside, between, local);
    return std::move(out_);
  }

  void stages(const std::vector<Party>& inside, const std::vector<Party>& between, int32_t local) {
    const auto all = [&](const std::vector<Party>& parties, auto make) {
      Steps steps;
      for (const Party& p : parties) beside(steps, make(p));
      append(out_.steps, std::move(steps));
    };
    const auto inner_scatter = [&](const Party& p) { return reduce_scatter_steps(cluster_, p, out_.inner); };
    const auto inner_gather = [&](const Party& p) { return all_gather_steps(cluster_, p, out_.inner); };
    const Algorithm outer = out_.outer == Algorithm::single_step ? Algorithm::mesh : out_.outer;
    const bool has_inside = local > 1;
    switch (out_.kind) {
      case Collective::all_reduce:
        if (has_inside) all(inside, inner_scatter);
        all(between, [&](const Party& p) { return all_reduce_steps(cluster_, p, out_.outer); });
        if (has_inside) all(inside, inner_gather);
        break;
      case Collective::reduce_scatter:
        if (has_inside) all(inside, inner_scatter);
        all(between, [&](const Party& p) { return reduce_scatter_steps(cluster_, p, outer); });
        break;
      case Collective::all_gather:
        all(between, [&](const Party& p) { return all_gather_steps(cluster_, p, outer); });
        if (has_inside) all(inside, inner_gather);
        break;
      default:
        broadcast_stages(inside, between, has_inside);
    }
  }

  // The root's node gets a chunk each, these go to all nodes, then nodes gather.
  void broadcast_stages(const std::vector<Party>& inside, const std::vector<Party>& between, bool has_inside) {
    size_t home = 0;
    for (size_t x = 0; x < by_node_.size(); ++x)
      if (std::count(by_node_[x].begin(), by_node_[x].end(), request_.root)) home = x;
    const auto& own = by_node_[home];
    const int32_t root = static_cast<int32_t>(std::find(own.begin(), own.end(), request_.root) - own.begin());
    if (has_inside) append(out_.steps, scatter(inside[home], root));
    Steps steps;
    for (const Party& p : between) beside(steps, mesh_broadcast(p, static_cast<int32_t>(home)));
    append(out_.steps, std::move(steps));
    Steps gather;
    for (const Party& p : inside)
      if (has_inside) beside(gather, all_gather_steps(cluster_, p, out_.inner));
    append(out_.steps, std::move(gather));
  }

  Result<Schedule> flat_ring() {
    Party party;
    for (int32_t r = 0; r < out_.ranks; ++r) party.ranks.push_back(r);
    party.places.assign(ranks_.begin(), ranks_.end());
    pieces(1, 1);
    out_.steps = steps_of(party, Algorithm::ring);
    return std::move(out_);
  }

  Party party_of(const std::vector<int32_t>& ranks) const {
    Party p;
    p.ranks = ranks;
    for (const int32_t r : ranks) p.places.push_back(ranks_[static_cast<size_t>(r)]);
    return p;
  }

  const Cluster& cluster_;
  std::span<const Place> ranks_;
  const Request& request_;
  std::vector<std::vector<int32_t>> by_node_ = {};
  Schedule out_ = {};
};

}  // namespace

std::string_view name(Algorithm a) { return kAlgorithms[static_cast<size_t>(a)]; }
std::optional<Algorithm> algorithm_by_name(std::string_view name) {
  for (size_t i = 0; i < std::size(kAlgorithms); ++i)
    if (kAlgorithms[i] == name) return static_cast<Algorithm>(i);
  return {};
}
std::string_view name(Collective kind) { return collective_names()[static_cast<size_t>(kind)]; }
std::optional<Collective> collective_by_name(std::string_view name) {
  const auto names = collective_names();
  for (size_t i = 0; i < names.size(); ++i)
    if (names[i] == name) return static_cast<Collective>(i);
  return {};
}
bool reduces(Collective kind) { return kind == Collective::all_reduce || kind == Collective::reduce_scatter; }

std::string Schedule::text() const {
  if (algorithm != Algorithm::hierarchical) return std::string(name(algorithm));
  if (inner == Algorithm::none) return cat("hierarchical (", name(outer), " between nodes)");
  return cat("hierarchical (", name(inner), " inside, ", name(outer), " between nodes)");
}

Result<Schedule> make_schedule(const Cluster& cluster, std::span<const Place> ranks, const Request& request) {
  return Builder(cluster, ranks, request).run();
}

}  // namespace trine::comm
