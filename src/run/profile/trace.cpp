// Tracks, slices, arrows and counters of a trace; see trace.h.
#include "run/profile/trace.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

#include "arch/asm/asm.h"
#include "arch/row.h"
#include "arch/sequencer.h"
#include "base/file.h"
#include "base/format/deflate.h"
#include "base/format/json.h"
#include "base/text.h"
#include "sim/core/plan.h"

namespace trine::run {

namespace {

using sim::Doing;
using sim::Event;
using sim::Fs;
using sim::Part;

// Past any process number: Perfetto takes a thread numbered like its process for the main one.
constexpr int kLaunchTrack = 20, kFirstEngineTrack = 21, kFirstQueueTrack = 30;
constexpr size_t kCounterBins = 2000;
constexpr size_t kPiece = 1 << 16;

int64_t whole_ns(Fs t) { return (t + 500'000) / 1'000'000; }

// ns as µs with three digits, the format's unit.
void append_us(std::string& out, int64_t ns) {
  append_text(out, ns / 1000);
  const int64_t rest = ns % 1000;
  if (!rest) return;
  out += '.';
  for (int64_t digit = 100, left = rest; left; left %= digit, digit /= 10) out += static_cast<char>('0' + left / digit);
}

struct Track {
  int core, id;
  std::string name;
};

class Writer {
 public:
  Writer(const arch::Program& program, const arch::Instance& instance, const sim::Timing& timing,
         const std::function<void(std::string_view)>& put)
      : program_(program),
        instance_(instance),
        timing_(timing),
        plan_(sim::make_plan(program, *instance.chip, {})),
        put_(put) {}

  void run() {
    add_events();
    count_events();
    out_ = "{\"displayTimeUnit\":\"ns\",\"otherData\":{\"program\":";
    append_json_string(out_, program_.name);
    out_ += ",\"instance\":";
    append_json_string(out_, instance_.name);
    append_text(out_, cat(",\"time_ns\":", sim::to_ns(timing_.end), "},\n\"traceEvents\":[\n"));
    name_tracks();
    if (whole_) launch();  // a part is shown alone, without the ends it does not reach
    for (size_t i = 0; i < timing_.events.size(); ++i) event(i);
    counters();
    out_.resize(out_.size() - 2);  // the last comma
    out_ += "\n]}\n";
    put_(out_);
  }

 private:
  // Transfers of one queue may overlap: each goes to the first lane that is free by then.
  void add_events() {
    std::map<std::pair<int, int>, std::vector<size_t>> queues;  // by core and queue
    track_.resize(timing_.events.size());
    for (size_t i = 0; i < timing_.events.size(); ++i) {
      const Event& e = timing_.events[i];
      if (e.part == Part::dma)
        queues[{e.core, e.queue}].push_back(i);
      else
        track_[i] = kFirstEngineTrack + static_cast<int>(e.part);
    }
    for (int core = 0; core < program_.cores; ++core) {
      tracks_.push_back({core, kLaunchTrack, "launch"});
      for (const auto& s : program_.streams)
        if (s.core == core)
          tracks_.push_back({core, kFirstEngineTrack + static_cast<int>(s.engine), std::string(arch::name(s.engine))});
    }
    std::vector<int> next(static_cast<size_t>(program_.cores), kFirstQueueTrack);
    for (auto& [where, events] : queues) {
      const auto [core, queue] = where;
      std::stable_sort(events.begin(), events.end(),
                       [&](size_t a, size_t b) { return timing_.events[a].start < timing_.events[b].start; });
      std::vector<int64_t> free;  // of each lane, ns
      int& id = next[static_cast<size_t>(core)];
      for (const size_t i : events) {
        const int64_t start = whole_ns(timing_.events[i].start), end = whole_ns(timing_.events[i].end);
        size_t lane = 0;
        while (lane < free.size() && free[lane] > start) ++lane;
        if (lane == free.size()) {
          free.push_back(0);
          tracks_.push_back({core, id + static_cast<int>(lane),
                             lane ? cat("queue ", queue, " (", lane + 1, ")") : cat("queue ", queue)});
        }
        free[lane] = std::max(end, start + (end == start));
        track_[i] = id + static_cast<int>(lane);
      }
      id += static_cast<int>(free.size());
    }
  }

  void count_events() {
    int64_t executed = 0, recorded = 0;
    for (const auto& stream : timing_.totals) {
      details_.emplace_back(stream.size());
      runs_.emplace_back(stream.size());
      for (const auto& total : stream) executed += total.count;
    }
    for (const Event& e : timing_.events) recorded += e.doing == Doing::execute;
    whole_ = executed == recorded;
  }

  void name_tracks() {
    for (int core = 0; core < program_.cores; ++core) {
      meta(core, 0, "process_name", cat("\"name\":\"", instance_.chip->name, " core ", core, "\""));
      meta(core, 0, "process_sort_index", cat("\"sort_index\":", core));
    }
    for (const Track& t : tracks_) {
      meta(t.core, t.id, "thread_name", cat("\"name\":\"", t.name, "\""));
      meta(t.core, t.id, "thread_sort_index", cat("\"sort_index\":", t.id));
    }
  }

  void meta(int core, int track, std::string_view what, std::string_view args) {
    append_text(out_, cat("{\"ph\":\"M\",\"pid\":", core + 1, ",\"tid\":", track, ",\"name\":\"", what, "\",\"args\":{",
                          args, "}},\n"));
  }

  void launch() {
    for (int core = 0; core < program_.cores; ++core) {
      slice(core, kLaunchTrack, 0, timing_.preamble, "preamble", "launch");
      out_ += "},\n";
      slice(core, kLaunchTrack, timing_.end - timing_.teardown, timing_.end, "teardown", "launch");
      out_ += "},\n";
    }
  }

  void slice(int core, int track, Fs start, Fs end, std::string_view name, std::string_view category) {
    out_ += "{\"ph\":\"X\",\"pid\":";
    append_text(out_, core + 1);
    out_ += ",\"tid\":";
    append_text(out_, track);
    out_ += ",\"ts\":";
    append_us(out_, whole_ns(start));
    out_ += ",\"dur\":";
    append_us(out_, whole_ns(end) - whole_ns(start));
    out_ += ",\"name\":\"";
    out_ += name;
    out_ += "\",\"cat\":\"";
    out_ += category;
    out_ += '"';
  }

  void event(size_t index) {
    const Event& e = timing_.events[index];
    const arch::Row& row = *arch::row_by_opcode(program_.streams[e.stream].insns[e.insn].opcode)->row;
    const std::string_view label = row.label.empty() ? row.name : row.label;
    if (e.doing == Doing::table)
      slice(e.core, track_[index], e.start, e.end, "ACT_TABLE_LOAD", "table");
    else if (e.doing == Doing::issue)
      slice(e.core, track_[index], e.start, e.end, cat("issue ", label), "issue");
    else
      slice(e.core, track_[index], e.start, e.end, label, row.unit == arch::Unit::control ? "control" : "work");
    out_ += ",\"args\":{";
    out_ += details(e);
    if (e.waited > 0 && e.part != Part::dma) {
      append_text(out_, cat(",\"waited_ns\":", fixed(sim::to_ns(e.waited), 1)));
      if (e.waited_for != Part::count) append_text(out_, cat(",\"waited_for\":\"", sim::name(e.waited_for), "\""));
    }
    if (e.doing == Doing::execute) append_text(out_, cat(",\"result_ns\":", whole_ns(e.done)));
    const int64_t n = e.doing == Doing::execute ? runs_[e.stream][e.insn]++ : runs_[e.stream][e.insn];
    if (whole_) append_iteration(e, n);
    out_ += "}},\n";
    if (e.cause >= 0) arrow(static_cast<size_t>(e.cause), index);
    if (out_.size() >= kPiece) {
      put_(std::string_view(out_).substr(0, out_.size() - 2));
      out_.erase(0, out_.size() - 2);
    }
  }

  // What every execution of an instruction shares.
  const std::string& details(const Event& e) {
    std::string& text = details_[e.stream][e.insn];
    if (!text.empty()) return text;
    const arch::Stream& stream = program_.streams[e.stream];
    const std::string at = arch::source_line(program_, stream.insns[e.insn]);
    std::string insn_text = arch::describe_insn(program_, stream, e.insn);
    if (!at.empty() && insn_text.ends_with(at)) insn_text.resize(insn_text.size() - at.size() - 4);  // " at "
    text = "\"instruction\":";
    append_json_string(text, insn_text);
    if (!at.empty()) {
      text += ",\"at\":";
      append_json_string(text, at);
    }
    const sim::TimedInsn& p = plan_.streams[e.stream][e.insn];
    const sim::Traffic& t = p.traffic;
    const std::pair<std::string_view, int64_t> numbers[] = {
        {"flops", p.flops},
        {"hbm_read_bytes", t.hbm_read},
        {"hbm_write_bytes", t.hbm_write},
        {"sbuf_read_bytes", t.sbuf_read},
        {"sbuf_write_bytes", t.sbuf_write},
        {"psum_read_bytes", t.psum_read},
        {"psum_write_bytes", t.psum_write},
    };
    for (const auto& [name, value] : numbers)
      if (value) append_text(text, cat(",\"", name, "\":", value));
    return text;
  }

  // The loop indices of the n-th execution, where every enclosing loop has a constant count.
  void append_iteration(const Event& e, int64_t n) {
    const auto& insns = program_.streams[e.stream].insns;
    auto [nest, fresh] = nests_.try_emplace({e.stream, e.insn});
    if (fresh) {
      for (uint32_t pc = 0; pc < e.insn; ++pc) {
        if (insns[pc].opcode == arch::kOpLoop) {
          const arch::Operand& iterations = program_.operands[insns[pc].operand];
          nest->second.push_back(
              iterations.kind == arch::OperandKind::immediate ? static_cast<int64_t>(iterations.immediate) : 0);
        } else if (insns[pc].opcode == arch::kOpEndLoop) {
          nest->second.pop_back();
        } else if (insns[pc].opcode == arch::kOpBranch || insns[pc].opcode == arch::kOpJump) {
          nest->second.assign(1, 0);
          break;
        }
      }
    }
    const auto& iterations = nest->second;
    if (iterations.empty() || std::count(iterations.begin(), iterations.end(), 0)) return;
    std::string text;
    for (size_t d = iterations.size(); d-- > 0; n /= iterations[d])
      text = cat(d ? " " : "", "i", d, "=", n % iterations[d], text);
    append_text(out_, cat(",\"iteration\":\"", text, "\""));
  }

  void arrow(size_t from, size_t to) {
    const Event &a = timing_.events[from], &b = timing_.events[to];
    const int64_t id = ++arrows_;
    const std::string_view name = b.part == Part::dma ? "dma" : "semaphore";
    const auto end = [&](const Event& e, int track, std::string_view kind) {
      append_text(out_,
                  cat("{\"ph\":\"", kind, "\",\"id\":", id, ",\"pid\":", e.core + 1, ",\"tid\":", track, ",\"ts\":"));
      append_us(out_, whole_ns(e.start));
      append_text(out_, cat(",\"name\":\"", name, "\",\"cat\":\"", name, "\"},\n"));
    };
    end(a, track_[from], "s");
    end(b, track_[to], "f\",\"bp\":\"e");
  }

  // HBM rates: a transfer's bytes spread evenly over its time.
  void counters() {
    Fs begin = timing_.end, end = 0;
    for (const Event& e : timing_.events)
      if (e.part == Part::dma) begin = std::min(begin, e.start), end = std::max(end, e.end);
    if (end <= begin) return;
    const double width = static_cast<double>(end - begin) / kCounterBins;
    for (int core = 0; core < program_.cores; ++core) {
      std::vector<std::array<double, 2>> bytes(kCounterBins + 1);
      for (const Event& e : timing_.events) {
        if (e.part != Part::dma || e.core != core) continue;
        const sim::Traffic& t = plan_.streams[e.stream][e.insn].traffic;
        const double from = static_cast<double>(e.start - begin) / width,
                     to = static_cast<double>(e.end - begin) / width;
        for (size_t b = static_cast<size_t>(from); b < kCounterBins && static_cast<double>(b) < to; ++b) {
          const double x = static_cast<double>(b), part = (std::min(x + 1, to) - std::max(x, from)) / (to - from);
          bytes[b][0] += part * static_cast<double>(t.hbm_read);
          bytes[b][1] += part * static_cast<double>(t.hbm_write);
        }
      }
      for (size_t b = 0; b <= kCounterBins; ++b) {
        if (b && bytes[b] == bytes[b - 1]) continue;
        append_text(out_, cat("{\"ph\":\"C\",\"pid\":", core + 1, ",\"name\":\"HBM GB/s\",\"ts\":"));
        append_us(out_, whole_ns(begin + static_cast<Fs>(width * static_cast<double>(b))));
        const double ns = width / sim::kFsPerNs;
        append_text(out_, cat(",\"args\":{\"read\":", fixed(bytes[b][0] / ns, 2),
                              ",\"write\":", fixed(bytes[b][1] / ns, 2), "}},\n"));
      }
    }
  }

  const arch::Program& program_;
  const arch::Instance& instance_;
  const sim::Timing& timing_;
  sim::Plan plan_;
  const std::function<void(std::string_view)>& put_;
  std::string out_;
  std::vector<int> track_;  // of each event
  std::vector<Track> tracks_;
  std::vector<std::vector<std::string>> details_;
  std::vector<std::vector<int64_t>> runs_;
  std::map<std::pair<uint32_t, uint32_t>, std::vector<int64_t>> nests_;  // trip counts around an instruction
  int64_t arrows_ = 0;
  bool whole_ = false;  // everything that ran was recorded, so that executions can be counted
};

}  // namespace

void write_trace(const arch::Program& program, const arch::Instance& instance, const sim::Timing& timing,
                 const std::function<void(std::string_view)>& put) {
  Writer(program, instance, timing, put).run();
}

sim::TimeOptions recording(sim::TimeOptions options, const sim::Timing& timed, int64_t events_max) {
  options.events_max = events_max;
  if (options.window_end_ns > options.window_begin_ns) return options;
  const int64_t events = timed.instructions + timed.transfers + timed.table_loads;
  options.jump = false;
  if (events <= events_max) return options;
  options.jump = true;
  options.window_begin_ns = 0;
  options.window_end_ns =
      std::floor(sim::to_ns(timed.end) * static_cast<double>(events_max) / static_cast<double>(events));
  return options;
}

Result<SavedTrace> save_trace(const std::string& path, const arch::Program& program, const arch::Instance& instance,
                              sim::TimeOptions options, const sim::Timing& timed) {
  const bool zipped = path.ends_with(".json.gz");
  if (!zipped && !path.ends_with(".json"))
    return fail(Code::invalid, cat("found --trace ", path, ", expected a name that ends in .json or .json.gz"));
  options = recording(options, timed, kTraceEventsMax);
  const sim::Timing timing = TRY(sim::time_program(program, *instance.chip, options));
  Deflater packed(Deflater::Wrap::gzip);
  std::string plain;
  write_trace(program, instance, timing, [&](std::string_view text) {
    if (zipped)
      packed.write(text);
    else
      plain += text;
  });
  TRY(write_file(path, zipped ? packed.finish() : plain));
  SavedTrace saved{static_cast<int64_t>(timing.events.size()), timing.events_complete, 0, sim::to_ns(timing.end)};
  if (options.window_end_ns > options.window_begin_ns) {
    saved.whole = false;
    saved.begin_ns = options.window_begin_ns;
    saved.end_ns = std::min(options.window_end_ns, saved.end_ns);
  }
  if (saved.slices == options.events_max) {  // cut where no more are kept
    saved.whole = false;
    saved.end_ns = sim::to_ns(timing.events.back().start);
  }
  return saved;
}

}  // namespace trine::run
