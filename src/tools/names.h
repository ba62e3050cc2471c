// What there is by name, for option rows that take such a name: machines, chips, models, ops, instructions, commands.
// Names only: what one means is found by the folder that has it.
#pragma once

#include <string>
#include <vector>

namespace trine::tools {

std::vector<std::string> instance_names();
std::vector<std::string> chip_names();
std::vector<std::string> op_names();
std::vector<std::string> pass_names();  // of the compiler, and `all`
std::vector<std::string> instruction_names();
std::vector<std::string> command_names();
std::vector<std::string> model_names();  // of python/trine/models/configs; written by the build

}  // namespace trine::tools
