// A log of runs by its variable; see recording.h.
#include "api/recording.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "base/format/json.h"
#include "base/text.h"
#include "run/profile/ran.h"

namespace trine::api {

namespace {

std::string variable(const char* name) {
  const char* const given = std::getenv(name);
  return given ? given : "";
}

// The rank as launchers say it; empty: this process is alone.
std::string rank_of_process() {
  for (const char* name : {"RANK", "NEURON_PJRT_PROCESS_INDEX", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "SLURM_PROCID"})
    if (const std::string rank = variable(name); !rank.empty()) return rank;
  return "";
}

}  // namespace

void record_runs_from_environment(std::string_view face) {
  if (const std::string folder = variable("TRINE_PROFILE_RECORD"); !folder.empty()) record_runs(folder, face);
}

void stop_recording() { run::RunRecord::process().log_to(nullptr); }

void record_runs(const std::string& folder, std::string_view face) {
  const std::string head = Json::object()
                               .set("version", 1)
                               .set("pid", int64_t(getpid()))
                               .set("face", std::string(face))
                               .set("rank", rank_of_process())
                               .set("begin_ns", run::wall_ns())
                               .text();
  auto log = run::RunLog::create(folder, cat(getpid(), "-", face), head);
  if (log)
    run::RunRecord::process().log_to(std::move(*log));
  else
    std::fprintf(stderr, "trine: %s\n", log.error().text().c_str());
}

}  // namespace trine::api
