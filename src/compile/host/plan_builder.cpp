// Steps from units in order; loops and branches become plans of their own.
#include "compile/host/plan_builder.h"

#include <algorithm>
#include <unordered_set>

#include "compile/host/collective.h"
#include "compile/host/conv.h"
#include "compile/host/epilogue.h"
#include "compile/host/native.h"
#include "compile/host/windows.h"
#include "compile/thresholds.h"
#include "ir/op_ids.h"
#include "ir/rewrite.h"
#include "ir/text.h"
#include "ops/evaluate.h"

namespace trine::compile {

using arch::HostPlan;
using arch::Slot;
using arch::SlotId;
using arch::SlotKind;
using arch::Step;

namespace {

namespace tuned = thresholds::host_plan;

bool is_constant(const ir::Value& v) { return v.node->op == op::constant; }

// What a region uses of the graph around it, less what it makes anew.
std::vector<ir::Value> used_by(const ir::Node& node) {
  std::vector<ir::Value> used;
  for (const ir::Value& v : node.captures)
    if (!is_made_anew(*v.node)) used.push_back(v);
  return used;
}

bool has_dense_columns(const Product& p) { return p.columns.size == 1 || p.columns.stride == 1; }

}  // namespace

SlotId PlanBuilder::add_slot(const ir::Value& value, SlotKind kind, uint32_t index) {
  const ir::Type& t = value.type();
  Slot slot{.kind = kind, .dtype = t.dtype, .dims = t.dims, .index = index};
  if (t.is_token) slot.dtype = Dtype::boolean, slot.dims = {0};  // as JAX passes them
  plan_->slots.push_back(std::move(slot));
  return SlotId(plan_->slots.size() - 1);
}

SlotId PlanBuilder::slot_of(const ir::Value& value) {
  auto found = state_.slots.find(value);
  if (found != state_.slots.end()) return found->second;
  SlotId id;
  if (is_constant(value)) {
    id = add_slot(value, SlotKind::constant, uint32_t(plan_->constants.size()));
    plan_->constants.push_back(*value.node->attrs.tensor("value"));
  } else if (is_alias(*value.node) && fusion_.views.count(value.node)) {
    const SlotId base = slot_of(value.node->inputs[0]);
    id = add_slot(value, SlotKind::temporary, 0);
    plan_->slots[id].same_as = base;
  } else {
    id = add_slot(value, SlotKind::temporary, 0);
  }
  state_.slots.emplace(value, id);
  return id;
}

std::vector<SlotId> PlanBuilder::slots_of(std::span<const ir::Value> values) {
  std::vector<SlotId> out;
  for (const ir::Value& v : values) out.push_back(slot_of(v));
  return out;
}

Result<void> PlanBuilder::steps() {
  for (size_t i = 0; i < state_.inputs.size(); ++i) {
    const SlotId id = add_slot(state_.inputs[i], SlotKind::input, uint32_t(i));
    plan_->inputs.push_back(id);
    state_.slots.emplace(state_.inputs[i], id);
  }
  for (const Unit& unit : fusion_.units) {
    const ir::Node* first = unit.single ? unit.single : unit.roots.front();
    Step step = TRY(step_for(unit));
    step.where = first->where;
    plan_->steps.push_back(std::move(step));
  }
  return {};
}

SlotId PlanBuilder::base_of(SlotId id) const {
  while (plan_->slots[id].same_as != arch::kNoSlot) id = plan_->slots[id].same_as;
  return id;
}

// A temporary that is a result becomes the caller's memory; what is not one, or is one already, is copied.
void PlanBuilder::outputs() {
  const std::vector<ir::Value>& results = state_.results;
  for (size_t i = 0; i < results.size(); ++i) {
    SlotId id = slot_of(results[i]);
    Slot& base = plan_->slots[base_of(id)];
    if (base.kind == SlotKind::temporary) {
      base.kind = SlotKind::output;
      base.index = uint32_t(i);
    } else {
      const SlotId copy = add_slot(results[i], SlotKind::output, uint32_t(i));
      plan_->steps.push_back({.what = arch::CopyStep{}, .in = {id}, .out = {copy}});
      id = copy;
    }
    plan_->outputs.push_back(id);
  }
}

void PlanBuilder::lines() {
  std::unordered_map<uint32_t, uint32_t> renamed;
  for (Step& step : plan_->steps) {
    if (step.where == 0) continue;
    auto [it, fresh] = renamed.emplace(step.where, uint32_t(plan_->locations.size()));
    if (fresh) plan_->locations.push_back(graph_->location(step.where));
    step.where = it->second;
  }
}

Result<Step> PlanBuilder::step_for(const Unit& unit) {
  if (unit.product) return product_step(unit);
  if (unit.is_loop()) return loop_steps(unit);
  if (unit.attention) return attention_step(*unit.attention);
  if (unit.single->op == op::while_) return while_step(*unit.single);
  Step step = TRY(node_step(*unit.single));
  for (uint32_t r = 0; r < unit.single->types.size(); ++r) step.out.push_back(slot_of(unit.single->result(r)));
  return step;
}

// All steps but the last are added here.
Result<Step> PlanBuilder::loop_steps(const Unit& unit) {
  std::vector<LoopCode> codes = TRY(emit_loops(unit));
  for (size_t i = 0; i + 1 < codes.size(); ++i) {
    Step step = TRY(loop_step(std::move(codes[i])));
    step.where = unit.roots.front()->where;
    plan_->steps.push_back(std::move(step));
  }
  return loop_step(std::move(codes.back()));
}

Result<Step> PlanBuilder::loop_step(LoopCode code) {
  const std::vector<SlotId> all = slots_of(code.operands);
  return Step{.what = arch::LoopStep{std::move(code.program)},
              .in = {all.begin(), all.begin() + ptrdiff_t(code.inputs)},
              .out = {all.begin() + ptrdiff_t(code.inputs), all.end()}};
}

bool PlanBuilder::is_input(SlotId id) const { return plan_->slots[base_of(id)].kind == SlotKind::input; }

// The multiply becomes that of the transposed product where its loop then writes along columns, as that of a weight's
// gradient does. A product that is kept has its place, and a weight stays B, whose packed form is kept, unless there
// are so many rows that packing is nothing beside them.
std::optional<arch::LoopProgram> PlanBuilder::transposed_epilogue(Step& multiply, const arch::LoopProgram& loop,
                                                                  uint32_t read) const {
  auto* gemm = std::get_if<arch::GemmStep>(&multiply.what);
  if (!gemm || gemm->m == 1 || gemm->n == 1) return std::nullopt;
  if (gemm->n < tuned::kManyRows && is_input(multiply.in[1]) && !is_input(multiply.in[0])) return std::nullopt;
  arch::GemmStep transposed = *gemm;
  swap_sides(transposed);
  auto program = as_epilogue(loop, read, product_of(transposed));
  if (!program || !writes_along_columns(*program)) return std::nullopt;
  *gemm = std::move(transposed);
  std::swap(multiply.in[0], multiply.in[1]);
  return program;
}

// A multiply and the loop that reads it: one step if the loop goes along with the product's tiles, else two.
Result<Step> PlanBuilder::product_step(const Unit& unit) {
  Step multiply = TRY(node_step(*unit.product));
  LoopCode code = TRY(emit_loop(unit));
  std::vector<uint32_t> reads;
  for (uint32_t i = 0; i < code.inputs; ++i) {
    ir::Value from = code.operands[i];
    while (is_alias(*from.node) && fusion_.views.count(from.node)) from = from.node->inputs[0];
    if (from.node == unit.product) reads.push_back(i);
  }
  arch::StepEpilogue* epilogue = nullptr;
  std::optional<Product> product;
  arch::LoopProgram loop = code.program;
  arch::GemmStep whole;
  if (auto* gemm = std::get_if<arch::GemmStep>(&multiply.what)) {
    whole = *gemm;
    if (!unit.keeps_product && reads.size() == 1) narrow_to_read(*gemm, loop, reads[0]);
    epilogue = &gemm->epilogue;
    product = product_of(*gemm);
  }
  if (auto* conv = std::get_if<arch::ConvStep>(&multiply.what)) epilogue = &conv->epilogue, product = product_of(*conv);
  std::optional<arch::LoopProgram> program;
  if (reads.size() == 1 && product && has_dense_columns(*product)) program = as_epilogue(loop, reads[0], *product);
  if (reads.size() == 1 && !unit.keeps_product && !(program && writes_along_columns(*program)))
    if (auto transposed = transposed_epilogue(multiply, loop, reads[0])) program = std::move(transposed);
  if (!program || unit.keeps_product) multiply.out = {slot_of(unit.product->result())};
  if (!program) {
    if (std::holds_alternative<arch::GemmStep>(multiply.what)) multiply.what = std::move(whole);
    multiply.where = unit.product->where;
    plan_->steps.push_back(std::move(multiply));
    return loop_step(std::move(code));
  }
  *epilogue = {std::make_shared<const arch::LoopProgram>(*std::move(program)), unit.keeps_product};
  for (uint32_t i = 0; i < code.operands.size(); ++i) {
    if (i == reads[0]) continue;
    (i < code.inputs ? multiply.in : multiply.out).push_back(slot_of(code.operands[i]));
  }
  return multiply;
}

Result<Step> PlanBuilder::node_step(const ir::Node& node) {
  if (node.op == op::case_) return case_step(node);
  if (is_host_conv(node)) return conv_step(node);
  if (walks_operands(node)) return dot_step(node);
  if (is_collective(node)) return Step{.what = TRY(collective_step(node)), .in = slots_of(node.inputs)};
  if (node.op == op::dynamic_slice) return move_step(node, arch::MoveKind::slice);
  if (node.op == op::dynamic_update_slice) return move_step(node, arch::MoveKind::update);
  if (node.op == op::concatenate) return move_step(node, arch::MoveKind::concatenate);
  if (node.op == op::pad) return move_step(node, arch::MoveKind::pad);
  if (auto pool = plan_pool(node)) return pool_step(node, *std::move(pool));
  if (auto windows = plan_windows(node)) return Step{.what = *std::move(windows), .in = slots_of(node.inputs)};
  return call_step(node);
}

Step PlanBuilder::pool_step(const ir::Node& node, Pool pool) {
  SlotId x = slot_of(node.inputs[0]);
  const SlotId start = slot_of(node.inputs[1]);
  if (pool.pad) {
    const Dtype dtype = node.types[0].dtype;
    plan_->slots.push_back({.dtype = dtype, .dims = pool.padded});
    const SlotId padded = SlotId(plan_->slots.size() - 1), neutral = padded + 1;
    plan_->slots.push_back({.kind = SlotKind::constant, .dtype = dtype, .index = uint32_t(plan_->constants.size())});
    plan_->constants.push_back(std::move(pool.neutral));
    plan_->steps.push_back({.what = *std::move(pool.pad), .in = {x, neutral}, .out = {padded}});
    x = padded;
  }
  std::vector<SlotId> in(pool.loads, x);
  in.push_back(start);
  return {.what = arch::LoopStep{std::move(pool.program)}, .in = std::move(in)};
}

Step PlanBuilder::move_step(const ir::Node& node, arch::MoveKind kind) {
  arch::MoveStep move{.kind = kind, .dim = node.attrs.integer("dimension")};
  if (kind == arch::MoveKind::pad) {
    move.low = node.attrs.ints("edge_padding_low");
    move.gaps = node.attrs.ints("interior_padding");
  }
  return {.what = std::move(move), .in = slots_of(node.inputs)};
}

// The memory behind a chain of views, and how the value's own dims walk it.
DotOperand PlanBuilder::walked(const ir::Value& value) const {
  const int rank = value.type().rank();
  ir::Value at = value;
  IndexMap map = identity_map(rank);
  while (fusion_.views.count(at.node) && !is_alias(*at.node)) {
    map = through_view(*at.node, map);
    at = at.node->inputs[0];
  }
  return {at, walk_of(map, at.type().dims, size_t(rank))};
}

// A step before this one copies the operand to memory of its own, its dims in the given order.
SlotId PlanBuilder::copy_dense(const DotOperand& operand, const Dims& dims, const std::vector<int64_t>& order) {
  const ir::Type& from = operand.memory.type();
  arch::LoopBuilder b;
  Dims moved;
  std::vector<int64_t> strides;
  for (int64_t d : order) {
    moved.push_back(dims[size_t(d)]);
    strides.push_back(operand.walk.strides[size_t(d)]);
    b.dim(dims[size_t(d)]);
  }
  const uint32_t in = b.input(from.dtype, from.elements(), strides, operand.walk.offset);
  const uint32_t out = b.output(from.dtype, element_count(moved), row_major_strides(moved));
  b.store(out, b.load(in));
  plan_->slots.push_back({.dtype = from.dtype, .dims = moved});
  const SlotId to = SlotId(plan_->slots.size() - 1);
  plan_->steps.push_back({.what = arch::LoopStep{b.take()}, .in = {slot_of(operand.memory)}, .out = {to}});
  return to;
}

Step PlanBuilder::conv_step(const ir::Node& node) {
  const DotOperand x = walked(node.inputs[0]), w = walked(node.inputs[1]);
  return {.what = plan_conv(node, x.walk, w.walk), .in = {slot_of(x.memory), slot_of(w.memory)}};
}

Result<Step> PlanBuilder::dot_step(const ir::Node& node) {
  DotOperand sides[2] = {walked(node.inputs[0]), walked(node.inputs[1])};
  SlotId slots[2] = {slot_of(sides[0].memory), slot_of(sides[1].memory)};
  // A weight is an input of the plan: packed once, it is multiplied many times.
  const bool right_as_b = is_input(slots[1]) || !is_input(slots[0]);
  DotStep dot = plan_dot(node, sides[0], sides[1], right_as_b);
  if (dot.copy >= 0 && !arch::is_loop_dtype(sides[0].memory.type().dtype)) return call_step(node);
  for (int iteration = 0; dot.copy >= 0; ++iteration) {
    CHECK(iteration < 3, "a dense operand walks its depth with one stride");
    DotOperand& side = sides[dot.copy];
    const Dims& dims = node.inputs[size_t(dot.copy)].type().dims;
    slots[dot.copy] = copy_dense(side, dims, dot.copy_order);
    Dims moved;
    for (int64_t d : dot.copy_order) moved.push_back(dims[size_t(d)]);
    const Dims strides = row_major_strides(moved);
    for (size_t i = 0; i < moved.size(); ++i) side.walk.strides[size_t(dot.copy_order[i])] = strides[i];
    side.walk.offset = 0;
    dot = plan_dot(node, sides[0], sides[1], right_as_b);
  }
  if (dot.swapped) std::swap(slots[0], slots[1]);
  const Slot &a = plan_->slots[slots[0]], &b = plan_->slots[slots[1]];
  if (auto loop = dot_loop(dot.step, ir::tensor_type(a.dtype, a.dims), ir::tensor_type(b.dtype, b.dims), node.types[0]))
    return Step{.what = arch::LoopStep{*std::move(loop)}, .in = {slots[0], slots[1]}};
  return Step{.what = std::move(dot.step), .in = {slots[0], slots[1]}};
}

std::function<std::string()> PlanBuilder::text_of(const ir::Node& node) const {
  return [graph = graph_, &node] { return ir::text(*graph, node); };
}

Result<Step> PlanBuilder::host_call_step(const ir::Node& node) {
  if (!options_.host_functions)
    return fail(Code::unsupported, "a call of a host function, where nobody answers it", graph_->location(node.where));
  arch::CallStep call{.op = std::string(kHostCall),
                      .run = TRY(options_.host_functions(node.attrs.text("backend_config"))),
                      .text = text_of(node)};
  return Step{.what = std::move(call), .in = slots_of(node.inputs)};
}

Result<Step> PlanBuilder::kernel_step(const ir::Node& node) {
  if (!options_.kernels)
    return fail(Code::unsupported, "an NKI kernel, where nobody runs it", graph_->location(node.where));
  arch::CallStep call{.op = std::string(kKernelCall),
                      .run = TRY(options_.kernels(node.attrs.text("backend_config"))),
                      .text = text_of(node)};
  return Step{.what = std::move(call), .in = slots_of(node.inputs)};
}

Result<Step> PlanBuilder::call_step(const ir::Node& node) {
  if (node.op == op::custom_call && node.attrs.text("call_target_name") == kKernelCall) return kernel_step(node);
  if (node.op == op::custom_call && node.attrs.text("call_target_name") == kHostCall) return host_call_step(node);
  const ops::Op* op = ops::find_op(node.op);
  if (!op || !op->eval)
    return fail(Code::unsupported, std::string("nothing can run the op `").append(node.op.name()).append("`"),
                graph_->location(node.where));
  const size_t inputs = node.inputs.size();
  arch::CallStep call{
      .op = std::string(node.op.name()),
      .run = [graph = graph_, &node, inputs](
                 auto in, auto out) { return ops::evaluate(node, in.first(inputs), in.subspan(inputs), out); },
      .text = text_of(node)};
  Step step{.what = std::move(call), .in = slots_of(node.inputs)};
  for (const ir::Value& v : node.captures) step.in.push_back(slot_of(v));
  return step;
}

Result<std::shared_ptr<const HostPlan>> PlanBuilder::region_plan(const ir::Region& region,
                                                                 std::span<const ir::Value> inputs,
                                                                 std::span<const ir::Value> results) {
  const ir::RegionBody body = ir::body_of(region);
  // What the region takes from outside and is not handed is made in it: constants, and what a condition makes of them.
  std::vector<const ir::Node*> nodes;
  std::unordered_set<const ir::Node*> handed;
  for (const ir::Value& v : inputs) handed.insert(v.node);
  std::vector<ir::Value> worklist = body.captures;
  while (!worklist.empty()) {
    const ir::Node* node = worklist.back().node;
    worklist.pop_back();
    if (!handed.insert(node).second) continue;
    nodes.push_back(node);
    for (const auto* sources : {&node->inputs, &node->captures})
      worklist.insert(worklist.end(), sources->begin(), sources->end());
  }
  std::sort(nodes.begin(), nodes.end(), [](const ir::Node* a, const ir::Node* b) { return a->id < b->id; });
  nodes.insert(nodes.end(), body.nodes.begin(), body.nodes.end());
  HostState state(graph_, options_);
  state.inputs.assign(inputs.begin(), inputs.end());
  state.nodes = std::move(nodes);
  state.results.assign(results.begin(), results.end());
  TRY(run_passes(host_pipeline(), state, {.verify_each = options_.observer.verify_each}));
  return std::shared_ptr<const HostPlan>(std::move(state.plan));
}

// Values that go round the loop unchanged are not carried: cond and body use them as they are.
Result<Step> PlanBuilder::while_step(const ir::Node& node) {
  const ir::Region &cond = node.regions[0], &body = node.regions[1];
  std::vector<uint32_t> carried, fixed;
  for (uint32_t i = 0; i < node.inputs.size(); ++i) (body.results[i] == body.params[i] ? fixed : carried).push_back(i);
  const std::vector<ir::Value> used = used_by(node);
  auto inputs_of = [&](const std::vector<ir::Value>& values) {
    std::vector<ir::Value> inputs;
    for (uint32_t i : carried) inputs.push_back(values[i]);
    inputs.insert(inputs.end(), used.begin(), used.end());
    for (uint32_t i : fixed) inputs.push_back(values[i]);
    return inputs;
  };
  // An iteration ends by asking whether there is another: one plan, in which both are fused.
  ir::Region iteration{.params = body.params, .effects = body.effects};
  for (uint32_t i : carried) iteration.results.push_back(body.results[i]);
  const std::vector<ir::Value> asked = ir::inlined(*graph_, cond, body.results);
  iteration.results.push_back(asked[0]);
  iteration.effects.insert(iteration.effects.end(), asked.begin() + 1, asked.end());
  arch::WhileStep loop;
  loop.cond = TRY(region_plan(cond, inputs_of(cond.params), cond.results));
  loop.body = TRY(region_plan(iteration, inputs_of(body.params), iteration.results));
  for (size_t i = 0; i < carried.size(); ++i) loop.in_place.push_back(loop.body->in_place[i] == int(i));
  Step step{.what = std::move(loop), .in = slots_of(inputs_of(node.inputs))};
  for (uint32_t i : carried) step.out.push_back(slot_of(node.result(i)));
  for (uint32_t i : fixed) {
    const SlotId base = slot_of(node.inputs[i]), id = add_slot(node.result(i), SlotKind::temporary, 0);
    plan_->slots[id].same_as = base;
    state_.slots.emplace(node.result(i), id);
  }
  return step;
}

Result<Step> PlanBuilder::case_step(const ir::Node& node) {
  const std::vector<ir::Value> used = used_by(node);
  arch::CaseStep branches;
  for (const ir::Region& region : node.regions) {
    std::vector<ir::Value> inputs = region.params;
    inputs.insert(inputs.end(), used.begin(), used.end());
    branches.branches.push_back(TRY(region_plan(region, inputs, region.results)));
  }
  Step step{.what = std::move(branches), .in = slots_of(node.inputs)};
  for (SlotId id : slots_of(used)) step.in.push_back(id);
  return step;
}

}  // namespace trine::compile
