// What `trine compile` shows of passes: a line of progress after each stage, and what --print-after, --stop-after,
// --verify-each and --time-passes ask for. All of it comes from the tables of compile/pass; nothing here knows a pass.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "compile/pass/pass.h"
#include "tools/cli.h"

namespace trine::tools {

inline constexpr Option kPrintAfter{"--print-after", "", "PASS", "print what a pass made, or `all`; once for each",
                                    text_like(pass_names).repeated()};
inline constexpr Option kStopAfter{"--stop-after", "", "PASS", "compile no further than this pass",
                                   text_like(pass_names)};
inline constexpr Option kVerifyEach{"--verify-each", "", "", "verify after every pass (TRINE_VERIFY_EACH=1 does too)"};
inline constexpr Option kTimePasses{"--time-passes", "", "",
                                    "print the time each pass took and the size of what it made"};
inline constexpr Option kListPasses{"--list-passes", "", "", "list the passes of all pipelines; no MODEL"};
inline constexpr Option kMarkdown{"--markdown", "", "", "with --list-passes: as docs/passes.md"};
inline constexpr Option kRunPass{
    "--run-pass", "", "A,B", "run these passes alone on a graph's or kernel's text (- for stdin), as LLVM's opt does"};

Result<void> check_passes_named(const Args& args);  // by --print-after and --stop-after
bool wants_passes(const Args& args);                // any of them: then nothing may come from the cache
void list_passes(const Args& args);

class PassLog {
 public:
  explicit PassLog(const Args& args);

  compile::PassObserver observer();  // while the log lives
  // A line that is written over, on a terminal, of what takes longer than a moment.
  void going(std::string_view stage, size_t at, size_t all);
  std::string times_text() const;  // empty where nobody asked
  void add_times(Json& report) const;

 private:
  bool after(const compile::PassReport& report, const compile::PassObserver::Text& text);
  void show_stage(std::string_view stage, const std::string& what);
  bool prints(std::string_view pass) const;

  const std::vector<std::string> print_;
  const std::string stop_;
  const bool times_passes_, verify_each_;
  std::vector<compile::PassReport> reports_;
  const bool terminal_;
  std::chrono::steady_clock::time_point shown_ = {};
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

}  // namespace trine::tools
