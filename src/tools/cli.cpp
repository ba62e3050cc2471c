// Finds the subcommand, reads its options, prints help; see cli.h.
#include "tools/cli.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstdlib>

#include "base/text.h"

namespace trine::tools {

namespace {

constexpr Option kHelp{"--help", "-h", "", "print this"};

const Option* find_option(const Command& command, std::string_view typed) {
  if (typed == kHelp.name || typed == kHelp.brief) return &kHelp;
  for (const Option& o : command.options)
    if (typed == o.name || (!o.brief.empty() && typed == o.brief)) return &o;
  return nullptr;
}

Error unknown_option(const Command& command, std::string_view typed) {
  std::vector<std::string> names = {std::string(kHelp.name)};
  for (const Option& o : command.options) names.emplace_back(o.name);
  return fail(Code::invalid, cat("no option ", typed, "; nearest: ", join(nearest(typed, names), ", ")));
}

Result<void> check_words(const Command& command, const Args& args) {
  const auto n = static_cast<int>(args.words.size());
  if (n >= command.words_min && n <= command.words_max) return {};
  if (n > command.words_max)
    return fail(Code::invalid,
                cat("one argument too many: \"", args.words[static_cast<size_t>(command.words_max)], "\""));
  return fail(Code::invalid, cat("expected ", command.words));
}

int complain(const Error& error, Exit exit) {
  note(cat("trine: ", error.text()));
  return static_cast<int>(exit);
}

std::string general_help() {
  std::string out =
      "trine: the Trainium stack on an ordinary machine\n\n"
      "usage: trine COMMAND [OPTION...]\n\n";
  std::vector<std::vector<std::string>> rows;
  for (const Command* c : commands()) rows.push_back({cat("  ", c->name), std::string(c->summary)});
  out += columns(rows, "00");
  return out +
         "\n`trine COMMAND --help` explains one; `trine --version` names this build. Any neuron-X is `trine X`.\n";
}

const Command* find_command(std::string_view name) {
  for (const Command* c : commands())
    if (c->name == name) return c;
  return nullptr;
}

Error unknown_command(std::string_view name) {
  std::vector<std::string> names;
  for (const Command* c : commands()) names.emplace_back(c->name);
  return fail(Code::not_found, cat("no command \"", name, "\"; nearest: ", join(nearest(name, names), ", "),
                                   " (trine --help lists all)"));
}

int run_found(const Command& command, std::span<const std::string> typed) {
  const Result<Args> args = parse_args(command, typed);
  if (!args) {
    note(cat("trine ", command.name, ": ", args.error().text()));
    note(cat("usage: trine ", command.name, command.options.empty() ? "" : " [OPTION...]",
             command.words.empty() ? "" : " ", command.words, "   (--help explains)"));
    return static_cast<int>(Exit::usage);
  }
  if (args->has(kHelp.name)) {
    print(help(command));
    return 0;
  }
  const Result<Exit> done = command.run(*args);
  if (!done) return complain(done.error(), exit_of(done.error().code));
  return static_cast<int>(*done);
}

}  // namespace

Exit exit_of(Code code) {
  switch (code) {
    case Code::invalid:
    case Code::unsupported:
    case Code::out_of_range:
      return Exit::unsupported;
    case Code::not_found:
      return Exit::usage;
    case Code::out_of_memory:
      return Exit::out_of_memory;
    case Code::cancelled:
      return Exit::interrupted;
    case Code::io:
    case Code::internal:
      break;
  }
  return Exit::outside;
}

std::string Args::get(std::string_view option, std::string_view otherwise) const {
  const auto found = values_.find(option);
  return found == values_.end() ? std::string(otherwise) : found->second.back();
}

std::vector<std::string> Args::all(std::string_view option) const {
  const auto found = values_.find(option);
  return found == values_.end() ? std::vector<std::string>{} : found->second;
}

Result<int64_t> Args::integer(std::string_view option, int64_t otherwise, int64_t min, int64_t max) const {
  if (!has(option)) return otherwise;
  const std::string text = get(option);
  int64_t v = 0;
  const auto end = std::from_chars(text.data(), text.data() + text.size(), v);
  if (end.ec != std::errc{} || end.ptr != text.data() + text.size() || v < min || v > max)
    return fail(Code::invalid, cat(option, ": found \"", text, "\", expected a whole number from ", min, " to ", max));
  return v;
}

Result<Args> parse_args(const Command& command, std::span<const std::string> typed) {
  Args args;
  bool only_words = false;
  for (size_t i = 0; i < typed.size(); ++i) {
    const std::string_view arg = typed[i];
    if (only_words || arg.size() < 2 || arg[0] != '-') {
      args.words.emplace_back(arg);
      continue;
    }
    if (arg == "--") {
      only_words = true;
      continue;
    }
    const size_t equals = arg.starts_with("--") ? arg.find('=') : std::string_view::npos;
    const Option* option = find_option(command, arg.substr(0, equals));
    if (!option) return unknown_option(command, arg.substr(0, equals));
    if (option->value.empty() && equals != std::string_view::npos)
      return fail(Code::invalid, cat(option->name, " takes no value"));
    std::string value;
    if (!option->value.empty()) {
      if (equals == std::string_view::npos && i + 1 == typed.size())
        return fail(Code::invalid, cat(option->name, " needs a value: ", option->value));
      value = equals == std::string_view::npos ? typed[++i] : std::string(arg.substr(equals + 1));
    }
    args.set(option->name, std::move(value));
  }
  if (!args.has(kHelp.name)) TRY(check_words(command, args));
  return args;
}

std::string help(const Command& command) {
  std::string out = cat("usage: trine ", command.name, " [OPTION...]", command.words.empty() ? "" : " ", command.words,
                        "\n\n", command.summary, "\n\n");
  std::vector<std::vector<std::string>> rows;
  const auto add = [&](const Option& o) {
    rows.push_back(
        {cat("  ", o.brief.empty() ? "    " : cat(o.brief, ", "), o.name, o.value.empty() ? "" : " ", o.value),
         std::string(o.meaning)});
  };
  for (const Option& o : command.options) add(o);
  add(kHelp);
  out += columns(rows, "00");
  if (!command.details.empty()) out += cat("\n", command.details, "\n");
  return out;
}

void print(std::string_view text) { std::fwrite(text.data(), 1, text.size(), stdout); }

void note(std::string_view text) {
  std::fflush(stdout);
  std::fprintf(stderr, "%.*s\n", static_cast<int>(text.size()), text.data());
}

bool colour() {
  static const bool on = ::isatty(STDOUT_FILENO) && !std::getenv("NO_COLOR");
  return on;
}

std::string bold(std::string_view text) { return colour() ? cat("\033[1m", text, "\033[0m") : std::string(text); }

std::string markdown(const std::vector<std::vector<std::string>>& rows) {
  std::string out;
  for (size_t r = 0; r < rows.size(); ++r) {
    out += "|";
    for (const std::string& cell : rows[r]) out += cat(cell.empty() ? "" : " ", cell, " |");
    out += "\n";
    if (r > 0) continue;
    out += "|";
    for (size_t k = 0; k < rows[0].size(); ++k) out += "---|";
    out += "\n";
  }
  return out;
}

Json report(std::string_view kind) { return Json::object().set("version", 1).set("report", kind); }

int run_command_line(std::string_view program, std::span<const std::string> typed) {
  const std::string_view base = program.substr(program.find_last_of('/') + 1);
  constexpr std::string_view alias = "neuron-";
  if (base.starts_with(alias)) {
    const Command* command = find_command(base.substr(alias.size()));
    return command ? run_found(*command, typed) : complain(unknown_command(base.substr(alias.size())), Exit::usage);
  }
  if (typed.empty() || typed[0] == "--help" || typed[0] == "-h" || (typed[0] == "help" && typed.size() == 1)) {
    print(general_help());
    return 0;
  }
  if (typed[0] == "--version") {
    print(cat("trine ", TRINE_VERSION, "\n"));
    return 0;
  }
  const bool explain = typed[0] == "help";
  const std::string& name = typed[explain ? 1 : 0];
  const Command* command = find_command(name);
  if (!command) return complain(unknown_command(name), Exit::usage);
  if (explain) {
    print(help(*command));
    return 0;
  }
  return run_found(*command, typed.subspan(1));
}

}  // namespace trine::tools
