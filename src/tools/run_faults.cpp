// See run_faults.h.
#include "tools/run_faults.h"

#include "api/publish.h"
#include "arch/program/container.h"
#include "base/text.h"
#include "run/faults/apply.h"
#include "run/faults/dump.h"
#include "run/faults/inject.h"
#include "tools/choose.h"

namespace trine::tools {

Result<run::Faults> faults_of(const Args& args) {
  std::string text = getenv_or("TRINE_FAULT");
  for (const std::string& more : args.all("--fault")) text += cat(text.empty() ? "" : ";", more);
  auto out = run::parse_faults(text);
  if (!out) note(cat("faults are\n", run::faults_help()));
  return out;
}

void apply_faults(const run::Faults& faults, std::optional<compile::Trn>& trn, arch::Program& loaded) {
  if (faults.empty()) return;
  if (!trn) loaded = run::with_faults(loaded, faults);
  for (size_t i = 0; trn && i < trn->made.parts.size(); ++i)
    if (auto& part = trn->made.parts[i]; !part.on_host)
      part.device.program = run::with_faults(part.device.program, faults);
}

Result<void> add_flips(const run::Faults& faults, const arch::Program* program, run::ExactOptions& options) {
  options.keeps_state = !api::dump_folder().empty();
  bool is_any = false;
  for (const run::InjectedFault& f : faults) is_any |= f.sort == run::FaultSort::flip;
  if (!is_any) return {};
  if (!program) return fail(Code::unsupported, "fault: flip in a model of several parts; expected one program");
  options.flips = TRY(run::flips_of(*program, faults));
  return {};
}

run::Status refusal(const run::Faults& faults, std::string_view program) {
  if (faults.empty()) return run::Status::success;
  run::Faults some;
  for (const run::InjectedFault& f : faults)
    if (f.sort == run::FaultSort::lost || f.sort == run::FaultSort::ecc) some.push_back(f);
  run::Injector& injector = run::Injector::process();
  injector.set(some, api::dump_folder(), 30);
  run::CoreCounters unseen;
  run::Page* const page = api::process_page("run");
  const bool has_core = page && page->core_count() > 0;
  const auto ruling = injector.before(0, has_core ? page->core(0) : unseen, program);
  injector.set({}, "", 30);
  if (ruling.failure) note(ruling.failure.error().text());
  return ruling.status;
}

void leave_traces(const arch::Program& program, const arch::Chip& chip, const run::RunResult& result, int64_t host_ns) {
  const run::Status status = run::status_of(result);
  static const run::CountedProgram kCounted;
  run::Page* const page = api::process_page("run");
  run::ProgramCounters* const row = kCounted.in(page, [&] {
    return run::CountedInfo{.name = program.name, .kind = "program", .text = [&program] {
                              const auto bytes = arch::program_bytes(program);
                              return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
                            }};
  });
  if (row && page->core_count() > 0) page->count_run(*row, 0, host_ns, 1, status);
  const bool is_wrong = status != run::Status::success;
  if (is_wrong) note(cat("status ", run::status_text(status)));
  if (!is_wrong || api::dump_folder().empty()) return;
  const auto file = run::write_dump(api::dump_folder(), run::exact_dump(program, chip.name, result));
  note(file ? cat("core dump → ", *file, " (trine debug core ", *file, ")")
            : cat("no core dump: ", file.error().text()));
}

}  // namespace trine::tools
