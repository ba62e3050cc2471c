// One walk over the graph in order; each node is made anew for parts of its inputs.
#include "compile/partition/partition.h"

#include <algorithm>

#include "base/number/scalar.h"
#include "base/text.h"
#include "compile/host/native.h"
#include "compile/partition/hints.h"
#include "compile/partition/reshard.h"
#include "ir/constant.h"
#include "ir/op_ids.h"
#include "ops/op.h"

namespace trine::compile {

using ir::Node;
using ir::Value;

namespace {

// A value's part on this device. Of a manual one, what its manual axes leave of the whole is the whole here.
struct Local {
  Value value = {};
  Sharding sharding = {};
};

// A value before its devices have summed it.
struct Unsummed {
  Value value = {};
  Sharding sharding = {};
  Atoms over = {};
};

class Partitioner {
 public:
  Partitioner(const ir::Graph& from, const Meshes& meshes, ManualParts manual)
      : from_(from),
        meshes_(meshes),
        manual_(std::move(manual)),
        hints_(meshes, from, manual_),
        reshard_(meshes, out_.graph) {}

  Result<Partitioned> all();

 private:
  uint32_t location(const Node& node) { return node.where ? out_.graph.add_location(from_.location(node.where)) : 0; }
  const Local& local(const Value& v) const { return locals_.at(v); }
  Result<Value> as(const Value& v, const Sharding& sharding, uint32_t where);
  Result<std::vector<Value>> whole_inputs(const Node& node);
  Result<void> sum(const Value& value, Unsummed parts, uint32_t where);
  Result<Value> unsummed(const Value& v, const Sharding& sharding, const Atoms& over, uint32_t where);
  void bind(const Value& value, Value made, Sharding sharding) { locals_[value] = {made, std::move(sharding)}; }
  void bind_all(const Node& node, const Node* made);
  // A sharding as those manual axes allow it.
  Sharding within(const Manual& manual, const Value& v, const Sharding& sharding) const {
    if (!manual.can_be_cut()) return whole(v);
    return manual.is_manual ? left_of(sharding, manual.axes, v.type().dims, meshes_) : sharding;
  }

  Result<void> input(const Value& v);
  Result<void> visit(const Node& node);
  Result<void> constant(const Node& node);
  Result<Value> constant_part(const Node& node, const Sharding& sharding);
  Result<void> iota(const Node& node);
  Result<Value> iota_part(const Node& node, const Sharding& sharding);
  Result<void> constraint(const Node& node);
  Result<void> lie_alike(const Node& node);
  Result<void> to_local(const Node& node);
  Result<void> to_global(const Node& node);
  Result<void> loop(const Node& node);
  Result<void> choice(const Node& node);
  Result<void> host_call(const Node& node);
  Result<void> parts_call(const Node& node);
  Result<void> inspection(const Node& node);
  Result<void> by_rule(const Node& node, const OpRule& rule);
  Result<void> as_it_is(const Node& node);
  Result<void> combine(const Node& node, const OpRule& rule, const FactorAtoms& atoms, const Node* made);
  Result<void> sum_of_unsummed(const Node& node);
  Value effect(const Value& v) const { return {made_.at(v.node), v.index}; }

  Result<ir::Region> same_region(const ir::Region& region);
  Result<void> visit_body(const ir::Region& region, ir::Region& made);
  Value parameter(const Value& old, const Sharding& sharding);
  Sharding whole(const Value& v) const { return Sharding(v.type().dims.size()); }

  const ir::Graph& from_;
  const Meshes& meshes_;
  const ManualParts manual_;
  Hints hints_;
  Partitioned out_;
  Resharder reshard_;
  std::unordered_map<Value, Local, ValueKeyHash> locals_;
  std::unordered_map<Value, Unsummed, ValueKeyHash> unsummed_;  // of some: what their sums in locals_ are made of
  std::unordered_map<const Node*, const Node*> made_;           // of nodes that may be kept for their effect
};

Result<Value> Partitioner::as(const Value& v, const Sharding& sharding, uint32_t where) {
  const Local& have = local(v);
  if (have.sharding == sharding) return have.value;
  // Made anew rather than moved: within a branch not every device may be there to move it.
  if (v.node->op == op::constant) return constant_part(*v.node, sharding);
  if (v.node->op == op::iota) return iota_part(*v.node, sharding);
  return reshard_.move(have.value, have.sharding, sharding, where);
}

// Whoever uses the value gets the sum; who wants the parts as well, these.
Result<void> Partitioner::sum(const Value& value, Unsummed parts, uint32_t where) {
  bind(value, TRY(reshard_.all_reduce(parts.value, parts.over, "add", where)), parts.sharding);
  unsummed_[value] = std::move(parts);
  return {};
}

Result<Value> Partitioner::unsummed(const Value& v, const Sharding& sharding, const Atoms& over, uint32_t where) {
  const auto found = unsummed_.find(v);
  if (found != unsummed_.end() && found->second.sharding == sharding &&
      std::is_permutation(over.begin(), over.end(), found->second.over.begin(), found->second.over.end()))
    return found->second.value;
  return reshard_.on_first_of(TRY(as(v, sharding, where)), over, where);
}

Result<std::vector<Value>> Partitioner::whole_inputs(const Node& node) {
  std::vector<Value> out;
  for (const Value& v : node.inputs) out.push_back(TRY(as(v, whole(v), location(node))));
  return out;
}

void Partitioner::bind_all(const Node& node, const Node* made) {
  for (uint32_t r = 0; r < node.types.size(); ++r) bind(node.result(r), made->result(r), whole(node.result(r)));
}

Value Partitioner::parameter(const Value& old, const Sharding& sharding) {
  ir::Type type = old.type();
  type.sharding.clear();
  if (!type.is_token) type.dims = meshes_.local(type.dims, sharding);
  const Value made = out_.graph.parameter(std::move(type), location(*old.node));
  bind(old, made, sharding);
  return made;
}

Result<void> Partitioner::visit(const Node& node) {
  using Method = Result<void> (Partitioner::*)(const Node&);
  static constexpr std::pair<ir::OpId, Method> kSpecial[] = {{op::constant, &Partitioner::constant},
                                                             {op::iota, &Partitioner::iota},
                                                             {op::sharding_constraint, &Partitioner::constraint},
                                                             {op::lie_alike, &Partitioner::lie_alike},
                                                             {op::to_local, &Partitioner::to_local},
                                                             {op::to_global, &Partitioner::to_global},
                                                             {op::while_, &Partitioner::loop},
                                                             {op::case_, &Partitioner::choice}};
  if (node.op == op::parameter || made_.contains(&node) || locals_.contains(node.result())) return {};
  for (auto [op, method] : kSpecial)
    if (op == node.op) return (this->*method)(node);
  if (node.op == op::custom_call && node.attrs.text("call_target_name") == kInspection) return inspection(node);
  const Manual manual = manual_.of(node);
  if (manual.is_manual && (manual.axes.empty() || manual.axes.size() == meshes_.atoms().size())) return as_it_is(node);
  if (!manual.is_manual && node.op == op::custom_call && node.attrs.text("call_target_name") == kHostCall)
    return node.attrs.text("backend_config").ends_with(kPartsCall) ? parts_call(node) : host_call(node);
  if (const auto rule = rule_of(node, manual.is_manual)) return by_rule(node, *rule);
  return as_it_is(node);
}

Result<void> Partitioner::constant(const Node& node) {
  const Sharding* wanted = hints_.find(node.result());
  const Sharding sharding = wanted && is_splat(*node.attrs.tensor("value")) ? *wanted : whole(node.result());
  bind(node.result(), TRY(constant_part(node, sharding)), sharding);
  return {};
}

// Equal elements are made in the size that is wanted; others are cut from the whole.
Result<Value> Partitioner::constant_part(const Node& node, const Sharding& sharding) {
  const Tensor& value = *node.attrs.tensor("value");
  const uint32_t where = location(node);
  if (is_whole(sharding) || !is_splat(value))
    return reshard_.move(out_.graph.constant(value, where), whole(node.result()), sharding, where);
  Tensor part = Tensor::make(value.dtype, meshes_.local(value.dims, sharding));
  std::copy(value.data.get(), value.data.get() + part.bytes(), part.data.get());
  return out_.graph.constant(std::move(part), where);
}

Result<void> Partitioner::iota(const Node& node) {
  const Sharding* wanted = hints_.find(node.result());
  const Sharding sharding = wanted ? *wanted : whole(node.result());
  bind(node.result(), TRY(iota_part(node, sharding)), sharding);
  return {};
}

// A part along the counted dim begins where the device's part does.
Result<Value> Partitioner::iota_part(const Node& node, const Sharding& sharding) {
  ir::Type type = node.types[0];
  type.dims = meshes_.local(type.dims, sharding);
  const uint32_t where = location(node);
  const auto dim = size_t(node.attrs.integer("iota_dimension"));
  Value made = TRY(reshard_.make(op::iota, {}, node.attrs, where, {type}));
  if (!sharding[dim].empty()) {
    const Value start = TRY(reshard_.part_start(sharding[dim], type.dims[dim], where));
    const Value typed = TRY(reshard_.make(op::convert, {start}, {}, where, {ir::tensor_type(type.dtype, {})}));
    const Value wide =
        TRY(reshard_.make(op::broadcast_in_dim, {typed}, {{"broadcast_dimensions", ir::Ints{}}}, where, {type}));
    made = TRY(reshard_.make(op::add, {made, wide}, {}, where));
  }
  return made;
}

// Open dims stay as they are, as far as their atoms are free.
Result<void> Partitioner::constraint(const Node& node) {
  const auto wanted = TRY(meshes_.parse(node.attrs.text("sharding"), node.types[0].dims));
  const Sharding sharding =
      within(manual_.of(node.inputs[0]), node.result(), filled(wanted, local(node.inputs[0]).sharding));
  bind(node.result(), TRY(as(node.inputs[0], sharding, location(node))), sharding);
  const auto parts = unsummed_.find(node.inputs[0]);
  if (parts != unsummed_.end() && !wanted.unreduced.empty()) unsummed_[node.result()] = Unsummed(parts->second);
  return {};
}

Result<void> Partitioner::lie_alike(const Node& node) {
  const Sharding* wanted = hints_.find(node.result());
  const Sharding sharding = within(manual_.of(node), node.result(), wanted ? *wanted : local(node.inputs[0]).sharding);
  bind(node.result(), TRY(as(node.inputs[0], sharding, location(node))), sharding);
  return {};
}

// What other axes cut of the whole they cut of the part.
Result<void> Partitioner::to_local(const Node& node) {
  const Value &from = node.inputs[0], to = node.result();
  const ManualSharding edge = TRY(manual_sharding(meshes_, node, from.type().dims));
  const Sharding* hint = hints_.find(to);
  const Sharding rest = filled(edge.other, within(manual_.of(to), to, hint ? *hint : local(from).sharding));
  const Sharding wanted = joined(edge.declared.dims, rest);
  const uint32_t where = location(node);
  const Value part = edge.declared.unreduced.empty() ? TRY(as(from, wanted, where))
                                                     : TRY(unsummed(from, wanted, edge.declared.unreduced, where));
  if (part.type().dims != meshes_.local(to.type().dims, rest))
    return fail(Code::unsupported,
                cat("a part ", ir::text(to.type()), " of ", ir::text(from.type()), " that is not cut evenly"),
                from_.location(node.where));
  bind(to, part, rest);
  return {};
}

Result<void> Partitioner::to_global(const Node& node) {
  const Value &from = node.inputs[0], to = node.result();
  const ManualSharding edge = TRY(manual_sharding(meshes_, node, to.type().dims));
  Atoms taken = manual_.of(to).axes;
  taken.insert(taken.end(), edge.axes.begin(), edge.axes.end());
  const bool is_cut = manual_.of(to).can_be_cut();
  const Sharding rest =
      is_cut ? filled(edge.other, left_of(local(from).sharding, taken, from.type().dims, meshes_)) : whole(from);
  const Value part = TRY(as(from, rest, location(node)));
  const Sharding sharding = joined(edge.declared.dims, rest);
  if (!edge.declared.unreduced.empty()) return sum(to, {part, sharding, edge.declared.unreduced}, location(node));
  if (is_cut)
    bind(to, part, sharding);
  else
    bind(to, TRY(reshard_.move(part, sharding, whole(to), location(node))), whole(to));
  return {};
}

Result<void> Partitioner::by_rule(const Node& node, const OpRule& rule) {
  FactorAtoms atoms(meshes_, rule, FactorAtoms::Of::op);
  std::vector<const Sharding*> have, wanted;
  std::vector<Sharding> allowed;
  for (const Value& v : node.inputs) allowed.push_back(within(manual_.of(node), v, local(v).sharding));
  for (const Sharding& sharding : allowed) have.push_back(&sharding);
  for (uint32_t r = 0; r < node.types.size(); ++r) wanted.push_back(hints_.find(node.result(r)));
  atoms.wish_all(have, wanted);
  std::vector<int64_t> counts;
  for (size_t f = 0; f < rule.factors.size(); ++f) counts.push_back(meshes_.count(atoms[f]));
  LocalForm form = local_form(node, rule, counts);
  ir::Spec spec{.op = node.op,
                .attrs = std::move(form.attrs),
                .types = std::move(form.types),
                .where = location(node),
                .is_unique = node.is_unique};
  for (size_t i = 0; i < node.inputs.size(); ++i)
    spec.inputs.push_back(TRY(as(node.inputs[i], atoms.of(rule.inputs[i]), spec.where)));
  for (const ir::Region& region : node.regions) spec.regions.push_back(TRY(same_region(region)));
  const Node* made = TRY(ops::make(out_.graph, std::move(spec)));
  if (node.is_unique) made_[&node] = made;
  return combine(node, rule, atoms, made);
}

// Partial results become results: by a sum in parts where the result is wanted in those parts, else by a whole one.
Result<void> Partitioner::combine(const Node& node, const OpRule& rule, const FactorAtoms& atoms, const Node* made) {
  Atoms reduced;
  std::string kind;
  for (size_t f = 0; f < rule.factors.size(); ++f) {
    if (rule.factors[f].reduction.empty()) continue;
    kind = rule.factors[f].reduction;
    reduced.insert(reduced.end(), atoms[f].begin(), atoms[f].end());
  }
  for (uint32_t r = 0; r < node.types.size(); ++r) {
    Sharding sharding = atoms.of(rule.results[r]);
    Value value = made->result(r);
    const Sharding* wanted = hints_.find(node.result(r));
    for (size_t d = 0; wanted && !reduced.empty() && d < sharding.size(); ++d) {
      Sharding scattered = sharding;
      scattered[d].insert(scattered[d].end(), reduced.begin(), reduced.end());
      if (scattered != *wanted || value.type().dims[d] % meshes_.count(reduced)) continue;
      value = TRY(reshard_.reduce_scatter(value, reduced, kind, int64_t(d), location(node)));
      bind(node.result(r), value, std::move(scattered));
      break;
    }
    if (locals_.contains(node.result(r))) continue;
    if (!reduced.empty() && kind == "add") {
      TRY(sum(node.result(r), {value, std::move(sharding), reduced}, location(node)));
      continue;
    }
    if (!reduced.empty()) value = TRY(reshard_.all_reduce(value, reduced, kind, location(node)));
    bind(node.result(r), value, std::move(sharding));
  }
  return node.op == op::add ? sum_of_unsummed(node) : Result<void>();
}

Result<void> Partitioner::sum_of_unsummed(const Node& node) {
  const auto a = unsummed_.find(node.inputs[0]), b = unsummed_.find(node.inputs[1]);
  if (a == unsummed_.end() || b == unsummed_.end() || a->second.sharding != b->second.sharding ||
      a->second.over != b->second.over)
    return {};
  const Value parts = TRY(reshard_.make(op::add, {a->second.value, b->second.value}, {}, location(node)));
  unsummed_[node.result()] = Unsummed{parts, Sharding(a->second.sharding), Atoms(a->second.over)};
  return {};
}

// On whole inputs, or in a program for one device.
Result<void> Partitioner::as_it_is(const Node& node) {
  ir::Spec spec{.op = node.op,
                .inputs = TRY(whole_inputs(node)),
                .attrs = node.attrs,
                .types = node.types,
                .where = location(node),
                .is_unique = node.is_unique};
  for (const ir::Region& region : node.regions) spec.regions.push_back(TRY(same_region(region)));
  const Node* made = out_.graph.add(std::move(spec));
  made_[&node] = made;
  bind_all(node, made);
  return {};
}

// A function of the host is called once, by the first device, on whole tensors; the others get its results.
Result<void> Partitioner::host_call(const Node& node) {
  const uint32_t where = location(node);
  ir::Spec spec{.op = op::case_, .inputs = TRY(whole_inputs(node)), .where = where, .is_unique = node.is_unique};
  spec.inputs.insert(spec.inputs.begin(), TRY(reshard_.is_not_first(where)));
  spec.regions.resize(2);
  for (ir::Region& region : spec.regions)
    for (const Value& v : node.inputs) region.params.push_back(out_.graph.parameter(v.type(), where));
  const Node* call = out_.graph.add({.op = node.op,
                                     .inputs = spec.regions[0].params,
                                     .attrs = node.attrs,
                                     .types = node.types,
                                     .where = where,
                                     .is_unique = true});
  spec.regions[0].effects.push_back(call->result());
  for (uint32_t r = 0; r < node.types.size(); ++r) {
    const ir::Type& type = node.types[r];
    spec.regions[0].results.push_back(call->result(r));
    spec.regions[1].results.push_back(type.is_token ? TRY(reshard_.make(op::create_token, {}, {}, where))
                                                    : out_.graph.constant(Tensor::make(type.dtype, type.dims)));
  }
  const Node* made = made_[&node] = TRY(ops::make(out_.graph, std::move(spec)));
  for (uint32_t r = 0; r < node.types.size(); ++r) {
    const Value own = made->result(r);
    bind(node.result(r), node.types[r].is_token ? own : TRY(reshard_.of_first(own, where)), whole(node.result(r)));
  }
  return {};
}

// A function of the host that sees each device's parts; it gives a token alone.
Result<void> Partitioner::parts_call(const Node& node) {
  ir::Spec spec{
      .op = node.op, .attrs = node.attrs, .types = node.types, .where = location(node), .is_unique = node.is_unique};
  for (const Value& v : node.inputs) spec.inputs.push_back(local(v).value);
  const Node* made = made_[&node] = out_.graph.add(std::move(spec));
  bind_all(node, made);
  return {};
}

// Behind its number it says how the value lies; nothing is moved for it.
Result<void> Partitioner::inspection(const Node& node) {
  const Local have = local(node.inputs[0]);
  const bool is_manual = manual_.of(node).is_manual;
  ir::Attrs attrs = node.attrs;
  attrs.set("backend_config",
            cat(node.attrs.text("backend_config"), " ", is_manual ? "{manual}" : meshes_.hlo_text(have.sharding)));
  const Node* made = made_[&node] = out_.graph.add({.op = node.op,
                                                    .inputs = {have.value},
                                                    .attrs = std::move(attrs),
                                                    .types = {have.value.type()},
                                                    .where = location(node),
                                                    .is_unique = node.is_unique});
  bind(node.result(), made->result(), have.sharding);
  return {};
}

// A small region (a sum's, a sort's) is of scalars: nothing in it is cut.
Result<ir::Region> Partitioner::same_region(const ir::Region& region) {
  ir::Region made;
  for (const Value& p : region.params) made.params.push_back(parameter(p, whole(p)));
  TRY(visit_body(region, made));
  for (const Value& v : region.results) made.results.push_back(TRY(as(v, whole(v), 0)));
  return made;
}

Result<void> Partitioner::visit_body(const ir::Region& region, ir::Region& made) {
  for (const Node* inner : ir::body_of(region).nodes) TRY(visit(*inner));
  for (const Value& v : region.effects) made.effects.push_back(effect(v));
  return {};
}

// A carried value lies as it is wanted, or as it came; the body gives it back so.
Result<void> Partitioner::loop(const Node& node) {
  const Manual manual = manual_.of(node);
  ir::Spec spec{.op = op::while_, .where = location(node), .is_unique = node.is_unique};
  std::vector<Sharding> shardings;
  for (uint32_t i = 0; i < node.inputs.size(); ++i) {
    const Sharding* wanted = hints_.find(node.result(i));
    shardings.push_back(within(manual, node.inputs[i], wanted ? *wanted : local(node.inputs[i]).sharding));
    spec.inputs.push_back(TRY(as(node.inputs[i], shardings[i], spec.where)));
  }
  for (const ir::Region& region : node.regions) {
    const bool is_cond = &region == &node.regions[0];
    ir::Region made;
    for (size_t i = 0; i < region.params.size(); ++i) made.params.push_back(parameter(region.params[i], shardings[i]));
    TRY(visit_body(region, made));
    for (size_t i = 0; i < region.results.size(); ++i) {
      const Value& v = region.results[i];
      made.results.push_back(TRY(as(v, is_cond ? whole(v) : shardings[i], spec.where)));
    }
    spec.regions.push_back(std::move(made));
  }
  const Node* made = made_[&node] = TRY(ops::make(out_.graph, std::move(spec)));
  for (uint32_t i = 0; i < node.types.size(); ++i) bind(node.result(i), made->result(i), shardings[i]);
  return {};
}

// Branches take what they use as parameters, the device's number with them.
Result<void> Partitioner::choice(const Node& node) {
  const Manual manual = manual_.of(node);
  ir::Spec spec{.op = op::case_, .where = location(node), .is_unique = node.is_unique};
  if (!reshard_.device) reshard_.device = TRY(reshard_.make(op::partition_id, {}, {}, spec.where));
  const Value device = reshard_.device;
  spec.inputs.push_back(TRY(as(node.inputs[0], whole(node.inputs[0]), spec.where)));
  for (size_t i = 1; i < node.inputs.size(); ++i) spec.inputs.push_back(local(node.inputs[i]).value);
  spec.inputs.push_back(device);
  std::vector<Sharding> shardings;
  for (uint32_t r = 0; r < node.types.size(); ++r) {
    const Sharding* wanted = hints_.find(node.result(r));
    shardings.push_back(wanted ? within(manual, node.result(r), *wanted) : whole(node.result(r)));
  }
  for (const ir::Region& region : node.regions) {
    ir::Region made;
    for (size_t i = 0; i < region.params.size(); ++i)
      made.params.push_back(parameter(region.params[i], local(node.inputs[i + 1]).sharding));
    made.params.push_back(out_.graph.parameter(device.type()));
    reshard_.device = made.params.back();
    auto done = visit_body(region, made);
    for (size_t r = 0; done && r < region.results.size(); ++r)
      made.results.push_back(TRY(as(region.results[r], shardings[r], spec.where)));
    reshard_.device = device;
    TRY(std::move(done));
    spec.regions.push_back(std::move(made));
  }
  const Node* made = made_[&node] = TRY(ops::make(out_.graph, std::move(spec)));
  for (uint32_t r = 0; r < node.types.size(); ++r) bind(node.result(r), made->result(r), shardings[r]);
  return {};
}

static bool is_reordered(const Meshes::Parsed& declared) {
  return !declared.order.empty() && !(is_whole(declared.dims) && declared.unreduced.empty());
}

Result<void> Partitioner::input(const Value& v) {
  const auto declared = TRY(meshes_.parse(v.type().sharding, v.type().dims));
  const uint32_t where = location(*v.node);
  Value part = parameter(v, declared.dims);
  out_.graph.params.push_back(part);
  out_.shardings.inputs.push_back(meshes_.hlo_text(declared.dims, declared.unreduced, declared.order));
  if (is_reordered(declared)) bind(v, part = TRY(reshard_.reorder(part, declared.order, false, where)), declared.dims);
  if (!declared.unreduced.empty()) return sum(v, {part, declared.dims, declared.unreduced}, where);
  return {};
}

// What a device holds; as many bytes may take over the memory of a donated argument.
static size_t bytes_of(const ir::Type& type) {
  return type.is_token ? 0 : bytes(type.dtype, size_t(element_count(type.dims)));
}

Result<Partitioned> Partitioner::all() {
  TRY(hints_.compute());
  ir::Graph& graph = out_.graph;
  graph.name = from_.name;
  graph.attrs = from_.attrs;
  graph.attrs.remove("result_shardings");
  graph.donations = from_.donations;
  for (const Value& v : from_.params) TRY(input(v));
  for (const Node* node : from_.order()) TRY(visit(*node));
  const ir::Strings& wanted = from_.attrs.strings("result_shardings");
  for (size_t i = 0; i < from_.results.size(); ++i) {
    const Value& v = from_.results[i];
    const Sharding* carried = hints_.find(v);
    Meshes::Parsed as_declared{carried ? *carried : local(v).sharding, {}};
    if (i < wanted.size() && !wanted[i].empty()) as_declared = TRY(meshes_.parse(wanted[i], v.type().dims));
    Value made = as_declared.unreduced.empty() ? TRY(as(v, as_declared.dims, 0))
                                               : TRY(unsummed(v, as_declared.dims, as_declared.unreduced, 0));
    if (is_reordered(as_declared)) made = TRY(reshard_.reorder(made, as_declared.order, true, 0));
    graph.results.push_back(made);
    out_.shardings.results.push_back(meshes_.hlo_text(as_declared.dims, as_declared.unreduced, as_declared.order));
  }
  for (const Value& v : from_.effects) graph.effects.push_back(effect(v));
  for (size_t i = 0; i < graph.donations.size(); ++i) {
    const int to = graph.donations[i];
    if (to >= 0 && bytes_of(graph.params[i].type()) != bytes_of(graph.results[size_t(to)].type()))
      graph.donations[i] = -1;
  }
  return std::move(out_);
}

}  // namespace

bool needs_partition(const ir::Graph& graph) {
  return graph.attrs.integer("num_partitions", 1) > 1 && !graph.attrs.flag("is_local");
}

Result<Partitioned> partition(const ir::Graph& graph) {
  const Meshes meshes = TRY(Meshes::make(graph.attrs, graph.attrs.integer("num_partitions", 1)));
  return Partitioner(graph, meshes, TRY(ManualParts::make(meshes, graph))).all();
}

}  // namespace trine::compile
