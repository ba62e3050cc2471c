// What cores at a rendezvous do to each other's memory; see rendezvous.h. Every source is read before any result is
// written, so that a core may use one tile for both. Sums run over ranks in order, in f32.
#include "arch/insns/rendezvous.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "arch/core.h"
#include "arch/insns/alu.h"
#include "base/text.h"

namespace trine::arch {

namespace {

std::span<const Call> calls_of(Core& c, const Call& i) {
  const auto all = c.machine().rendezvous;
  return all.empty() ? std::span<const Call>(&i, 1) : all;
}

using Bytes = std::vector<std::byte>;
using Floats = std::vector<float>;

Bytes read_tile(Core& c, const Tile& t) {
  Bytes out(static_cast<size_t>(t.elements() * t.element_bytes()));
  c.set_slot("src");
  for (int p = 0; p < t.partitions; ++p) c.read_bytes(t, p, out.data() + p * t.row_elements * t.element_bytes());
  return out;
}

void write_tile(Core& c, const Tile& t, const std::byte* from) {
  c.set_slot("dst");
  for (int p = 0; p < t.partitions; ++p) c.write_bytes(t, p, from + p * t.row_elements * t.element_bytes());
}

bool disagree(Core& c, const Call& a, const Call& b, std::string what_a, std::string what_b) {
  c.fault(FaultKind::collective_mismatch, a.info.slots.empty() ? "" : "src",
          cat("core ", b.core, " has ", what_b, " where core ", a.core, " has ", what_a));
  return false;
}

bool same_instruction(Core& c, std::span<const Call> calls) {
  for (const Call& other : calls)
    if (other.insn.opcode != calls.front().insn.opcode)
      return disagree(c, calls.front(), other, std::string(calls.front().info.row->name),
                      std::string(other.info.row->name));
  return true;
}

bool same_sources(Core& c, std::span<const Call> calls) {
  const auto text = [](const Tile& t) { return cat("a src of ", t.elements(), " ", row(t.dtype).name); };
  const Tile first = calls.front().tile("src");
  for (const Call& other : calls) {
    const Tile t = other.tile("src");
    if (t.elements() != first.elements() || t.dtype != first.dtype)
      return disagree(c, calls.front(), other, text(first), text(t));
  }
  return true;
}

// --- collectives: dst of each rank from the sources of all ---

struct Group {
  std::vector<const Call*> calls;  // by rank
  std::vector<Bytes> sources;
  size_t ranks() const { return calls.size(); }
};

// The op over every rank's source, as f32.
Floats reduced(Core& c, const Group& g) {
  const auto combine = alu_f32(g.calls[0]->as<Alu>("op")).tiles;
  Floats sum, one;
  for (size_t r = 0; r < g.ranks(); ++r) {
    const Tile t = g.calls[r]->tile("src");
    one.resize(static_cast<size_t>(t.elements()));
    c.set_slot("src");
    for (int p = 0; p < t.partitions; ++p) c.read(t, p, one.data() + p * t.row_elements);
    if (r == 0)
      sum = one;
    else
      combine(sum.data(), one.data(), sum.data(), t.elements());
  }
  return sum;
}

// Rank r writes elements [r·each, …) of `values`; each = 0 writes all of them everywhere.
void write_parts(Core& c, const Group& g, const Floats& values, int64_t each) {
  for (size_t r = 0; r < g.ranks(); ++r) {
    const Tile d = g.calls[r]->tile("dst");
    const float* const from = values.data() + static_cast<int64_t>(r) * each;
    c.set_slot("dst");
    for (int p = 0; p < d.partitions; ++p) c.write(d, p, from + p * d.row_elements);
  }
}

void all_reduce(Core& c, const Group& g) { write_parts(c, g, reduced(c, g), 0); }
void reduce_scatter(Core& c, const Group& g) {
  write_parts(c, g, reduced(c, g), g.calls[0]->tile("src").elements() / static_cast<int64_t>(g.ranks()));
}

// dim 0 puts one source after the other; dim 1 does so within each row.
void all_gather(Core& c, const Group& g) {
  const Tile s = g.calls[0]->tile("src");
  const size_t rows = g.calls[0]->attr("dim") == 1 ? static_cast<size_t>(s.partitions) : 1;
  const size_t piece = g.sources[0].size() / rows;
  Bytes all;
  for (size_t p = 0; p < rows; ++p)
    for (const Bytes& source : g.sources)
      all.insert(all.end(), source.begin() + static_cast<ptrdiff_t>(p * piece),
                 source.begin() + static_cast<ptrdiff_t>((p + 1) * piece));
  for (const Call* call : g.calls) write_tile(c, call->tile("dst"), all.data());
}

void all_to_all(Core& c, const Group& g) {
  const size_t piece = g.sources[0].size() / g.ranks();
  Bytes mine(g.sources[0].size());
  for (size_t r = 0; r < g.ranks(); ++r) {
    for (size_t from = 0; from < g.ranks(); ++from)
      std::memcpy(mine.data() + from * piece, g.sources[from].data() + r * piece, piece);
    write_tile(c, g.calls[r]->tile("dst"), mine.data());
  }
}

void permute(Core& c, const Group& g) {
  const auto pairs = g.calls[0]->list("pairs");
  for (size_t i = 0; i + 1 < pairs.size(); i += 2)
    write_tile(c, g.calls[static_cast<size_t>(pairs[i + 1])]->tile("dst"),
               g.sources[static_cast<size_t>(pairs[i])].data());
}

void broadcast(Core& c, const Group& g) {
  const size_t root = static_cast<size_t>(g.calls[0]->attr("root"));
  for (const Call* call : g.calls) write_tile(c, call->tile("dst"), g.sources[root].data());
}

using Kind = void (*)(Core&, const Group&);
constexpr Kind kKinds[] = {all_reduce, all_gather, reduce_scatter, all_to_all, permute, broadcast};

// groups[core] is the group of each core; without it all are in one.
int64_t group_of(const Call& i, int core) {
  const auto groups = i.list("groups");
  return groups.empty() ? 0 : groups[static_cast<size_t>(core)];
}
int64_t ranks_of(const Call& i) {
  const auto groups = i.list("groups");
  return groups.empty() ? i.program.cores : std::ranges::count(groups, group_of(i, i.core));
}

bool same_attributes(Core& c, std::span<const Call> calls) {
  const Call& a = calls.front();
  for (const Call& b : calls)
    for (const AttrSlot& slot : a.info.attrs) {
      const bool same = slot.type == AttrType::ints ? std::ranges::equal(a.list(slot.name), b.list(slot.name))
                                                    : a.attr(slot.name) == b.attr(slot.name);
      if (!same) return disagree(c, a, b, cat("one ", slot.name), cat("another ", slot.name));
    }
  return true;
}

}  // namespace

void barrier(Core& c, const Call& i) { same_instruction(c, calls_of(c, i)); }

void exchange(Core& c, const Call& i) {
  const auto calls = calls_of(c, i);
  if (!same_instruction(c, calls) || !same_sources(c, calls)) return;
  const auto by_core = [&](int64_t core) -> const Call* {
    for (const Call& call : calls)
      if (call.core == core) return &call;
    return nullptr;
  };
  std::vector<Bytes> received;
  for (const Call& call : calls) {
    const int64_t from = call.attr("recv_from_rank");
    const Call* const sender = by_core(from);
    if (!sender || sender->attr("send_to_rank") != call.core || sender->attr("pipe_id") != call.attr("pipe_id"))
      return c.fault(FaultKind::collective_mismatch, "src",
                     cat("core ", call.core, " receives from core ", from, ", which sends elsewhere"));
    received.push_back(read_tile(c, sender->tile("src")));
  }
  for (size_t r = 0; r < calls.size(); ++r) write_tile(c, calls[r].tile("dst"), received[r].data());
}

void collective(Core& c, const Call& i) {
  const auto calls = calls_of(c, i);
  if (!same_instruction(c, calls) || !same_sources(c, calls) || !same_attributes(c, calls)) return;
  const Collective kind = i.as<Collective>("kind");
  std::vector<int64_t> done;
  for (const Call& leader : calls) {
    const int64_t id = group_of(leader, leader.core);
    if (std::ranges::find(done, id) != done.end()) continue;
    done.push_back(id);
    Group g;
    for (const Call& call : calls)
      if (group_of(call, call.core) == id) g.calls.push_back(&call);
    if (static_cast<int64_t>(g.ranks()) != ranks_of(leader))
      return c.fault(FaultKind::collective_mismatch, "src",
                     cat(g.ranks(), " cores came to a group of ", ranks_of(leader)));
    const bool reduces = kind == Collective::all_reduce || kind == Collective::reduce_scatter;
    if (!reduces)
      for (const Call* call : g.calls) g.sources.push_back(read_tile(c, call->tile("src")));
    kKinds[static_cast<size_t>(kind)](c, g);
  }
}

// --- collectives whose sizes are data: rows of counts and offsets, an entry for each rank ---

namespace {

enum CountRow : uint8_t { kSendCounts, kSendOffsets, kReceiveCounts, kReceiveOffsets };

// Calls f with `n` elements of a dense tile, from its element `first` on, as a tile of one row.
template <class F>
void with_part(const Tile& t, int64_t first, int64_t n, F f) {
  Pattern pattern;
  pattern.dtype = t.dtype;
  pattern.partitions = 1;
  pattern.rank = 1;
  pattern.dims[0] = {1, static_cast<uint32_t>(n)};
  Tile part = t;
  part.partitions = 1;
  part.row_elements = n;
  part.offset += first * t.element_bytes();
  part.low = 0, part.high = n * t.element_bytes();
  part.dense = true;
  part.pattern = &pattern;
  f(part);
}

class Counts {
 public:
  Counts(Core& c, const Call& call, int64_t ranks) : core_(c), tile_(call.tile("metadata")), ranks_(ranks) {}
  int64_t get(CountRow row, int64_t rank) {
    int64_t value = 0;
    core_.set_slot("metadata");
    with_part(tile_, row * ranks_ + rank, 1, [&](const Tile& t) { core_.read_int(t, 0, &value); });
    return value;
  }
  void set(CountRow row, int64_t rank, int64_t value) {
    core_.set_slot("metadata");
    with_part(tile_, row * ranks_ + rank, 1, [&](const Tile& t) { core_.write_int(t, 0, &value); });
  }

 private:
  Core& core_;
  const Tile tile_;
  const int64_t ranks_;
};

struct Message {
  size_t from = 0, to = 0;
  int64_t count = 0, at = 0;  // elements, and where they go
  Bytes bytes = {};
};

// Everything that the ranks of a group send; false where a count leaves its tensor.
bool read_messages(Core& c, const Group& g, std::vector<Message>& out) {
  const auto ranks = static_cast<int64_t>(g.ranks());
  const bool one_chunk = g.calls[0]->as<Collective>("kind") == Collective::all_gather;
  for (int64_t from = 0; from < ranks; ++from)
    for (int64_t to = 0; to < ranks; ++to) {
      const Call &sender = *g.calls[static_cast<size_t>(from)], &receiver = *g.calls[static_cast<size_t>(to)];
      const Tile src = sender.tile("src"), dst = receiver.tile("dst");
      Counts sent(c, sender, ranks), received(c, receiver, ranks);
      const int64_t column = one_chunk ? 0 : to, count = sent.get(kSendCounts, column);
      const int64_t begin = sent.get(kSendOffsets, column);
      const int64_t at =
          receiver.attr("has_rdispls") ? received.get(kReceiveOffsets, from) : dst.elements() / ranks * from;
      if (begin + count > src.elements() || at + count > dst.elements()) {
        c.fault(FaultKind::out_of_bounds, "metadata",
                cat("rank ", from, " sends elements ", begin, " to ", begin + count, " of ", src.elements(),
                    " to element ", at, " of rank ", to, "'s ", dst.elements()));
        return false;
      }
      Message m{static_cast<size_t>(from), static_cast<size_t>(to), count, at, {}};
      m.bytes.resize(static_cast<size_t>(count * src.element_bytes()));
      c.set_slot("src");
      if (count) with_part(src, begin, count, [&](const Tile& t) { c.read_bytes(t, 0, m.bytes.data()); });
      out.push_back(std::move(m));
    }
  return true;
}

void deliver(Core& c, const Group& g, const std::vector<Message>& messages) {
  for (const Call* call : g.calls) c.may_write(call->tile("dst"));
  for (const Message& m : messages) {
    const Call& receiver = *g.calls[m.to];
    c.set_slot("dst");
    if (m.count)
      with_part(receiver.tile("dst"), m.at, m.count, [&](const Tile& t) { c.write_bytes(t, 0, m.bytes.data()); });
    if (!receiver.attr("recv_counts_known"))
      Counts(c, receiver, static_cast<int64_t>(g.ranks())).set(kReceiveCounts, static_cast<int64_t>(m.from), m.count);
  }
}

bool is_dense(const Tile& t) {
  return t.dense && !t.dynamic && (t.partitions == 1 || t.row_stride == t.row_elements * t.element_bytes());
}

}  // namespace

void collective_v(Core& c, const Call& i) {
  const auto calls = calls_of(c, i);
  if (!same_instruction(c, calls) || !same_attributes(c, calls)) return;
  c.machine().settled = false;  // other data would move others
  std::vector<int64_t> done;
  for (const Call& leader : calls) {
    const int64_t id = group_of(leader, leader.core);
    if (std::ranges::find(done, id) != done.end()) continue;
    done.push_back(id);
    Group g;
    for (const Call& call : calls)
      if (group_of(call, call.core) == id) g.calls.push_back(&call);
    std::vector<Message> messages;
    if (read_messages(c, g, messages)) deliver(c, g, messages);
  }
}

Result<void> barrier_check(const Chip&, const Call& i) {
  if (i.program.cores < 2)
    return fail(Code::invalid, cat(i.info.row->name, " joins the cores of a program; this one runs on one core"));
  if (i.info.attr("cores") < 0) return {};
  const auto cores = i.list("cores");
  for (int64_t core = 0; core < static_cast<int64_t>(cores.size()); ++core)
    if (cores[static_cast<size_t>(core)] != core || static_cast<int64_t>(cores.size()) != i.program.cores)
      return fail(Code::invalid,
                  cat("cores does not list 0 to ", i.program.cores - 1, "; every core of the program meets"));
  return {};
}

Result<void> exchange_check(const Chip& k, const Call& i) {
  TRY(barrier_check(k, i));
  const Tile s = i.tile("src"), d = i.tile("dst");
  for (const char* name : {"send_to_rank", "recv_from_rank"})
    if (i.attr(name) < 0 || i.attr(name) >= i.program.cores)
      return fail(Code::out_of_range,
                  cat(name, "=", i.attr(name), "; the program has cores 0 to ", i.program.cores - 1));
  if (s.dtype != d.dtype || s.partitions != d.partitions || s.row_elements != d.row_elements)
    return fail(Code::invalid,
                cat("src is ", s.partitions, " by ", s.row_elements, " ", row(s.dtype).name, " and dst ", d.partitions,
                    " by ", d.row_elements, " ", row(d.dtype).name, "; they must be alike"));
  if (!i.attr("gpsimd_dma")) return {};
  if (i.engine != Engine::gpsimd) return fail(Code::invalid, "gpsimd_dma is triggered from gpsimd");
  const int64_t bytes = s.row_elements * s.element_bytes(), most = 256 * s.element_bytes();
  if (bytes > most)
    return fail(Code::invalid,
                cat("src has ", bytes, " bytes a partition; GpSimd's own DMA takes ", most, " of ", row(s.dtype).name));
  return {};
}

static Result<void> collective_spaces(const Call& i, Collective kind) {
  const Tile s = i.tile("src"), d = i.tile("dst");
  const bool reduces = kind == Collective::all_reduce || kind == Collective::reduce_scatter;
  if (s.dtype != d.dtype || (is_packed(s.dtype) && reduces))
    return fail(Code::invalid, cat("src is ", row(s.dtype).name, " and dst ", row(d.dtype).name,
                                   "; a collective keeps one dtype, and MX carriers cannot be combined"));
  const bool on_chip = s.on_chip() || d.on_chip();
  if (on_chip && (s.space != d.space || kind == Collective::all_to_all || kind == Collective::permute))
    return fail(Code::invalid, cat("src lies in ", name(s.space), " and dst in ", name(d.space),
                                   "; both lie in hbm, or both in sbuf unless it is all_to_all or permute"));
  const int64_t dim = i.attr("dim");
  if (dim != 0 && !(dim == 1 && kind == Collective::all_gather && on_chip))
    return fail(Code::invalid, cat("dim=", dim, "; it is 0, or 1 for an all_gather in sbuf"));
  return {};
}

static Result<void> collective_sizes(const Call& i, Collective kind, int64_t ranks) {
  const int64_t from = i.tile("src").elements(), to = i.tile("dst").elements();
  int64_t wanted = from;
  if (kind == Collective::all_gather) wanted *= ranks;
  if (kind == Collective::reduce_scatter || kind == Collective::all_to_all) {
    if (from % ranks)
      return fail(Code::invalid, cat("src has ", from, " elements, which ", ranks, " ranks cannot share evenly"));
    if (kind == Collective::reduce_scatter) wanted /= ranks;
  }
  if (to == wanted) return {};
  return fail(Code::invalid, cat("dst has ", to, " elements; with ", ranks, " ranks it needs ", wanted));
}

Result<void> collective_check(const Chip&, const Call& i) {
  const Collective kind = i.as<Collective>("kind");
  const auto groups = i.list("groups"), pairs = i.list("pairs");
  if (!groups.empty() && static_cast<int64_t>(groups.size()) != i.program.cores)
    return fail(Code::invalid, cat("groups has ", groups.size(), " entries; it names the group of each of ",
                                   i.program.cores, " cores"));
  const Alu op = i.as<Alu>("op");
  if (op != Alu::add && op != Alu::max && op != Alu::min)
    return fail(Code::invalid, cat("op=", name(op), "; collectives combine by add, max or min"));
  const int64_t ranks = ranks_of(i);
  TRY(collective_spaces(i, kind));
  TRY(collective_sizes(i, kind, ranks));
  if (kind == Collective::permute && (pairs.size() % 2 || pairs.empty()))
    return fail(Code::invalid, "pairs lists source and target ranks in turn");
  for (int64_t rank : pairs)
    if (rank < 0 || rank >= ranks)
      return fail(Code::out_of_range, cat("pairs names rank ", rank, "; ranks are 0 to ", ranks - 1));
  if (kind == Collective::broadcast && (i.attr("root") < 0 || i.attr("root") >= ranks))
    return fail(Code::out_of_range, cat("root=", i.attr("root"), "; ranks are 0 to ", ranks - 1));
  return {};
}

Result<void> collective_v_check(const Chip&, const Call& i) {
  const Collective kind = i.as<Collective>("kind");
  if (kind != Collective::all_gather && kind != Collective::all_to_all)
    return fail(Code::invalid, "sizes that are data go with kind=all_gather and kind=all_to_all");
  const auto groups = i.list("groups");
  if (!groups.empty() && static_cast<int64_t>(groups.size()) != i.program.cores)
    return fail(Code::invalid, cat("groups has ", groups.size(), " entries; it names the group of each of ",
                                   i.program.cores, " cores"));
  const Tile s = i.tile("src"), d = i.tile("dst"), m = i.tile("metadata");
  if (s.dtype != d.dtype)
    return fail(Code::invalid,
                cat("src is ", row(s.dtype).name, " and dst ", row(d.dtype).name, "; a collective keeps one dtype"));
  if (!is_dense(s) || !is_dense(d) || !is_dense(m))
    return fail(Code::invalid, "src, dst and metadata are taken as flat; give whole tensors, without gaps");
  const int64_t ranks = ranks_of(i), rows = i.attr("has_rdispls") ? 4 : 3;
  if (m.dtype != Dtype::u32 || m.elements() != rows * ranks || (m.on_chip() && m.partitions != 1))
    return fail(Code::invalid,
                cat("metadata is ", row(m.dtype).name, " of ", m.elements(), " entries on ", m.partitions,
                    " rows; it needs u32, ", rows, " rows of ", ranks, " ranks, in sbuf on one partition"));
  if (d.elements() % ranks)
    return fail(Code::invalid, cat("dst has ", d.elements(), " elements, which ", ranks, " ranks cannot share evenly"));
  return {};
}

}  // namespace trine::arch
