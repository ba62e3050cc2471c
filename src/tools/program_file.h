// Programs by file name, for the commands that take one: a container, assembly text, or `-` for stdin.
#pragma once

#include <string>

#include "arch/chips/chip.h"
#include "arch/program/program.h"
#include "base/result.h"
#include "tools/cli.h"

namespace trine::tools {

Result<arch::Program> load_program(const std::string& path);

// Prints every finding to stderr, most of them in the form file:line: message. The exit code is the first one's.
Result<Exit> report_findings(const arch::Program& program, const arch::Chip& chip);

}  // namespace trine::tools
