// Ops with regions, and calls. A region that only adds, or compares its first pair, is named instead of converted.
#include <algorithm>

#include "base/number/scalar.h"
#include "base/text.h"
#include "front/stablehlo/graph/maker.h"
#include "front/stablehlo/print/print.h"
#include "ir/op_ids.h"

namespace trine::front::stablehlo {

namespace {

constexpr std::string_view kKinds[] = {"add", "multiply", "maximum", "minimum", "and", "or", "xor"};

// The values from outside that ops use, at any depth; `inside` is the first value defined inside.
void collect_used(const std::vector<Op>& ops, uint32_t inside, std::vector<ValueId>& used) {
  for (const Op& op : ops) {
    for (ValueId id : op.operands)
      if (uint32_t(id) < inside) used.push_back(id);
    for (const Region& region : op.regions)
      for (const Block& block : region.blocks) collect_used(block.ops, inside, used);
  }
}

}  // namespace

Result<const Block*> GraphMaker::only_block(const Region& region) const {
  if (region.blocks.size() != 1) return fail(Code::unsupported, cat("a region of ", region.blocks.size(), " blocks"));
  return &region.blocks[0];
}

// `outer` are parameters besides those of the block, before them.
Result<ir::Region> GraphMaker::region(const Region& from, std::span<const ir::Value> outer) {
  const Block& body = *TRY(only_block(from));
  ir::Region out;
  Values arguments;
  out.params.assign(outer.begin(), outer.end());
  for (uint32_t i = 0; i < body.arguments; ++i) {
    arguments.push_back(graph_.parameter(TRY(graph_type(module_, module_.type_of(body.argument(i)))), where_));
    out.params.push_back(arguments.back());
  }
  Values* around = effects_;
  effects_ = &out.effects;
  auto results = block(body, arguments);
  effects_ = around;
  out.results = TRY(std::move(results));
  return out;
}

// The only op of a region, where the region returns just its result.
const Op* GraphMaker::single_op(const Op& op, size_t number) const {
  if (number >= op.regions.size() || op.regions[number].blocks.size() != 1) return nullptr;
  const Block& body = op.regions[number].blocks[0];
  if (body.ops.size() < 2 || body.ops[0].results != 1) return nullptr;
  // JAX says of scalars too where they should lie, in a program that is partly manual.
  ValueId last = body.ops[0].result(0);
  for (size_t i = 1; i + 1 < body.ops.size(); ++i) {
    const Op& next = body.ops[i];
    if (next.name != "sdy.sharding_constraint" || next.operands != std::vector<ValueId>{last}) return nullptr;
    last = next.result(0);
  }
  return body.ops.back().operands == std::vector<ValueId>{last} ? &body.ops[0] : nullptr;
}

std::string_view GraphMaker::combiner(const Op& op, size_t number) const {
  if (number >= op.regions.size() || op.regions[number].blocks.size() != 1) return {};
  const Block& body = op.regions[number].blocks[0];
  if (body.arguments != 2) return {};
  const bool gives_update = body.ops.size() == 1 && body.ops[0].operands == std::vector<ValueId>{body.argument(1)};
  if (gives_update && op.name == "stablehlo.scatter") return "set";
  const Op* only = single_op(op, number);
  if (only == nullptr || only->operands.size() != 2) return {};
  const bool in_order = only->operands[0] == body.argument(0) && only->operands[1] == body.argument(1);
  const bool swapped = only->operands[0] == body.argument(1) && only->operands[1] == body.argument(0);
  if (!in_order && !swapped) return {};
  for (std::string_view kind : kKinds)
    if (only->name.starts_with("stablehlo.") && only->name.substr(10) == kind) return kind;
  return {};
}

Result<void> GraphMaker::combined(const Op& op) {
  ir::Attrs attrs = TRY(graph_attrs(module_, op));
  Values inputs = TRY(operands(op));
  if (op.name == "stablehlo.reduce_window") {
    const size_t rank = attrs.ints("window_dimensions").size();
    for (std::string_view name : {"window_strides", "base_dilations", "window_dilations"})
      if (attrs.find(name) == nullptr) attrs.set(name, ir::Ints(rank, 1));
    if (attrs.find("padding") == nullptr) attrs.set("padding", ir::Ints(2 * rank, 0));
  }
  if (op.regions.size() != 1) return fail(Code::invalid, cat("has ", op.regions.size(), " regions; expected one"));
  std::vector<ir::Region> regions;
  const std::string_view kind = combiner(op, 0);
  if (kind.empty()) {
    regions.push_back(TRY(region(op.regions[0])));
  } else {
    attrs.set("kind", std::string(kind));
  }
  return add(op, op.name.substr(10), std::move(attrs), std::move(inputs), std::move(regions));
}

Result<void> GraphMaker::select_and_scatter(const Op& op) {
  ir::Attrs attrs = TRY(graph_attrs(module_, op));
  Values inputs = TRY(operands(op));
  if (op.regions.size() != 2 || inputs.empty()) return fail(Code::invalid, "takes operands and two regions");
  const auto rank = size_t(inputs[0].type().rank());
  for (std::string_view name : {"window_dimensions", "window_strides"})
    if (attrs.find(name) == nullptr) attrs.set(name, ir::Ints(rank, 1));
  if (attrs.find("padding") == nullptr) attrs.set("padding", ir::Ints(2 * rank, 0));
  const Op* select = single_op(op, 0);
  const std::string_view scatter = combiner(op, 1);
  const Attr* direction = select != nullptr ? module_.find(*select, "comparison_direction") : nullptr;
  const Block& body = *TRY(only_block(op.regions[0]));
  const bool compares = direction != nullptr && body.arguments == 2 &&
                        select->operands == std::vector<ValueId>{body.argument(0), body.argument(1)};
  std::vector<ir::Region> regions;
  if (compares && !scatter.empty()) {
    attrs.set("select_kind", std::string(direction->text));
    attrs.set("scatter_kind", std::string(scatter));
  } else {
    for (const Region& r : op.regions) regions.push_back(TRY(region(r)));
  }
  return add(op, "select_and_scatter", std::move(attrs), std::move(inputs), std::move(regions));
}

Result<void> GraphMaker::sort(const Op& op) {
  ir::Attrs attrs = TRY(graph_attrs(module_, op));
  Values inputs = TRY(operands(op));
  if (op.regions.size() != 1 || inputs.empty()) return fail(Code::invalid, "takes operands and a region");
  int64_t dimension = attrs.integer("dimension", -1);
  if (dimension < 0) dimension += inputs[0].type().rank();
  attrs.set("dimension", dimension);
  attrs.set("is_stable", attrs.flag("is_stable"));
  const Op* compare = single_op(op, 0);
  const Block& body = *TRY(only_block(op.regions[0]));
  const bool plain = compare != nullptr && compare->name == "stablehlo.compare" && body.arguments >= 2 &&
                     compare->operands == std::vector<ValueId>{body.argument(0), body.argument(1)};
  std::vector<ir::Region> regions;
  if (plain) {
    const ir::Attrs how = TRY(graph_attrs(module_, *compare));
    attrs.set("direction", std::string(how.text("direction")));
    if (how.find("compare_type") != nullptr) attrs.set("compare_type", std::string(how.text("compare_type")));
  } else {
    regions.push_back(TRY(region(op.regions[0])));
  }
  return add(op, "sort", std::move(attrs), std::move(inputs), std::move(regions));
}

Result<void> GraphMaker::with_regions(const Op& op) {
  std::vector<ir::Region> regions;
  Values inputs = TRY(operands(op));
  for (const Region& r : op.regions) regions.push_back(TRY(region(r)));
  return add(op, op.name.substr(10), TRY(graph_attrs(module_, op)), std::move(inputs), std::move(regions));
}

// What the branches use becomes inputs, and in each branch parameters; constants stay what they are.
Result<void> GraphMaker::choice(const Op& op) {
  Values inputs = TRY(operands(op));
  if (inputs.size() != 1 || op.regions.empty()) return fail(Code::invalid, "takes an index and branches");
  if (op.name == "stablehlo.if") inputs[0] = TRY(index_of(inputs[0]));
  std::vector<ValueId> used;
  for (const Region& r : op.regions) {
    const Block& body = *TRY(only_block(r));
    collect_used(body.ops, TRY(only_block(op.regions[0]))->first_argument, used);
  }
  std::sort(used.begin(), used.end());
  used.erase(std::unique(used.begin(), used.end()), used.end());
  std::erase_if(used, [&](ValueId id) {
    const ir::Value& v = values_[size_t(id)];
    return !v || v.node->op == op::constant;
  });
  Values outer;
  for (ValueId id : used) outer.push_back(values_[size_t(id)]);
  inputs.insert(inputs.end(), outer.begin(), outer.end());
  std::vector<ir::Region> regions;
  for (const Region& r : op.regions) {
    Values params;
    for (size_t i = 0; i < used.size(); ++i) {
      params.push_back(graph_.parameter(outer[i].type(), where_));
      values_[size_t(used[i])] = params.back();
    }
    auto branch = region(r, params);
    for (size_t i = 0; i < used.size(); ++i) values_[size_t(used[i])] = outer[i];
    regions.push_back(TRY(std::move(branch)));
  }
  return add(op, "case", {}, std::move(inputs), std::move(regions));
}

// true is the first branch.
Result<ir::Value> GraphMaker::index_of(ir::Value predicate) {
  const auto number = [&](double i) { return graph_.constant(scalar(Dtype::s32, i), where_); };
  return make1(op::select, {predicate, number(0), number(1)}, {});
}

Result<void> GraphMaker::call_function(const Op& op, std::string_view name) {
  const auto found = functions_.find(name);
  if (found == functions_.end()) return fail(Code::not_found, cat("there is no function @", name));
  const Op& function = *found->second;
  if (function.regions.size() != 1 || function.regions[0].blocks.empty())
    return fail(Code::unsupported, cat("@", name, " is only declared"));
  if (!open_.insert(&function).second) return fail(Code::unsupported, cat("@", name, " calls itself"));
  const std::string outer = around_;
  auto locations = std::move(locations_);
  locations_.clear();
  if (const std::string_view called = location_name(module_, op.location); !called.empty())
    around_ = outer.empty() ? std::string(called) : cat(outer, "/", called);
  auto results = block(*TRY(only_block(function.regions[0])), TRY(operands(op)));
  open_.erase(&function);
  locations_ = std::move(locations);
  around_ = outer;
  return bind(op, TRY(std::move(results)));
}

Result<void> GraphMaker::call(const Op& op) {
  const Attr* callee = module_.find(op, "callee");
  if (callee == nullptr || callee->kind != AttrKind::symbol) return fail(Code::invalid, "names no function");
  return call_function(op, callee->text);
}

// By its name where ops/ knows it ("chlo.top_k"), else by its decomposition.
Result<void> GraphMaker::composite(const Op& op) {
  const Attr* name = module_.find(op, "name");
  const Attr* body = module_.find(op, "decomposition");
  if (name == nullptr || body == nullptr || body->kind != AttrKind::symbol)
    return fail(Code::invalid, "a composite has a name and a decomposition");
  const std::string_view known = name->text.starts_with("chlo.") ? name->text.substr(5) : std::string_view{};
  const ops::Op* row = ops::find_op(known);
  if (row == nullptr || row->is_internal) return call_function(op, body->text);
  Op named{.name = op.name, .regions = {}};
  if (const Attr* given = module_.find(op, "composite_attributes"))
    for (size_t i = 0; i < given->keys.size(); ++i) named.attrs.push_back({given->keys[i], given->elements[i]});
  return add(op, known, TRY(graph_attrs(module_, named)), TRY(operands(op)));
}

Result<void> GraphMaker::inline_body(const Op& op) {
  if (op.regions.size() != 1) return fail(Code::invalid, cat("has ", op.regions.size(), " regions; expected one"));
  const Block& body = *TRY(only_block(op.regions[0]));
  return bind(op, TRY(block(body, TRY(operands(op)))));
}

// A part of the program that is written for one device: values go in by their parts and come out whole.
Result<void> GraphMaker::manual(const Op& op) {
  if (partitions_ == 1 || is_local_ || op.regions.size() != 1) return inline_body(op);
  const Block& body = *TRY(only_block(op.regions[0]));
  ir::Strings axes;
  const Attr* manual_axes = module_.find(op, "manual_axes");
  if (const Attr* names = manual_axes != nullptr ? module_.field(*manual_axes, "value") : nullptr)
    for (AttrId id : names->elements) axes.emplace_back(module_.attr(id).text);
  const auto attrs = [&](std::string_view list, size_t i) -> Result<ir::Attrs> {
    const Attr* per_value = module_.find(op, list);
    const Attr* all = per_value != nullptr ? module_.field(*per_value, "shardings") : nullptr;
    if (all == nullptr || i >= all->elements.size()) return fail(Code::invalid, cat("lacks a sharding in ", list));
    ir::Attrs out{{"sharding", attr_text(module_, all->elements[i])}, {"manual_axes", axes}};
    if (manual_depth_ > 0) out.set("is_nested", true);
    return out;
  };
  Values parts;
  for (const ir::Value& v : TRY(operands(op))) {
    const size_t i = parts.size();
    if (i >= body.arguments) return fail(Code::invalid, "more operands than its body takes");
    const ir::Type type = TRY(graph_type(module_, module_.type_of(body.argument(uint32_t(i)))));
    parts.push_back(TRY(make1(op::to_local, {v}, TRY(attrs("in_shardings", i)), {type})));
  }
  Values whole;
  const std::vector<ir::Type> types = TRY(result_types(op));
  ++manual_depth_;
  auto results = block(body, parts);
  --manual_depth_;
  for (const ir::Value& v : TRY(std::move(results))) {
    const size_t i = whole.size();
    if (i >= types.size()) return fail(Code::invalid, "fewer results than its body gives");
    whole.push_back(TRY(make1(op::to_global, {v}, TRY(attrs("out_shardings", i)), {types[i]})));
  }
  return bind(op, whole);
}

}  // namespace trine::front::stablehlo
