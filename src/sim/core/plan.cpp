// From static instructions to durations: the row's own cost, the chip's clocks, the shares of a DMA transfer.
#include "sim/core/plan.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "arch/rates.h"
#include "arch/sequencer.h"
#include "sim/cluster/collective.h"

namespace trine::sim {

using arch::Call;
using arch::Chip;
using arch::Engine;
using arch::Program;
using arch::Space;
using arch::Tile;

namespace {

Fs ns_to_fs(double ns) { return std::llround(ns * kFsPerNs); }

void add_traffic(Traffic& to, const Tile& t, bool reads, bool writes) {
  const int64_t bytes = t.elements() * t.element_bytes();
  auto& read = t.space == Space::hbm ? to.hbm_read : t.space == Space::sbuf ? to.sbuf_read : to.psum_read;
  auto& write = t.space == Space::hbm ? to.hbm_write : t.space == Space::sbuf ? to.sbuf_write : to.psum_write;
  if (reads) read += bytes;
  if (writes) write += bytes;
}

// The parts of the array that tile_position and tile_size name; without them, all.
uint16_t array_cells(const Chip& k, const Call& call) {
  if (call.info.attr("tile_position") < 0) return 0xffff;
  const auto at = call.list("tile_position"), size = call.list("tile_size");
  if (at.size() != 2 || size.size() != 2) return 0xffff;
  const int64_t rows = k.tensor.rows / 4, columns = k.tensor.columns / 4;
  uint16_t cells = 0;
  for (int64_t r = 0; r < 4; ++r)
    for (int64_t c = 0; c < 4; ++c)
      if (r * rows < at[0] + size[0] && at[0] < (r + 1) * rows && c * columns < at[1] + size[1] &&
          at[1] < (c + 1) * columns)
        cells = static_cast<uint16_t>(cells | 1u << (r * 4 + c));
  return cells ? cells : 0xffff;
}

class Preparer {
 public:
  Preparer(const Program& program, const Chip& chip, const TimeOptions& options)
      : program_(program), chip_(chip), options_(options) {}

  Plan run() {
    plan_.semaphore_latency = ns_to_fs(chip_.semaphore.latency_ns);
    plan_.completion = ns_to_fs(chip_.dma.completion_ns);
    plan_.turnaround = ns_to_fs(chip_.dma.ring_turnaround_ns);
    plan_.table_load = ns_to_fs(chip_.scalar.table_load_ns);
    for (const auto& stream : program_.streams) {
      auto& out = plan_.streams.emplace_back();
      out.reserve(stream.insns.size());
      for (const auto& insn : stream.insns) out.push_back(one(stream, insn));
    }
    for (const Scale& s : options_.scales) scale(plan_.streams[s.stream][s.insn], s);
    for (TransferTime& w : plan_.transfers)
      for (size_t e = 0; e < std::min(w.engine.size(), options_.dma_engine_scale.size()); ++e)
        w.engine[e] = std::llround(static_cast<double>(w.engine[e]) * options_.dma_engine_scale[e]);
    return std::move(plan_);
  }

 private:
  void scale(TimedInsn& p, const Scale& by) {
    const auto times = [](Fs& t, double factor) { t = std::llround(static_cast<double>(t) * factor); };
    times(p.interval, by.execute);
    times(p.load, by.load);
    if (p.kind != Kind::queue) return;
    TransferTime& w = plan_.transfers[p.transfer];
    for (Fs& t : w.engine) times(t, by.execute);
    times(w.stack, by.execute);
    times(w.packets, by.execute);
    times(w.issue, by.issue);
  }

  TimedInsn one(const arch::Stream& stream, const arch::Insn& insn) {
    const arch::RowInfo& info = *arch::row_by_opcode(insn.opcode);
    const Call call{program_, chip_, insn, info, stream.engine, stream.core};
    const arch::Cost cost = info.row->cycles(chip_, call);
    const auto [ghz, latency_cycles] = arch::clock_of(chip_, stream.engine);
    TimedInsn p;
    p.waits = insn.waits;
    p.updates = insn.updates;
    p.wait = insn.wait;
    p.update = insn.update;
    p.interval = cycles_to_fs(static_cast<double>(cost.cycles), ghz);
    p.load = cycles_to_fs(static_cast<double>(cost.load), ghz);
    p.latency = cycles_to_fs(latency_cycles, ghz);
    p.flops = cost.flops;
    p.table = static_cast<int16_t>(cost.table);
    p.fast = cost.fast;
    p.kind = kind_of(info, stream.engine, insn.opcode);
    if (p.kind == Kind::control || p.kind == Kind::semaphore) return p;
    add_operands(p, call, info);
    if (p.kind == Kind::matmul) p.cells = array_cells(chip_, call);
    if (p.kind == Kind::queue) add_transfer(p, call, stream.engine);
    if (p.kind == Kind::rendezvous) p.interval += rendezvous_time(p, call);
    return p;
  }

  static Kind kind_of(const arch::RowInfo& info, Engine engine, uint16_t opcode) {
    if (opcode == arch::kOpRegisterLoad) return Kind::register_load;
    switch (info.row->unit) {
      case arch::Unit::control:
        return opcode <= arch::kOpRegisterAlu ? Kind::control : Kind::semaphore;
      case arch::Unit::queue:
        return Kind::queue;
      case arch::Unit::rendezvous:
        return Kind::rendezvous;
      case arch::Unit::engine:
        break;
    }
    return engine == Engine::tensor ? Kind::matmul : Kind::engine;
  }

  void add_operands(TimedInsn& p, const Call& call, const arch::RowInfo& info) {
    p.footprint = static_cast<uint32_t>(plan_.footprints.size());
    for (size_t s = 0; s < info.slots.size(); ++s) {
      const arch::Operand& o = call.operand(static_cast<int>(s));
      if (o.kind != arch::OperandKind::tile) continue;
      const Tile t = call.tile_of(o);
      add_traffic(p.traffic, t, info.slots[s].reads(), info.slots[s].writes());
      p.touches_sbuf |= t.space == Space::sbuf;
      p.touches_psum |= t.space == Space::psum;
      if (t.on_chip() && p.kind == Kind::engine) plan_.footprints.push_back(footprint(t, o, info.slots[s].writes()));
    }
    p.footprints = static_cast<uint32_t>(plan_.footprints.size()) - p.footprint;
  }

  Footprint footprint(const Tile& t, const arch::Operand& o, bool writes) {
    int64_t low = 0, high = 0;
    for (int d = 0; d < t.pattern->rank; ++d) {
      const arch::Dim& dim = t.pattern->dims[static_cast<size_t>(d)];
      const int64_t reach = dim.stride * (static_cast<int64_t>(dim.count) - 1);
      (reach < 0 ? low : high) += reach;
    }
    const int size = t.element_bytes();
    return {t.space,
            writes,
            t.core,
            static_cast<int16_t>(t.partition),
            static_cast<int16_t>(t.partitions),
            t.offset + low * size,
            t.offset + (high + 1) * size,
            o.tensor,
            o.pattern,
            size};
  }

  void add_transfer(TimedInsn& p, const Call& call, Engine engine) {
    const arch::Transfer t = arch::describe_transfer(chip_, call);
    p.queue = static_cast<uint16_t>(call.attr("queue"));
    p.dge = arch::dge_of(chip_, engine, call.info.attr("dge") < 0 ? arch::Dge::none : call.as<arch::Dge>("dge"));
    p.transfer = static_cast<uint32_t>(plan_.transfers.size());
    TransferTime w;
    w.engine.resize(static_cast<size_t>(chip_.dma.engines_per_core));
    for (const auto& share : t.shares) {
      const Fs engine_time = ns_to_fs(arch::share_ns(chip_, t, share));
      w.engine[static_cast<size_t>(share.engine)] += engine_time;
      w.packets += engine_time;
    }
    const arch::TransferRate rate = arch::rate_of(chip_, t, p.dge, std::max(1, options_.cores_on_stack));
    w.stack = ns_to_fs(rate.stack_ns);
    w.start = ns_to_fs(rate.start_ns);
    w.issue = ns_to_fs(rate.issue_ns);
    plan_.lookback = std::max(plan_.lookback, w.start - std::min(w.issue, w.start));
    p.traffic = {t.hbm_read, t.hbm_write, t.sbuf_read, t.sbuf_write, 0, 0, 0, 0};
    note_spill(p, call);
    plan_.transfers.push_back(std::move(w));
  }

  // A transfer between SBUF and an HBM tensor that is neither input, output nor constant is a spill; and one of a
  // tensor that says so, as Neuron's profiler counts the `_spill_` tensors that its compiler writes into kernels.
  void note_spill(TimedInsn& p, const Call& call) {
    for (size_t s = 0; s < call.info.slots.size(); ++s) {
      const arch::Operand& o = call.operand(static_cast<int>(s));
      if (o.kind != arch::OperandKind::tile) continue;
      const arch::Tensor& tensor = program_.tensors[o.tensor];
      const bool named = tensor.name.find("_spill_") != std::string::npos;
      if (tensor.space != Space::hbm || (tensor.kind != arch::TensorKind::scratch && !named)) continue;
      if (call.info.slots[s].writes())
        p.traffic.spill_save += p.traffic.hbm_write;
      else
        p.traffic.spill_reload += p.traffic.hbm_read;
    }
  }

  // A collective runs by its schedule; cores that only exchange their operands do so over the core's DMA engines; a
  // bare barrier has none.
  Fs rendezvous_time(const TimedInsn& p, const Call& call) const {
    const int64_t bytes = p.traffic.hbm_read + p.traffic.sbuf_read;
    if (!bytes) return 0;
    if (call.info.attr("kind") >= 0)
      if (const double ns = collective_ns(call, bytes); ns > 0) return ns_to_fs(ns);
    const double rate = chip_.dma.rate_bytes_per_ns * static_cast<double>(chip_.dma.engines_per_core);
    return ns_to_fs(chip_.dma.start_sync_ns + chip_.dma.completion_ns + static_cast<double>(bytes) / rate);
  }

  // Every group of the program's cores at once; 0 where a core is alone in its group.
  double collective_ns(const Call& call, int64_t bytes) const {
    const auto of_core = call.list("groups");
    const bool fixed = call.info.attr("pairs") >= 0;  // else its sizes are data, and the most that fits is timed
    const auto pairs = fixed ? call.list("pairs") : decltype(of_core){};
    std::map<int64_t, std::vector<comm::Place>> groups;
    for (int64_t core = 0; core < program_.cores; ++core)
      groups[of_core.empty() ? 0 : of_core[static_cast<size_t>(core)]].push_back({0, 0, core});
    std::vector<std::vector<comm::Place>> all;
    for (auto& [id, places] : groups) all.push_back(std::move(places));
    arch::Instance machine;
    machine.chip = &chip_;
    machine.chips = machine.hosts = 1;
    comm::Request request{.kind = call.as<arch::Collective>("kind"), .bytes = bytes};
    if (request.kind == arch::Collective::all_gather) request.bytes *= static_cast<int64_t>(all[0].size());
    request.root = fixed ? static_cast<int32_t>(call.attr("root")) : 0;
    for (size_t i = 0; i + 1 < pairs.size(); i += 2)
      request.pairs.emplace_back(static_cast<int32_t>(pairs[i]), static_cast<int32_t>(pairs[i + 1]));
    const auto time = time_collective({&machine, 1, 1}, all, request);
    return time ? time->ns : 0;
  }

  const Program& program_;
  const Chip& chip_;
  const TimeOptions& options_;
  Plan plan_;
};

}  // namespace

Fs cycles_to_fs(double cycles, double ghz) { return ghz > 0 ? std::llround(cycles * kFsPerNs / ghz) : 0; }

Plan make_plan(const Program& program, const Chip& chip, const TimeOptions& options) {
  return Preparer(program, chip, options).run();
}

}  // namespace trine::sim
