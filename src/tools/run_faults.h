// `trine run --fault`: faults of the command line and of TRINE_FAULT, applied to what is run; and the core dump of a
// run that went wrong, where NEURON_RT_LOCAL_CORE_DUMP_DIRECTORY names a folder.
#pragma once

#include "compile/aot/trn.h"
#include "run/drivers/exact/exact.h"
#include "run/faults/fault.h"
#include "tools/cli.h"

namespace trine::tools {

inline constexpr Option kFault{"--fault", "", "SPEC", "inject a fault, as lost:core=0 or flip:tensor=out0,byte=0,bit=7",
                               Values().repeated()};

Result<run::Faults> faults_of(const Args& args);
// Stuck semaphores, in every program.
void apply_faults(const run::Faults& faults, std::optional<compile::Trn>& trn, arch::Program& loaded);
// Flipped bits, of the one program there is.
Result<void> add_flips(const run::Faults& faults, const arch::Program* program, run::ExactOptions& options);
// What would refuse the run: NRT_EXEC_UNIT_UNRECOVERABLE and the like, said on stderr; success otherwise.
run::Status refusal(const run::Faults& faults, std::string_view program);
// A run in the process's counters, and its dump where one is wanted.
void leave_traces(const arch::Program& program, const arch::Chip& chip, const run::RunResult& result, int64_t host_ns);

}  // namespace trine::tools
