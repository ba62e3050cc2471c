// From the recorded kernel to the Program: the pipeline, and the verifier after it; see streams.h.
#include "compile/stream/streams.h"

#include "arch/program/verify.h"

namespace trine::compile {

Result<arch::Program> make_unverified(Kernel& kernel, Diagnostic& why, const StreamOptions& options) {
  StreamState state{.kernel = kernel, .hoists = options.hoists, .is_nki = options.is_nki};
  if (auto done = run_passes(stream_pipeline(), state, options.observer); !done) {
    why = state.why.found.empty() ? diagnostic_of(done.error(), "passes") : std::move(state.why);
    return done.error();
  }
  return *std::move(state.program);
}

Result<void> verify_streams(const arch::Program& program, const arch::Chip& chip, Diagnostic& why) {
  const auto findings = arch::verify(program, chip);
  if (findings.empty()) return {};
  why = diagnostic_of(findings[0].error, "verifier");
  return why.error();
}

Result<arch::Program> make_streams(Kernel& kernel, Diagnostic& why, const StreamOptions& options) {
  arch::Program out = TRY(make_unverified(kernel, why, options));
  TRY(verify_streams(out, *kernel.chip, why));
  return out;
}

}  // namespace trine::compile
