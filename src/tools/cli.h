// The frame of the `trine` command. A subcommand is one row: tools/command_<name>.cpp defines
// `extern const Command command_<name>` and the build puts it into the table; help and spelling hints are derived.
// Reports go to stdout, everything else to stderr; the environment is read here and in choose.h, nowhere below tools/.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/format/json.h"
#include "base/result.h"

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

struct Option {
  std::string_view name;     // "--instance"
  std::string_view brief;    // "-i", or empty
  std::string_view value;    // "NAME"; empty for a switch
  std::string_view meaning;  // one line
};

// What the user typed after the subcommand, already checked against its options.
class Args {
 public:
  std::vector<std::string> words;

  bool has(std::string_view option) const { return values_.contains(option); }
  std::string get(std::string_view option, std::string_view otherwise = "") const;  // the last one given
  std::vector<std::string> all(std::string_view option) const;                      // in order, for repeated ones
  Result<int64_t> integer(std::string_view option, int64_t otherwise, int64_t min, int64_t max) const;
  void set(std::string_view option, std::string value) { values_[std::string(option)].push_back(std::move(value)); }

 private:
  std::map<std::string, std::vector<std::string>, std::less<>> values_;
};

struct Command {
  std::string_view name = {}, summary = {};  // summary: one line for the list of commands
  std::string_view words = {};               // "[NAME...]" in the usage line; empty: takes none
  int words_min = 0, words_max = 0;
  std::string_view details = {};  // more help, with an example
  std::span<const Option> options = {};
  Result<Exit> (*run)(const Args& args) = nullptr;
};
std::span<const Command* const> commands();  // by name; written by the build

// Options that mean the same wherever they appear.
inline constexpr Option kJson{"--json", "", "", "print JSON with a version field"};
inline constexpr Option kInstance{"--instance", "", "NAME",
                                  "virtual instance (else TRINE_INSTANCE, `trine use`, trn1.2xlarge)"};
inline constexpr Option kLnc{"--lnc", "", "N", "physical cores in a logical core: 1 or 2, where the chip has them"};

void print(std::string_view text);  // to stdout
void note(std::string_view text);   // to stderr, a line
bool colour();                      // stdout is a terminal and NO_COLOR is not set
std::string bold(std::string_view text);
std::string markdown(const std::vector<std::vector<std::string>>& rows);  // a table; the first row is the heading
Json report(std::string_view kind);  // {"version": 1, "report": kind}; add the rest

Result<Args> parse_args(const Command& command, std::span<const std::string> typed);
std::string help(const Command& command);
int run_command_line(std::string_view program, std::span<const std::string> typed);

}  // namespace trine::tools
