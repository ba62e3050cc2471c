// Times a program and turns what the timer noticed into a report and findings; see timed.h.
#include "run/drivers/timed/timed.h"

#include "base/stop.h"
#include "base/text.h"

namespace trine::run {

Result<TimedResult> run_timed(const arch::Program& program, const arch::Instance& instance,
                              const sim::TimeOptions& options) {
  const Work work(limits().run_seconds, "timing, by TRINE_RUN_SECONDS");
  TimedResult r;
  r.timing = TRY(sim::time_program(program, *instance.chip, options));
  r.report = make_report(program, instance, r.timing);
  Findings findings(program, 20);
  for (const auto& s : r.timing.stuck) {
    Finding f;
    f.kind = arch::FaultKind::deadlock;
    f.point = {static_cast<int>(s.stream), s.insn, {}};
    f.found = s.at_rendezvous ? "waits for the other cores, which never come"
                              : cat("waits for s", s.semaphore, " to reach ", s.wanted, "; it stands at ", s.value,
                                    " and nothing can move any more");
    f.expected = s.at_rendezvous ? "every core of the program to pass here as often"
                                 : cat("updates that bring s", s.semaphore, " to ", s.wanted);
    findings.add(std::move(f));
  }
  r.findings = findings.take();
  return r;
}

Result<int64_t> time_among_others(const arch::Program& program, const arch::Chip& chip) {
  return sim::time_among_others(program, chip);
}

}  // namespace trine::run
