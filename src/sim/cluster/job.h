// What many ranks do in a step: for each a list of pieces on lanes, some of them collectives in which others take part.
// Not how long a piece takes: that is given, from the core's timer or collective.h. fold() keeps one rank of each
// class.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace trine::sim {

// What pieces of one rank share when they run at once.
enum class Unit : uint8_t { dma, link, network, hbm };
inline constexpr size_t kUnits = 4;
std::string_view name(Unit unit);

// Lane 0 is the core's engines; the others are streams of its CC-cores, each in its own order.
inline constexpr int32_t kLanes = 7;

struct Piece {
  int32_t what = 0;  // of Job::names
  int32_t lane = 0;
  double ns = 0;                      // alone
  std::array<double, kUnits> uses{};  // share of each unit while it runs alone, 0 to 1
  int32_t group = -1;                 // of Job::groups: begins when all of its members are there
  int32_t role = 0;                   // in the group, where members do different things: sender and receiver
  std::vector<int32_t> after = {};    // pieces of the same rank, by number, that have ended before

  bool operator==(const Piece&) const = default;
};

struct Rank {
  std::vector<Piece> pieces = {};
  int64_t count = 1;  // of ranks that do just this
};

struct Job {
  std::vector<std::string> names = {};
  std::vector<Rank> ranks = {};
  std::vector<std::vector<int32_t>> groups = {};  // ranks of each
  // At a DMA engine rings take turns packet by packet, so bytes go by the size of packets.
  double packet_bytes_compute = 4096, packet_bytes_collective = 65536;
};

// Numbers in range, pieces that wait for earlier ones only, groups whose members each take part equally often.
Result<void> check(const Job& job);

struct Folded {
  Job job = {};                        // one rank of each class
  std::vector<int32_t> class_of = {};  // of each rank
};
// Ranks that do the same among others that do the same are one class: the coarsest such partition.
Folded fold(const Job& job);

}  // namespace trine::sim
