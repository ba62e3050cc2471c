// Commands whose work is Python's: the process becomes the environment's Python, with the options as they were given.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tools/cli.h"

namespace trine::tools {

// Runs main() of `module` as `trine COMMAND`; comes back only where that cannot be started.
Result<Exit> become_python(std::string_view module, std::string_view command, const Args& args,
                           std::span<const Option> options, std::vector<std::string> words = {});

}  // namespace trine::tools
