// The table of stream passes; see pipeline.h.
#include "compile/stream/pipeline.h"

#include <algorithm>

#include "arch/asm/asm.h"
#include "arch/asm/kernel.h"
#include "arch/program/verify.h"
#include "base/text.h"
#include "compile/stream/forward.h"
#include "compile/stream/hoist.h"
#include "compile/stream/interleave.h"
#include "compile/stream/join.h"
#include "compile/stream/memory/allocate.h"
#include "compile/stream/memory/versions.h"
#include "compile/stream/merge.h"
#include "compile/stream/registers.h"
#include "compile/stream/semaphores.h"
#include "compile/stream/unroll.h"

namespace trine::compile {

namespace {

constexpr std::string_view kForward = "forward", kHoist = "hoist", kUnroll = "unroll", kAllocate = "allocate";

bool has_loops(const StreamState& s) {
  return std::any_of(s.kernel.insns.begin(), s.kernel.insns.end(), arch::begins_loop);
}

// Kernels of NKI's functional dialect, whose loops are unrolled while tracing, where the user placed nothing: tensors
// of one's own address may lie over each other.
bool has_middle_end(const StreamState& s) {
  const auto fixed = [](const Origin& o) { return o.fixed_address; };
  return s.kernel.middle_end && s.kernel.program().cores == 1 && !has_loops(s) &&
         std::none_of(s.kernel.origins.begin(), s.kernel.origins.end(), fixed);
}

Result<void> refuse(StreamState& s, Diagnostic why) {
  s.why = std::move(why);
  return s.why.error();
}

// Runs what may leave too much for the memory there is; `changes`: true when it did anything.
Result<void> run_undoable(StreamState& s, std::string_view pass, bool (*changes)(Kernel&)) {
  Kernel before = s.kernel;
  if (changes(s.kernel)) s.given.push_back({pass, std::move(before)});
  return {};
}

// Of a kernel whose author left PSUM to the compiler: how its short tiles lie, by the schedule that comes of it.
constexpr int kPsumShares[] = {2, 4};

Result<void> run_allocate(StreamState& s) {
  const bool tries = s.is_nki && psum_has_both(s.kernel);
  const std::optional<Kernel> before = tries ? std::optional(s.kernel) : std::nullopt;
  if (auto problem = allocate(s.kernel)) return refuse(s, *std::move(problem));
  double best = tries ? scheduled_ns(s.kernel, find_edges(s.kernel)) : 0;
  for (const int share : kPsumShares) {
    if (!tries) break;
    Kernel other = *before;
    if (allocate(other, share)) continue;
    if (const double ns = scheduled_ns(other, find_edges(other)); ns < best) best = ns, s.kernel = std::move(other);
  }
  s.has_addresses = true;
  return {};
}

Result<void> run_semaphores(StreamState& s) {
  if (auto inserted = insert_semaphores(s.kernel, s.edges, s.schedule); !inserted)
    return refuse(s, diagnostic_of(inserted.error(), "semaphores"));
  s.program = s.kernel.builder.take();
  return {};
}

// Without room, first without what unrolling repeated, then without what was hoisted, then with all tiles in SBUF.
std::string_view retreat(StreamState& s, std::string_view failed) {
  if (failed != kAllocate) std::erase_if(s.given, [](const auto& given) { return given.pass == kUnroll; });
  if (s.given.empty()) return {};
  const std::string_view back = s.given.back().pass;
  s.kernel = std::move(s.given.back().kernel);
  s.given.pop_back();
  return back;
}

constexpr PassForm<StreamState> kKernel{
    "kernel",
    [](const StreamState& s) { return kernel_sizes(s.kernel); },
    [](const StreamState& s) { return arch::disassemble(s.kernel, s.has_addresses); },
    [](const StreamState& s) { return verify_kernel(s.kernel); },
};

constexpr PassForm<StreamState> kDependences{
    "dependences",
    [](const StreamState& s) {
      int64_t edges = 0;
      for (uint32_t i = 0; i < s.kernel.insns.size(); ++i) edges += int64_t(s.edges.before(i).size());
      return std::vector<PassSize>{{"dependences", edges}};
    },
    [](const StreamState& s) { return dependences_text(s.kernel, s.edges); },
};

constexpr PassForm<StreamState> kSchedule{
    "schedule",
    [](const StreamState& s) {
      int64_t steps = 0;
      for (const auto& core : s.schedule) steps += int64_t(core.size());
      return std::vector<PassSize>{{"instructions", steps}};
    },
    [](const StreamState& s) { return schedule_text(s.kernel, s.schedule); },
};

constexpr PassForm<StreamState> kProgram{
    "program",
    [](const StreamState& s) {
      return std::vector<PassSize>{{"streams", int64_t(s.program->streams.size())},
                                   {"instructions", s.program->instruction_count()}};
    },
    [](const StreamState& s) { return arch::disassemble(*s.program); },
    [](const StreamState& s) { return arch::first_error(arch::verify(*s.program, *s.kernel.chip)); },
};

// Of kernels whose author left memory and engines to the compiler, on NeuronCore-v2.
bool forwards(const StreamState& s) { return !s.hoists && !s.kernel.chip->has(arch::Feature::vector_fast_modes); }

constexpr Pass<StreamState> kPasses[] = {
    {.name = "merge",
     .run = [](StreamState& s) { return merge_equal(s.kernel), Result<void>(); },
     .needs = "kernel",
     .form = &kKernel,
     .help =
         "what is loaded or computed again from the same is made once, where SBUF holds it; NKI's functional dialect",
     .applies = has_middle_end},
    {.name = "join",
     .run = [](StreamState& s) { return join_loops(s.kernel), Result<void>(); },
     .needs = "kernel",
     .form = &kKernel,
     .help = "loops that pass more to each other than SBUF holds become one; NKI's functional dialect",
     .applies = has_middle_end},
    {.name = "interleave",
     .run = [](StreamState& s) { return interleave_sums(s.kernel), Result<void>(); },
     .needs = "kernel",
     .form = &kKernel,
     .help = "sums that multiply by the same stationary tiles go side by side; NKI's functional dialect",
     .applies = has_middle_end},
    {.name = kForward,
     .run = [](StreamState& s) { return run_undoable(s, kForward, forward_through_psum); },
     .needs = "kernel",
     .form = &kKernel,
     .help = "what one instruction makes for the next alone, one of two inputs, goes there through PSUM",
     .applies = forwards},
    {.name = kHoist,
     .run = [](StreamState& s) { return run_undoable(s, kHoist, hoist_from_loops); },
     .needs = "kernel",
     .form = &kKernel,
     .help = "what every iteration of a loop would make alike is made once, before it, where there is room",
     .applies = [](const StreamState& s) { return s.hoists && has_loops(s); }},
    {.name = kUnroll,
     .run = [](StreamState& s) { return run_undoable(s, kUnroll, unroll_loops); },
     .needs = "kernel",
     .form = &kKernel,
     .help = "loops whose iterations fill tiles of their own are repeated inside, so that iterations overlap",
     .applies = has_loops},
    {.name = "registers",
     .run = [](StreamState& s) { return settle_registers(s.kernel), Result<void>(); },
     .needs = "kernel",
     .leaves = "registers",
     .form = &kKernel,
     .help = "whatever computes a register is repeated on each engine that reads it"},
    {.name = "versions",
     .run = [](StreamState& s) { return split_versions(s.kernel), Result<void>(); },
     .needs = "registers",
     .leaves = "versions",
     .form = &kKernel,
     .help = "a tensor that is overwritten as a whole is another tensor from there on"},
    {.name = kAllocate,
     .run = run_allocate,
     .needs = "registers versions",
     .leaves = "addresses",
     .form = &kKernel,
     .help = "addresses in SBUF and PSUM by live range; what has no room is spilled"},
    {.name = "dependences",
     .run = [](StreamState& s) { return s.edges = find_edges(s.kernel), Result<void>(); },
     .needs = "addresses",
     .leaves = "dependences",
     .form = &kDependences,
     .help = "which instructions must be over before which, from the bytes they touch"},
    {.name = "schedule",
     .run = [](StreamState& s) { return s.schedule = schedule(s.kernel, s.edges), Result<void>(); },
     .needs = "dependences",
     .leaves = "schedule",
     .form = &kSchedule,
     .help = "the order of instructions, the engine of each, and the queue of each transfer",
     .is_stage = true},
    {.name = "semaphores",
     .run = run_semaphores,
     .needs = "schedule",
     .leaves = "program",
     .form = &kProgram,
     .help = "a stream for each engine, with semaphores where one waits for another"},
};

}  // namespace

Result<void> rearrange(Kernel& kernel) {
  StreamState state{.kernel = kernel};
  for (const auto& pass : kPasses) {
    if (pass.applies != has_middle_end || !has_middle_end(state)) continue;
    if (auto done = pass.run(state); !done) return done.error();
  }
  return {};
}

const Pipeline<StreamState>& stream_pipeline() {
  static constexpr Pipeline<StreamState> kPipeline{"stream", kPasses, retreat};
  return kPipeline;
}

}  // namespace trine::compile
