// The rules of explain, one row each: what to look for, and the question put to the model to see what it would save.
// A rule says nothing when its cause is absent; whether a gain is worth a line is decided in explain.cpp.
#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "arch/rates.h"
#include "arch/transfer.h"
#include "base/text.h"
#include "run/explain/look.h"

namespace trine::run {

namespace {

using arch::Engine;
using sim::Kind;
using sim::Part;
using sim::Scale;
using sim::to_ns;

constexpr int64_t kLongRun = 2048;  // bytes; runs this long move at nearly the full DMA rate
constexpr double kMerge = 4;        // transfers or instructions made one

std::string percent(double share) { return cat(fixed(100 * share, share < 0.1 ? 1 : 0), " %"); }

std::string times(int64_t n) { return n == 1 ? "once" : cat(with_commas(n), " times"); }

Advice advice(const Look& l, const Insn& i, std::string what, std::string why, std::string fix, double would_ns,
              bool at_best = false) {
  return {{}, std::move(what), std::move(why), std::move(fix), would_ns, at_best, l.site(i)};
}

// Sums in PSUM are read and written; they do not count.
bool reads(const Insn& i, Dtype dtype) {
  for (size_t s = 0; s < i.call.info.slots.size(); ++s) {
    const arch::Operand& o = i.call.operand(static_cast<int>(s));
    if (i.call.info.slots[s].mode == arch::Mode::read && o.kind == arch::OperandKind::tile &&
        i.call.program.patterns[o.pattern].dtype == dtype)
      return true;
  }
  return false;
}

// The longest row any tile operand has, in elements.
int64_t row_elements(const Insn& i) {
  int64_t n = 0;
  for (size_t s = 0; s < i.call.info.slots.size(); ++s) {
    const arch::Operand& o = i.call.operand(static_cast<int>(s));
    if (o.kind == arch::OperandKind::tile) n = std::max(n, i.call.program.patterns[o.pattern].row_elements());
  }
  return n;
}

// The tensor a transfer fills, or empties when it goes to HBM.
std::string moved(const Insn& i) {
  const arch::Tile dst = i.call.tile("dst");
  if (dst.on_chip()) return i.call.program.tensors[dst.tensor].name;
  for (size_t s = 0; s < i.call.info.slots.size(); ++s) {
    const arch::Operand& o = i.call.operand(static_cast<int>(s));
    if (i.call.info.slots[s].reads() && o.kind == arch::OperandKind::tile) return i.call.program.tensors[o.tensor].name;
  }
  return i.call.program.tensors[dst.tensor].name;
}

// "They run 512 times, 438 µs in all."
std::string in_all(const Look& l, const std::function<bool(const Insn&)>& which) {
  int64_t count = 0;
  double ns = 0;
  for (const Insn& i : l.insns)
    if (which(i)) count += i.total.count, ns += i.busy_ns();
  return cat("Such instructions run ", times(count), ", ", with_unit_ns(ns), " in all.");
}

bool is_array_matmul(const Insn& i) { return i.is_matmul() && i.call.info.slot("stationary") >= 0; }

// --- tensor engine ---

std::optional<Advice> tensor_f32(const Look& l) {
  const auto wide = [](const Insn& x) { return x.is_matmul() && reads(x, Dtype::f32); };
  const Insn* i = l.busiest(wide);
  if (!i || l.chip.tensor.fp32_passes <= 1) return {};
  return advice(l, *i,
                cat("f32 goes through the tensor engine in ", l.chip.tensor.fp32_passes, " passes, bf16 in one."),
                in_all(l, wide), "Keep operands in bf16 (sums stay f32 in PSUM)", l.time_in_bf16());
}

double array_fill(const Look& l, const Insn& i) {
  const arch::Tile s = i.call.tile("stationary");
  const auto& t = l.chip.tensor;
  const double k = std::min<double>(s.partitions, static_cast<double>(t.rows));
  const double m = std::min<double>(static_cast<double>(s.row_elements), static_cast<double>(t.columns));
  return k * m / static_cast<double>(t.rows * t.columns);
}

std::optional<Advice> tensor_fill(const Look& l) {
  const auto partly = [&](const Insn& x) { return is_array_matmul(x) && array_fill(l, x) < 0.75; };
  const Insn* i = l.busiest(partly);
  if (!i) return {};
  std::vector<Scale> scales;
  for (const Insn& x : l.insns)
    if (partly(x)) scales.push_back({x.stream, x.index, array_fill(l, x), 1, 1});
  const arch::Tile s = i->call.tile("stationary");
  return advice(l, *i, cat("Matmuls fill ", percent(array_fill(l, *i)), " of the array."),
                cat("The stationary tile is ", s.partitions, " x ", s.row_elements, "; the array is ",
                    l.chip.tensor.rows, " x ", l.chip.tensor.columns, " and takes as long for less."),
                "Put more of K on the partitions, or more columns in the stationary tile", l.time_if(scales));
}

std::optional<Advice> tensor_short(const Look& l) {
  const auto columns = [](const Insn& x) { return static_cast<double>(x.call.tile("moving").row_elements); };
  const auto brief = [&](const Insn& x) {
    return is_array_matmul(x) && (columns(x) < l.chip.tensor.interval_min_cycles || x.timed.load > x.timed.interval);
  };
  const Insn* i = l.busiest(brief);
  if (!i) return {};
  std::vector<Scale> scales;
  for (const Insn& x : l.insns)
    if (brief(x))
      scales.push_back({x.stream, x.index, std::min(1.0, columns(x) / l.chip.tensor.interval_min_cycles), 0, 1});
  const std::string why =
      i->timed.load > i->timed.interval
          ? cat("Loading the weights takes ", with_unit_ns(to_ns(i->timed.load)), ", streaming ",
                with_unit_ns(to_ns(i->timed.interval)), "; a load hides only behind a longer stream.")
          : cat("A matmul takes at least ", l.chip.tensor.interval_min_cycles, " cycles.");
  return advice(l, *i, cat("Matmuls stream only ", columns(*i), " columns past each set of weights."), why,
                cat("Stream up to ", l.chip.tensor.moving_max, " columns a matmul"), l.time_if(scales));
}

std::optional<Advice> tensor_throttle(const Look& l) {
  const Insn* i = l.busiest([](const Insn& x) { return x.is_matmul(); });
  if (!i || l.timing.throttled == 0) return {};
  arch::Chip chip = l.chip;
  chip.features.remove(arch::Feature::throttle);
  return advice(
      l, *i, cat("The current limiter slows the tensor engine by ", with_unit_ns(to_ns(l.timing.throttled)), "."),
      cat("It engages when the engine was under ", percent(l.chip.throttle.threshold_fraction), " busy for ",
          with_unit_ns(l.chip.throttle.window_ns), ", and lets go over ", with_unit_ns(l.chip.throttle.ramp_ns), "."),
      "Leave no long gaps between matmuls", l.time_if(chip));
}

std::optional<Advice> psum_banks(const Look& l) {
  double waits = 0;
  for (const Engine e : {Engine::vector, Engine::scalar, Engine::gpsimd})
    if (l.busiest([&](const Insn& x) { return x.call.engine == e && x.timed.traffic.psum_read > 0; }))
      waits += l.waited_share(Engine::tensor, static_cast<Part>(e));
  const Insn* i = l.longest_waiting([](const Insn& x) { return x.is_matmul(); });
  if (!i || waits < 0.02 || l.report.psum_banks_used >= l.report.psum_banks) return {};
  const double would = std::max(l.lower_bound_ns(), l.report.time_ns * (1 - waits));
  return advice(l, *i, cat("The tensor engine waits ", percent(waits), " of the time for PSUM to be emptied."),
                cat("It uses ", l.report.psum_banks_used, " of ", l.report.psum_banks, " banks."),
                "Let results rotate over more banks", would, true);
}

// --- data movement ---

double run_efficiency(const Look& l, const Insn& i) {
  const sim::TransferTime& w = l.plan.transfers[i.timed.transfer];
  const arch::Transfer t = arch::describe_transfer(l.chip, i.call);
  const double ideal = static_cast<double>(t.bytes) / (l.chip.dma.rate_bytes_per_ns * t.rate_fraction);
  return w.packets > 0 ? ideal / to_ns(w.packets) : 1;
}

double long_run_efficiency(const Look& l) {
  const double ideal = kLongRun / l.chip.dma.rate_bytes_per_ns;
  return ideal / (ideal + l.chip.dma.descriptor_strided_ns);
}

std::optional<Advice> dma_row_short(const Look& l) {
  const double target = long_run_efficiency(l);
  const auto brief = [&](const Insn& x) { return x.is_dma() && run_efficiency(l, x) < 0.9 * target; };
  const Insn* i = l.busiest(brief);
  if (!i) return {};
  std::vector<Scale> scales;
  for (const Insn& x : l.insns)
    if (brief(x)) scales.push_back({x.stream, x.index, run_efficiency(l, x) / target, 1, 1});
  const arch::Transfer t = arch::describe_transfer(l.chip, i->call);
  return advice(l, *i, cat(moved(*i), " moves in runs of ", t.bytes / std::max<int64_t>(1, t.descriptors()), " bytes."),
                cat("Each needs a descriptor; such runs reach ", percent(run_efficiency(l, *i)), " of the DMA rate."),
                cat("Move ", kLongRun / 1024, " KiB or more a run"), l.time_if(scales));
}

std::optional<Advice> dma_issue(const Look& l) {
  Engine engine = Engine::sync;
  for (int e = 0; e < arch::kEngineCount; ++e)
    if (l.issue_ns(static_cast<Engine>(e)) > l.issue_ns(engine)) engine = static_cast<Engine>(e);
  const double share = l.issue_ns(engine) / (l.report.time_ns * l.program.cores);
  const Insn* i = l.busiest([&](const Insn& x) { return x.is_dma() && x.call.engine == engine; });
  if (!i || share < 0.2) return {};
  int64_t transfers = 0;
  for (const Insn& x : l.insns)
    if (x.is_dma() && x.call.engine == engine) transfers += x.total.count;
  arch::Chip chip = l.chip;
  for (double* ns : {&chip.dma.hwdge_issue_ns, &chip.dma.swdge_issue_ns, &chip.dma.ring_turnaround_ns}) *ns /= kMerge;
  return advice(l, *i, cat(arch::name(engine), " spends ", percent(share), " of the time on DMA descriptors."),
                cat("It issues ", with_commas(transfers), " transfers at ",
                    with_unit_ns(to_ns(l.plan.transfers[i->timed.transfer].issue)), " each."),
                cat("Make transfers ", kMerge, " times as large, or issue them from more engines"), l.time_if(chip));
}

std::optional<Advice> dma_few_engines(const Look& l) {
  const auto uneven = [&](const Insn& x) {
    if (!x.is_dma()) return 1.0;
    const sim::TransferTime& w = l.plan.transfers[x.timed.transfer];
    const auto most = *std::max_element(w.engine.begin(), w.engine.end());
    return most > 0 ? to_ns(w.packets) / static_cast<double>(w.engine.size()) / to_ns(most) : 1.0;
  };
  const Insn* i = l.busiest([&](const Insn& x) { return uneven(x) < 0.75; });
  if (!i) return {};
  std::vector<Scale> scales;
  for (const Insn& x : l.insns)
    if (uneven(x) < 0.75) scales.push_back({x.stream, x.index, uneven(x), 1, 1});
  const arch::Transfer t = arch::describe_transfer(l.chip, i->call);
  return advice(l, *i,
                cat(moved(*i), " rides on ", t.shares.size(), " of ", l.chip.dma.engines_per_core, " DMA engines."),
                cat("An engine serves ", l.chip.dma.partitions_per_engine, " neighbouring partitions."),
                cat("Spread the tile over ", l.chip.partitions, " partitions"), l.time_if(scales));
}

std::optional<Advice> dma_one_queue(const Look& l) {
  std::map<int, int64_t> transfers;  // by queue
  for (const Insn& x : l.insns)
    if (x.is_dma()) transfers[x.timed.queue] += x.total.count;
  if (transfers.empty()) return {};
  const auto fullest = std::max_element(transfers.begin(), transfers.end(),
                                        [](const auto& a, const auto& b) { return a.second < b.second; });
  const Insn* i = l.busiest([&](const Insn& x) { return x.is_dma() && x.timed.queue == fullest->first; });
  arch::Chip chip = l.chip;
  chip.dma.ring_turnaround_ns = 0;
  return advice(l, *i,
                cat("Queue ", fullest->first, " carries ", with_commas(fullest->second), " transfers, ",
                    transfers.size() == 1 ? "and no other any." : "the others fewer."),
                cat("A queue begins a transfer at most every ", with_unit_ns(l.chip.dma.ring_turnaround_ns), "."),
                cat("Deal them out over more of the ", l.chip.dma.rings, " queues"), l.time_if(chip));
}

std::optional<Advice> dma_rate(const Look& l) {
  const double engines = to_ns(l.timing.dma_packets) /
                         (static_cast<double>(l.chip.dma.engines_per_core) * l.report.time_ns * l.program.cores);
  const Insn* i = l.busiest([](const Insn& x) { return x.is_dma(); });
  if (!i || std::max(engines, l.report.mbu) < 0.6) return {};
  std::vector<Scale> scales;
  for (const Insn& x : l.insns)
    if (x.is_dma()) scales.push_back({x.stream, x.index, 0.5, 1, 1});
  const auto& t = l.timing.traffic;
  return advice(l, *i,
                cat("The DMA engines move data ", percent(engines), " of the time, at ", percent(l.report.mbu),
                    " of HBM's rate."),
                cat(with_unit_bytes(static_cast<double>(t.hbm_read + t.hbm_write)),
                    " go over them; only fewer bytes take less time."),
                "Reuse more of what is in SBUF; with half the bytes", l.time_if(scales));
}

std::optional<Advice> dma_wait(const Look& l) {
  Engine engine = Engine::tensor;
  for (const Engine e : {Engine::vector, Engine::scalar, Engine::gpsimd})
    if (l.engine_share(e) > l.engine_share(engine)) engine = e;
  const double waits = l.waited_share(engine, Part::dma);
  const Insn* i = l.longest_waiting([&](const Insn& x) { return !x.is_dma() && x.call.engine == engine; });
  if (!i || waits < 0.05) return {};
  return advice(l, *i, cat("The ", arch::name(engine), " engine waits for transfers ", percent(waits), " of the time."),
                cat("The DMA engines are idle for part of it: they carry ",
                    with_unit_ns(to_ns(l.timing.dma_packets) / static_cast<double>(l.chip.dma.engines_per_core) /
                                 l.program.cores),
                    " of work each."),
                "Load the next tiles while these are used (more buffers)",
                std::max(l.lower_bound_ns(), l.report.time_ns * (1 - waits)), true);
}

std::optional<Advice> spill(const Look& l) {
  const auto spills = [](const Insn& x) {
    return x.is_dma() && x.timed.traffic.spill_save + x.timed.traffic.spill_reload > 0;
  };
  const Insn* i = l.busiest(spills);
  if (!i) return {};
  std::vector<Scale> scales;
  for (const Insn& x : l.insns)
    if (spills(x)) scales.push_back({x.stream, x.index, 0, 1, 0});
  const auto& t = l.timing.traffic;
  return advice(l, *i,
                cat(with_unit_bytes(static_cast<double>(t.spill_save)), " leave SBUF for HBM scratch and ",
                    with_unit_bytes(static_cast<double>(t.spill_reload)), " come back."),
                cat("SBUF is filled up to ", fixed(static_cast<double>(l.report.sbuf_peak_bytes) / 0x1p20, 1), " of ",
                    fixed(static_cast<double>(l.report.sbuf_bytes) / 0x1p20, 1), " MiB."),
                "Use smaller tiles, or use them up before loading others", l.time_if(scales), true);
}

// --- vector, scalar, gpsimd ---

std::optional<Advice> vector_two_inputs(const Look& l) {
  arch::Chip chip = l.chip;
  chip.vector.two_input_factor = 1;
  const sim::Plan there = sim::make_plan(l.program, chip, {});
  const auto quick = [&](const Insn& x) { return there.streams[x.stream][x.index].interval; };
  // What has an input in PSUM already does what the advice would say.
  const auto both = [&](const Insn& x) { return quick(x) < x.timed.interval && !x.timed.traffic.psum_read; };
  const Insn* i = l.busiest(both);
  if (!i) return {};
  std::vector<Scale> scales;
  for (const Insn& x : l.insns)
    if (both(x))
      scales.push_back(
          {x.stream, x.index, static_cast<double>(quick(x)) / static_cast<double>(x.timed.interval), 1, 1});
  return advice(l, *i, cat(i->row().name, " reads two tensors, which halves its rate."), in_all(l, both),
                "Let one input come from PSUM or be one value a partition", l.time_if(scales), true);
}

std::optional<Advice> wide_elements(const Look& l) {
  const auto wide = [](const Insn& x) { return reads(x, Dtype::f32); };
  const Insn* i = l.busiest(wide);
  if (!i || l.busiest([&](const Insn& x) { return x.is_matmul() && wide(x); })) return {};  // then tensor-f32 says it
  return advice(l, *i, "The data are f32; bf16 moves in half the bytes and runs in the fast modes.", in_all(l, wide),
                "Keep them in bf16 where the precision allows", l.time_in_bf16());
}

std::optional<Advice> sbuf_stride(const Look& l) {
  arch::Chip chip = l.chip;
  chip.sbuf.stride_factor = 1;
  const Insn* i = l.quicker_on(chip);
  if (!i) return {};
  return advice(l, *i,
                cat(i->row().name, " steps over SBUF in strides past ", l.chip.sbuf.stride_full_bytes, " bytes."),
                cat("Such reads and writes take ", l.chip.sbuf.stride_factor, " times as long."),
                "Lay the data out so that neighbours follow each other", l.time_if(chip));
}

std::optional<Advice> register_address(const Look& l) {
  arch::Chip chip = l.chip;
  chip.sequencer.dynamic_address_min_cycles = l.chip.vector.interval_min_cycles;
  const Insn* i = l.quicker_on(chip);
  if (!i) return {};
  return advice(l, *i, cat(i->row().name, " takes its address from a register."),
                cat("It then costs at least ", l.chip.sequencer.dynamic_address_min_cycles, " cycles; it runs ",
                    times(i->total.count), "."),
                "Use a loop index, or do more per instruction", l.time_if(chip));
}

std::optional<Advice> small_instructions(const Look& l) {
  const auto floor_of = [&](const Insn& x) {
    return x.call.engine == Engine::vector   ? l.chip.vector.interval_min_cycles
           : x.call.engine == Engine::scalar ? l.chip.scalar.interval_min_cycles
                                             : l.chip.gpsimd.interval_min_cycles;
  };
  const auto filled = [&](const Insn& x) { return static_cast<double>(row_elements(x)) / floor_of(x); };
  const auto small = [&](const Insn& x) {
    return x.timed.kind == Kind::engine && filled(x) < 1 &&
           x.timed.interval <= sim::cycles_to_fs(2 * floor_of(x), arch::clock_of(l.chip, x.call.engine).ghz);
  };
  const Insn* i = l.busiest(small);
  if (!i) return {};
  std::vector<Scale> scales;
  for (const Insn& x : l.insns)
    if (small(x)) scales.push_back({x.stream, x.index, filled(x), 1, 1});
  return advice(l, *i,
                cat(i->row().name, " works on ", row_elements(*i), row_elements(*i) == 1 ? " element" : " elements",
                    " a partition."),
                cat("Below ", floor_of(*i), " it costs the same; it runs ", times(i->total.count), "."),
                "Put several together into longer rows", l.time_if(scales));
}

bool touches_psum(const Insn& x) {
  for (size_t s = 0; s < x.call.info.slots.size(); ++s) {
    const arch::Operand& o = x.call.program.operands[x.call.insn.operand + s];
    if (o.kind == arch::OperandKind::tile && x.call.program.tensors[o.tensor].space == arch::Space::psum) return true;
  }
  return false;
}

// GpSimd has no way into PSUM, and where it and Vector share the one into SBUF nothing is gained between them.
bool may_move(const Look& l, const Insn& x, Engine to) {
  if (!(x.row().engines & arch::bit(to)) || (to == Engine::gpsimd && touches_psum(x))) return false;
  const bool pair = to == Engine::gpsimd || x.call.engine == Engine::gpsimd;
  return !pair || to == Engine::scalar || x.call.engine == Engine::scalar || !l.chip.has(arch::Feature::shared_ports);
}

std::optional<Advice> engine_idle(const Look& l) {
  Engine busy = Engine::vector;
  for (const Engine e : {Engine::scalar, Engine::gpsimd})
    if (l.engine_share(e) > l.engine_share(busy)) busy = e;
  if (l.engine_share(busy) < 0.5) return {};
  Engine idle = busy;
  const auto movable = [&](const Insn& x) {
    return x.timed.kind == Kind::engine && x.call.engine == busy && may_move(l, x, idle);
  };
  const Insn* i = nullptr;
  for (const Engine e : {Engine::vector, Engine::scalar, Engine::gpsimd}) {
    if (e == busy || l.engine_share(e) > 0.4 * l.engine_share(busy)) continue;
    idle = e;
    if ((i = l.busiest(movable))) break;
  }
  if (!i) return {};
  std::vector<Scale> scales;
  for (const Insn& x : l.insns)
    if (movable(x)) scales.push_back({x.stream, x.index, 0.5, 1, 1});
  return advice(l, *i,
                cat("The ", arch::name(busy), " engine is ", percent(l.engine_share(busy)), " busy, the ",
                    arch::name(idle), " engine ", percent(l.engine_share(idle)), "."),
                cat(i->row().name, " runs on either."), cat("Give the ", arch::name(idle), " engine half of it"),
                l.time_if(scales), true);
}

std::optional<Advice> table_loads(const Look& l) {
  std::set<int> tables;
  for (const Insn& x : l.insns)
    if (x.timed.table >= 0) tables.insert(x.timed.table);
  const auto needed = static_cast<int64_t>(tables.size()) * l.program.cores;
  const Insn* i = l.busiest([](const Insn& x) { return x.timed.table >= 0; });
  if (!i || l.timing.table_loads <= needed) return {};
  arch::Chip chip = l.chip;
  chip.scalar.table_load_ns *= static_cast<double>(needed) / static_cast<double>(l.timing.table_loads);
  return advice(l, *i,
                cat("The scalar engine loads an activation table ", with_commas(l.timing.table_loads), " times."),
                cat("It needs ", needed, needed == 1 ? " table" : " tables", "; a load takes ",
                    with_unit_ns(l.chip.scalar.table_load_ns), "."),
                "Group activations by function", l.time_if(chip));
}

std::optional<Advice> result_wait(const Look& l) {
  Engine engine = Engine::vector;
  for (const Engine e : {Engine::scalar, Engine::gpsimd})
    if (l.waited_share(e, Part::result) > l.waited_share(engine, Part::result)) engine = e;
  const Insn* i =
      l.longest_waiting([&](const Insn& x) { return x.timed.kind == Kind::engine && x.call.engine == engine; });
  if (!i || l.waited_share(engine, Part::result) == 0) return {};
  arch::Chip chip = l.chip;
  chip.vector.latency_cycles = chip.scalar.latency_cycles = chip.gpsimd.latency_cycles = 0;
  return advice(l, *i,
                cat("The ", arch::name(engine), " engine waits ", percent(l.waited_share(engine, Part::result)),
                    " of the time for its own last result."),
                "An instruction that reads what the one before wrote waits until it has left the pipeline.",
                "Put instructions of another tile in between", l.time_if(chip), true);
}

std::optional<Advice> port_conflict(const Look& l) {
  const auto waits = [&](Engine e) { return l.waited_share(e, Part::port); };
  Engine engine = Engine::vector;
  for (const Engine e : {Engine::scalar, Engine::gpsimd})
    if (waits(e) > waits(engine)) engine = e;
  const Insn* i =
      l.longest_waiting([&](const Insn& x) { return x.timed.kind == Kind::engine && x.call.engine == engine; });
  if (!i || waits(engine) == 0) return {};
  const double would = std::max(l.lower_bound_ns(), l.report.time_ns * (1 - waits(engine)));
  return advice(
      l, *i,
      cat("The ", arch::name(engine), " engine waits ", percent(waits(engine)), " of the time for a memory port."),
      l.chip.has(arch::Feature::shared_ports)
          ? "Vector and GpSimd share a way into SBUF on this chip, Vector and Scalar one into PSUM."
          : "Vector's fast modes borrow GpSimd's way into SBUF.",
      "Move the work to an engine with a port of its own", would, true);
}

// --- between engines, and around the program ---

std::optional<Advice> signal_latency(const Look& l) {
  const double share = to_ns(l.timing.critical[static_cast<size_t>(Part::semaphore)]) / l.report.time_ns;
  const Insn* i = l.longest_waiting([](const Insn& x) { return !x.is_dma(); });
  if (!i || share == 0) return {};
  arch::Chip chip = l.chip;
  chip.semaphore.latency_ns = 0;
  return advice(l, *i, cat("Signals between engines are ", percent(share), " of the critical path."),
                cat("Each takes ", with_unit_ns(l.chip.semaphore.latency_ns), ", and the engines take turns."),
                "Do more between two signals, or work on several tiles at once", l.time_if(chip), true);
}

std::optional<Advice> loop_control(const Look& l) {
  std::vector<Scale> scales;
  for (uint32_t s = 0; s < l.program.streams.size(); ++s)
    for (uint32_t n = 0; n < l.plan.streams[s].size(); ++n)
      if (l.plan.streams[s][n].kind == Kind::control) scales.push_back({s, n, 0, 1, 1});
  const Insn* i = l.busiest([](const Insn& x) { return !x.is_dma(); });
  if (!i || scales.empty()) return {};
  return advice(l, *i, "Loops and branches keep an engine from its work.",
                cat("Each takes its sequencer ", l.chip.sequencer.control_cycles, " cycles."),
                "Put more into an iteration", l.time_if(scales), true);
}

std::optional<Advice> launch(const Look& l) {
  const double share = l.report.launch_ns / l.report.time_ns;
  if (share < 0.1) return {};
  return Advice{.what = cat("Starting and ending the program is ", percent(share), " of its time."),
                .why = cat(with_unit_ns(l.report.launch_ns), " pass around its instructions, however many there are."),
                .fix = "Do more in one launch; without it",
                .would_ns = l.report.time_ns - l.report.launch_ns};
}

constexpr Rule kRules[] = {
    {"tensor-f32", "matmuls or transposes read f32", "all f32 tiles in SBUF and HBM are bf16", tensor_f32},
    {"tensor-fill", "a stationary tile leaves a quarter or more of the array empty",
     "those matmuls take the share of their time that they fill", tensor_fill},
    {"tensor-short", "too few columns are streamed to hide the weight load or reach the engine's least interval",
     "weight loads are free and short streams cost their columns", tensor_short},
    {"tensor-throttle", "the current limiter cost tensor time", "the chip has no limiter", tensor_throttle},
    {"psum-banks", "the tensor engine waits for others to read PSUM while banks are unused",
     "at best: that wait is gone, or the busiest unit decides", psum_banks},
    {"dma-row-short", "transfers in runs so short that descriptors cost more than a tenth of the rate of 2 KiB runs",
     "they move at the rate of 2 KiB runs", dma_row_short},
    {"dma-issue", "an engine spends a fifth of the time or more generating descriptors",
     "a quarter as many transfers: issue and queue turnaround cost a quarter", dma_issue},
    {"dma-few-engines", "a transfer uses the DMA engines unevenly", "its work is spread evenly", dma_few_engines},
    {"dma-one-queue", "transfers wait for their queue's turnaround", "queues have no turnaround", dma_one_queue},
    {"dma-rate", "the DMA engines or HBM are busy for most of the time", "half the bytes", dma_rate},
    {"dma-wait", "the busiest engine waits for transfers", "at best: that wait is gone, or the busiest unit decides",
     dma_wait},
    {"spill", "transfers to and from HBM scratch tensors", "at best: they are free", spill},
    {"wide-elements", "instructions read f32 and no matmul does", "all f32 tiles in SBUF and HBM are bf16",
     wide_elements},
    {"vector-two-inputs", "vector instructions read two tensors from SBUF", "at best: as fast as one input",
     vector_two_inputs},
    {"sbuf-stride", "long strides inside an SBUF row", "strides cost nothing", sbuf_stride},
    {"register-address", "addresses from registers, with their least interval", "no such least interval",
     register_address},
    {"small-instructions", "rows shorter than an engine's least interval", "such instructions cost their elements",
     small_instructions},
    {"engine-idle", "an engine is more than half busy and another that could run its instructions is idle",
     "at best: half of those instructions' time is gone", engine_idle},
    {"table-loads", "more activation-table loads than tables", "each table is loaded once", table_loads},
    {"result-wait", "an engine waits for its own last result", "at best: no pipeline latency", result_wait},
    {"port-conflict", "an engine waits for a memory port", "at best: that wait is gone, or the busiest unit decides",
     port_conflict},
    {"signal-latency", "signals between engines on the critical path", "at best: signals take no time", signal_latency},
    {"loop-control", "loops, branches and register instructions between the others", "at best: they take no time",
     loop_control},
    {"launch", "a tenth of the time or more is spent outside the program's instructions", "no launch", launch},
};

}  // namespace

std::span<const Rule> rules() { return kRules; }

}  // namespace trine::run
