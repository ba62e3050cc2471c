// The frame of the `trine` command. A subcommand is one row: tools/commands/<name>.cpp defines
// `extern const Command command_<name>` and the build puts it into the table; help, spelling hints, completion and
// pages are derived. Where the work is Python's, the row names the module and there is no code beside it. Reports go to
// stdout, everything else to stderr; the environment is read here and in choose.h, nowhere below tools/.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/format/json.h"
#include "base/result.h"
#include "tools/names.h"
#include "tools/options.h"

namespace trine::tools {

enum class Exit : int {
  ok = 0,
  check_failed = 1,   // ran, and a check did not hold
  usage = 2,          // wrong arguments, or a name that is not there
  unsupported = 3,    // the input cannot be used
  out_of_memory = 4,  // of a virtual device
  outside = 5,        // files, devices, the world
  interrupted = 130,
};
Exit exit_of(Code code);

struct Command {
  std::string_view name = {}, summary = {};  // summary: one line for the list of commands
  std::string_view alias = {};               // another name it is installed by: "neuron-ls"
  std::string_view words = {};               // "[NAME...]" in the usage line; empty: takes none
  int words_min = 0, words_max = 0;
  Values word = {};                // what each of them may be
  bool rest_is_words = false;      // all after the first word are words, dashes or not
  std::string_view details = {};   // more help
  std::string_view examples = {};  // command lines, one a line
  std::span<const Option> options = {};
  Result<Exit> (*run)(const Args& args) = nullptr;
  std::string_view python = {};  // instead of `run`: the module whose run(asked) does it
};
std::span<const Command* const> commands();  // by name; written by the build
const Command* find_command(std::string_view name);
Error unknown_command(std::string_view name);

// Options that mean the same wherever they appear.
inline constexpr Option kJson{"--json", "", "", "print JSON with a version field"};
inline constexpr Option kInstance{"--instance", "", "NAME",
                                  "virtual instance (else TRINE_INSTANCE, `trine use`, trn1.2xlarge)",
                                  file(".json", instance_names)};
inline constexpr Option kLnc{"--lnc", "", "N", "physical cores in a logical core: 1 or 2, where the chip has them",
                             whole(1)};

void print(std::string_view text);  // to stdout
void note(std::string_view text);   // to stderr, a line
bool colour();                      // stdout is a terminal and NO_COLOR is not set
std::string bold(std::string_view text);
std::string markdown(const std::vector<std::vector<std::string>>& rows);  // a table; the first row is the heading
Json report(std::string_view kind);  // {"version": 1, "report": kind}; add the rest

std::string general_help();
std::string aliases_text();  // "`neuron-ls` is `trine ls`."
std::string help(const Command& command);
std::string usage(const Command& command);  // "trine ls [OPTION...]"
int run_command_line(std::string_view program, std::span<const std::string> typed);

}  // namespace trine::tools
