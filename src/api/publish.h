// Where a process's counters go, as the environment says: TRINE_COUNTERS, a folder or `off`; NEURON_PROCESS_TAG names
// the process to monitors. The one on_chip that reads these, for every framework's client and for those who watch.
#pragma once

#include <string>
#include <string_view>

#include "run/counters/publish.h"

namespace trine::api {

std::string counters_folder();  // empty: switched off
// TRINE_FAULT, NEURON_RT_LOCAL_CORE_DUMP_DIRECTORY and NEURON_RT_EXEC_TIMEOUT as the process's faults; read once. A
// text that is no fault is said on stderr, and nothing is injected.
void set_faults_from_environment();
std::string dump_folder();  // NEURON_RT_LOCAL_CORE_DUMP_DIRECTORY
run::PageOptions page_options(std::string_view library);
// For programs that run without a client (NKI kernels, compiled graphs of Python): a page of the machine that is meant,
// made when first asked for. Null where there is none.
run::Page* process_page(std::string_view library);
size_t process_core();  // the core this process starts on: LOCAL_RANK of those it may use

}  // namespace trine::api
