// Instructions and tracks of a profile; see program_profile.h.
#include "run/profile/program_profile.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "arch/asm/asm.h"
#include "arch/row.h"
#include "sim/core/plan.h"

namespace trine::run {

namespace {

using sim::Event;
using sim::Part;

constexpr size_t kLanesMax = 64;
constexpr int64_t kFsPerPs = 1000;

int64_t ps(sim::Fs t) { return t / kFsPerPs; }

std::vector<ProfileInsn> insn_rows(const arch::Program& program, const arch::Chip& chip, const sim::Timing& timing,
                                   const Intern& intern) {
  const sim::Plan plan = sim::make_plan(program, chip, {});
  std::vector<ProfileInsn> out;
  for (size_t s = 0; s < program.streams.size(); ++s) {
    const arch::Stream& stream = program.streams[s];
    for (uint32_t i = 0; i < stream.insns.size(); ++i) {
      const arch::Row& row = *arch::row_by_opcode(stream.insns[i].opcode)->row;
      const std::string at = arch::source_line(program, stream.insns[i]);
      std::string text = arch::describe_insn(program, stream, i);
      if (!at.empty() && text.ends_with(at)) text.resize(text.size() - at.size() - 4);  // " at "
      const sim::TimedInsn& p = plan.streams[s][i];
      const sim::InsnTotal total =
          s < timing.totals.size() && i < timing.totals[s].size() ? timing.totals[s][i] : sim::InsnTotal();
      const sim::Traffic& t = p.traffic;
      out.push_back({.name = intern(row.label.empty() ? row.name : row.label),
                     .text = intern(text),
                     .at = intern(at),
                     .core = stream.core,
                     .part = uint16_t(p.kind == sim::Kind::queue ? uint16_t(Part::dma) : uint16_t(stream.engine)),
                     .count = total.count,
                     .busy = ps(total.busy),
                     .waited = ps(total.waited),
                     .flops = p.flops,
                     .hbm_read = t.hbm_read,
                     .hbm_write = t.hbm_write,
                     .sbuf_read = t.sbuf_read,
                     .sbuf_write = t.sbuf_write,
                     .psum_read = t.psum_read,
                     .psum_write = t.psum_write,
                     .spill_save = t.spill_save,
                     .spill_reload = t.spill_reload});
    }
  }
  return out;
}

struct Key {
  uint16_t core, part, queue, lane;
  auto operator<=>(const Key&) const = default;
};

// Transfers of one queue may overlap: each goes to the first lane that is free by then.
std::map<Key, std::vector<uint32_t>> by_track(const std::vector<Event>& events) {
  std::vector<uint32_t> order(events.size());
  std::iota(order.begin(), order.end(), 0u);
  std::stable_sort(order.begin(), order.end(),
                   [&](uint32_t a, uint32_t b) { return events[a].start < events[b].start; });
  std::map<Key, std::vector<uint32_t>> out;
  std::map<Key, std::vector<sim::Fs>> lanes;
  for (const uint32_t i : order) {
    const Event& e = events[i];
    Key key{e.core, uint16_t(e.part), e.part == Part::dma ? e.queue : uint16_t(0), 0};
    std::vector<sim::Fs>& free = lanes[key];
    size_t lane = 0;
    while (lane < free.size() && free[lane] > e.start) ++lane;
    if (lane == free.size() && lane < kLanesMax) free.push_back(0);
    lane = std::min(lane, kLanesMax - 1);
    free[lane] = std::max(free[lane], e.end);
    key.lane = uint16_t(lane);
    out[key].push_back(i);
  }
  return out;
}

void add_tree(ProgramRows& rows, ProfileTrack& track) {
  const auto events = std::span(rows.events).subspan(track.event, track.count);
  const auto tree = tree_of(events, rows.insns, track.levels);
  std::map<uint32_t, int64_t> shares;
  for (const ProfileEvent& e : events) {
    track.busy += e.end - e.begin;
    shares[rows.insns[e.insn].name] += e.end - e.begin;
  }
  int64_t most = -1;
  for (const auto& [name, busy] : shares)
    if (busy > most) most = busy, track.name = name;
  track.node = rows.nodes.size();
  rows.nodes.insert(rows.nodes.end(), tree.begin(), tree.end());
}

}  // namespace

ProgramRows program_rows(const arch::Program& program, const arch::Chip& chip, const sim::Timing& timing,
                         const Intern& intern) {
  ProgramRows rows;
  rows.insns = insn_rows(program, chip, timing, intern);
  std::vector<uint32_t> first_insn = {0};  // of each stream
  for (const arch::Stream& s : program.streams) first_insn.push_back(first_insn.back() + uint32_t(s.insns.size()));
  std::vector<uint32_t> place(timing.events.size());  // of each recorded event in the rows
  const auto tracks = by_track(timing.events);
  uint32_t next = 0;
  for (const auto& [key, events] : tracks)
    for (const uint32_t i : events) place[i] = next++;
  rows.events.reserve(next);
  for (const auto& [key, events] : tracks) {
    ProfileTrack track{key.core, key.part, key.queue, key.lane, 0, 0, rows.events.size(), events.size(), 0, 0};
    for (const uint32_t i : events) {
      const Event& e = timing.events[i];
      rows.events.push_back({.begin = ps(e.start),
                             .end = ps(e.end),
                             .insn = first_insn[e.stream] + e.insn,
                             .cause = e.cause < 0 ? kNone : place[size_t(e.cause)],
                             .waited_ns = float(sim::to_ns(e.waited)),
                             .waited_for = uint8_t(e.waited_for),
                             .doing = uint8_t(e.doing),
                             .reserved = 0});
    }
    add_tree(rows, track);
    rows.tracks.push_back(track);
  }
  rows.memory = memory_rows(program, chip, timing, intern);
  rows.semaphores = semaphore_rows(program, chip, timing, place);
  return rows;
}

}  // namespace trine::run
