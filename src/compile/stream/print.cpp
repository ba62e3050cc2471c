// A kernel, its dependences and its schedule as text, for whoever looks on between passes; see pipeline.h.
#include "arch/asm/kernel.h"
#include "base/text.h"
#include "compile/stream/pipeline.h"

namespace trine::compile {

std::string dependences_text(const Kernel& kernel, const Edges& edges) {
  std::string out;
  for (uint32_t w = 0; w < kernel.insns.size(); ++w) {
    append_text(out, cat(w, " ", arch::describe_insn(kernel, kernel.insns[w])));
    for (const EdgeKind kind : {EdgeKind::data, EdgeKind::anti}) {
      bool any = false;
      for (const Edge& edge : edges.before(w)) {
        if (edge.kind != kind) continue;
        if (!any) out += kind == EdgeKind::data ? " | after" : " | overwrites what is read by";
        append_text(out, cat(" ", edge.insn));
        any = true;
      }
    }
    out += '\n';
  }
  return out;
}

std::string schedule_text(const Kernel& kernel, const std::vector<std::vector<Step>>& schedule) {
  std::string out;
  for (size_t core = 0; core < schedule.size(); ++core) {
    if (schedule.size() > 1) append_text(out, cat("core ", core, "\n"));
    for (const Step& step : schedule[core]) {
      const KernelInsn& insn = kernel.insns[step.insn];
      const std::string queue = insn.unit() == arch::Unit::queue ? cat(" queue ", step.queue) : std::string();
      append_text(out, cat(step.insn, " ", name(step.engine), queue, ": ", arch::describe_insn(kernel, insn), "\n"));
    }
  }
  return out;
}

std::vector<PassSize> kernel_sizes(const Kernel& kernel) {
  return {{"instructions", int64_t(kernel.insns.size())}, {"tensors", int64_t(kernel.program().tensors.size())}};
}

// As dependences.cpp follows them: the loops of each core apart.
Result<void> verify_kernel(const Kernel& kernel) {
  const arch::Program& p = kernel.program();
  std::vector<arch::LoopNest> nests(p.cores);
  for (size_t w = 0; w < kernel.insns.size(); ++w) {
    const KernelInsn& insn = kernel.insns[w];
    const auto wrong = [&](const Error& error) {
      return fail(error.code, cat("instruction ", w, ", ", arch::describe_insn(kernel, insn), ": ", error.message),
                  error.where);
    };
    if (insn.core >= p.cores) return wrong(fail(Code::invalid, "no such core"));
    if (!insn.engines) return wrong(fail(Code::invalid, "no engine may run it"));
    for (uint32_t i = 0; i < insn.afters; ++i)
      if (kernel.afters[insn.after + i] >= w) return wrong(fail(Code::invalid, "it waits for a later instruction"));
    arch::LoopNest& nest = nests[insn.core];
    if (ends_loop(insn) && --nest.depth < 0) return wrong(fail(Code::invalid, "a loop ends that did not begin"));
    for (int e = 0; e < kEngines; ++e)
      if (insn.engines & (1 << e))
        if (auto sound = arch::check_on(kernel, insn, arch::Engine(e), nest); !sound) return wrong(sound.error());
    if (!begins_loop(insn)) continue;
    const arch::Operand& count = p.operands[insn.operand];
    const bool is_known = count.kind == arch::OperandKind::immediate;
    if (nest.depth == arch::kLoopDepthMax) return wrong(fail(Code::invalid, "loops lie too deep in each other"));
    nest.iterations[size_t(nest.depth++)] = insn.repeats ? 1 : is_known ? int64_t(count.immediate) : -1;
  }
  for (const arch::LoopNest& nest : nests)
    if (nest.depth) return fail(Code::invalid, "a loop begins that does not end");
  return {};
}

}  // namespace trine::compile
