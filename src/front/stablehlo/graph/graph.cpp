// The program around the ops: functions, parameters, results, meshes, and programs that are manual as a whole.
#include "front/stablehlo/graph/graph.h"

#include <algorithm>

#include "base/text.h"
#include "front/stablehlo/graph/maker.h"
#include "front/stablehlo/print/print.h"

namespace trine::front::stablehlo {

namespace {

std::string_view name_of(const Module& module, const Op& op) {
  const Attr* name = module.find(op, "sym_name");
  return name != nullptr ? name->text : std::string_view{};
}

// The only op of a body that hands it all its arguments and returns all its results.
const Op* only_step(const Block& body) {
  if (body.ops.size() != 2) return nullptr;
  const Op &step = body.ops[0], &end = body.ops[1];
  if (step.operands.size() != body.arguments || end.operands.size() != step.results) return nullptr;
  for (uint32_t i = 0; i < body.arguments; ++i)
    if (step.operands[i] != body.argument(i)) return nullptr;
  for (uint32_t i = 0; i < step.results; ++i)
    if (end.operands[i] != step.result(i)) return nullptr;
  return &step;
}

}  // namespace

Result<ir::Graph> GraphMaker::make() {
  TRY(find_functions());
  const auto main = functions_.find("main");
  const Op* function = main != functions_.end() ? main->second
                       : functions_.size() == 1 ? functions_.begin()->second
                                                : nullptr;
  if (function == nullptr)
    return fail(Code::invalid, cat("a module of ", functions_.size(), " functions without @main"));
  effects_ = &graph_.effects;
  open_.insert(function);
  TRY(main_function(*function));
  if (ir::Strings meshes = graph_.attrs.strings("meshes"); !gspmd_.meshes().empty()) {
    meshes.insert(meshes.end(), gspmd_.meshes().begin(), gspmd_.meshes().end());
    graph_.attrs.set("meshes", std::move(meshes));
  }
  return std::move(graph_);
}

Result<void> GraphMaker::find_functions() {
  if (module_.top.regions.size() != 1 || module_.top.regions[0].blocks.size() != 1)
    return fail(Code::invalid, "a module without a body");
  if (const std::string_view name = name_of(module_, module_.top); !name.empty()) graph_.name = name;
  for (std::string_view count : {"mhlo.num_partitions", "mhlo.num_replicas"})
    if (const Attr* n = module_.find(module_.top, count); n != nullptr && n->kind == AttrKind::integer)
      graph_.attrs.set(count.substr(5), int64_t(n->bits));
  partitions_ = graph_.attrs.integer("num_partitions", 1);
  gspmd_ = GspmdMeshes(partitions_);
  ir::Strings meshes;
  for (const Op& op : module_.top.regions[0].blocks[0].ops) {
    if (op.name == "func.func") {
      if (!functions_.emplace(name_of(module_, op), &op).second)
        return fail(Code::invalid, cat("two functions named @", name_of(module_, op)));
    } else if (op.name == "sdy.mesh") {
      for (const NamedAttr& a : op.attrs)
        if (a.name == "mesh") meshes.push_back(cat(name_of(module_, op), " = ", attr_text(module_, a.value)));
    } else {
      return fail(Code::unsupported, cat("op ", op.name, " outside a function"));
    }
  }
  if (!meshes.empty()) graph_.attrs.set("meshes", std::move(meshes));
  return {};
}

// Entry `name` of the i-th dictionary in the op's attribute `list` (arg_attrs, res_attrs).
AttrId GraphMaker::dictionary_entry(const Op& op, std::string_view list, size_t i, std::string_view name) const {
  const Attr* all = module_.find(op, list);
  if (all == nullptr || i >= all->elements.size()) return AttrId::none;
  const Attr& one = module_.attr(all->elements[i]);
  for (size_t k = 0; k < one.keys.size(); ++k)
    if (one.keys[k] == name) return one.elements[k];
  return AttrId::none;
}

Result<void> GraphMaker::add_parameter(const Op& function, uint32_t i, TypeId type, std::string sharding) {
  ir::Type t = TRY(graph_type(module_, type));
  t.sharding = std::move(sharding);
  const Block& body = function.regions[0].blocks[0];
  const AttrId location = body.locations.empty() ? AttrId::none : body.locations[i];
  graph_.params.push_back(graph_.parameter(std::move(t), graph_.add_location(location_text(module_, location))));
  const AttrId alias = dictionary_entry(function, "arg_attrs", i, "tf.aliasing_output");
  const bool donated = alias != AttrId::none && module_.attr(alias).kind == AttrKind::integer;
  graph_.donations.push_back(donated ? int(module_.attr(alias).bits) : -1);
  return {};
}

Result<std::string> GraphMaker::sharding_of(const Op& function, std::string_view list, size_t i, TypeId type) {
  if (const AttrId own = dictionary_entry(function, list, i, "sdy.sharding"); own != AttrId::none)
    return attr_text(module_, own);
  const AttrId of_gspmd = dictionary_entry(function, list, i, "mhlo.sharding");
  if (of_gspmd == AttrId::none || partitions_ == 1) return std::string();
  const size_t rank = TRY(graph_type(module_, type)).dims.size();
  return gspmd_.convert(module_.attr(of_gspmd).text, rank);
}

// Entry `name` of every argument or result; empty where none says anything.
ir::Strings GraphMaker::texts_of(const Op& function, std::string_view list, std::string_view name, size_t count) const {
  ir::Strings out(count);
  for (size_t i = 0; i < count; ++i)
    if (const AttrId id = dictionary_entry(function, list, i, name); id != AttrId::none)
      if (module_.attr(id).kind == AttrKind::string && module_.attr(id).text != "default")
        out[i] = module_.attr(id).text;
  if (std::all_of(out.begin(), out.end(), [](const std::string& s) { return s.empty(); })) out.clear();
  return out;
}

// How and where arguments and results lie, as JAX says it.
void GraphMaker::note_locations(const Op& function) {
  struct Note {
    std::string_view name, list, entry;
    size_t count;
  };
  const size_t in = graph_.params.size(), out = graph_.results.size();
  for (const Note& n : {Note{"parameter_layouts", "arg_attrs", "mhlo.layout_mode", in},
                        Note{"result_layouts", "res_attrs", "mhlo.layout_mode", out},
                        Note{"result_memory_kinds", "res_attrs", "mhlo.memory_kind", out}})
    if (ir::Strings texts = texts_of(function, n.list, n.entry, n.count); !texts.empty()) {
      for (size_t i = 0; i < texts.size(); ++i)
        if (const auto asked = layouts_.find(n.name == "result_layouts" ? graph_.results[i] : ir::Value());
            texts[i] == "auto" && asked != layouts_.end())
          texts[i] = asked->second;
      graph_.attrs.set(n.name, std::move(texts));
    }
}

Result<void> GraphMaker::main_function(const Op& function) {
  if (function.regions.size() != 1) return fail(Code::invalid, "a function without a body");
  const Block& body = *TRY(only_block(function.regions[0]));
  if (!TRY(peel_manual(function))) {
    for (uint32_t i = 0; i < body.arguments; ++i) {
      const TypeId type = module_.type_of(body.argument(i));
      TRY(add_parameter(function, i, type, TRY(sharding_of(function, "arg_attrs", i, type))));
    }
    const Values params = graph_.params;
    graph_.results = TRY(block(body, params));
    ir::Strings shardings;
    for (size_t i = 0; i < graph_.results.size(); ++i)
      shardings.push_back(TRY(sharding_of(function, "res_attrs", i, module_.type_of(body.ops.back().operands[i]))));
    if (std::any_of(shardings.begin(), shardings.end(), [](const std::string& s) { return !s.empty(); }))
      graph_.attrs.set("result_shardings", std::move(shardings));
  }
  finish_donations(function);
  note_locations(function);
  return {};
}

// An argument is given to the result it names, or, where it is only given away, to the first free one of its type.
void GraphMaker::finish_donations(const Op& function) {
  auto& donations = graph_.donations;
  std::vector<bool> taken(graph_.results.size());
  for (int& d : donations) {
    if (d >= int(taken.size()) || (d >= 0 && taken[size_t(d)])) d = -1;
    if (d >= 0) taken[size_t(d)] = true;
  }
  for (size_t i = 0; i < donations.size(); ++i) {
    if (donations[i] >= 0 || dictionary_entry(function, "arg_attrs", i, "jax.buffer_donor") == AttrId::none) continue;
    for (size_t r = 0; r < taken.size() && donations[i] < 0; ++r)
      if (!taken[r] && ir::same_tensor(graph_.params[i].type(), graph_.results[r].type())) donations[i] = int(r);
    if (donations[i] >= 0) taken[size_t(donations[i])] = true;
  }
  if (std::all_of(donations.begin(), donations.end(), [](int d) { return d < 0; })) donations.clear();
}

// The manual computation that main is, perhaps through calls; null where it is more than that.
const Op* GraphMaker::find_manual(const Block& main) const {
  const Block* body = &main;
  for (size_t calls = 0; calls <= functions_.size(); ++calls) {
    const Op* only = only_step(*body);
    if (only == nullptr || only->name == "sdy.manual_computation") return only;
    const Attr* callee = only->name == "func.call" ? module_.find(*only, "callee") : nullptr;
    const auto found = callee != nullptr ? functions_.find(callee->text) : functions_.end();
    if (found == functions_.end() || found->second->regions.size() != 1) return nullptr;
    if (found->second->regions[0].blocks.size() != 1) return nullptr;
    body = &found->second->regions[0].blocks[0];
  }
  return nullptr;
}

// The shardings of a manual computation, where the function's own are the same or not given; none where they differ.
std::vector<AttrId> GraphMaker::same_shardings(const Op& function, std::string_view list, const Op& manual,
                                               std::string_view wanted) const {
  const Attr* per_value = module_.find(manual, wanted);
  const Attr* shardings = per_value != nullptr ? module_.field(*per_value, "shardings") : nullptr;
  if (shardings == nullptr) return {};
  for (size_t i = 0; i < shardings->elements.size(); ++i) {
    const AttrId own = dictionary_entry(function, list, i, "sdy.sharding");
    if (own != AttrId::none && own != shardings->elements[i]) return {};
  }
  return shardings->elements;
}

// Devices along the manual axes of the mesh that a sharding is of.
int64_t GraphMaker::manual_devices(const Op& manual, AttrId sharding) const {
  const Attr* mesh = module_.field(module_.attr(sharding), "mesh_or_ref");
  if (mesh == nullptr) return 0;
  for (const Op& op : module_.top.regions[0].blocks[0].ops)
    if (mesh->kind == AttrKind::symbol && op.name == "sdy.mesh" && name_of(module_, op) == mesh->text)
      if (const Attr* named = module_.find(op, "mesh")) mesh = named;
  const Attr* axes = module_.find(manual, "manual_axes");
  const Attr* names = axes != nullptr ? module_.field(*axes, "value") : nullptr;
  const Attr* sizes = module_.field(*mesh, "axes");
  if (names == nullptr || sizes == nullptr) return 0;
  int64_t devices = 1;
  for (AttrId name : names->elements)
    for (AttrId axis : sizes->elements) {
      const Attr *own_name = module_.field(module_.attr(axis), "name"),
                 *own = module_.field(module_.attr(axis), "size");
      if (own_name == nullptr || own == nullptr) return 0;
      const auto size = int64_t(own->bits);
      if (own_name->text != module_.attr(name).text) continue;
      if (size <= 0 || devices > partitions_) return 0;
      devices *= size;
    }
  return devices;
}

// main(args) = manual_computation(args) over all devices, with arguments sharded as the computation wants them: its
// body is what each device runs.
Result<bool> GraphMaker::peel_manual(const Op& function) {
  const Block& body = function.regions[0].blocks[0];
  const Op* manual = find_manual(body);
  if (manual == nullptr || manual->regions.size() != 1) return false;
  const Block& inner = *TRY(only_block(manual->regions[0]));
  const std::vector<AttrId> in = same_shardings(function, "arg_attrs", *manual, "in_shardings");
  const std::vector<AttrId> out = same_shardings(function, "res_attrs", *manual, "out_shardings");
  if (in.size() != body.arguments || out.size() != manual->results || inner.arguments != body.arguments) return false;
  const AttrId any = !in.empty() ? in[0] : !out.empty() ? out[0] : AttrId::none;
  if (any == AttrId::none || manual_devices(*manual, any) != partitions_) return false;
  for (uint32_t i = 0; i < body.arguments; ++i)
    TRY(add_parameter(function, i, module_.type_of(inner.argument(i)), attr_text(module_, in[i])));
  is_local_ = true;
  graph_.attrs.set("is_local", true);
  const Values params = graph_.params;
  graph_.results = TRY(block(inner, params));
  ir::Strings shardings;
  for (AttrId id : out) shardings.push_back(attr_text(module_, id));
  graph_.attrs.set("result_shardings", std::move(shardings));
  return true;
}

Result<ir::Graph> to_graph(const Module& module) { return GraphMaker(module).make(); }

}  // namespace trine::front::stablehlo
