// Whether this process records what it runs: TRINE_PROFILE_RECORD names the folder, as `trine profile capture` sets it.
#pragma once

#include <string>
#include <string_view>

namespace trine::api {

// `face`: the library that asks, since each has a record of its own. A folder that cannot be written is told on stderr,
// once, and the program runs on without a record.
void record_runs_from_environment(std::string_view face);
void record_runs(const std::string& folder, std::string_view face);  // from now on
void stop_recording();

}  // namespace trine::api
