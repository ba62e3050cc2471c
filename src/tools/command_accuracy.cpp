// `trine accuracy`: predictions beside published measurements.
#include "base/file.h"
#include "base/text.h"
#include "run/accuracy.h"
#include "tools/cli.h"

namespace trine::tools {

static constexpr Option kWrite{"--write", "", "ROOT",
                               "rewrite docs/accuracy.md and the residuals under this source tree"};
static constexpr Option kOptions[] = {kJson, kWrite};

static Result<Exit> run_accuracy(const Args& args) {
  const auto rows = TRY(run::accuracy());
  if (args.has("--write")) {
    const std::string root = args.get("--write");
    TRY(write_file(root + "/docs/accuracy.md", run::accuracy_markdown(rows)));
    TRY(write_file(root + "/src/run/accuracy/residuals.json", run::residuals_json(rows)));
  }
  if (args.has("--json")) {
    Json out = report("accuracy");
    out.set("rows", run::accuracy_json(rows));
    print(out.text(2) + "\n");
  } else {
    print(run::accuracy_text(rows));
  }
  return Exit::ok;
}

extern const Command command_accuracy;
const Command command_accuracy{
    .name = "accuracy",
    .summary = "predictions beside published measurements",
    .details =
        "Times the program behind every published measurement we hold and shows the error.\n\n"
        "  trine accuracy --json | python3 -m json.tool\n",
    .options = kOptions,
    .run = run_accuracy,
};

}  // namespace trine::tools
