// One line per step; a slot's value is the last one written to it.
#include "api/program_text.h"

#include <map>

#include "base/text.h"

namespace trine::api {

namespace {

constexpr size_t kStepsShown = 64;

std::string type_text(const arch::Slot& slot) {
  std::string out = "tensor<";
  for (int64_t d : slot.dims) out += cat(d, "x");
  return cat(out, row(slot.dtype).abroad.stablehlo, ">");
}

std::string types_text(const arch::HostPlan& plan, const std::vector<arch::SlotId>& slots) {
  std::string out;
  for (size_t i = 0; i < slots.size(); ++i) out += cat(i ? ", " : "", type_text(plan.slots[slots[i]]));
  return cat("(", out, ")");
}

std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + "\"";
}

struct StepName {
  // XLA's readers know some targets by name, and look for what belongs to them.
  std::string operator()(const arch::CallStep& s) { return cat("op ", s.op); }
  std::string operator()(const arch::LoopStep&) { return "fused_loop"; }
  std::string operator()(const arch::GemmStep& s) {
    return cat("gemm ", s.m, "x", s.n, "x", s.k, s.epilogue.program ? " with a loop" : "");
  }
  std::string operator()(const arch::MoveStep& s) {
    static constexpr std::string_view kKinds[] = {"slice", "update", "concatenate", "pad"};
    return std::string(kKinds[size_t(s.kind)]);
  }
  std::string operator()(const arch::ConvStep& s) {
    return cat("convolution", s.epilogue.program ? " with a loop" : "");
  }
  std::string operator()(const arch::AttentionStep& s) {
    return cat("attention ", s.heads, "x", s.queries, "x", s.keys, s.causal ? " causal" : "");
  }
  std::string operator()(const arch::WindowStep& s) {
    static constexpr std::string_view kKinds[] = {"gather",           "scatter set",     "scatter add",
                                                  "scatter multiply", "scatter maximum", "scatter minimum"};
    return std::string(kKinds[size_t(s.kind)]);
  }
  std::string operator()(const arch::CopyStep&) { return "copy"; }
  std::string operator()(const arch::WhileStep& s) { return cat("while of ", s.body->steps.size(), " steps"); }
  std::string operator()(const arch::CaseStep& s) { return cat("case of ", s.branches.size(), " branches"); }
  std::string operator()(const arch::CollectiveStep& s) {
    static constexpr std::string_view kKinds[] = {"all_reduce", "reduce_scatter", "all_gather",   "all_to_all",
                                                  "permute",    "broadcast",      "partition_id", "replica_id"};
    return cat(kKinds[size_t(s.kind)], s.reduction.empty() ? "" : " ", s.reduction);
  }
  std::string operator()(const auto&) { return "kernel"; }
};

// "[dense<[1, 0]> : tensor<2xindex>]", minor to major.
std::string layouts_text(const arch::HostPlan& plan, const std::vector<arch::SlotId>& slots,
                         const std::vector<Dims>& layouts) {
  std::string out;
  for (size_t i = 0; i < slots.size(); ++i) {
    const size_t rank = plan.slots[slots[i]].dims.size();
    std::string order = compile::layout_text(layouts[i], rank);
    order.front() = '[';
    order.back() = ']';
    out += cat(i ? ", " : "", "dense<", rank ? order : "", "> : tensor<", rank, "xindex>");
  }
  return cat("[", out, "]");
}

class Body {
 public:
  explicit Body(const arch::HostPlan& plan) : plan_(plan) {
    for (size_t i = 0; i < plan.inputs.size(); ++i) values_[plan.inputs[i]] = cat("%arg", i);
  }

  void call(std::string_view name, const std::vector<arch::SlotId>& in, const std::vector<arch::SlotId>& out) {
    std::string inputs;
    for (size_t i = 0; i < in.size(); ++i) inputs += cat(i ? ", " : "", value(in[i]));
    const std::string result = cat("%", results_++);
    text_ += cat("    ", out.empty() ? "" : cat(result, out.size() > 1 ? cat(":", out.size()) : "", " = "),
                 "stablehlo.custom_call @", quoted(name), "(", inputs,
                 ") {has_side_effect = true} : ", types_text(plan_, in), " -> ", types_text(plan_, out), "\n");
    for (size_t i = 0; i < out.size(); ++i) values_[out[i]] = out.size() > 1 ? cat(result, "#", i) : result;
  }
  std::string finish() {
    std::string outputs;
    for (size_t i = 0; i < plan_.outputs.size(); ++i) outputs += cat(i ? ", " : "", value(plan_.outputs[i]));
    const std::string types = types_text(plan_, plan_.outputs);
    text_ += plan_.outputs.empty() ? "    return\n"
                                   : cat("    return ", outputs, " : ", types.substr(1, types.size() - 2), "\n");
    return std::move(text_);
  }

 private:
  // A slot that no step has written is a constant, or shares another's bytes.
  std::string value(arch::SlotId id) {
    if (!values_.contains(id)) call("constant", {}, {id});
    return values_[id];
  }

  const arch::HostPlan& plan_;
  std::map<arch::SlotId, std::string> values_;
  std::string text_;
  int results_ = 0;
};

}  // namespace

std::string step_name(const arch::Step& step) { return std::visit(StepName(), step.what); }

std::shared_ptr<const arch::HostPlan> shown_plan(const Executable& executable) {
  if (executable.layouts.are_all_default()) return executable.plan;
  auto out = std::make_shared<arch::HostPlan>();
  out->slots = executable.plan->slots;
  out->inputs = executable.plan->inputs;
  out->outputs = executable.plan->outputs;
  for (size_t i = 0; i < out->inputs.size(); ++i) out->slots[out->inputs[i]].dims = executable.input_dims(i);
  for (size_t i = 0; i < out->outputs.size(); ++i) out->slots[out->outputs[i]].dims = executable.output_dims(i);
  return out;
}

std::string program_text(const Executable& executable) {
  const auto shown = shown_plan(executable);
  const arch::HostPlan& plan = *shown;
  const size_t steps = executable.plan->steps.size();
  Body body(plan);
  if (shown == executable.plan && steps <= kStepsShown) {
    for (const arch::Step& step : plan.steps) body.call(step_name(step), step.in, step.out);
  } else {
    body.call(cat("program of ", steps, " steps"), plan.inputs, plan.outputs);
  }
  std::string attributes = cat("mhlo.num_partitions = ", executable.options.partitions,
                               " : i32, mhlo.num_replicas = ", executable.options.replicas, " : i32");
  if (!executable.shardings.results.empty()) {
    const auto& results = executable.shardings.results;
    attributes += cat(
        ", mhlo.spmd_output_sharding = ", quoted(results.size() == 1 ? results[0] : cat("{", join(results, ","), "}")),
        ", mhlo.spmd_parameters_shardings = [");
    const auto& inputs = executable.shardings.inputs;
    for (size_t i = 0; i < inputs.size(); ++i) attributes += cat(i ? ", " : "", quoted(inputs[i]));
    attributes += "]";
  }
  if (shown != executable.plan)
    attributes += cat(", mhlo.xla_entry_computation_parameter_layouts = ",
                      layouts_text(plan, plan.inputs, executable.layouts.params));
  std::string signature;
  for (size_t i = 0; i < plan.inputs.size(); ++i)
    signature += cat(i ? ", " : "", "%arg", i, ": ", type_text(plan.slots[plan.inputs[i]]));
  return cat("module @", quoted(executable.name()), " attributes {", attributes, "} {\n  func.func public @main(",
             signature, ") -> ", types_text(plan, plan.outputs), " {\n", body.finish(), "  }\n}\n");
}

}  // namespace trine::api
