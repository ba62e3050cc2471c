// A host plan as text: its slots, then its steps with what they read and write; see pipeline.h. Loop nests are printed
// whole, other steps by what tells them apart. Not read back.
#include "base/text.h"
#include "compile/host/pipeline.h"
#include "ir/type.h"

namespace trine::compile {

namespace {

using arch::HostPlan;
using arch::Slot;
using arch::SlotId;
using arch::SlotKind;

std::string indented(const std::string& text, const std::string& indent) {
  std::string out;
  for (std::string_view line : split(text, '\n'))
    if (!line.empty()) append_text(out, cat(indent, line, "\n"));
  return out;
}

std::string slot_list(const std::vector<SlotId>& slots) {
  std::string out;
  for (SlotId id : slots) append_text(out, cat(out.empty() ? "%" : ", %", id));
  return out;
}

class PlanPrinter {
 public:
  explicit PlanPrinter(const HostPlan& plan, std::string indent) : plan_(plan), indent_(std::move(indent)) {}

  std::string all() {
    append_text(out_, cat(indent_, "slots, ", plan_.arena_bytes, " bytes of temporaries\n"));
    for (SlotId id = 0; id < plan_.slots.size(); ++id) slot(id);
    append_text(out_, cat(indent_, "steps\n"));
    for (const arch::Step& step : plan_.steps) {
      append_text(out_, cat(indent_, "  ", slot_list(step.out), step.out.empty() ? "" : " = "));
      std::visit([&](const auto& what) { one(what, step); }, step.what);
    }
    append_text(out_, cat(indent_, "return ", slot_list(plan_.outputs), "\n"));
    return std::move(out_);
  }

 private:
  void slot(SlotId id) {
    const Slot& s = plan_.slots[id];
    append_text(out_, cat(indent_, "  %", id, " ", ir::text(ir::tensor_type(s.dtype, s.dims))));
    if (s.same_as != arch::kNoSlot)
      append_text(out_, cat(" in %", s.same_as));
    else if (s.kind == SlotKind::temporary)
      append_text(out_, cat(" temporary at ", s.offset));
    else
      append_text(out_, cat(" ",
                            s.kind == SlotKind::input    ? "input "
                            : s.kind == SlotKind::output ? "output "
                                                         : "constant ",
                            s.index));
    for (size_t o = 0; o < plan_.in_place.size(); ++o)
      if (s.same_as == arch::kNoSlot && s.kind == SlotKind::output && s.index == o && plan_.in_place[o] >= 0)
        append_text(out_, cat(", maybe over input ", plan_.in_place[o]));
    out_ += '\n';
  }

  void head(std::string_view name, const arch::Step& step) {
    append_text(out_, cat(name, step.in.empty() ? "" : " ", slot_list(step.in)));
  }
  void loop(const arch::LoopProgram& program) { out_ += indented(arch::text(program), indent_ + "    "); }
  void epilogue(const arch::StepEpilogue& e) {
    if (e.program) append_text(out_, e.keeps_product ? ", kept, then" : ", then");
    out_ += '\n';
    if (e.program) loop(*e.program);
  }
  void inside(std::string_view name, const HostPlan& plan) {
    append_text(out_, cat(indent_, "    ", name, "\n", PlanPrinter(plan, indent_ + "      ").all()));
  }

  void one(const arch::CallStep& call, const arch::Step& step) {
    head(cat("call ", call.op), step);
    out_ += '\n';
  }
  void one(const arch::LoopStep& loop_op, const arch::Step& step) {
    head("loop", step);
    out_ += '\n';
    loop(loop_op.program);
  }
  void one(const arch::GemmStep& g, const arch::Step& step) {
    head("multiply", step);
    append_text(out_, cat(" [", g.m, ",", g.k, "] x [", g.k, ",", g.n, "]"));
    int64_t batch = 1;
    for (const auto& b : g.batch) batch *= b.size;
    if (batch > 1) append_text(out_, cat(" of ", batch));
    append_text(out_, cat(" strides ", g.a.row_stride, " ", g.a.col_stride, ", ", g.b.row_stride, " ", g.b.col_stride));
    epilogue(g.epilogue);
  }
  void one(const arch::ConvStep& c, const arch::Step& step) {
    head("convolution", step);
    append_text(out_, cat(" ", c.batch, " of ", c.in_channels, " to ", c.out_channels, " channels"));
    if (c.groups > 1) append_text(out_, cat(" in ", c.groups, " groups"));
    for (const auto& s : c.spatial) append_text(out_, cat(", window ", s.kernel, " over ", s.in, " by ", s.step));
    epilogue(c.epilogue);
  }
  void one(const arch::AttentionStep& a, const arch::Step& step) {
    head("attention", step);
    append_text(out_,
                cat(" batch ", a.batch, ", heads ", a.heads, " of ", a.kv_heads, ", queries ", a.queries, ", keys ",
                    a.keys, ", dim ", a.dim, a.causal ? ", causal" : "", a.has_bias ? ", biased" : "", "\n"));
  }
  void one(const arch::MoveStep& m, const arch::Step& step) {
    constexpr std::string_view kKinds[] = {"slice", "update", "concatenate", "pad"};
    head(kKinds[size_t(m.kind)], step);
    out_ += '\n';
  }
  void one(const arch::WindowStep& w, const arch::Step& step) {
    constexpr std::string_view kKinds[] = {"gather",           "scatter set",     "scatter add",
                                           "scatter multiply", "scatter maximum", "scatter minimum"};
    head(kKinds[size_t(w.kind)], step);
    if (w.updates) out_ += ", of gathered windows";
    out_ += '\n';
  }
  void one(const arch::CopyStep&, const arch::Step& step) {
    head("copy", step);
    out_ += '\n';
  }
  void one(const arch::WhileStep& w, const arch::Step& step) {
    head("while", step);
    out_ += '\n';
    inside("condition", *w.cond);
    inside("body", *w.body);
  }
  void one(const arch::CaseStep& c, const arch::Step& step) {
    head("case", step);
    out_ += '\n';
    for (const auto& branch : c.branches) inside("branch", *branch);
  }
  void one(const arch::CollectiveStep& c, const arch::Step& step) {
    constexpr std::string_view kKinds[] = {"all_reduce", "reduce_scatter", "all_gather",   "all_to_all",
                                           "permute",    "broadcast",      "partition_id", "replica_id"};
    head(kKinds[size_t(c.kind)], step);
    out_ += '\n';
  }

  const HostPlan& plan_;
  const std::string indent_;
  std::string out_;
};

}  // namespace

std::string plan_text(const HostPlan& plan) { return PlanPrinter(plan, "").all(); }

}  // namespace trine::compile
