// Which virtual machine is meant, where a caller may leave it open: the argument, TRINE_INSTANCE, `trine use`, else
// trn1.2xlarge; and its logical cores: the argument, NEURON_LOGICAL_NC_CONFIG, NEURON_RT_VIRTUAL_CORE_SIZE, else the
// chip's default. The one place that reads these variables, for the command, Python and the PJRT plugin alike.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "arch/instances/instance.h"
#include "base/result.h"

namespace trine::api {

struct Machine {
  arch::Instance instance;
  int64_t lnc = 1;                       // physical cores in a logical one
  std::string chosen_by;                 // "--instance", "TRINE_INSTANCE", "trine use" or "default"
  std::shared_ptr<arch::Chip> own_chip;  // from a chip file; instance.chip points to it

  const arch::Chip& chip() const { return *instance.chip; }
  int64_t cores_per_chip() const { return chip().cores / lnc; }  // logical ones
};

struct MachineChoice {
  std::string instance = {};   // a name or the path of a .json file; empty: left open
  std::string lnc = {};        // empty: left open
  std::string chip_file = {};  // in place of the instance's chip
};

Result<Machine> choose_machine(const MachineChoice& choice);
// Logical cores a process may use, as NEURON_RT_VISIBLE_CORES ("0-3,6") or NEURON_RT_NUM_CORES say; empty: all.
Result<std::vector<int>> visible_cores(const Machine& machine);

// Those of one process of several, `nodes` being the machine of each process, counted from 0, every one such an
// instance: NEURON_PJRT_PROCESSES_NUM_DEVICES ("4,4") counts them for each process, in order; else what it may use;
// where nothing is said, even shares of its machine. NEURON_PJRT_PROCESS_INDEX, where set, must be the same process.
Result<std::vector<int>> process_cores(const Machine& machine, int process, std::span<const int> nodes);

std::string getenv_or(const char* name, std::string_view otherwise = "");
Result<std::string> settings_path();                // $XDG_CONFIG_HOME/trine/settings.json, or under ~/.config
Result<std::string> saved_instance();               // empty when none was saved
Result<void> save_instance(std::string_view name);  // empty: forget

}  // namespace trine::api
