// Host plan to text; see text.h. A new field of a step is to be printed here.
#include "arch/plan/text.h"

#include <algorithm>

#include "base/format/sha256.h"
#include "base/text.h"

namespace trine::arch {

namespace {

constexpr size_t kConstantBytes = 32;  // printed in full; longer ones by their hash

template <class T, class F>
std::string listed(const std::vector<T>& items, F&& one) {
  std::string out = "[";
  for (size_t i = 0; i < items.size(); ++i) append_text(out, cat(i ? "," : "", one(items[i])));
  return out + "]";
}
template <class T>
std::string listed(const std::vector<T>& items) {
  return listed(items, [](const auto& v) { return cat(v); });
}
std::string real(double v) { return v != v ? std::string("nan") : shortest(v); }

std::string indented(std::string_view text, std::string_view by) {
  std::string out;
  for (std::string_view line : split(text, '\n'))
    if (!line.empty()) append_text(out, cat(by, line, "\n"));
  return out;
}

std::string slot_text(const Slot& s) {
  static constexpr std::string_view kKinds[] = {"input", "output", "constant", "temporary"};
  const bool in_arena = s.kind == SlotKind::temporary;
  return cat(kKinds[size_t(s.kind)], in_arena ? " +" : " ", in_arena ? s.offset : int64_t(s.index), " ",
             shape_text(s.dtype, s.dims), s.same_as == kNoSlot ? "" : cat(" same as ", s.same_as));
}

std::string constant_text(const trine::Tensor& t) {
  const std::string_view bytes(reinterpret_cast<const char*>(t.data.get()), t.bytes());
  std::string out = cat(shape_text(t.dtype, t.dims), " ");
  if (bytes.size() > kConstantBytes) return cat(out, "sha256 ", hex(sha256(bytes)));
  constexpr char kHex[] = "0123456789abcdef";
  for (unsigned char b : bytes) out += kHex[b >> 4], out += kHex[b & 15];
  return out;
}

std::string epilogue_text(const StepEpilogue& e) {
  if (!e.program) return "";
  return cat(e.keeps_product ? "epilogue beside the product\n" : "epilogue\n", indented(text(*e.program), "  "));
}

std::string nested(std::string_view what, const std::shared_ptr<const HostPlan>& plan) {
  return cat(what, "\n", plan ? indented(text(*plan), "  ") : "");
}

// The first line goes behind the step's number, the others below it.
struct StepText {
  std::string operator()(const CallStep& s) { return cat("call ", s.op, "\n", s.text ? s.text() : ""); }
  std::string operator()(const LoopStep& s) { return cat("tile\n", text(s.program)); }
  std::string operator()(const GemmStep& s) {
    const auto view = [](const GemmStep::View& v) { return cat(v.offset, "+", v.row_stride, "+", v.col_stride); };
    const auto batch = [](const GemmStep::Batch& b) { return cat(b.size, ":", b.a, ":", b.b, ":", b.c); };
    return cat("gemm ", s.m, "x", s.n, "x", s.k, " a ", view(s.a), " b ", view(s.b), " c ", view(s.c), " batch ",
               listed(s.batch, batch), "\n", epilogue_text(s.epilogue));
  }
  std::string operator()(const ConvStep& s) {
    std::string out =
        cat("conv batch ", s.batch, " channels ", s.in_channels, " to ", s.out_channels, " groups ", s.groups, " x ",
            s.x_offset, "+", s.x_batch, "+", s.x_channel, "+", s.x_group, " w ", s.w_offset, "+", s.w_in, "+", s.w_out,
            "+", s.w_group, " y ", s.y_batch, "+", s.y_channel, "+", s.y_group, "\n");
    for (const ConvStep::Spatial& d : s.spatial)
      append_text(out, cat("spatial in ", d.in, " kernel ", d.kernel, " out ", d.out, " step ", d.step, " low ", d.low,
                           " dilation ", d.in_dilation, " ", d.kernel_dilation, d.reversed ? " reversed" : "",
                           " strides ", d.x, " ", d.w, " ", d.y, "\n"));
    return out + epilogue_text(s.epilogue);
  }
  std::string operator()(const AttentionStep& s) {
    const auto view = [](const AttentionStep::View& v) {
      return cat(v.offset, "+", v.batch, "+", v.head, "+", v.position, "+", v.dim);
    };
    const auto patch = [&](const AttentionStep::Patch& p) { return cat(p.count, " at ", view(p.view)); };
    return cat("attention batch ", s.batch, " heads ", s.heads, " of ", s.kv_heads, " queries ", s.queries, " keys ",
               s.keys, " dim ", s.dim, " value_dim ", s.value_dim, " scale ", real(s.scale),
               s.causal ? cat(" causal ", s.causal_offset) : "", "\nq ", view(s.q), " k ", view(s.k), " v ", view(s.v),
               " out ", view(s.out), s.has_bias ? cat(" bias ", view(s.bias), " masked ", real(s.masked)) : "",
               "\npatch k ", patch(s.k_patch), " of ", s.k_positions, " v ", patch(s.v_patch), " of ", s.v_positions,
               "\n");
  }
  std::string operator()(const MoveStep& s) {
    static constexpr std::string_view kKinds[] = {"slice", "update", "concatenate", "pad"};
    return cat("move ", kKinds[size_t(s.kind)], " dim ", s.dim, " low ", listed(s.low), " gaps ", listed(s.gaps), "\n");
  }
  std::string operator()(const WindowStep& s) {
    static constexpr std::string_view kKinds[] = {"gather", "set", "add", "multiply", "maximum", "minimum"};
    const auto loop = [](const WindowStep::Loop& l) {
      return cat(l.size, ":", l.many, ":", l.operand, ":", l.indices);
    };
    const auto start = [](const WindowStep::Start& b) { return cat(b.indices, ":", b.operand, ":", b.most); };
    const auto side = [](const WindowStep::Side& d) { return cat(d.size, ":", d.many, ":", d.operand); };
    return cat("window ", kKinds[size_t(s.kind)], " windows ", listed(s.windows, loop), " starts ",
               listed(s.starts, start), " window ", listed(s.window, side), s.is_disjoint ? " disjoint" : "", "\n",
               s.updates ? cat("updates ", (*this)(*s.updates)) : "");
  }
  std::string operator()(const CopyStep&) { return "copy\n"; }
  std::string operator()(const WhileStep& s) {
    return cat("while in place ", listed(s.in_place), "\n", nested("cond", s.cond), nested("body", s.body));
  }
  std::string operator()(const CaseStep& s) {
    std::string out = "case\n";
    for (const auto& branch : s.branches) out += nested("branch", branch);
    return out;
  }
  std::string operator()(const CollectiveStep& s) {
    static constexpr std::string_view kKinds[] = {"all_reduce", "reduce_scatter", "all_gather",   "all_to_all",
                                                  "permute",    "broadcast",      "partition_id", "replica_id"};
    const auto pair = [](const std::pair<int64_t, int64_t>& p) { return cat(p.first, ">", p.second); };
    return cat("collective ", kKinds[size_t(s.kind)], s.reduction.empty() ? "" : " ", s.reduction, " groups ",
               listed(s.groups, [](const auto& g) { return listed(g); }), " pairs ", listed(s.pairs, pair), " dim ",
               s.dim, " other_dim ", s.other_dim, " split ", s.split_count, " channel ", s.channel,
               s.is_global ? " global" : "", "\n", s.reduce ? nested("reduce", s.reduce) : "");
  }
};

std::string step_text(const HostPlan& plan, const Step& step) {
  const std::string whole = std::visit(StepText(), step.what);
  const std::string_view all = whole;
  const auto end = size_t(std::find(all.begin(), all.end(), '\n') - all.begin());
  const std::string& location = plan.locations[step.where];
  return cat(all.substr(0, end), " ", listed(step.in), " -> ", listed(step.out),
             location.empty() ? "" : cat(" at ", location), "\n", indented(all.substr(end + 1), "    "));
}

}  // namespace

std::string text(const HostPlan& plan) {
  std::string out = cat("inputs ", listed(plan.inputs), " outputs ", listed(plan.outputs), " donations ",
                        listed(plan.donations), " in place ", listed(plan.in_place), "\narena ", plan.arena_bytes,
                        " bytes, flops ", real(plan.flops), ", moved ", real(plan.moved_bytes), " bytes\n");
  for (size_t i = 0; i < plan.slots.size(); ++i) append_text(out, cat("slot ", i, " ", slot_text(plan.slots[i]), "\n"));
  for (size_t i = 0; i < plan.constants.size(); ++i)
    append_text(out, cat("constant ", i, " ", constant_text(plan.constants[i]), "\n"));
  for (size_t i = 0; i < plan.steps.size(); ++i) append_text(out, cat("step ", i, " ", step_text(plan, plan.steps[i])));
  return out;
}

}  // namespace trine::arch
