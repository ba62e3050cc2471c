// From the recorded kernel to the Program: the passes in their order; see trace.h.
#include <algorithm>

#include "base/text.h"
#include "front/nki/place.h"
#include "front/nki/registers.h"
#include "front/nki/trace.h"
#include "front/nki/unroll.h"
#include "front/nki/versions.h"
#include "front/nki/weave.h"

namespace trine::front {

static std::optional<Complaint> settle(Kernel& kernel) {
  settle_registers(kernel);
  split_versions(kernel);
  return place(kernel);
}

Result<arch::Program> Trace::finish() {
  file_ = {}, line_ = 0;
  if (finished_) return wrong("finish", "a second finish()", "one; make a new trace");
  for (const arch::LoopNest& nest : loops_)
    if (nest.depth) return wrong("loops", "a loop without end_loop", "every loop closed");
  finished_ = true;
  join_depends();
  std::optional<Kernel> plain;
  if (std::any_of(kernel_.works.begin(), kernel_.works.end(), begins_loop)) plain = kernel_;
  const bool unrolled = plain && unroll_loops(kernel_);
  auto problem = settle(kernel_);
  if (problem && unrolled) {  // the repeats have no room
    kernel_ = *std::move(plain);
    problem = settle(kernel_);
  }
  if (problem) return complain(*std::move(problem));
  const Edges edges = find_edges(kernel_);
  auto woven = weave(kernel_, edges, schedule(kernel_, edges));
  if (!woven) return complain(complaint_of(woven.error(), "semaphores"));
  arch::Program out = kernel_.builder.take();
  const auto findings = arch::verify(out, *kernel_.chip);
  if (!findings.empty()) return complain(complaint_of(findings[0].error, "verifier"));
  return out;
}

}  // namespace trine::front
