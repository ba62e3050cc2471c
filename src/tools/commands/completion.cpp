// trine completion: the scripts by which shells complete this command, and the answers those scripts ask for.
#include "tools/cli.h"
#include "tools/complete.h"

namespace trine::tools {

namespace {

Result<Exit> run(const Args& args) {
  const std::string& shell = args.words[0];
  const auto line = args.all("--word");
  print(line.empty() ? completion_script(shell) : completion_text(shell, complete(line), line.back()));
  return Exit::ok;
}

constexpr Option kOptions[] = {
    {"--word", "", "WORD", "of a command line, once for each; then what may stand for the last one is printed",
     Values().repeated()},
};

}  // namespace

extern const Command command_completion{
    .name = "completion",
    .summary = "print the script that completes this command in a shell",
    .words = "bash|zsh|fish",
    .words_min = 1,
    .words_max = 1,
    .word = one_of(kShells),
    .details =
        "A wheel brings the scripts along, in share/bash-completion/completions, share/zsh/site-functions and\n"
        "share/fish/vendor_completions.d; elsewhere load one in the shell's start file.",
    .examples =
        "source <(trine completion bash)\n"
        "source <(trine completion zsh)\n"
        "trine completion fish | source",
    .options = kOptions,
    .run = run,
};

}  // namespace trine::tools
