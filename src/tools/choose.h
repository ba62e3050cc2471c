// Which virtual machine a command works on: --instance and --lnc, else as api/machine.h says.
#pragma once

#include "api/machine.h"
#include "base/result.h"
#include "tools/cli.h"

namespace trine::tools {

using api::getenv_or;
using api::Machine;
using api::save_instance;
using api::saved_instance;
using api::settings_path;

inline constexpr Option kChipFile{"--chip", "", "FILE", "a chip data file of your own, in place of the instance's chip",
                                  file(".json")};

Result<Machine> choose_machine(const Args& args);

}  // namespace trine::tools
