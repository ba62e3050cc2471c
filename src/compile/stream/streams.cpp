// From the recorded kernel to the Program: the passes in their order; see streams.h.
#include "compile/stream/streams.h"

#include <algorithm>

#include "arch/program/verify.h"
#include "compile/stream/memory/allocate.h"
#include "compile/stream/memory/versions.h"
#include "compile/stream/registers.h"
#include "compile/stream/semaphores.h"
#include "compile/stream/unroll.h"

namespace trine::compile {

static std::optional<Complaint> settle(Kernel& kernel) {
  settle_registers(kernel);
  split_versions(kernel);
  return place(kernel);
}

Result<arch::Program> make_unverified(Kernel& kernel, Complaint& why) {
  const auto complain = [&](Complaint c) {
    why = std::move(c);
    return why.error();
  };
  std::optional<Kernel> plain;
  if (std::any_of(kernel.works.begin(), kernel.works.end(), arch::begins_loop)) plain = kernel;
  const bool unrolled = plain && unroll_loops(kernel);
  auto problem = settle(kernel);
  if (problem && unrolled) {  // the repeats have no room
    kernel = *std::move(plain);
    problem = settle(kernel);
  }
  if (problem) return complain(*std::move(problem));
  const Edges edges = find_edges(kernel);
  auto woven = weave(kernel, edges, schedule(kernel, edges));
  if (!woven) return complain(complaint_of(woven.error(), "semaphores"));
  return kernel.builder.take();
}

Result<void> verify_streams(const arch::Program& program, const arch::Chip& chip, Complaint& why) {
  const auto findings = arch::verify(program, chip);
  if (findings.empty()) return {};
  why = complaint_of(findings[0].error, "verifier");
  return why.error();
}

Result<arch::Program> make_streams(Kernel& kernel, Complaint& why) {
  arch::Program out = TRY(make_unverified(kernel, why));
  TRY(verify_streams(out, *kernel.chip, why));
  return out;
}

}  // namespace trine::compile
