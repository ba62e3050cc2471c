// A collective as data: who sends which pieces to whom, step by step. The runtime takes the order of its sums from it,
// the simulator its time; it holds neither bytes nor nanoseconds.
// Invariant: a step reads what was there before it; after the last, every rank holds what the collective promises.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "arch/enums.h"
#include "base/result.h"
#include "comm/placement.h"

namespace trine::comm {

using arch::Collective;

enum class Algorithm : uint8_t {
  none,          // one rank
  direct,        // each piece straight to where it belongs (all_to_all, permute)
  mesh,          // everyone to everyone, chips first, then within each chip
  single_step,   // mesh all_reduce in one exchange: whole buffers travel, each rank sums them itself
  rdh,           // recursive halving and doubling over chips, mesh within each
  ring,          // one neighbour after the other
  kangaring,     // a ring over pairs of ranks of a chip: one works, its peer is read and written along
  hierarchical,  // inside nodes, and between ranks of equal number
  count,
};
std::string_view name(Algorithm a);
std::optional<Algorithm> algorithm_by_name(std::string_view name);
std::string_view name(Collective kind);
std::optional<Collective> collective_by_name(std::string_view name);
bool reduces(Collective kind);

// Pieces [first, first + count) of `from` arrive at `to`: in place of what is there, or combined with it. What several
// moves of a step combine at one rank is taken in the order of ranks, the receiver's own value among them.
struct Move {
  int32_t from = 0, to = 0, first = 0, count = 0;
  bool reduce = false;

  bool operator==(const Move&) const = default;
};

struct Step {
  std::vector<Move> moves = {};
  bool fused = false;       // what is combined here is sent on by the next step in the same pass over memory
  bool in_place = false;    // what is combined within a chip is read where it lies, not copied first
  bool duplicates = false;  // a piece sent to two ranks is read once
};

struct Schedule {
  Collective kind = Collective::all_reduce;
  Algorithm algorithm = Algorithm::none;
  Algorithm inner = Algorithm::none, outer = Algorithm::none;  // hierarchical: inside a node, between nodes
  int32_t ranks = 1, pieces = 1;
  int32_t parts = 1;  // pieces in one rank's whole buffer
  // Of each piece, in pieces, in the buffer cut into one chunk per rank (all_reduce, all_gather, reduce_scatter,
  // broadcast). all_to_all: source * ranks + target. permute: the source.
  std::vector<int32_t> position = {};
  std::vector<Step> steps = {};

  int32_t owner(int32_t piece) const {  // of reduce_scatter and all_gather
    return static_cast<int32_t>(int64_t{position[static_cast<size_t>(piece)]} * ranks / parts);
  }
  std::string text() const;  // "kangaring", "hierarchical (mesh inside, rdh between nodes)"
};

struct Request {
  Collective kind = Collective::all_reduce;
  // The larger buffer of a rank: all_gather's result, else its input.
  int64_t bytes = 0;
  int32_t root = 0;                                     // broadcast
  std::vector<std::pair<int32_t, int32_t>> pairs = {};  // permute: source, target
  std::optional<Algorithm> algorithm = {};              // instead of the one Neuron would choose
};

// What Neuron's size bands and the topology say; choose.cpp has the bands.
Algorithm choose(const Cluster& cluster, std::span<const Place> ranks, const Request& request);

Result<Schedule> make_schedule(const Cluster& cluster, std::span<const Place> ranks, const Request& request);

}  // namespace trine::comm
