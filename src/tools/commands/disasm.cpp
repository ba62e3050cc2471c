// trine disasm: a program file back to assembly text.
#include "arch/asm/asm.h"
#include "tools/cli.h"
#include "tools/program_file.h"

namespace trine::tools {

namespace {

Result<Exit> run(const Args& args) {
  print(arch::disassemble(TRY(load_program(args.words[0]))));
  return Exit::ok;
}

}  // namespace

extern const Command command_disasm{
    .name = "disasm",
    .summary = "print a program file as assembly text",
    .words = "FILE",
    .words_min = 1,
    .words_max = 1,
    .word = file(".tasm .tprog"),
    .details =
        "The text is canonical: assembling it gives the same program. Text itself may be given, to bring it into\n"
        "that form; FILE may be - for stdin.",
    .examples = "trine disasm matmul.tprog",
    .options = {},
    .run = run,
};

}  // namespace trine::tools
