// Units one after the other, and the table of nodes that are no loops of elements; see lower.h.
#include "compile/device/lower.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "base/text.h"
#include "compile/device/attention/attention.h"
#include "compile/device/attention/backward.h"
#include "compile/device/collective.h"
#include "compile/device/kernel_call.h"
#include "compile/device/loops/join.h"
#include "compile/device/loops/loop.h"
#include "compile/device/memory/moves.h"
#include "compile/device/memory/windows.h"
#include "compile/device/multiplies/conv.h"
#include "compile/device/multiplies/conv_shift.h"
#include "compile/device/rows/arg_max.h"
#include "compile/device/rows/gather.h"
#include "compile/device/rows/scan.h"
#include "compile/device/rows/top_k.h"
#include "ir/op_ids.h"
#include "ops/internal.h"

namespace trine::compile::device {

namespace {

std::string regions_obstacle(const ir::Node& node) {
  for (const ir::Region& region : node.regions) {
    const Fusion fusion = units_of(nodes_of(region), region.results);
    for (const Unit& unit : fusion.units)
      if (std::string why = unit_obstacle(unit); !why.empty()) {
        const ir::Node& inner = unit.single ? *unit.single : *unit.roots.front();
        return cat("in its body, ", inner.op, ": ", why);
      }
  }
  return move_obstacle(node);
}

struct Row {
  ir::OpId op;
  std::string (*obstacle)(const ir::Node&);
  void (*lower)(Lowering&, const ir::Node&);
};

constexpr auto kCollective = [](Lowering& l, const ir::Node& n) { lower_collective(l.rec(), l.store(), n); };
constexpr auto kRank = [](Lowering& l, const ir::Node& n) { lower_rank(l.rec(), l.store(), n); };

constexpr Row kRows[] = {
    {op::all_gather, move_obstacle, kCollective},
    {op::all_reduce, move_obstacle, kCollective},
    {op::all_to_all, move_obstacle, kCollective},
    {op::arg_max_parts, arg_max_obstacle, [](Lowering& l, const ir::Node& n) { lower_arg_max(l.rec(), l.store(), n); }},
    {op::attention_gradient, [](const ir::Node&) { return std::string(); },
     [](Lowering& l, const ir::Node& n) { lower_attention_gradient(l.rec(), l.store(), n, l.policy()); }},
    {op::bitcast_convert, move_obstacle, [](Lowering& l, const ir::Node& n) { lower_bits(l.rec(), l.store(), n); }},
    {op::case_, regions_obstacle, [](Lowering& l, const ir::Node& n) { l.branch(n); }},
    {op::collective_broadcast, move_obstacle, kCollective},
    {op::collective_permute, move_obstacle, kCollective},
    {op::concatenate, move_obstacle, [](Lowering& l, const ir::Node& n) { lower_concatenate(l.rec(), l.store(), n); }},
    {op::convolution, conv_obstacle,
     [](Lowering& l, const ir::Node& n) { lower_conv(l.rec(), l.store(), n, l.policy()); }},
    {op::custom_call, kernel_obstacle, [](Lowering& l, const ir::Node& n) { lower_kernel(l.rec(), l.store(), n); }},
    {op::dot_general, dot_obstacle, [](Lowering& l, const ir::Node& n) { l.dot(n); }},
    {op::pad, move_obstacle, [](Lowering& l, const ir::Node& n) { lower_pad(l.rec(), l.store(), n); }},
    {op::partition_id, move_obstacle, kRank},
    {op::reduce_scatter, move_obstacle, kCollective},
    {op::replica_id, move_obstacle, kRank},
    {op::scan, move_obstacle, [](Lowering& l, const ir::Node& n) { lower_scan(l.rec(), l.store(), n); }},
    {op::row_gather, row_gather_obstacle,
     [](Lowering& l, const ir::Node& n) { lower_row_gather(l.rec(), l.store(), n); }},
    {op::top_k, move_obstacle, [](Lowering& l, const ir::Node& n) { lower_top_k(l.rec(), l.store(), n); }},
    {op::while_, regions_obstacle, [](Lowering& l, const ir::Node& n) { l.loop_while(n); }},
    {op::window_load, window_obstacle, [](Lowering& l, const ir::Node& n) { l.window_load(n); }},
    {op::window_store, window_obstacle, [](Lowering& l, const ir::Node& n) { l.window_store(n); }},
};

const Row* row_of(ir::OpId op) {
  for (const Row& row : kRows)
    if (row.op == op) return &row;
  return nullptr;
}

}  // namespace

std::string node_obstacle(const ir::Node& node) {
  const Row* const row = row_of(node.op);
  if (row) return row->obstacle(node);
  const std::string why = move_obstacle(node);
  return why.empty() ? cat("no engine computes ", node.op) : why;
}

std::string unit_obstacle(const Unit& unit) {
  if (unit.product)
    if (std::string why = node_obstacle(*unit.product); !why.empty()) return why;
  if (unit.attention) return {};
  return unit.is_loop() ? loop_obstacle(unit) : node_obstacle(*unit.single);
}

namespace {

// Loops over a product that write it changed and also reduce that come apart: the change is done on the product's
// tiles, the reduction by a loop after it.
class Divider {
 public:
  Divider(std::vector<Unit>& units, std::span<const ir::Value> live_out) : units_(units) {
    for (const ir::Value& v : live_out) readers_[v.node] = 2;
    for (const Unit& unit : units) {
      std::unordered_set<const ir::Node*> read;
      const auto of = [&](const ir::Node& node) {
        for (const auto* list : {&node.inputs, &node.captures})
          for (const ir::Value& v : *list) read.insert(v.node);
      };
      if (unit.single) of(*unit.single);
      if (unit.product) of(*unit.product);
      for (const ir::Node* member : unit.members) of(*member);
      for (const ir::Node* node : read) ++readers_[node];
    }
  }

  void all() {
    std::unordered_set<const ir::Node*> taken;
    for (size_t u = 0; u < units_.size(); ++u)
      if (auto first = changed(units_[u])) {
        taken.insert(first->product);
        units_.insert(units_.begin() + ptrdiff_t(u++), *std::move(first));
      }
    std::erase_if(units_, [&](const Unit& unit) { return unit.single && taken.count(unit.single); });
  }

 private:
  // What makes the root of a loop with a reduction out of a product; the loop is then without it.
  std::optional<Unit> changed(Unit& unit) {
    if (unit.product || !unit.is_loop() || !unit.has_reduction()) return std::nullopt;
    const auto root = std::find_if(unit.roots.begin(), unit.roots.end(), [&](const ir::Node* node) {
      return node->op != op::reduce && node->types[0].dims == unit.space;
    });
    if (root == unit.roots.end()) return std::nullopt;
    Unit first{.roots = {*root}, .members = {*root}, .space = unit.space};
    first.inner.assign(unit.space.size(), false);
    for (std::vector<const ir::Node*> worklist = {*root}; !worklist.empty();) {
      const ir::Node* const node = worklist.back();
      worklist.pop_back();
      if (node->op == op::reduce) return std::nullopt;
      for (const ir::Value& v : node->inputs) {
        if (unit.members.count(v.node)) {
          if (first.members.insert(v.node).second) worklist.push_back(v.node);
        } else if (v.node->op == op::dot_general && v.type().dims == unit.space && readers_[v.node] == 1) {
          first.product = v.node;
        }
      }
    }
    if (!first.product) return std::nullopt;
    for (const ir::Node* node : unit.members)
      for (const ir::Value& v : node->inputs)
        if (!first.members.count(node) && (v.node == first.product || (v.node != *root && first.members.count(v.node))))
          return std::nullopt;
    for (const ir::Node* node : first.members) unit.members.erase(node);
    unit.roots.erase(root);
    return first;
  }

  std::vector<Unit>& units_;
  std::unordered_map<const ir::Node*, int> readers_;
};

}  // namespace

// With channels last, as rows of pixels: transposed one by one they would come an element at a time.
static bool is_kernel_gradient(const ir::Node& node) {
  return node.op == op::convolution && node.attrs.integer("input_feature") == 0 &&
         node.attrs.integer("kernel_input_feature") == 0 &&
         node.attrs.integer("kernel_output_feature") + 1 == node.inputs[1].type().rank();
}

Fusion units_of(std::span<const ir::Node* const> nodes, std::span<const ir::Value> live_out) {
  Fusion fusion = fuse(nodes, live_out,
                       {.attention = takes_attention,
                        .dense = is_kernel_gradient,
                        .once_over_products = true,
                        .results_first = true,
                        .rows_apart = true,
                        .rows_together = true});
  Divider(fusion.units, live_out).all();
  join(fusion.units, live_out);
  for (Unit& unit : fusion.units)
    if (unit.single && !unit.attention && has_map(*unit.single)) {
      const ir::Node* const node = unit.single;
      const Dims& space = node->types[0].dims;
      unit = Unit{.roots = {node}, .members = {node}, .space = space, .inner = std::vector<bool>(space.size())};
    }
  return fusion;
}

Result<std::vector<DeviceInput>> Lowering::all(const Fusion& fusion) {
  const std::vector<const ir::Node*> nodes = graph_.order();
  note_users(nodes);
  for (size_t i = 0; i < graph_.params.size(); ++i) add_input(i);
  find_donations();
  add_constants(nodes);
  body(nodes, graph_.results, fusion.units);
  allocate_results();
  if (rec_.error()) return *rec_.error();
  std::vector<DeviceInput> inputs;
  for (const ir::Value& p : graph_.params) {
    Memory& m = store_.of(p);
    if (m.input >= 0 && m.hbm < 0) store_.hbm(m);
    inputs.push_back({m.dtype, m.panels});
  }
  return inputs;
}

void Lowering::note_users(const std::vector<const ir::Node*>& nodes) {
  for (const ir::Node* node : nodes)
    for (const auto* list : {&node->inputs, &node->captures})
      for (const ir::Value& v : *list) users_[v.node].push_back(node);
}

void Lowering::add_input(size_t i) {
  const ir::Type& type = graph_.params[i].type();
  if (!type.is_token && !device_dtype(type.dtype))
    return rec_.fail_with(fail(Code::unsupported,
                               cat("input ", i, ", ", ir::text(type), ", cannot run on the device: the chip has no ",
                                   trine::row(type.dtype).name),
                               graph_.location(graph_.params[i].node->where)));
  Memory& m = store_.of(graph_.params[i]);
  const bool weight = i < options_.weights.size() && options_.weights[i];
  if (weight && only_multiplied(*graph_.params[i].node)) {
    if (options_.dots.cast && m.dtype == Dtype::f32) m.dtype = *options_.dots.cast;
    if (multiplies_of(*graph_.params[i].node) == 1) {
      m.input = int(i);
      return;
    }
  }
  store_.keep_in_hbm(m, cat("arg", i), arch::TensorKind::input);
}

// Does the tensor engine read it, in the format that multiplies have?
static bool is_multiply(const ir::Node& node) {
  if (node.op == op::convolution)
    return node.attrs.integer("feature_group_count", 1) == 1 && node.attrs.integer("batch_group_count", 1) == 1;
  return (node.op == op::dot_general && !node.attrs.flag(kKeepsFormat)) || node.op == op::attention_gradient;
}

int Lowering::multiplies_of(const ir::Node& node) const {
  int n = 0;
  for (const ir::Node* user : users_.at(&node)) n += is_multiply(*user) ? 1 : multiplies_of(*user);
  return n;
}

bool Lowering::only_multiplied(const ir::Node& node) const {
  auto found = users_.find(&node);
  return found != users_.end() && std::all_of(found->second.begin(), found->second.end(), [&](const ir::Node* user) {
           return is_multiply(*user) ||
                  ((user->op == op::reshape || view_kind(*user) != ViewKind::none) && only_multiplied(*user));
         });
}

// What multiplies alone read is kept in their format from the start.
void Lowering::narrow(const std::vector<Unit>& units, std::span<const ir::Value> live_out) {
  if (!options_.dots.cast) return;
  const auto is_live_out = [&](const ir::Node& node) {
    return std::any_of(live_out.begin(), live_out.end(),
                       [&](const ir::Value& v) { return memory_root(v).node == memory_root(node.result()).node; });
  };
  const auto one = [&](const ir::Node& node) {
    if (!node.regions.empty() || node.op == op::bitcast_convert) return;
    if (node.types[0].dtype == Dtype::f32 && only_multiplied(node) && !is_live_out(node))
      store_.of(node.result()).dtype = *options_.dots.cast;
  };
  for (const Unit& unit : units) {
    if (unit.product) one(*unit.product);
    if (unit.single) one(*unit.single);
    for (const ir::Node* root : unit.roots) one(*root);
  }
  for (const auto& [dot, as] : written_as_) one(*as);
}

// The gradient of an attention reads what that leaves on chip of its rows.
static std::string rows_obstacle(const Unit& unit, const std::vector<Unit>& units) {
  if (!unit.single || unit.single->op != op::attention_gradient) return {};
  const auto& in = unit.single->inputs;
  const bool any = std::any_of(units.begin(), units.end(), [&](const Unit& u) {
    return u.attention && u.attention->keeps_rows && u.attention->top.value == in[ops::kTopInput] &&
           u.attention->sum.value == in[ops::kSumInput];
  });
  return any ? std::string() : "its attention is not computed as one";
}

void Lowering::body(const std::vector<const ir::Node*>& nodes, std::span<const ir::Value> live_out) {
  add_constants(nodes);
  Fusion fusion = units_of(nodes, live_out);
  body(nodes, live_out, std::move(fusion.units));
}

void Lowering::body(const std::vector<const ir::Node*>& nodes, std::span<const ir::Value> live_out,
                    std::vector<Unit> units) {
  find_transposed(units, live_out);
  narrow(units, live_out);
  const SummedBy summed_around = std::exchange(summed_, find_summed(units, live_out, users_, store_, rec_.chip()));
  const LastUse around = std::move(last_);
  const auto inside_around = std::move(inside_);
  inside_.clear();
  for (const ir::Node* node : nodes)
    if (node->op != op::parameter && node->op != op::constant) inside_.insert(node);
  const size_t unit_around = unit_;
  last_ = last_uses(units, live_out);
  ++bodies_;
  for (unit_ = 0; unit_ < units.size() && !rec_.error(); ++unit_) {
    if (progress && bodies_ == 1) progress(unit_, units.size());
    for (const std::string& why : {unit_obstacle(units[unit_]), rows_obstacle(units[unit_], units)})
      if (!why.empty()) return rec_.fail_with(refuse(units[unit_], why));
    const Unit& unit = units[unit_];
    if (is_summed(unit)) continue;
    const uint32_t where = (unit.product ? unit.product : unit.single ? unit.single : unit.roots.front())->where;
    rec_.at(line_of(where));
    lower(unit);
    if (rec_.error()) rec_.fail_at(graph_.location(where));
  }
  --bodies_;
  summed_ = summed_around;
  last_ = around;
  inside_ = inside_around;
  unit_ = unit_around;
}

// The user's line, after the names of the scopes it stands in: "layer 0/mlp: model.py", 12. Of "model.onnx: node",
// which has no lines: "node: model.onnx", 0.
uint32_t Lowering::line_of(uint32_t where) {
  const auto [found, fresh] = lines_.try_emplace(where, 0);
  const std::string& location = graph_.location(where);
  if (!fresh || location.empty()) return found->second;
  const size_t open = location.find(" (");
  std::string_view file(location.data(), std::min(open, location.size())), scopes;
  uint32_t number = 0;
  if (const size_t colon = location.find(": "); colon < file.size()) {
    found->second =
        rec_.kernel().builder.line(cat(std::string_view(location).substr(colon + 2), ": ", file.substr(0, colon)), 0);
    return found->second;
  }
  if (const size_t colon = file.rfind(':'); colon != file.npos) {
    std::from_chars(file.data() + colon + 1, file.data() + file.size(), number);
    file = file.substr(0, colon);
  }
  if (open != location.npos) scopes = std::string_view(location).substr(open + 2, location.size() - open - 3);
  std::string path;
  for (size_t end; (end = scopes.find('/')) != scopes.npos; scopes.remove_prefix(end + 1)) {
    const std::string_view scope = scopes.substr(0, end);
    if (!scope.starts_with("jit(") && !scope.starts_with("jit:"))
      path += path.empty() ? std::string(scope) : cat("/", scope);
  }
  found->second = rec_.kernel().builder.line(path.empty() ? std::string(file) : cat(path, ": ", file), number);
  return found->second;
}

Error Lowering::refuse(const Unit& unit, const std::string& why) const {
  const ir::Node& node = unit.single ? *unit.single : *unit.roots.front();
  return fail(Code::unsupported, cat(node.op, " ", ir::text(node.types[0]), " cannot run on the device: ", why),
              graph_.location(node.where));
}

void Lowering::add_constants(const std::vector<const ir::Node*>& nodes) {
  for (const ir::Node* node : nodes) {
    if (node->op != op::constant || store_.has(node->result())) continue;
    const Tensor& t = *node->attrs.tensor("value");
    if (!device_dtype(t.dtype)) continue;
    store_.keep_in_hbm(store_.of(node->result()), "", arch::TensorKind::constant, {t.data.get(), t.bytes()});
  }
}

bool Lowering::is_summed(const Unit& unit) const {
  return std::any_of(summed_.begin(), summed_.end(),
                     [&](const auto& s) { return unit.is_loop() && s.second.loop.roots == unit.roots; });
}

void Lowering::lower_chosen(const Unit& unit) {
  const ir::Node* const dot = unit.product ? unit.product : unit.single;
  if (const auto sum = summed_.find(dot); sum != summed_.end()) {
    if (lower_summed(rec_, store_, sum->second, store_.of(dot->result())))
      return unit.is_loop() ? lower_loop(rec_, store_, unit) : void();
    lower_loop(rec_, store_, sum->second.loop);
  }
  if (unit.product && unit.product->op == op::dot_general && !written_as_.count(unit.product)) {
    const bool transposed = wants_transposed(*unit.roots[0]) && store_.fits(store_.of(unit.roots[0]->result()));
    const auto product = product_of(rec_, store_, *unit.product, transposed, options_.dots);
    if (lower_epilogue(rec_, store_, unit, *product)) return;
  }
  if (unit.product && unit.product->op == op::convolution)
    if (const auto product = product_of_conv(rec_, store_, *unit.product, options_.dots))
      if (lower_epilogue(rec_, store_, unit, *product)) return;
  if (unit.product) row_of(unit.product->op)->lower(*this, *unit.product);
  if (unit.attention) return lower_attention(rec_, store_, *unit.attention, options_.dots);
  if (!unit.is_loop()) {
    const ir::Node& node = *unit.single;
    const bool empty = node.regions.empty() && node.types[0].elements() == 0;
    if (empty) return store_.keep_in_hbm(store_.of(node.result()), "", arch::TensorKind::scratch);
    if (node.op != op::dot_general && !(node.op == op::convolution && can_shift(node)))
      for (const ir::Value& v : node.inputs) store_.made(v);
    return row_of(node.op)->lower(*this, node);
  }
  if (unit.roots.size() == 1 && done_.count(unit.roots[0])) return;
  if (!unit.product && unit.members.size() == 1 && lower_slice(rec_, store_, *unit.roots[0])) return;
  lower_loop(rec_, store_, unit);
}

// A loop that does nothing but write the transpose of a product: the multiply writes it so itself.
void Lowering::find_transposed(const std::vector<Unit>& units, std::span<const ir::Value> live_out) {
  for (const Unit& unit : units) {
    if (!unit.is_loop() || unit.roots.size() != 1 || unit.members.size() != 1) continue;
    const ir::Node& root = *unit.roots[0];
    if (root.op != op::transpose || root.inputs[0].node->op != op::dot_general) continue;
    const ir::Node& dot = *root.inputs[0].node;
    const bool is_live_out =
        std::any_of(live_out.begin(), live_out.end(), [&](const ir::Value& v) { return memory_root(v).node == &dot; });
    if (users_[&dot].size() != 1 || is_live_out) continue;
    written_as_[&dot] = &root;
    done_.insert(&root);
  }
}

void Lowering::dot(const ir::Node& node) {
  const auto as = written_as_.find(&node);
  const ir::Node& out = as == written_as_.end() ? node : *as->second;
  lower_dot(rec_, store_, node, out, wants_transposed(out), options_.dots);
}

// Do those who use a product contract its minor dim, and nobody reduce over it?
bool Lowering::wants_transposed(const ir::Node& out) const {
  int transposed = 0, plain = 0;
  vote(out, transposed, plain, 0);
  return transposed > 0 && plain == 0;
}
void Lowering::vote(const ir::Node& node, int& transposed, int& plain, int depth) const {
  auto found = users_.find(&node);
  if (found == users_.end() || depth > 8) return;
  for (const ir::Node* user : found->second) {
    if (user->op == op::dot_general) {
      const bool left = user->inputs[0].node == &node;
      const auto& dims = user->attrs.ints(left ? "lhs_contract" : "rhs_contract");
      const auto minor = int64_t(node.types[0].dims.size()) - 1;
      ++(std::find(dims.begin(), dims.end(), minor) != dims.end() ? transposed : plain);
    } else if (user->op == op::reduce) {
      ++plain;
    } else if (user->op == op::reshape || user->types[0].dims == node.types[0].dims) {
      vote(*user, transposed, plain, depth + 1);
    }
  }
}

// A donated parameter and the result that takes its memory, where only updates and loops lie between them.
void Lowering::find_donations() {
  for (size_t i = 0; i < graph_.donations.size(); ++i) {
    if (graph_.donations[i] < 0) continue;
    const auto result = size_t(graph_.donations[i]);
    std::vector<ir::Value> chain;
    for (ir::Value v = memory_root(graph_.results[result]);;) {
      if (v == graph_.params[i]) {
        for (const ir::Value& link : chain) donated_[link] = {result, graph_.params[i]};
        break;
      }
      if (v.node->op != op::window_store && v.node->op != op::while_) break;
      chain.push_back(v);
      v = memory_root(v.node->inputs[v.node->op == op::while_ ? v.index : 0]);
    }
  }
}

int64_t Lowering::taken_over(const ir::Node& node, uint32_t result, const ir::Value& input) {
  const ir::Value root = memory_root(input);
  const auto last = last_.find(root);
  if (last == last_.end() || last->second != unit_) return -1;
  for (size_t i = 0, seen = 0; i < node.inputs.size(); ++i)
    if (memory_root(node.inputs[i]) == root && ++seen > 1) return -1;
  Memory& m = store_.of(root);
  if (m.dtype != store_.of(node.result(result)).dtype) return -1;
  arch::Program& p = rec_.kernel().program();
  if (own_.count(root) || inside_.count(root.node)) return store_.hbm(m);
  if (const auto found = donated_.find({&node, result}); found != donated_.end() && found->second.second == root) {
    const auto from = uint32_t(m.hbm);
    const uint32_t out = rec_.hbm(cat("out", found->second.first), m.dtype, root.type().dims, arch::TensorKind::output);
    p.tensors[out].alias = int32_t(from);
    p.tensors[out].address = p.tensors[from].address;
    return out;
  }
  return -1;
}

void Lowering::window_load(const ir::Node& node) { lower_window_load(rec_, store_, node, reads_in_place(node)); }

// A few large parts of a weight that are multiplied one by one, as by the experts a token goes to: nobody changes them.
bool Lowering::reads_in_place(const ir::Node& node) const {
  constexpr int64_t kFew = 8, kLarge = 1 << 16;  // windows, elements of one
  const int64_t count = node.types[0].dims[0];
  const ir::Value x = memory_root(node.inputs[0]);
  const auto number = std::find(graph_.params.begin(), graph_.params.end(), x) - graph_.params.begin();
  if (size_t(number) >= options_.weights.size() || !options_.weights[size_t(number)] || bodies_ != 1) return false;
  if (count > kFew || node.types[0].elements() / count < kLarge) return false;
  const auto one_by_one = [&](const ir::Node& from, const auto& self) -> bool {
    const auto users = users_.find(&from);
    return users != users_.end() && std::all_of(users->second.begin(), users->second.end(), [&](const ir::Node* user) {
             if (is_alias(*user) && user->types[0].dims[0] == count) return self(*user, self);
             if (user->op != op::dot_general) return false;
             const bool left = user->inputs[0].node == &from;
             const ir::Ints& batch = user->attrs.ints(left ? "lhs_batch" : "rhs_batch");
             return count == 1 || std::find(batch.begin(), batch.end(), 0) != batch.end();
           });
  };
  return one_by_one(node, one_by_one);
}

void Lowering::window_store(const ir::Node& node) {
  const int64_t taken = taken_over(node, 0, node.inputs[0]);
  lower_window_store(rec_, store_, node, taken);
}

// --- control flow: values that a region is given, and gives, lie in HBM ---

// Memory of each result, with the input's value in it.
std::vector<uint32_t> Lowering::carry(const ir::Node& node, size_t first_input) {
  std::vector<uint32_t> tensors;
  for (uint32_t i = 0; i < node.types.size(); ++i) {
    Memory& out = store_.of(node.result(i));
    const int64_t taken = first_input ? -1 : taken_over(node, i, node.inputs[i]);
    if (taken >= 0)
      out.hbm = taken;
    else
      store_.keep_in_hbm(out, "", arch::TensorKind::scratch);
    tensors.push_back(uint32_t(out.hbm));
    if (taken >= 0 || first_input) continue;
    Memory& in = store_.of(node.inputs[i]);
    copy_all(rec_, tensors[i], out.dtype, store_.hbm(in), in.dtype, in.elements);
  }
  return tensors;
}

void Lowering::hold(const std::vector<ir::Value>& params, const std::vector<uint32_t>& tensors) {
  for (size_t i = 0; i < params.size(); ++i) {
    Memory& m = store_.of(params[i]);
    m.forms.clear();
    m.hbm = tensors[i];
  }
}

// Every result is computed before one is written; one that lies where another goes steps aside first.
void Lowering::hand_over(const std::vector<ir::Value>& results, const std::vector<uint32_t>& tensors) {
  std::vector<int64_t> from(results.size(), -1);
  for (size_t i = 0; i < results.size(); ++i) {
    Memory& m = store_.of(results[i]);
    if (m.hbm < 0) continue;
    from[i] = m.hbm;
    const bool is_overwritten = std::find(tensors.begin(), tensors.end(), uint32_t(m.hbm)) != tensors.end();
    if (!is_overwritten || uint32_t(m.hbm) == tensors[i]) continue;
    from[i] = rec_.hbm("", m.dtype, m.dims, arch::TensorKind::scratch);
    copy_all(rec_, uint32_t(from[i]), m.dtype, uint32_t(m.hbm), m.dtype, m.elements);
  }
  for (size_t i = 0; i < results.size(); ++i) {
    Memory& m = store_.of(results[i]);
    if (from[i] == tensors[i] || m.elements == 0) continue;
    if (from[i] >= 0)
      copy_all(rec_, tensors[i], m.dtype, uint32_t(from[i]), m.dtype, m.elements);
    else
      store_.write(m, tensors[i]);
  }
}

void Lowering::region(const ir::Region& region, const std::vector<uint32_t>& tensors) {
  const auto nodes = nodes_of(region);
  note_users(nodes);
  body(nodes, region.results);
  add_constants([&] {
    std::vector<const ir::Node*> nodes;
    for (const ir::Value& v : region.results) nodes.push_back(v.node);
    return nodes;
  }());
  if (!rec_.error()) hand_over(region.results, tensors);
}

void Lowering::load_condition(const ir::Region& condition, const std::vector<uint32_t>& tensors, Register into) {
  const Store::Mark mark = store_.mark();
  hold(condition.params, tensors);
  const auto nodes = nodes_of(condition);
  body(nodes, condition.results);
  add_constants({condition.results[0].node});
  if (rec_.error()) return;
  Memory& m = store_.of(condition.results[0]);
  rec_.emit("register_load",
            {{"dst", into}, {"src", View{.tensor = store_.hbm(m), .dtype = m.dtype, .axes = {{1, 1}}}}});
  store_.back_to(mark);
}

void Lowering::loop_while(const ir::Node& node) {
  add_constants([&] {
    std::vector<const ir::Node*> nodes;
    for (const ir::Value& v : node.captures) nodes.push_back(v.node);
    return nodes;
  }());
  for (const ir::Value& v : node.captures)
    if (store_.has(v)) store_.hbm(store_.of(v));
  const std::vector<uint32_t> tensors = carry(node, 0);
  const auto iterations = known_iterations(node);
  const Register going = rec_.loop_register();
  if (!iterations) load_condition(node.regions[0], tensors, going);
  if (iterations && *iterations == 0) return;
  const Store::Mark mark = store_.mark();
  if (iterations)
    rec_.loop(double(*iterations));
  else
    rec_.loop(going, true);
  hold(node.regions[1].params, tensors);
  for (const ir::Value& v : node.regions[1].params) own_.insert(v);
  region(node.regions[1], tensors);
  store_.back_to(mark);
  if (!iterations) load_condition(node.regions[0], tensors, going);
  rec_.end_loop();
}

// Each branch is a loop of one iteration or none.
void Lowering::branch(const ir::Node& node) {
  const std::vector<uint32_t> tensors = carry(node, 1);
  std::vector<uint32_t> given;
  for (size_t i = 1; i < node.inputs.size(); ++i) given.push_back(store_.hbm(store_.of(node.inputs[i])));
  const auto last = int64_t(node.regions.size()) - 1;
  Memory& index = store_.of(node.inputs[0]);
  const View at{.tensor = store_.hbm(index), .dtype = index.dtype, .axes = {{1, 1}}};
  for (int64_t b = 0; b <= last; ++b) {
    const Register chosen = rec_.next_register(), taken = rec_.loop_register();
    rec_.emit("register_load", {{"dst", chosen}, {"src", at}});
    const auto alu = [&](Register to, Register a, const Source& by, std::string_view op) {
      rec_.emit("register_alu", {{"dst", to}, {"a", a}, {"b", by}}, {{"op", op}});
    };
    // Registers do not compare: 1 - min(d², 1) is one where d is zero. What is out of range is the last.
    alu(chosen, chosen, double(last), "min");
    alu(chosen, chosen, -1.0, "max");
    if (b < last) {
      alu(taken, chosen, double(b), "subtract");
    } else {
      const Register low = rec_.next_register();
      alu(low, chosen, 1.0, "add");
      alu(taken, chosen, double(last), "subtract");
      alu(taken, taken, low, "multiply");
    }
    alu(taken, taken, taken, "multiply");
    alu(taken, taken, 1.0, "min");
    alu(taken, taken, -1.0, "multiply");
    alu(taken, taken, 1.0, "add");
    const Store::Mark mark = store_.mark();
    rec_.loop(taken);
    hold(node.regions[size_t(b)].params, given);
    region(node.regions[size_t(b)], tensors);
    rec_.end_loop();
    store_.back_to(mark);
  }
}

// A parameter that takes its own memory with it.
bool Lowering::is_own_input(size_t result) const {
  for (size_t i = 0; i < graph_.donations.size(); ++i)
    if (graph_.donations[i] == int64_t(result)) return memory_root(graph_.results[result]) == graph_.params[i];
  return false;
}

void Lowering::allocate_results() {
  arch::Program& p = rec_.kernel().program();
  add_constants([&] {
    std::vector<const ir::Node*> nodes;
    for (const ir::Value& v : graph_.results) nodes.push_back(v.node);
    return nodes;
  }());
  for (size_t i = 0; i < graph_.results.size() && !rec_.error(); ++i) {
    Memory& m = store_.of(graph_.results[i]);
    const std::string name = cat("out", i);
    if (m.elements == 0 && m.hbm < 0) store_.keep_in_hbm(m, "", arch::TensorKind::scratch);
    arch::Tensor& t = p.tensors[store_.hbm(m)];
    if (t.name == name) continue;
    if (t.kind == arch::TensorKind::scratch) {
      t.name = name;
      t.kind = arch::TensorKind::output;
      t.shape = graph_.results[i].type().dims;
      if (t.shape.empty()) t.shape = {1};
      continue;
    }
    const uint32_t from = uint32_t(m.hbm);
    const uint32_t to = rec_.hbm(name, m.dtype, graph_.results[i].type().dims, arch::TensorKind::output);
    if (is_own_input(i)) {  // given back as it came
      p.tensors[to].alias = int32_t(from);
      p.tensors[to].address = p.tensors[from].address;
      continue;
    }
    copy_all(rec_, to, m.dtype, from, m.dtype, m.elements);
  }
}

}  // namespace trine::compile::device
