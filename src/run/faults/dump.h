// Core dumps: what a faulted program leaves behind, as one JSON file (version 1) that `trine debug core` prints.
// {version, kind: "trine core", program, chip, status, code, message, findings, engines, semaphores, memory}.
#pragma once

#include <string>
#include <string_view>

#include "base/format/json.h"
#include "run/counters/status.h"
#include "run/drivers/exact/exact.h"

namespace trine::run {

Json exact_dump(const arch::Program& program, std::string_view chip, const RunResult& result);
Json refused_dump(std::string_view program, int64_t core, Status status, std::string_view message);
Status status_of(const RunResult& result);  // what the runtime would say of it

// As <folder>/core.<program>.<pid>.<n>.json, which is given back.
Result<std::string> write_dump(const std::string& folder, const Json& dump);

// Several lines, the answer first; an error where it is no dump.
Result<std::string> dump_text(const Json& dump);

}  // namespace trine::run
