// The option table's row and what a command line becomes by it. A row says once what an option is called, takes and
// means; the parser, help, shell completion, the man pages, the reference page and Python all read that row.
// Invariant: Args holds only what its table allows: choices by their first spelling, numbers within their range.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/format/json.h"
#include "base/result.h"

namespace trine::tools {

using Names = std::vector<std::string>;

// What a value may be: how it is checked, offered to the shell and handed to Python.
struct Values {
  enum class Kind : uint8_t { text, whole, real, choice, file, folder };
  static constexpr int64_t kAny = std::numeric_limits<int64_t>::max();

  Kind kind = Kind::text;
  std::string_view choices = {};  // "none matmult all"; "f16=fp16" takes either and gives the first
  Names (*names)() = nullptr;     // for a choice all there are; else what the shell offers, and others may be given
  std::string_view endings = {};  // of the files the shell offers: ".json .gguf"; empty: all
  int64_t min = 0, max = kAny;    // of a number
  std::string_view initial = {};  // what holds where the option is not given
  bool repeats = false;           // every one given counts, not only the last
  bool listed = false;            // several, joined by commas

  constexpr Values otherwise(std::string_view text) const {
    Values v = *this;
    v.initial = text;
    return v;
  }
  constexpr Values repeated() const {
    Values v = *this;
    v.repeats = true;
    return v;
  }
  constexpr Values in_a_list() const {
    Values v = *this;
    v.listed = true;
    return v;
  }
  Names all_choices() const;  // by their first spellings; empty where any text will do
};

constexpr Values text_like(Names (*names)()) { return {.names = names}; }
constexpr Values whole(int64_t min = 0, int64_t max = Values::kAny) {
  return {.kind = Values::Kind::whole, .min = min, .max = max};
}
constexpr Values real(int64_t min = 0) { return {.kind = Values::Kind::real, .min = min}; }
constexpr Values one_of(std::string_view choices) { return {.kind = Values::Kind::choice, .choices = choices}; }
constexpr Values one_of(Names (*names)()) { return {.kind = Values::Kind::choice, .names = names}; }
constexpr Values file(std::string_view endings = "", Names (*names)() = nullptr) {
  return {.kind = Values::Kind::file, .names = names, .endings = endings};
}
constexpr Values folder() { return {.kind = Values::Kind::folder}; }

struct Option {
  std::string_view name;     // "--instance"
  std::string_view brief;    // "-i", or empty
  std::string_view value;    // "NAME"; empty for a switch
  std::string_view meaning;  // one line, without choices and default: those are said from `values`
  Values values = {};
  std::string_view same_as = {};  // "--tp": another maker's name of that row, whose values it takes and which it sets

  bool is_switch() const { return value.empty(); }
};

// What the user typed after the subcommand, already checked against its options.
class Args {
 public:
  std::vector<std::string> words;

  Args() = default;
  explicit Args(std::span<const Option> table) : table_(table) {}
  bool has(std::string_view option) const { return values_.contains(option); }
  // The last one given; else `otherwise`, else the table's default.
  std::string get(std::string_view option, std::string_view otherwise = "") const;
  std::vector<std::string> all(std::string_view option) const;  // in order, for repeated ones
  int64_t integer(std::string_view option) const;               // of Kind::whole; 0 without a default
  double real(std::string_view option) const;
  void set(std::string_view option, std::string value) { values_[std::string(option)].push_back(std::move(value)); }

  std::vector<std::string> typed() const;  // the options given, each as one word: "--name=value"
  Json json() const;  // {"words": […], "options": {every option of the table by name, without the dashes}}

 private:
  std::span<const Option> table_ = {};
  std::map<std::string, std::vector<std::string>, std::less<>> values_;
};

struct Command;
inline constexpr Option kHelp{"--help", "-h", "", "print this"};
const Option* find_option(const Command& command, std::string_view typed);  // by name or brief; --help too
const Option& row_set_by(const Command& command, const Option& option);     // itself, or the row it names otherwise
Result<Args> parse_args(const Command& command, std::span<const std::string> typed);
// The value as the table has it, or what was found and what was expected; `what` leads the error: "--batch".
Result<std::string> check_value(const Values& values, std::string_view what, std::string_view text);

std::string full_meaning(const Option& option);  // with choices before it and the default after it
std::string either(const Names& names);          // "a, b or c"

}  // namespace trine::tools
