// A collective as one rank asks for it, and the part of it that all ranks must ask for alike.
#pragma once

#include <array>
#include <chrono>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/tensor.h"
#include "run/devices/combine.h"

namespace trine::run {

using Clock = std::chrono::steady_clock;
using Bytes = std::span<std::byte>;
using BytesList = std::vector<Bytes>;  // one buffer, its parts one after the other

enum class CollectiveOp : uint8_t {
  barrier,
  all_reduce,
  reduce,
  reduce_scatter,
  broadcast,
  all_gather,
  gather,
  scatter,
  all_to_all,
  count,
};
std::string_view name(CollectiveOp op);
inline bool reduces(CollectiveOp op) {
  return op == CollectiveOp::all_reduce || op == CollectiveOp::reduce || op == CollectiveOp::reduce_scatter;
}

// Whether a barrier's error begins with the ranks that did not come in torch's words, which tools look for: the first
// of them, or all.
enum class Monitored : uint8_t { no, first, all };

struct Operation {
  CollectiveOp op = CollectiveOp::barrier;
  Dtype dtype = Dtype::u8;
  Combine combine = {};
  int root = 0;
  BytesList in = {}, out = {};
  // Bytes for each rank and of each rank; a reduce_scatter has `to`, an all_reduce and a reduce neither. What goes to
  // all alike (broadcast, all_gather, gather) is in `in` once.
  std::vector<int64_t> to = {}, from = {};
  Dims dims = {};         // of the tensor, for messages
  std::string line = {};  // of the user's program, likewise
  std::chrono::milliseconds timeout{0};
  Monitored monitored = Monitored::no;

  int64_t elements() const;  // of `in`; of `out` where nothing is brought
  bool is_common() const { return op != CollectiveOp::all_to_all && op != CollectiveOp::scatter; }
};

// Lies in memory that processes share.
struct Entry {
  uint64_t number = 0;  // of the group's collectives
  CollectiveOp op = CollectiveOp::barrier;
  Dtype dtype = Dtype::u8;
  Fold how = Fold::add;
  int32_t root = 0, rank_count = 0;
  int64_t elements = 0, divisor = 1;
  double scale = 1;
  // From here on for messages alone.
  std::array<int64_t, 6> dims = {};
  int32_t dim_count = 0;
  std::array<char, 200> line = {};
  int64_t timeout_ms = 0;
  Monitored monitored = Monitored::no;

  static Entry of(const Operation& operation, uint64_t number);
  bool agrees(const Entry& other) const;
  std::string text() const;                                  // "all_reduce 12, add of f32[2,3] (train.py:31)"
  std::string missing(const std::vector<int>& ranks) const;  // "Rank 1 failed to pass monitoredBarrier: ", or nothing
};

// Why these (number of a rank, entry) are not one collective: who does what; nothing where they agree.
std::string difference(const std::vector<std::pair<int, Entry>>& entries);

int64_t total_bytes(const BytesList& parts);
BytesList slice(const BytesList& parts, int64_t at, int64_t count);
// Bytes [at, at + count) of a buffer in parts, to and from flat memory.
void copy_from(const BytesList& parts, int64_t at, std::byte* to, int64_t count);
void copy_to(const BytesList& parts, int64_t at, const std::byte* from, int64_t count);

// Of a reduction's elements: those rank r gets, and where an element is in an order's pieces.
Elements taken_by(const Operation& operation, int rank, int ranks);
WhereIs pieces_of(const Operation& operation, const SumOrder& order, int ranks);

std::string ranks_text(const std::vector<int>& ranks);  // "rank 1", "ranks 0, 2, 3"

}  // namespace trine::run
