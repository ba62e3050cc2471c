// trine explain: what bounds a program, by how much, and what to look at first.
#include "run/explain/explain.h"
#include "base/text.h"
#include "run/drivers/timed/timed.h"
#include "tools/choose.h"
#include "tools/cli.h"
#include "tools/program_file.h"
#include "tools/python.h"

namespace trine::tools {

extern const Command command_explain;

namespace {

Result<Exit> run_explain(const Args& args) {
  if (args.has("--markdown")) {
    print(run::explain_markdown());
    return Exit::ok;
  }
  if (args.words.empty()) {
    note("trine explain: expected a PROGRAM");
    return Exit::usage;
  }
  if (args.words[0].ends_with(".ntff")) return become_python(command_explain, args, "trine.profile.advising");
  const Machine machine = TRY(choose_machine(args));
  const arch::Program program = TRY(load_program(args.words[0]));
  if (const Exit illegal = TRY(report_findings(program, machine.chip())); illegal != Exit::ok) return illegal;
  const run::TimedResult t = TRY(run::run_timed(program, machine.instance));
  if (!t.findings.empty()) {
    for (const run::Finding& f : t.findings) note(f.text());
    return Exit::check_failed;
  }
  const run::Explanation e = run::explain(program, machine.instance, {}, t.timing);
  if (args.has("--json"))
    print(report("explain").set("explain", e.json()).text(2) + "\n");
  else
    print(e.text(args.has("--all")));
  return Exit::ok;
}

constexpr Option kOptions[] = {
    kInstance,
    kChipFile,
    {"--all", "", "", "every piece of advice, not only the first three"},
    {"--markdown", "", "", "print docs/explain.md"},
    kJson,
};

}  // namespace

extern const Command command_explain{
    .name = "explain",
    .summary = "what bounds a program, by how much, and what to look at first",
    .words = "PROGRAM|PROFILE",
    .words_max = 1,
    .word = file(".tasm .tprog .ntff"),
    .details =
        "PROGRAM is assembly text or a program file, - for stdin; of a PROFILE the programs that take longest are\n"
        "explained, by the model's own lines. docs/explain.md lists the rules.",
    .examples =
        "trine explain matmul.tasm --instance trn2.3xlarge\n"
        "trine explain profile.ntff",
    .options = kOptions,
    .run = run_explain,
};

}  // namespace trine::tools
