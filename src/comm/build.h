// Inside comm/: the parts schedules are built from. A Party is a collective among some of a schedule's ranks, in which
// member i owns chunk i; each builder returns its steps, for the caller to put one after the other.
#pragma once

#include <span>
#include <vector>

#include "comm/schedule.h"

namespace trine::comm {

using Steps = std::vector<Step>;

struct Party {
  std::vector<int32_t> ranks = {};  // of the schedule, by member
  std::vector<Place> places = {};
  // Chunk c, sub-chunk s are the pieces [base + c * chunk_stride + s * sub_stride, … + count).
  int32_t base = 0, chunk_stride = 1, sub_stride = 1, subs = 1, count = 1;
  int32_t chunks = 0;  // 0: one per member

  int32_t size() const { return static_cast<int32_t>(ranks.size()); }
};

// Members of each chip, chips by first appearance.
struct OnChip {
  int64_t chip = 0;
  std::vector<int32_t> members = {};
};
std::vector<OnChip> by_chip(const Party& party);

// Adds moves in members and chunks; neighbouring pieces become one move.
class StepWriter {
 public:
  StepWriter(const Party& party, Step& step) : party_(party), step_(step) {}
  void send(int32_t from, int32_t to, int32_t chunk, bool reduce);
  void send(int32_t from, int32_t to, int32_t chunk, int32_t sub, bool reduce);
  void send_all(int32_t from, int32_t to, bool reduce);

 private:
  const Party& party_;
  Step& step_;
};

// Orders of members, each closed; sub-chunk s takes walk s modulo their number.
using Walks = std::vector<std::vector<int32_t>>;
Walks ring_walks(const Cluster& cluster, const Party& party);

Steps mesh_reduce_scatter(const Party& party);
Steps mesh_all_gather(const Party& party);
Steps single_step_all_reduce(const Party& party);
Steps mesh_broadcast(const Party& party, int32_t root);
Steps scatter(const Party& party, int32_t root);
Steps ring_reduce_scatter(const Party& party, const Walks& walks);
Steps ring_all_gather(const Party& party, const Walks& walks);
// Walks are over chips' members as ring_walks gives them: members 2k and 2k + 1 of a chip are a pair.
Steps kangaring_reduce_scatter(const Party& party, const Walks& walks);
Steps kangaring_all_gather(const Party& party, const Walks& walks);
// `sides`: of the chips as they lie, innermost first, each a power of two.
Steps rdh_reduce_scatter(const Party& party, std::span<const int64_t> sides);
Steps rdh_all_gather(const Party& party, std::span<const int64_t> sides);

bool can_kangaring(const Party& party);
bool can_rdh(const Party& party);
std::vector<int64_t> rdh_sides(const arch::Instance& instance, const Party& party);

void append(Steps& to, Steps more);
void beside(Steps& to, const Steps& others);  // both at once, step by step

// Between nodes: no sizes are published, only small, medium and large.
bool flat_between_nodes(const arch::Instance& instance);
Algorithm choose_between_nodes(const Cluster& cluster, const Request& request, int64_t nodes, int64_t ranks_per_node);

}  // namespace trine::comm
