// Finds the subcommand, reads its options, prints help; see cli.h.
#include "tools/cli.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "api/limits.h"
#include "base/stop.h"
#include "base/text.h"
#include "tools/python.h"

namespace trine::tools {

namespace {

int report_error(const Error& error, Exit exit) {
  note(cat("trine: ", error.text()));
  return static_cast<int>(exit);
}

int run_found(const Command& command, std::span<const std::string> typed) {
  const Result<Args> args = parse_args(command, typed);
  if (!args) {
    note(cat("trine ", command.name, ": ", args.error().text()));
    note(cat("usage: ", usage(command), "   (--help explains)"));
    return static_cast<int>(Exit::usage);
  }
  if (args->has(kHelp.name)) {
    print(help(command));
    return 0;
  }
  const Result<Exit> done = without_throwing([&]() -> Result<Exit> {
    TRY(api::set_limits_from_environment());
    return command.run ? command.run(*args) : become_python(command, *args);
  });
  if (!done) return report_error(done.error(), exit_of(done.error().code));
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

const Command* find_command(std::string_view name) {
  for (const Command* c : commands())
    if (c->name == name) return c;
  return nullptr;
}

Error unknown_command(std::string_view name) {
  return fail(Code::not_found, cat("no command \"", name, "\"; nearest: ", join(nearest(name, command_names()), ", "),
                                   " (trine --help lists all)"));
}

std::string aliases_text() {
  std::string out;
  for (const Command* c : commands())
    if (!c->alias.empty()) out += cat(out.empty() ? "" : " ", "`", c->alias, "` is `trine ", c->name, "`.");
  return out;
}

std::string general_help() {
  std::string out =
      "trine: the Trainium stack on an ordinary machine\n\n"
      "usage: trine COMMAND [OPTION...]\n\n";
  std::vector<std::vector<std::string>> rows;
  for (const Command* c : commands()) rows.push_back({cat("  ", c->name), std::string(c->summary)});
  out += columns(rows, "00");
  return cat(out, "\n`trine COMMAND --help` explains one; `trine --version` names this build. ", aliases_text(), "\n");
}

std::string usage(const Command& command) {
  return cat("trine ", command.name, " [OPTION...]", command.words.empty() ? "" : " ", command.words);
}

std::string help(const Command& command) {
  std::string out = cat("usage: ", usage(command), "\n\n", command.summary, "\n\n");
  std::vector<std::vector<std::string>> rows;
  const auto add = [&](const Option& o) {
    rows.push_back({cat("  ", o.brief.empty() ? "    " : cat(o.brief, ", "), o.name, o.is_switch() ? "" : " ", o.value),
                    full_meaning(o)});
  };
  for (const Option& o : command.options) add(o);
  add(kHelp);
  out += columns(rows, "00");
  if (!command.details.empty()) out += cat("\n", command.details, "\n");
  if (!command.examples.empty()) out += "\n";
  for (const std::string_view line : split(command.examples, '\n')) out += line.empty() ? "" : cat("  ", line, "\n");
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
    return command ? run_found(*command, typed) : report_error(unknown_command(base.substr(alias.size())), Exit::usage);
  }
  if (typed.empty() || typed[0] == kHelp.name || typed[0] == kHelp.brief) {
    print(general_help());
    return 0;
  }
  if (typed[0] == "--version") {
    print(cat("trine ", TRINE_VERSION, "\n"));
    return 0;
  }
  const Command* command = find_command(typed[0]);
  return command ? run_found(*command, typed.subspan(1)) : report_error(unknown_command(typed[0]), Exit::usage);
}

}  // namespace trine::tools
