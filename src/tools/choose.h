// Which virtual machine a command works on: --instance, TRINE_INSTANCE, `trine use`, else trn1.2xlarge; and its logical
// cores: --lnc, NEURON_LOGICAL_NC_CONFIG, NEURON_RT_VIRTUAL_CORE_SIZE, else the chip's default.
#pragma once

#include <memory>
#include <string>

#include "arch/instance.h"
#include "base/result.h"
#include "tools/cli.h"

namespace trine::tools {

struct Machine {
  arch::Instance instance;
  int64_t lnc = 1;                       // physical cores in a logical one
  std::string chosen_by;                 // "--instance", "TRINE_INSTANCE", "trine use" or "default"
  std::unique_ptr<arch::Chip> own_chip;  // from --chip; instance.chip points to it

  const arch::Chip& chip() const { return *instance.chip; }
  int64_t cores_per_chip() const { return chip().cores / lnc; }  // logical ones
};

inline constexpr Option kChipFile{"--chip", "", "FILE",
                                  "a chip data file of your own, in place of the instance's chip"};

Result<Machine> choose_machine(const Args& args);

std::string getenv_or(const char* name, std::string_view otherwise = "");
Result<std::string> settings_path();                // $XDG_CONFIG_HOME/trine/settings.json, or under ~/.config
Result<std::string> saved_instance();               // empty when none was saved
Result<void> save_instance(std::string_view name);  // empty: forget

}  // namespace trine::tools
