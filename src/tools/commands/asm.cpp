// trine asm: assembly text to a program file, checked against a chip.
#include "arch/program/container.h"
#include "base/text.h"
#include "tools/choose.h"
#include "tools/cli.h"
#include "tools/program_file.h"

namespace trine::tools {

namespace {

Result<Exit> run(const Args& args) {
  const std::string& path = args.words[0];
  const arch::Program program = TRY(load_program(path));
  if (args.has("--instance") || args.has("--chip")) {
    const Machine machine = TRY(choose_machine(args));
    if (const Exit exit = TRY(report_findings(program, machine.chip())); exit != Exit::ok) return exit;
  } else if (!program.chip.empty()) {
    const arch::Chip* chip = TRY(arch::find_chip(program.chip));
    if (const Exit exit = TRY(report_findings(program, *chip)); exit != Exit::ok) return exit;
  }
  const std::string out = args.get("--output");
  if (!out.empty()) TRY(arch::write_program(program, out));
  return Exit::ok;
}

constexpr Option kOptions[] = {
    {"--output", "-o", "FILE", "where the program file goes; without it the text is only checked", file()},
    {"--instance", "", "NAME", "check against this instance's chip, not the text's `chip` line",
     file(".json", instance_names)},
    kChipFile,
};

}  // namespace

extern const Command command_asm{
    .name = "asm",
    .summary = "assemble text to a program file, and check it against a chip",
    .words = "FILE",
    .words_min = 1,
    .words_max = 1,
    .word = file(".tasm .tprog"),
    .details =
        "The chip is --instance's or --chip's, else the text's own `chip` line; without any only the structure is\n"
        "checked. FILE may be - for stdin, or a program file to check again. docs/assembly.md is the language.",
    .examples =
        "trine asm matmul.tasm -o matmul.tprog\n"
        "trine asm matmul.tasm --instance trn3-gen1-ultraserver",
    .options = kOptions,
    .run = run,
};

}  // namespace trine::tools
