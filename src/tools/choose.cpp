// The command's options as a choice of machine.
#include "tools/choose.h"

namespace trine::tools {

Result<Machine> choose_machine(const Args& args) {
  return api::choose_machine(
      {.instance = args.get("--instance"), .lnc = args.get("--lnc"), .chip_file = args.get("--chip")});
}

}  // namespace trine::tools
