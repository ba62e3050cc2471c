// Whole files in and out, with errors that name the path. Not for mapping: Program has its own loader.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace trine {

Result<std::string> read_file(const std::string& path);
Result<void> write_file(const std::string& path, std::string_view bytes);  // replaces the file at once, never half

}  // namespace trine
