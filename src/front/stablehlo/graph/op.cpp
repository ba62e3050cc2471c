// One op of the module to nodes of the graph. Most keep their name and attributes; the table has those that do not.
#include <algorithm>

#include "base/number/scalar.h"
#include "base/stop.h"
#include "base/text.h"
#include "front/stablehlo/graph/maker.h"
#include "front/stablehlo/print/print.h"
#include "ir/op_ids.h"

namespace trine::front::stablehlo {

namespace {

constexpr int kNestingMax = 300;  // regions and inlined calls

bool is_return(std::string_view op) { return op == "func.return" || op == "stablehlo.return" || op == "sdy.return"; }

// A list the module leaves out where all its entries are `value`.
void set_default(ir::Attrs& attrs, std::string_view name, size_t count, int64_t value) {
  if (attrs.find(name) == nullptr) attrs.set(name, ir::Ints(count, value));
}

}  // namespace

GraphMaker::Rule GraphMaker::rule_for(std::string_view op) {
  using M = GraphMaker;
  static const std::unordered_map<std::string_view, Rule> kRules = {
      {"builtin.unrealized_conversion_cast", &M::identity},
      {"func.call", &M::call},
      {"stablehlo.all_reduce", &M::combined},
      {"stablehlo.broadcast", &M::broadcast},
      {"stablehlo.case", &M::choice},
      {"stablehlo.composite", &M::composite},
      {"stablehlo.constant", &M::constant},
      {"stablehlo.convolution", &M::convolution},
      {"stablehlo.cross-replica-sum", &M::cross_replica_sum},
      {"stablehlo.custom_call", &M::custom_call},
      {"stablehlo.dot", &M::dot},
      {"stablehlo.dot_general", &M::dot},
      {"stablehlo.get_dimension_size", &M::dimension_size},
      {"stablehlo.if", &M::choice},
      {"stablehlo.map", &M::with_regions},
      {"stablehlo.reduce", &M::combined},
      {"stablehlo.reduce_scatter", &M::combined},
      {"stablehlo.reduce_window", &M::combined},
      {"stablehlo.scatter", &M::combined},
      {"stablehlo.select_and_scatter", &M::select_and_scatter},
      {"stablehlo.sort", &M::sort},
      {"stablehlo.while", &M::with_regions},
      {"chlo.constant", &M::constant},
      {"sdy.constant", &M::constant},
      {"sdy.data_flow_edge", &M::identity},
      {"sdy.manual_computation", &M::manual},
      {"sdy.named_computation", &M::inline_body},
      {"sdy.propagation_barrier", &M::identity},
      {"sdy.reshard", &M::constraint},
      {"sdy.sharding_constraint", &M::constraint},
      {"sdy.sharding_group", &M::sharding_group},
  };
  const auto found = kRules.find(op);
  return found == kRules.end() ? &M::plain : found->second;
}

Result<Values> GraphMaker::block(const Block& block, std::span<const ir::Value> arguments) {
  if (arguments.size() != block.arguments)
    return fail(Code::invalid, cat("a body of ", block.arguments, " arguments is given ", arguments.size()));
  if (depth_ >= kNestingMax)
    return fail(Code::unsupported, cat("regions and calls nested more than ", kNestingMax, " deep"));
  for (uint32_t i = 0; i < block.arguments; ++i) {
    const ir::Type type = TRY(graph_type(module_, module_.type_of(block.argument(i))));
    if (!ir::same_tensor(type, arguments[i].type()))
      return fail(Code::invalid, cat("argument ", i, " of a body is ", ir::text(type), ", but ",
                                     ir::text(arguments[i].type()), " is given"));
    values_[size_t(block.argument(i))] = arguments[i];
  }
  if (block.ops.empty() || !is_return(block.ops.back().name)) return fail(Code::invalid, "a body that does not return");
  ++depth_;
  const uint32_t outer_first = std::exchange(block_first_, uint32_t(block.argument(0)));
  auto outer_groups = std::exchange(groups_, {});
  for (size_t i = 0; i + 1 < block.ops.size(); ++i) TRY(op(block.ops[i]));
  --depth_;
  block_first_ = outer_first;
  groups_ = std::move(outer_groups);
  return operands(block.ops.back());
}

Result<void> GraphMaker::op(const Op& op) {
  auto [entry, fresh] = locations_.try_emplace(op.location, 0);
  if (fresh) entry->second = graph_.add_location(location_text(module_, op.location, around_));
  const uint32_t outer = where_;
  const bool has_line = graph_.location(entry->second).find(':') != std::string::npos;
  where_ = has_line || !outer ? entry->second : outer;  // of a called function without lines: the call's
  auto done =
      ++ops_ > limits().ops && limits().ops > 0
          ? Result<void>(fail(Code::out_of_range, cat("more than ", limits().ops,
                                                      " ops once calls are written out; TRINE_OPS allows more")))
          : (this->*rule_for(op.name))(op);
  if (!done && done.error().where.empty()) {
    const std::string& where = graph_.location(where_);
    done = fail(done.error().code, cat(op.name, ": ", done.error().message), where.empty() ? "the program" : where);
  }
  where_ = outer;
  return done;
}

Result<Values> GraphMaker::operands(const Op& op) const {
  Values out;
  for (ValueId id : op.operands) {
    out.push_back(values_[size_t(id)]);
    if (!out.back()) return fail(Code::invalid, cat("operand ", out.size() - 1, " has no value here"));
  }
  return out;
}

Result<std::vector<ir::Type>> GraphMaker::result_types(const Op& op) const {
  std::vector<ir::Type> out;
  for (uint32_t i = 0; i < op.results; ++i) out.push_back(TRY(graph_type(module_, module_.type_of(op.result(i)))));
  return out;
}

Result<void> GraphMaker::bind(const Op& op, std::span<const ir::Value> results) {
  if (results.size() != op.results)
    return fail(Code::invalid, cat("has ", op.results, " results, but ", results.size(), " are given"));
  const std::vector<ir::Type> types = TRY(result_types(op));
  for (uint32_t i = 0; i < op.results; ++i) {
    if (!ir::same_tensor(types[i], results[i].type()))
      return fail(Code::invalid,
                  cat("result ", i, " is ", ir::text(types[i]), ", but ", ir::text(results[i].type()), " is given"));
    values_[size_t(op.result(i))] = results[i];
  }
  return {};
}

Result<void> GraphMaker::add(const Op& op, std::string_view name, ir::Attrs attrs, Values inputs,
                             std::vector<ir::Region> regions) {
  const auto id = ir::OpId::find(name);
  if (!id) return fail(Code::unsupported, ir::unknown_op(name), graph_.location(where_));
  const ops::Op* row = ops::find_op(*id);
  if (row != nullptr && row->is_internal)
    return fail(Code::unsupported, cat("`", name, "` is made by the compiler alone"));
  bool effect = row != nullptr && row->has_effect;
  if (attrs.find("has_side_effect") != nullptr) effect = attrs.flag("has_side_effect");
  for (const ir::Region& r : regions) effect = effect || !r.effects.empty();
  // A function of the host may raise: in a branch or a loop it is called there alone, whatever its arguments are.
  const bool is_in_region = effects_ != &graph_.effects;
  effect = effect || (is_in_region && *id == op::custom_call && attrs.text("call_target_name") == "trine_host_call");
  const ir::Node* node = TRY(ops::make(graph_, {.op = *id,
                                                .inputs = std::move(inputs),
                                                .attrs = std::move(attrs),
                                                .regions = std::move(regions),
                                                .types = TRY(result_types(op)),
                                                .where = where_,
                                                .is_unique = effect}));
  if (effect) effects_->push_back({node, 0});
  for (uint32_t i = 0; i < op.results; ++i) values_[size_t(op.result(i))] = node->result(i);
  return {};
}

Result<ir::Value> GraphMaker::make1(ir::OpId id, Values inputs, ir::Attrs attrs, std::vector<ir::Type> types) {
  const ir::Node* node = TRY(ops::make(
      graph_,
      {.op = id, .inputs = std::move(inputs), .attrs = std::move(attrs), .types = std::move(types), .where = where_}));
  return node->result();
}

Result<void> GraphMaker::plain(const Op& op) {
  const size_t dot = op.name.find('.');
  const std::string_view dialect = op.name.substr(0, dot);
  if (dialect != "stablehlo" && dialect != "chlo") return fail(Code::unsupported, "an op of this dialect");
  if (!op.regions.empty()) return fail(Code::unsupported, "an op with regions");
  return add(op, op.name.substr(dot + 1), TRY(graph_attrs(module_, op)), TRY(operands(op)));
}

Result<void> GraphMaker::identity(const Op& op) { return bind(op, TRY(operands(op))); }

// Where a value should lie; nothing to say once shapes are those of one device.
Result<void> GraphMaker::constraint(const Op& op) {
  if (partitions_ == 1 || is_local_) return identity(op);
  for (const NamedAttr& a : op.attrs)
    if (a.name == "sharding")
      return add(op, "sharding_constraint", {{"sharding", attr_text(module_, a.value)}}, TRY(operands(op)));
  return fail(Code::invalid, "names no sharding");
}

// Groups are taken as pairs of a block; its later uses of them are of what lies as the other does.
Result<void> GraphMaker::sharding_group(const Op& op) {
  const Attr* id = module_.find(op, "group_id");
  const Values own = TRY(operands(op));
  if (id == nullptr || own.size() != 1) return fail(Code::invalid, "takes one operand and the number of its group");
  if (partitions_ == 1 || is_local_ || manual_depth_ > 0) return {};
  const ValueId second = op.operands[0];
  const auto [at, is_new] = groups_.try_emplace(id->bits, second);
  if (is_new) return {};
  const ValueId other = at->second;
  groups_.erase(at);
  const ir::Value first = values_[size_t(other)];
  if (!ir::same_tensor(first.type(), own[0].type())) return fail(Code::invalid, "values of one group are not alike");
  if (uint32_t(second) >= block_first_) values_[size_t(second)] = TRY(make1(op::lie_alike, {own[0], first}, {}));
  if (uint32_t(other) >= block_first_) values_[size_t(other)] = TRY(make1(op::lie_alike, {first, own[0]}, {}));
  return {};
}

// Of equal elements only one is kept: a scalar, broadcast.
Result<void> GraphMaker::constant(const Op& op) {
  const Attr* value = module_.find(op, "value");
  if (value == nullptr || op.results != 1) return fail(Code::invalid, "a constant without its value");
  const ir::Type type = TRY(result_types(op))[0];
  const ir::Value given = graph_.constant(TRY(graph_tensor(module_, *value)), where_);
  if (given.type().dims == type.dims) return bind(op, {{given}});
  ir::Attrs none = {{"broadcast_dimensions", ir::Ints{}}};
  return bind(op, {{TRY(make1(op::broadcast_in_dim, {given}, std::move(none), {type}))}});
}

// New dims go before the operand's.
Result<void> GraphMaker::broadcast(const Op& op) {
  const Values inputs = TRY(operands(op));
  if (inputs.size() != 1) return fail(Code::invalid, "takes one operand");
  const int64_t added = int64_t(TRY(graph_attrs(module_, op)).ints("broadcast_sizes").size());
  ir::Ints dims;
  for (int64_t d = 0; d < inputs[0].type().rank(); ++d) dims.push_back(added + d);
  return add(op, "broadcast_in_dim", {{"broadcast_dimensions", std::move(dims)}}, inputs);
}

Result<void> GraphMaker::dot(const Op& op) {
  ir::Attrs attrs = TRY(graph_attrs(module_, op));
  Values inputs = TRY(operands(op));
  if (attrs.strings("precision").empty()) attrs.set("precision", ir::Strings(2, "DEFAULT"));
  if (op.name == "stablehlo.dot") {
    if (inputs.size() != 2 || inputs[0].type().rank() == 0) return fail(Code::invalid, "takes two operands with dims");
    for (std::string_view batch : {"lhs_batch", "rhs_batch"}) attrs.set(batch, ir::Ints{});
    attrs.set("lhs_contract", ir::Ints{inputs[0].type().rank() - 1});
    attrs.set("rhs_contract", ir::Ints{0});
  }
  return add(op, "dot_general", std::move(attrs), std::move(inputs));
}

Result<void> GraphMaker::convolution(const Op& op) {
  ir::Attrs attrs = TRY(graph_attrs(module_, op));
  const size_t spatial = attrs.ints("input_spatial").size();
  for (std::string_view name : {"window_strides", "lhs_dilation", "rhs_dilation"}) set_default(attrs, name, spatial, 1);
  set_default(attrs, "window_reversal", spatial, 0);
  set_default(attrs, "padding", 2 * spatial, 0);
  if (attrs.strings("precision").empty()) attrs.set("precision", ir::Strings(2, "DEFAULT"));
  return add(op, "convolution", std::move(attrs), TRY(operands(op)));
}

Result<void> GraphMaker::cross_replica_sum(const Op& op) {
  ir::Attrs attrs = TRY(graph_attrs(module_, op));
  attrs.set("kind", std::string("add"));
  return add(op, "all_reduce", std::move(attrs), TRY(operands(op)));
}

// Each device gathers the rows of its group, learns which are meant for it, and writes them into its own output.
Result<void> GraphMaker::ragged_all_to_all(const Op& op) {
  Values in = TRY(operands(op));
  const Attr* config = module_.find(op, "backend_config");
  ir::Attrs groups{{"group_size", int64_t{1}}};
  for (size_t i = 0; config != nullptr && i < config->keys.size(); ++i) {
    const Attr& value = module_.attr(config->elements[i]);
    if (config->keys[i] == "channel_id") groups.set("channel_id", int64_t(value.bits));
    if (config->keys[i] != "replica_groups" || value.kind != AttrKind::dense) continue;
    const std::vector<int64_t>& shape = module_.type(value.type).shape;
    groups.set("replica_groups", TRY(module_.integers(value)));
    groups.set("group_size", shape.empty() ? int64_t{1} : shape.back());
  }
  const int64_t devices = groups.integer("group_size", 1);
  if (in.size() != 6 || in[0].type().rank() == 0 || in[2].type().rank() != 1 || devices < 1 ||
      in[2].type().dims[0] % devices)
    return fail(Code::invalid, cat("takes rows and, for each of ", devices, " devices, as many offsets and sizes"));
  if (devices > 1) {
    const int64_t rows = in[0].type().dims[0], slices = in[2].type().dims[0] / devices;
    ir::Attrs gather = groups, exchange = groups;
    gather.set("all_gather_dim", int64_t{0});
    gather.set("use_global_device_ids", groups.find("channel_id") != nullptr);
    for (std::string_view dim : {"split_dimension", "concat_dimension"}) exchange.set(dim, int64_t{0});
    exchange.set("split_count", devices);
    in[0] = TRY(make1(op::all_gather, {in[0]}, std::move(gather)));
    for (size_t i : {2, 4}) in[i] = TRY(make1(op::all_to_all, {in[i]}, exchange));
    Tensor first = Tensor::make(Dtype::s64, in[2].type().dims);  // of the sender's rows among all
    for (int64_t i = 0; i < devices * slices; ++i) first.view().as<int64_t>()[i] = i / slices * rows;
    const ir::Value shift = TRY(make1(op::convert, {graph_.constant(std::move(first), where_)}, {}, {in[2].type()}));
    in[2] = TRY(make1(op::add, {in[2], shift}, {}));
  }
  in[3] = in[5];  // what is received, not what is sent
  return add(op, "ragged_all_to_all", {}, std::move(in));
}

Result<void> GraphMaker::dimension_size(const Op& op) {
  const Values inputs = TRY(operands(op));
  const int64_t dimension = TRY(graph_attrs(module_, op)).integer("dimension", -1);
  if (inputs.size() != 1 || dimension < 0 || dimension >= inputs[0].type().rank())
    return fail(Code::invalid, cat("dimension ", dimension, " is not one of its operand"));
  const auto size = double(inputs[0].type().dims[size_t(dimension)]);
  return bind(op, {{graph_.constant(scalar(Dtype::s32, size), where_)}});
}

// "dense<[0, 1]> : tensor<2xindex>" as "{0,1}".
void GraphMaker::note_layout(const Op& op, const Values& inputs) {
  const Attr* layouts = module_.find(op, "result_layouts");
  if (inputs.size() != 1 || layouts == nullptr || layouts->elements.size() != 1) return;
  const std::string text = attr_text(module_, layouts->elements[0]);
  std::string out = "{";
  for (char c : text.substr(0, text.find(" :")))
    if (c == ',' || (c >= '0' && c <= '9')) out += c;
  layouts_[inputs[0]] = out + "}";
}

// @Sharding says how a value lies; the others lead to the part of each device and back, and a value lies as said
// before.
Result<void> GraphMaker::gspmd(const Op& op, std::string_view target) {
  const Values inputs = TRY(operands(op));
  const Attr* sharding = module_.find(op, "mhlo.sharding");
  if (inputs.size() != 1 || sharding == nullptr) return fail(Code::invalid, cat("@", target, " without its sharding"));
  const bool is_manual = sharding->text == "{manual}";
  if (target == "SPMDFullToShardShape") {
    if (!is_manual || inputs[0].node->op != op::sharding_constraint)
      return fail(Code::unsupported, cat("@", target, " to ", sharding->text, " of what lies nowhere"));
    ir::Attrs attrs = inputs[0].node->attrs;
    attrs.set("manual_axes", gspmd_.axes_of(std::string(attrs.text("sharding"))));
    return add(op, "to_local", std::move(attrs), inputs);
  }
  if (is_manual) return identity(op);
  const Attr* config = module_.find(op, "backend_config");
  const size_t rank = inputs[0].type().dims.size();
  ir::Attrs attrs{{"sharding", TRY(gspmd_.convert(sharding->text, rank, config ? config->text : std::string_view{}))}};
  if (target == "Sharding") return add(op, "sharding_constraint", std::move(attrs), inputs);
  attrs.set("manual_axes", gspmd_.axes_of(std::string(attrs.text("sharding"))));
  return add(op, "to_global", std::move(attrs), inputs);
}

// Its operands are computed whoever needs them.
Result<void> GraphMaker::sink(const Op& op, ir::Attrs attrs) {
  const ir::Node* node = TRY(ops::make(graph_, {.op = op::custom_call,
                                                .inputs = TRY(operands(op)),
                                                .attrs = std::move(attrs),
                                                .types = {ir::token_type()},
                                                .where = where_,
                                                .is_unique = true}));
  effects_->push_back(node->result());
  return {};
}

Result<void> GraphMaker::custom_call(const Op& op) {
  ir::Attrs attrs = TRY(graph_attrs(module_, op));
  const std::string_view target = attrs.text("call_target_name");
  for (std::string_view name : {"Sharding", "SPMDFullToShardShape", "SPMDShardToFullShape"})
    if (target == name) return partitions_ == 1 || is_local_ ? identity(op) : gspmd(op, target);
  if (target == "dce_sink") return sink(op, std::move(attrs));
  if (target == "ragged_all_to_all") return ragged_all_to_all(op);
  if (target == "LayoutConstraint") {  // values do not change; a result with it may lie so
    note_layout(op, TRY(operands(op)));
    return identity(op);
  }
  // Where a value lies within a program is the planner's business.
  if (target == "annotate_device_placement" && op.operands.size() == 1 && op.results == 1 &&
      module_.type_of(op.operands[0]) == module_.type_of(op.result(0)))
    return identity(op);
  for (const NamedAttr& a : op.attrs)
    if (a.name == "mhlo.backend_config") attrs.set("backend_config", attr_text(module_, a.value));
  return add(op, "custom_call", std::move(attrs), TRY(operands(op)));
}

}  // namespace trine::front::stablehlo
