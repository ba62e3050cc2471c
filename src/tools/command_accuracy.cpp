// `trine accuracy`: predictions beside published measurements.
#include "base/text.h"
#include "run/accuracy/accuracy.h"
#include "tools/cli.h"

namespace trine::tools {

static constexpr Option kMarkdown{"--markdown", "", "", "print docs/accuracy.md"};
static constexpr Option kResiduals{"--residuals", "", "", "print the residuals that the bands are made of"};
static constexpr Option kKernels{"--kernels", "", "DIR",
                                 "traced kernels, NAME.trine each; their rows are left out else", folder()};
static constexpr Option kOptions[] = {kJson, kMarkdown, kResiduals, kKernels};

static Result<Exit> run_accuracy(const Args& args) {
  const auto rows = TRY(run::accuracy(args.get("--kernels")));
  if (args.has("--json")) {
    Json out = report("accuracy");
    out.set("rows", run::accuracy_json(rows));
    print(out.text(2) + "\n");
  } else if (args.has("--markdown")) {
    print(run::accuracy_markdown(rows));
  } else if (args.has("--residuals")) {
    print(run::residuals_json(rows));
  } else {
    print(run::accuracy_text(rows));
  }
  return Exit::ok;
}

extern const Command command_accuracy;
const Command command_accuracy{
    .name = "accuracy",
    .summary = "predictions beside published measurements",
    .details = "Times the program behind every published measurement we hold and shows the error.",
    .examples = "trine accuracy --json",
    .options = kOptions,
    .run = run_accuracy,
};

}  // namespace trine::tools
