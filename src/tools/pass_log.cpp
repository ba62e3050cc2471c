// Lines and tables about passes; see pass_log.h.
#include "tools/pass_log.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "base/text.h"
#include "compile/pass/all.h"
#include "tools/choose.h"

namespace trine::tools {

namespace {

std::string padded(std::string_view s, size_t wide) {
  return cat(s, std::string(s.size() < wide ? wide - s.size() : 1, ' '));
}

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

constexpr std::string_view kPage =
    "# Passes\n\n"
    "What the compiler does, in order: four tables of rows ([src/compile/pass](../src/compile/pass/README.md) says "
    "how\n"
    "they run). A program for the host goes through `graph` and `host`, one for a chip through `graph`, `device` and\n"
    "`stream`; an NKI kernel begins at `stream`. A pass may run where what it needs was left before it. `trine "
    "compile\n"
    "--print-after PASS` prints what is in the last column but one, `--stop-after PASS` ends there, `--verify-each`\n"
    "judges it, `--time-passes` measures it; `--run-pass A,B` runs passes alone on a text, as LLVM's `opt` does. Each\n"
    "has its cases in `tests/compile/<pass>.test`. Some apply only where they are asked for: what they change is said\n"
    "in their line.\n";

}  // namespace

Result<void> check_passes_named(const Args& args) {
  for (std::string_view option : {kPrintAfter.name, kStopAfter.name})
    for (const std::string& pass : args.all(option))
      if (auto known = compile::check_pass_name(pass); !known || (pass == "all" && option == kStopAfter.name))
        return fail(Code::not_found,
                    cat(option, " ", pass, ": ", known ? "stop after one pass" : known.error().message));
  return {};
}

bool wants_passes(const Args& args) {
  const Option all[] = {kPrintAfter, kStopAfter, kVerifyEach, kTimePasses};
  return std::any_of(std::begin(all), std::end(all), [&](const Option& o) { return args.has(o.name); });
}

void list_passes(const Args& args) {
  const auto rows = compile::all_passes();
  if (args.has("--json")) {
    Json out = report("passes"), list = Json::array();
    for (const compile::PassRow& r : rows)
      list.push(Json::object()
                    .set("pipeline", r.pipeline)
                    .set("pass", r.name)
                    .set("needs", r.needs)
                    .set("leaves", r.leaves)
                    .set("prints", r.form)
                    .set("help", r.help));
    print(out.set("passes", std::move(list)).text(2) + "\n");
    return;
  }
  const bool is_page = args.has(kMarkdown.name);
  if (is_page) print(kPage);
  std::string_view pipeline;
  std::vector<std::vector<std::string>> table;
  const auto flush = [&] {
    if (!table.empty()) print(is_page ? markdown(table) : columns(table, "00000"));
    table.clear();
  };
  for (const compile::PassRow& r : rows) {
    if (r.pipeline != pipeline) {
      flush();
      pipeline = r.pipeline;
      print(is_page ? cat("\n## ", pipeline, "\n\n") : cat(&r == &rows[0] ? "" : "\n", pipeline, "\n"));
      table.push_back({is_page ? "pass" : "  pass", "needs", "leaves", "prints", "what it does"});
    }
    const std::string name = is_page ? cat("`", r.name, "`") : cat("  ", r.name);
    table.push_back({name, std::string(r.needs), std::string(r.leaves), std::string(r.form), std::string(r.help)});
  }
  flush();
}

PassLog::PassLog(const Args& args)
    : print_(args.all(kPrintAfter.name)),
      stop_(args.get(kStopAfter.name)),
      times_passes_(args.has(kTimePasses.name)),
      verify_each_(args.has(kVerifyEach.name) || getenv_or("TRINE_VERIFY_EACH") == "1"),
      terminal_(::isatty(STDERR_FILENO) == 1) {}

compile::PassObserver PassLog::observer() {
  return {.after = [this](const auto& report, const auto& text) { return after(report, text); },
          .stages_only = print_.empty() && stop_.empty() && !times_passes_,
          .verify_each = verify_each_};
}

bool PassLog::prints(std::string_view pass) const {
  return std::any_of(print_.begin(), print_.end(), [&](const std::string& p) { return p == pass || p == "all"; });
}

bool PassLog::after(const compile::PassReport& report, const compile::PassObserver::Text& text) {
  if (report.is_stage) show_stage(report.pass, report.summary());
  if (prints(report.pass)) {
    if (print_.size() > 1 || print_[0] == "all") print(cat("# after ", report.pipeline, " pass ", report.pass, "\n"));
    print(text());
  }
  if (times_passes_) reports_.push_back(report);
  return report.pass != stop_;
}

void PassLog::going(std::string_view stage, size_t at, size_t all) {
  const auto now = std::chrono::steady_clock::now();
  const double seconds = seconds_since(begin_);
  if (!terminal_ || seconds < 0.5 || now - shown_ < std::chrono::milliseconds(100)) return;
  shown_ = now;
  const size_t full = all ? at * 20 / all : 20;
  std::string bar;
  for (size_t i = 0; i < 20; ++i) bar += i < full ? "█" : " ";
  std::fprintf(stderr, "\r  %s%s %s%.1f s   eta %.0f s ", padded(stage, 11).c_str(), bar.c_str(),
               padded(cat(with_commas(int64_t(at)), " of ", with_commas(int64_t(all))), 24).c_str(), seconds,
               at ? seconds * double(all - at) / double(at) : 0.0);
}

void PassLog::show_stage(std::string_view stage, const std::string& what) {
  const std::string seconds = cat(fixed(seconds_since(begin_), 2), " s");
  if (shown_ != std::chrono::steady_clock::time_point{}) std::fprintf(stderr, "\r\x1b[K");
  shown_ = {};
  note(cat("  ", padded(stage, 11), "████████████████████ ", padded(what, 24), seconds));
  begin_ = std::chrono::steady_clock::now();
}

std::string PassLog::times_text() const {
  if (!times_passes_) return {};
  double all = 0;
  for (const compile::PassReport& r : reports_) all += r.seconds;
  std::vector<std::vector<std::string>> rows = {{"pass", "pipeline", "ms", "share", "leaves"}};
  for (const compile::PassReport& r : reports_)
    rows.push_back({std::string(r.pass), std::string(r.pipeline), fixed(r.seconds * 1e3, 2),
                    cat(fixed(all > 0 ? r.seconds / all * 100 : 0, 1), " %"), r.summary()});
  rows.push_back({"all", "", fixed(all * 1e3, 2), "", ""});
  return columns(rows, "00110");
}

void PassLog::add_times(Json& report) const {
  if (!times_passes_) return;
  Json list = Json::array();
  for (const compile::PassReport& r : reports_) {
    Json sizes = Json::object();
    for (const compile::PassSize& size : r.sizes) sizes.set(size.unit, size.count);
    list.push(Json::object()
                  .set("pass", r.pass)
                  .set("pipeline", r.pipeline)
                  .set("seconds", r.seconds)
                  .set("sizes", std::move(sizes)));
  }
  report.set("passes", std::move(list));
}

}  // namespace trine::tools
