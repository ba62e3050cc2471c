// Commands whose work is Python's: the process becomes the environment's Python, which gets the options as the table
// read them (python/trine/command.py takes them). Nothing is parsed twice.
#pragma once

#include "tools/cli.h"

namespace trine::tools {

// Runs run(asked) of `module`, else of the row's own; comes back only where Python cannot be started.
Result<Exit> become_python(const Command& command, const Args& args, std::string_view module = "");

}  // namespace trine::tools
