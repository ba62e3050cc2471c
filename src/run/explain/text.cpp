// How an explanation reads: one screen of text, the same as JSON, and the page of rules.
#include <algorithm>

#include "base/text.h"
#include "run/explain/explain.h"
#include "run/explain/look.h"

namespace trine::run {

namespace {

constexpr size_t kAdviceShown = 3;
constexpr int kLocationColumn = 78, kLineMax = 76;

std::string percent(double share) { return cat(fixed(100 * share, share < 0.1 ? 1 : 0), " %"); }

// What the parts of a critical path are called in a sentence.
std::string_view words(std::string_view part) {
  static constexpr std::pair<std::string_view, std::string_view> kWords[] = {
      {"dma", "transfers"}, {"semaphore", "signals"},           {"issue", "descriptor generation"},
      {"port", "ports"},    {"result", "results on their way"}, {"launch", "launch"},
  };
  for (const auto& [name, label] : kWords)
    if (name == part) return label;
  return part;
}

// The location at the right margin, or after the words when they are long.
std::string with_location(std::string line, std::string_view at) {
  if (at.empty()) return line + "\n";
  for (int n = std::max(2, kLocationColumn - display_width(line)); n > 0; --n) line += ' ';
  return cat(line, at, "\n");
}

// Without its waits and updates, and cut to a line.
std::string brief(std::string s) {
  for (const std::string_view part : {" wait ", " then "})
    if (const size_t at = s.find(part); at != std::string::npos) s.resize(at);
  if (display_width(s) <= kLineMax) return s;
  size_t at = 0;
  for (int width = 0; at < s.size() && width < kLineMax - 1; ++at)
    if ((static_cast<unsigned char>(s[at]) & 0xC0) != 0x80) ++width;
  while (at < s.size() && (static_cast<unsigned char>(s[at]) & 0xC0) == 0x80) ++at;
  s.resize(at);
  return s + "…";
}

std::string headline(const Explanation& e) {
  const Report& r = e.report;
  std::string out = cat(r.program, " on ", r.instance, " — ", with_unit_ns(r.time_ns), ", bound by ",
                        r.bound < Bound::dma ? "the " : "", bound_text(r.bound));
  if (r.flops) out += cat(", ", percent(r.mfu), " of the tensor engine's bf16 rate");
  out += "\n";
  if (!(r.time_ns > 0)) return out;
  std::string parts;
  for (size_t i = 0; i < r.critical_ns.size() && i < 3 && r.critical_ns[i].second > 0.005 * r.time_ns; ++i)
    parts += cat(i ? ", " : "", words(r.critical_ns[i].first), " ", percent(r.critical_ns[i].second / r.time_ns));
  const std::string what = r.bound == Bound::launch ? "launch and signals" : bound_text(r.bound);
  out += cat("  critical path: ", parts, "\n");
  return out + cat("  if ", r.bound < Bound::dma ? "the " : "", what,
                   " took no time: ", with_unit_ns(e.without_bound_ns), ", ",
                   percent(1 - e.without_bound_ns / r.time_ns), " less\n");
}

Json site_json(const Site& s) {
  Json j = Json::object();
  if (s.instruction.empty()) return j;
  return j.set("engine", s.engine)
      .set("instruction", s.instruction)
      .set("at", s.at.empty() ? Json(nullptr) : Json(s.at));
}

}  // namespace

std::string Explanation::text(bool all) const {
  std::string out = headline(*this) + "\n";
  const size_t shown = all ? advice.size() : std::min(advice.size(), kAdviceShown);
  for (size_t i = 0; i < shown; ++i) {
    const Advice& a = advice[i];
    out += with_location(cat(i + 1, ". ", a.what), a.site.at);
    out += cat("   ", a.why, "\n");
    if (!a.site.instruction.empty()) out += cat("   ", a.site.engine, ": ", brief(a.site.instruction), "\n");
    out += cat("   ", a.fix, ": ", a.at_best ? "at best " : "about ", with_unit_ns(a.would_ns), ".  (rule ", a.rule,
               ")\n");
  }
  if (advice.empty()) out += "No rule finds anything to gain; only less work takes less time.\n";
  if (advice.size() > shown) out += cat("   … and ", advice.size() - shown, " more with --all\n");
  if (!hotspots.empty()) out += "\nThe instructions to look at:\n";
  for (size_t i = 0; i < hotspots.size(); ++i) {
    const Hotspot& h = hotspots[i];
    out += with_location(cat(i + 1, ". ", h.site.engine, ": ", brief(h.site.instruction)), h.site.at);
    out += cat("   ", h.alike ? cat("and ", h.alike, " like it; ") : "",
               h.count == 1 ? "once" : cat(with_commas(h.count), " times"), ", ", with_unit_ns(h.busy_ns),
               " of work; if it took no time: ", with_unit_ns(h.without_ns), "\n");
  }
  return out;
}

Json Explanation::json() const {
  Json bound = Json::object(), found = Json::array(), spots = Json::array();
  bound.set("by", name(report.bound)).set("critical_share", report.bound_share).set("without_ns", without_bound_ns);
  for (const Advice& a : advice) {
    Json j = site_json(a.site);
    j.set("rule", a.rule).set("what", a.what).set("why", a.why).set("fix", a.fix).set("would_ns", a.would_ns);
    found.push(j.set("saves_ns", report.time_ns - a.would_ns).set("at_best", a.at_best));
  }
  for (const Hotspot& h : hotspots) {
    Json j = site_json(h.site);
    j.set("alike", h.alike).set("count", h.count).set("busy_ns", h.busy_ns).set("waited_ns", h.waited_ns);
    spots.push(j.set("without_ns", h.without_ns));
  }
  Json out = Json::object();
  out.set("program", report.program)
      .set("instance", report.instance)
      .set("time_ns", report.time_ns)
      .set("bound", bound);
  return out.set("advice", found).set("instructions", spots);
}

std::string explain_markdown() {
  std::string out =
      "# Explain\n\nWritten by `trine explain --markdown` from the rules in `src/run/explain/rules.cpp`.\n\n"
      "`trine explain PROGRAM` says what bounds a program, by how much, what to change first, and which instructions "
      "to look\nat. Nothing in it is a rule of thumb: each \"about\" is the program timed again on the same model with "
      "the one change in\nthe last column, each \"at best\" a bound. Gains of different rules do not add up. A gain "
      "under "
      "1 % is not shown.\n\n| rule | speaks when | what is asked of the model |\n|---|---|---|\n";
  for (const Rule& r : rules()) out += cat("| ", r.name, " | ", r.when, " | ", r.asks, " |\n");
  return out +
         "\nAn instruction's \"if it took no time\" is the same question: its own work is free, everything else as "
         "before.\nUnrolled copies of an instruction (one source line, or equal shapes in one loop) count as one.\n";
}

}  // namespace trine::run
