// Entries, buffers in parts, and who gets what of a reduction; see operation.h.
#include "run/transport/operation.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <numeric>

#include "base/text.h"

namespace trine::run {

namespace {

constexpr std::string_view kNames[] = {"barrier",    "all_reduce", "reduce",  "reduce_scatter", "broadcast",
                                       "all_gather", "gather",     "scatter", "all_to_all"};
static_assert(std::size(kNames) == size_t(CollectiveOp::count));

// Calls body(part's bytes, offset from the beginning of the range) for each part of a range.
template <class Body>
void for_each_part(const BytesList& parts, int64_t at, int64_t count, Body body) {
  int64_t done = 0;
  for (const Bytes& part : parts) {
    const int64_t size = int64_t(part.size());
    if (at >= size) {
      at -= size;
      continue;
    }
    const int64_t here = std::min(size - at, count - done);
    if (here <= 0) return;
    body(part.subspan(size_t(at), size_t(here)), done);
    done += here;
    at = 0;
  }
}

}  // namespace

std::string_view name(CollectiveOp op) { return kNames[size_t(op)]; }

int64_t Operation::elements() const { return (in.empty() ? total_bytes(out) : total_bytes(in)) / trine::bytes(dtype); }

Entry Entry::of(const Operation& operation, uint64_t number) {
  Entry out;
  out.number = number;
  out.op = operation.op;
  out.dtype = operation.dtype;
  out.how = operation.combine.how;
  out.root = operation.root;
  out.elements = operation.elements();
  out.divisor = operation.combine.divisor;
  out.scale = operation.combine.scale;
  out.timeout_ms = operation.timeout.count();
  out.monitored = operation.monitored;
  out.dim_count = int32_t(std::min(operation.dims.size(), out.dims.size()));
  std::copy_n(operation.dims.begin(), out.dim_count, out.dims.begin());
  const size_t size = std::min(operation.line.size(), out.line.size() - 1);
  std::copy_n(operation.line.end() - ptrdiff_t(size), size, out.line.begin());  // the end: a line's number
  return out;
}

bool Entry::agrees(const Entry& other) const {
  if (number != other.number || op != other.op || dtype != other.dtype || root != other.root) return false;
  if (run::reduces(op) && (how != other.how || divisor != other.divisor || scale != other.scale)) return false;
  return !(run::reduces(op) || op == CollectiveOp::broadcast) || elements == other.elements;
}

std::string Entry::text() const {
  std::string out = cat(name(op), " ", number);
  if (op != CollectiveOp::barrier) {
    out += run::reduces(op) ? cat(", ", divisor > 1 ? "mean" : name(how), " of ") : std::string(" of ");
    out += shape_text(dtype, Dims(dims.begin(), dims.begin() + std::clamp<int32_t>(dim_count, 0, int(dims.size()))));
  }
  const bool has_root = op == CollectiveOp::broadcast || op == CollectiveOp::reduce || op == CollectiveOp::gather ||
                        op == CollectiveOp::scatter;
  if (has_root) out += cat(", root ", root);
  if (line[0]) out += cat(" (", std::string_view(line.data(), strnlen(line.data(), line.size())), ")");
  return out;
}

std::string Entry::missing(const std::vector<int>& ranks) const {
  if (monitored == Monitored::no) return {};
  std::string out = monitored == Monitored::all ? "Ranks " : "Rank ";
  for (size_t i = 0; i < (monitored == Monitored::all ? ranks.size() : 1); ++i) out += cat(i ? ", " : "", ranks[i]);
  return out + " failed to pass monitoredBarrier: ";
}

std::string difference(const std::vector<std::pair<int, Entry>>& entries) {
  if (std::all_of(entries.begin(), entries.end(), [&](auto& e) { return e.second.agrees(entries[0].second); }))
    return {};
  std::map<std::string, std::vector<int>> by_text;
  for (const auto& [number, entry] : entries) by_text[entry.text()].push_back(number);
  std::vector<std::pair<std::string, std::vector<int>>> found(by_text.begin(), by_text.end());
  std::stable_sort(found.begin(), found.end(), [](auto& a, auto& b) { return a.second.size() < b.second.size(); });
  std::string out = "ranks came to different collectives; expected the same one on every rank";
  for (const auto& [text, numbers] : found) out += cat("\n  ", ranks_text(numbers), ": ", text);
  return out;
}

int64_t total_bytes(const BytesList& parts) {
  return std::accumulate(parts.begin(), parts.end(), int64_t{0},
                         [](int64_t sum, const Bytes& part) { return sum + int64_t(part.size()); });
}

BytesList slice(const BytesList& parts, int64_t at, int64_t count) {
  BytesList out;
  for_each_part(parts, at, count, [&](Bytes part, int64_t) { out.push_back(part); });
  return out;
}

void copy_from(const BytesList& parts, int64_t at, std::byte* to, int64_t count) {
  for_each_part(parts, at, count, [&](Bytes part, int64_t done) { std::memcpy(to + done, part.data(), part.size()); });
}

void copy_to(const BytesList& parts, int64_t at, const std::byte* from, int64_t count) {
  for_each_part(parts, at, count,
                [&](Bytes part, int64_t done) { std::memcpy(part.data(), from + done, part.size()); });
}

Elements taken_by(const Operation& operation, int rank, int ranks) {
  const int64_t elements = operation.elements(), size = trine::bytes(operation.dtype);
  if (operation.op == CollectiveOp::all_reduce) return {0, elements};
  if (operation.op == CollectiveOp::reduce) return {0, rank == operation.root ? elements : 0};
  int64_t begin = 0;
  for (int r = 0; r < rank; ++r) begin += operation.to[size_t(r)] / size;
  return {begin, rank < ranks ? begin + operation.to[size_t(rank)] / size : begin};
}

WhereIs pieces_of(const Operation& operation, const SumOrder& order, int ranks) {
  const int64_t elements = operation.elements(), parts = order.parts();
  if (operation.op != CollectiveOp::reduce_scatter) return [=](int64_t at) { return run_at(at, elements, parts); };
  std::vector<int64_t> ends;
  for (int r = 0; r < ranks; ++r) ends.push_back(taken_by(operation, r, ranks).end);
  return [=](int64_t at) {
    const int64_t rank = std::upper_bound(ends.begin(), ends.end(), at) - ends.begin();
    const int64_t begin = rank ? ends[size_t(rank) - 1] : 0, end = ends[size_t(rank)];
    if (parts < ranks) return Run{0, end - at};
    const int64_t subs = parts / ranks;
    const Run run = run_at(at - begin, end - begin, subs);
    return Run{rank * subs + run.piece, run.count};
  };
}

std::string ranks_text(const std::vector<int>& ranks) {
  std::string out = ranks.size() == 1 ? "rank " : "ranks ";
  for (size_t i = 0; i < ranks.size(); ++i) out += cat(i ? ", " : "", ranks[i]);
  return out;
}

}  // namespace trine::run
