// Runs the program behind each published measurement and reads the same quantity off our timing; see accuracy.h.
#include "run/accuracy/accuracy.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "arch/asm/asm.h"
#include "arch/program/container.h"
#include "base/embedded.h"
#include "base/text.h"
#include "run/accuracy/bands.h"
#include "sim/cluster/collective.h"
#include "sim/core/plan.h"

namespace trine::run {

std::span<const EmbeddedFile> embedded_accuracy();  // written by the build

namespace {

constexpr std::string_view kTraced = "nki/";  // before the name of a kernel

struct Timed {
  sim::Timing timing;
  Report report;
};

Result<std::string> embedded_text(std::string_view name) {
  for (const EmbeddedFile& f : embedded_accuracy())
    if (f.name == name) return std::string(f.text);
  return fail(Code::not_found, cat("measurements.json names ", name, ", which is not among the programs beside it"));
}

// `copies` loads of [128, bytes] one after the other on one queue, as in the published throughput curve.
std::string dma_copies(int64_t bytes, int64_t copies) {
  return cat("program dma_copies\ntensor x hbm u8[128,", bytes, "] input\ntensor t sbuf u8[128,", bytes,
             "] at 0:0\nstream sync\n  loop ", copies, "\n    dma_copy dst=t src=x then s0+=16\n  end_loop\n");
}

Result<Timed> time_one(const arch::Program& program, const arch::Instance& instance) {
  sim::Timing timing = TRY(sim::time_program(program, *instance.chip));
  Report report = make_report(program, instance, timing);
  return Timed{std::move(timing), std::move(report)};
}

Result<Timed> time_text(const std::string& text, std::string_view name, const arch::Instance& instance) {
  return time_one(TRY(arch::assemble(text, name)), instance);
}

// Bytes per ns between the 32nd and the 64th copy, where the first latency no longer counts.
Result<double> copy_rate(int64_t bytes, const arch::Instance& instance) {
  const Timed half = TRY(time_text(dma_copies(bytes, 32), "dma_copies", instance));
  const Timed whole = TRY(time_text(dma_copies(bytes, 64), "dma_copies", instance));
  return 32.0 * 128 * static_cast<double>(bytes) / (whole.report.time_ns - half.report.time_ns);
}

const sim::Event* last_event(const Timed& t, sim::Part part) {
  const sim::Event* found = nullptr;
  for (const auto& e : t.timing.events)
    if (e.part == part && e.doing == sim::Doing::execute) found = &e;
  return found;
}

double engine_share(const Timed& t, std::string_view engine) {
  for (const auto& e : t.report.engines)
    if (e.name == engine) return 100 * e.busy_share;
  return 0;
}

// One way of reading a number off a timing, by the name measurements.json uses.
struct Metric {
  std::string_view name;
  double (*read)(const Timed& t);
};
constexpr Metric kMetrics[] = {
    {"time_ms", [](const Timed& t) { return t.report.time_ns / 1e6; }},
    {"time_us", [](const Timed& t) { return t.report.time_ns / 1e3; }},
    {"tensor_active_pct", [](const Timed& t) { return engine_share(t, "tensor"); }},
    {"vector_active_pct", [](const Timed& t) { return engine_share(t, "vector"); }},
    {"dma_active_pct", [](const Timed& t) { return engine_share(t, "dma"); }},
    {"mfu_pct", [](const Timed& t) { return 100 * t.report.mfu; }},
    {"mbu_pct", [](const Timed& t) { return 100 * t.report.mbu; }},
    {"dma_packet_ms", [](const Timed& t) { return sim::to_ns(t.timing.dma_packets) / 1e6; }},
    {"dma_engine_ns",  // one transfer, first to last byte
     [](const Timed& t) {
       const sim::Event* e = last_event(t, sim::Part::dma);
       return e ? sim::to_ns(e->end - e->start) : 0;
     }},
    {"insn_us",  // one Scalar instruction, start to result
     [](const Timed& t) {
       const sim::Event* e = last_event(t, sim::Part::scalar);
       return e ? sim::to_ns(e->done - e->start) / 1e3 : 0;
     }},
    {"ns_per_insn",  // a chain of Scalar instructions
     [](const Timed& t) {
       const auto& e = t.timing.events;
       const auto scalar = [](const sim::Event& x) {
         return x.part == sim::Part::scalar && x.doing == sim::Doing::execute;
       };
       const auto first = std::find_if(e.begin(), e.end(), scalar);
       const auto last = std::find_if(e.rbegin(), e.rend(), scalar);
       const auto count = std::count_if(e.begin(), e.end(), scalar);
       return count > 1 ? sim::to_ns(last->start - first->start) / static_cast<double>(count - 1) : 0;
     }},
};

Result<double> collective_ns(const arch::Instance& instance, const Json& row, int64_t bytes,
                             std::optional<comm::Algorithm> how = {}) {
  const comm::Cluster cluster{&instance, 1, instance.chip->lnc_default};
  const auto kind = comm::collective_by_name(row.find("collective")->string());
  if (!kind) return fail(Code::invalid, "measurements.json names a collective that there is not");
  const auto ranks = comm::first_ranks(cluster, row.find("ranks")->integer());
  const comm::Request request{.kind = *kind, .bytes = bytes, .root = 0, .pairs = {}, .algorithm = how};
  return TRY(sim::time_collective(cluster, ranks, request)).ns;
}

// The size in MB from which `after` is the faster of two algorithms.
Result<double> crossover(const arch::Instance& instance, const Json& row) {
  const auto before = comm::algorithm_by_name(row.find("before")->string()),
             after = comm::algorithm_by_name(row.find("after")->string());
  int64_t low = 1 << 10, high = int64_t{1} << 32;
  while (high - low > low / 1000 + 1) {
    const int64_t middle = low + (high - low) / 2;
    const bool is_after =
        TRY(collective_ns(instance, row, middle, after)) < TRY(collective_ns(instance, row, middle, before));
    (is_after ? high : low) = middle;
  }
  return static_cast<double>(high) / 1e6;
}

Result<double> predict_collective(const Json& row, const arch::Instance& instance) {
  const std::string& metric = row.find("metric")->string();
  if (metric == "crossover_mb") return crossover(instance, row);
  const auto& k = instance.chip->kernel;
  const double host = metric == "launched_us" ? k.launch_ns + k.preamble_ns + k.teardown_ns : 0;
  return (TRY(collective_ns(instance, row, row.find("bytes")->integer())) + host) / 1e3;
}

Result<double> predict(const Json& row, const Timed* timed, const arch::Instance& instance) {
  const std::string& metric = row.find("metric")->string();
  if (metric == "dma_throughput")
    return TRY(copy_rate(row.find("bytes")->integer(), instance)) / TRY(copy_rate(32768, instance));
  for (const Metric& m : kMetrics)
    if (m.name == metric) return m.read(*timed);
  return fail(Code::invalid, cat("measurements.json asks for metric ", metric, ", which nobody reads"));
}

std::string text_of(const Json& row, std::string_view key) {
  const Json* found = row.find(key);
  return found ? found->string() : std::string();
}

std::string number(double v) { return fixed(v, std::fabs(v) >= 100 ? 1 : std::fabs(v) >= 1 ? 2 : 4); }

std::string measured_text(const AccuracyRow& r) { return (r.role == "gate" ? "≤ " : "") + number(r.measured); }

// Shares and sizes have no band: their residuals are in none.
bool is_in_band(const AccuracyRow& r) {
  return !r.is_share() && r.kind != "packets" && r.kind != "crossover" && r.role != "gate" && r.predicted != 0;
}

double ratio_of(const AccuracyRow& r) {
  return r.kind == "dma curve" ? r.predicted / r.measured : r.measured / r.predicted;  // a rate, not a time
}

std::vector<Residual> residuals_of(const std::vector<AccuracyRow>& rows) {
  std::vector<Residual> out;
  for (const auto& r : rows)
    if (is_in_band(r)) out.push_back({std::string(name(r.bound)), ratio_of(r)});
  return out;
}

std::string band_text(const AccuracyRow& r, const std::vector<Residual>& residuals) {
  if (!is_in_band(r)) return "";
  const Band band = band_of(r.bound, residuals);
  const bool is_rate = r.kind == "dma curve";
  const double low = is_rate ? 1 / band.high : band.low, high = is_rate ? 1 / band.low : band.high;
  return cat(number(r.predicted * low), " – ", number(r.predicted * high));
}

std::string where_off(const std::vector<AccuracyRow>& rows) {
  std::string out;
  std::vector<std::string> noted;
  for (const auto& r : rows) {
    if (r.note.empty() || std::count(noted.begin(), noted.end(), r.note)) continue;
    noted.push_back(r.note);
    out += cat("- ", r.note, "\n");
  }
  return out.empty() ? out : "\n## Where it is off\n\n" + out;
}

std::string error_text(const AccuracyRow& r) {
  const double e = r.is_share() ? r.predicted - r.measured : r.error_pct();
  return cat(e >= 0 ? "+" : "", fixed(e, 1), r.is_share() ? " points" : " %");
}

}  // namespace

Result<std::vector<AccuracyRow>> accuracy(const std::string& kernels) {
  const Json file = TRY(parse_json(TRY(embedded_text("measurements.json")), "measurements.json"));
  std::map<std::string, Timed> done;  // several rows read one run
  std::vector<AccuracyRow> rows;
  for (const Json& row : file.find("rows")->items()) {
    AccuracyRow r{text_of(row, "id"),   text_of(row, "kind"),   text_of(row, "instance"), text_of(row, "metric"),
                  text_of(row, "unit"), text_of(row, "source"), text_of(row, "role"),     text_of(row, "note")};
    const arch::Instance* instance = TRY(arch::find_instance(r.instance));
    const std::string program = text_of(row, "program"), key = r.instance + " " + program;
    const bool traced = program.starts_with(kTraced);
    if (traced && kernels.empty()) continue;
    if (traced && !done.contains(key)) {
      const std::string path = cat(kernels, "/", program.substr(kTraced.size()), ".trine");
      done.emplace(key, TRY(time_one(TRY(arch::load_program(path)), *instance)));
    }
    if (program.ends_with(".tasm") && !done.contains(key))
      done.emplace(key, TRY(time_text(TRY(embedded_text(program)), program, *instance)));
    const auto timed = done.find(key);
    r.measured = row.find("measured")->number();
    if (row.find("collective")) {
      r.bound = Bound::collective;
      r.predicted = TRY(predict_collective(row, *instance));
      rows.push_back(std::move(r));
      continue;
    }
    r.predicted = TRY(predict(row, timed == done.end() ? nullptr : &timed->second, *instance));
    r.bound = timed == done.end() ? Bound::dma : timed->second.report.bound;
    rows.push_back(std::move(r));
  }
  return rows;
}

Json accuracy_json(const std::vector<AccuracyRow>& rows) {
  Json list = Json::array();
  for (const auto& r : rows) {
    Json x = Json::object();
    x.set("id", r.id).set("kind", r.kind).set("instance", r.instance).set("metric", r.metric);
    x.set("predicted", r.predicted).set("measured", r.measured).set("unit", r.unit).set("error_pct", r.error_pct());
    if (!r.note.empty()) x.set("note", r.note);
    x.set("bound", name(r.bound)).set("role", r.role).set("source", r.source);
    list.push(std::move(x));
  }
  return list;
}

std::string accuracy_text(const std::vector<AccuracyRow>& rows) {
  std::vector<std::vector<std::string>> table = {{"id", "instance", "predicted", "measured", "unit", "error", "role"}};
  for (const auto& r : rows)
    table.push_back({r.id, r.instance, number(r.predicted), measured_text(r), r.unit, error_text(r), r.role});
  return columns(table, "0011010");
}

std::string accuracy_markdown(const std::vector<AccuracyRow>& rows) {
  std::string out =
      "# Accuracy\n\nWritten by `make accuracy`. Every published measurement we hold, what Trine predicts for the same "
      "program, and the error. Ids that begin with `nki-` are kernels of `examples/nki`, traced and scheduled; "
      "collectives are schedules of `src/comm`; the others are written in assembly.\n\n`check`: no number of ours came "
      "from this row. `input`: a number in a chip "
      "file was read off it, so its error only shows that the model gives it back. `gate`: a published test asks for "
      "no more than this, so only staying below is a check, and it is in no band. The band is where 90 % of the rows "
      "of "
      "the same class lie.\n\n"
      "| id | instance | what | predicted | band | measured | unit | error | role |\n"
      "|---|---|---|--:|--:|--:|---|--:|---|\n";
  const std::vector<Residual> residuals = residuals_of(rows);
  for (const auto& r : rows)
    out +=
        cat("| ", r.id, " | ", r.instance, " | ", r.metric, " | ", number(r.predicted), " | ", band_text(r, residuals),
            " | ", measured_text(r), " | ", r.unit, " | ", error_text(r), " | ", r.role, " |\n");
  out += where_off(rows) + "\n## Sources\n\n";
  std::vector<std::string> seen;
  for (const auto& r : rows)
    if (std::find(seen.begin(), seen.end(), r.source) == seen.end()) {
      seen.push_back(r.source);
      std::string ids;
      for (const auto& other : rows)
        if (other.source == r.source) ids += (ids.empty() ? "" : ", ") + other.id;
      out += cat("- ", r.source, ": ", ids, "\n");
    }
  return out;
}

// What a user would ask for, times and rates; shares and packet times are inner quantities of the same runs.
std::string residuals_json(const std::vector<AccuracyRow>& rows) {
  std::string out =
      "{\n  \"about\": \"Written by `make accuracy`: measured over predicted, by what bounds the program.\",\n  "
      "\"rows\": [\n";
  bool first = true;
  for (const auto& r : rows) {
    if (!is_in_band(r)) continue;
    out += cat(first ? "" : ",\n", "    {\"id\": \"", r.id, "\", \"bound\": \"", name(r.bound),
               "\", \"ratio\": ", fixed(ratio_of(r), 4), "}");
    first = false;
  }
  return out + "\n  ]\n}\n";
}

}  // namespace trine::run
