// trine help: what the option tables say, for people (text, man pages) and for programs (JSON).
#include "base/file.h"
#include "base/text.h"
#include "tools/cli.h"
#include "tools/pages.h"

namespace trine::tools {

namespace {

Result<Exit> run(const Args& args) {
  const Command* one = args.words.empty() ? nullptr : find_command(args.words[0]);
  if (!one && !args.words.empty()) return unknown_command(args.words[0]);
  if (args.has("--output")) {
    for (const ManPage& page : man_pages()) TRY(write_file(cat(args.get("--output"), "/", page.name), page.text));
  } else if (args.has("--json")) {
    Json list = Json::array();
    for (const Command* c : commands())
      if (!one || c == one) list.push(command_json(*c));
    print(report("commands").set("commands", std::move(list)).text(2) + "\n");
  } else if (args.has("--man")) {
    print(one ? man_page(*one) : general_man_page());
  } else {
    print(one ? help(*one) : general_help());
  }
  return Exit::ok;
}

constexpr Option kOptions[] = {
    {"--man", "", "", "as a man page"},
    {"--output", "-o", "DIR", "write all man pages there", folder()},
    kJson,
};

}  // namespace

extern const Command command_help{
    .name = "help",
    .summary = "explain a command, or list them all",
    .words = "[COMMAND]",
    .words_max = 1,
    .word = text_like(command_names),
    .examples =
        "trine help estimate\n"
        "trine help --man ls | man -l -\n"
        "trine help --json",
    .options = kOptions,
    .run = run,
};

}  // namespace trine::tools
