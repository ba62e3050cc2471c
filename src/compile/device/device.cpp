// The passes of device compilation, in order; see device.h.
#include "compile/device/device.h"

#include <algorithm>

#include "base/text.h"
#include "compile/device/attention.h"
#include "compile/device/loop.h"
#include "compile/fuse.h"
#include "compile/index_map.h"
#include "compile/simplify.h"
#include "compile/stream/streams.h"

namespace trine::compile {

using namespace device;

namespace {

std::string node_obstacle(const ir::Node& node) {
  if (node.op == "dot_general") return dot_obstacle(node);
  return cat(node.op, " has no lowering yet");
}

std::string obstacle(const Unit& unit) {
  if (unit.product)
    if (std::string why = node_obstacle(*unit.product); !why.empty()) return why;
  if (unit.attention) return {};
  return unit.is_loop() ? loop_obstacle(unit) : node_obstacle(*unit.single);
}

// The units as the device runs them: an elementwise op that the host has no tile program for is a loop all the same.
Fusion units_of(const ir::Graph& graph) {
  Fusion fusion = fuse(graph.order(), graph.results, {.attention = takes_attention});
  for (Unit& unit : fusion.units)
    if (unit.single && !unit.attention && has_map(*unit.single)) {
      const ir::Node* const node = unit.single;
      const Dims& space = node->types[0].dims;
      unit = Unit{.roots = {node}, .members = {node}, .space = space, .inner = std::vector<bool>(space.size())};
    }
  return fusion;
}

class Device {
 public:
  Device(const ir::Graph& graph, const arch::Chip& chip, const DeviceOptions& options)
      : graph_(graph), options_(options), rec_(graph.name, chip), store_(rec_) {}

  Result<DeviceProgram> all() {
    const std::vector<const ir::Node*> nodes = graph_.order();
    for (const ir::Node* node : nodes)
      for (const ir::Value& v : node->inputs) users_[v.node].push_back(node);
    for (size_t i = 0; i < graph_.params.size(); ++i) add_input(i);
    for (const ir::Node* node : nodes)
      if (node->op == "constant") add_constant(*node);
    const Fusion fusion = units_of(graph_);
    find_transposed(fusion.units);
    narrow(fusion.units);
    for (const Unit& unit : fusion.units) {
      if (const std::string why = obstacle(unit); !why.empty()) return refuse(unit, why);
      lower(unit);
      if (rec_.error()) return *rec_.error();
    }
    place_results();
    if (rec_.error()) return *rec_.error();
    DeviceProgram out;
    for (size_t i = 0; i < graph_.params.size(); ++i) {
      const Memory& m = store_.of(graph_.params[i]);
      if (m.input >= 0 && m.hbm < 0) store_.hbm(store_.of(graph_.params[i]));
      out.inputs.push_back({m.dtype, m.panels});
    }
    Complaint why;
    out.program = TRY(make_streams(rec_.kernel(), why));
    return out;
  }

 private:
  Error refuse(const Unit& unit, const std::string& why) const {
    const ir::Node& node = unit.single ? *unit.single : *unit.roots.front();
    return fail(Code::unsupported, cat(node.op, " ", ir::text(node.types[0]), " cannot run on the device: ", why),
                graph_.place(node.where));
  }

  // What multiplies alone read is kept in their format from the start.
  void narrow(const std::vector<Unit>& units) {
    if (!options_.dots.cast) return;
    const auto one = [&](const ir::Node& node) {
      if (node.types[0].dtype == Dtype::f32 && only_multiplied(node) && !is_result(node))
        store_.of(node.result()).dtype = *options_.dots.cast;
    };
    for (const Unit& unit : units) {
      if (unit.product) one(*unit.product);
      if (unit.single) one(*unit.single);
      for (const ir::Node* root : unit.roots) one(*root);
    }
    for (const auto& [dot, as] : written_as_) one(*as);
  }
  bool is_result(const ir::Node& node) const {
    return std::any_of(graph_.results.begin(), graph_.results.end(),
                       [&](const ir::Value& v) { return memory_root(v).node == memory_root(node.result()).node; });
  }

  void add_input(size_t i) {
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
  int multiplies_of(const ir::Node& node) const {
    int n = 0;
    for (const ir::Node* user : users_.at(&node)) n += user->op == "dot_general" ? 1 : multiplies_of(*user);
    return n;
  }
  bool only_multiplied(const ir::Node& node) const {
    auto found = users_.find(&node);
    return found != users_.end() && std::all_of(found->second.begin(), found->second.end(), [&](const ir::Node* user) {
             return user->op == "dot_general" ||
                    ((user->op == "reshape" || view_kind(*user) != ViewKind::none) && only_multiplied(*user));
           });
  }

  void add_constant(const ir::Node& node) {
    const Tensor& t = *node.attrs.tensor("value");
    if (!device_dtype(t.dtype)) return;
    store_.keep_in_hbm(store_.of(node.result()), "", arch::TensorKind::constant, {t.data.get(), t.bytes()});
  }

  // A loop that does nothing but write the transpose of a product: the multiply writes it so itself.
  void find_transposed(const std::vector<Unit>& units) {
    for (const Unit& unit : units) {
      if (!unit.is_loop() || unit.roots.size() != 1 || unit.members.size() != 1) continue;
      const ir::Node& root = *unit.roots[0];
      if (root.op != "transpose" || root.inputs[0].node->op != "dot_general") continue;
      const ir::Node& dot = *root.inputs[0].node;
      const bool kept = std::any_of(graph_.results.begin(), graph_.results.end(),
                                    [&](const ir::Value& v) { return memory_root(v).node == &dot; });
      if (users_[&dot].size() != 1 || kept) continue;
      written_as_[&dot] = &root;
      done_.insert(&root);
    }
  }

  void lower_node(const ir::Node& dot) {
    const auto as = written_as_.find(&dot);
    const ir::Node& out = as == written_as_.end() ? dot : *as->second;
    lower_dot(rec_, store_, dot, out, wants_turned(out), options_.dots);
  }
  void lower(const Unit& unit) {
    if (unit.product && unit.product->op == "dot_general" && !written_as_.count(unit.product)) {
      const bool turned = wants_turned(*unit.roots[0]) && store_.fits(store_.of(unit.roots[0]->result()));
      const auto product = product_of(rec_, store_, *unit.product, turned, options_.dots);
      if (lower_epilogue(rec_, store_, unit, *product)) return;
    }
    if (unit.product) lower_node(*unit.product);
    if (unit.attention) return lower_attention(rec_, store_, *unit.attention, options_.dots);
    if (!unit.is_loop()) return lower_node(*unit.single);
    if (unit.roots.size() == 1 && done_.count(unit.roots[0])) return;
    lower_loop(rec_, store_, unit);
  }

  // Do those who use a product contract its minor dim, and nobody reduce over it?
  bool wants_turned(const ir::Node& out) const {
    int turned = 0, plain = 0;
    vote(out, turned, plain, 0);
    return turned > 0 && plain == 0;
  }
  void vote(const ir::Node& node, int& turned, int& plain, int depth) const {
    auto found = users_.find(&node);
    if (found == users_.end() || depth > 8) return;
    for (const ir::Node* user : found->second) {
      if (user->op == "dot_general") {
        const bool left = user->inputs[0].node == &node;
        const auto& dims = user->attrs.ints(left ? "lhs_contract" : "rhs_contract");
        const auto minor = int64_t(node.types[0].dims.size()) - 1;
        ++(std::find(dims.begin(), dims.end(), minor) != dims.end() ? turned : plain);
      } else if (user->op == "reduce") {
        ++plain;
      } else if (user->op == "reshape" || user->types[0].dims == node.types[0].dims) {
        vote(*user, turned, plain, depth + 1);
      }
    }
  }

  void place_results() {
    arch::Program& p = rec_.kernel().program();
    for (size_t i = 0; i < graph_.results.size(); ++i) {
      Memory& m = store_.of(graph_.results[i]);
      const std::string name = cat("out", i);
      arch::Tensor& t = p.tensors[store_.hbm(m)];
      if (t.kind == arch::TensorKind::scratch) {
        t.name = name;
        t.kind = arch::TensorKind::output;
        t.shape = graph_.results[i].type().dims;
        if (t.shape.empty()) t.shape = {1};
        continue;
      }
      const uint32_t from = uint32_t(m.hbm);
      const uint32_t to = rec_.hbm(name, m.dtype, graph_.results[i].type().dims, arch::TensorKind::output);
      if (m.elements == 0) continue;
      const Axes all = {{1, m.elements}};
      View dst{.tensor = to, .dtype = m.dtype, .axes = all}, src{.tensor = from, .dtype = m.dtype, .axes = all};
      rec_.transfer(dst, src);
    }
  }

  const ir::Graph& graph_;
  const DeviceOptions& options_;
  Recorder rec_;
  Store store_;
  std::unordered_map<const ir::Node*, std::vector<const ir::Node*>> users_;
  std::unordered_map<const ir::Node*, const ir::Node*> written_as_;
  std::unordered_set<const ir::Node*> done_;
};

}  // namespace

std::vector<HostPlaced> host_placed(const ir::Graph& graph) {
  const ir::Graph simple = simplify(graph).graph;
  std::vector<HostPlaced> out;
  const Fusion fusion = units_of(simple);
  for (const Unit& unit : fusion.units) {
    const std::string why = obstacle(unit);
    if (why.empty()) continue;
    const ir::Node& node = unit.single ? *unit.single : *unit.roots.front();
    out.push_back({std::string(node.op), ir::text(node.types[0]), why, simple.place(node.where)});
  }
  return out;
}

Result<DeviceProgram> compile_device(const ir::Graph& graph, const arch::Chip& chip, const DeviceOptions& options) {
  const ir::Graph simple = simplify(graph).graph;
  return Device(simple, chip, options).all();
}

Result<Tensor> prepare_input(const DeviceInput& input, const TensorView& given) {
  Tensor cast = Tensor::make(input.dtype, given.dims);
  dispatch_element(given.dtype, [&](auto from) {
    using From = decltype(from);
    dispatch_element(input.dtype, [&](auto to) {
      using To = decltype(to);
      if constexpr (!From::kIsComplex && !To::kIsComplex) {
        const auto* const x = given.as<const typename From::Storage>();
        auto* const y = cast.view().template as<typename To::Storage>();
        for (int64_t i = 0; i < given.elements(); ++i) y[i] = To::store(typename To::Wide(From::load(x[i])));
      }
    });
  });
  if (!input.panels) return cast;
  const PanelLayout& p = *input.panels;
  const size_t size = size_t(bytes(input.dtype));
  Tensor out = Tensor::make(input.dtype, {p.batches() * p.lanes, p.chunks * p.column.count});
  const auto offset_of = [](const Axes& axes, int64_t i) {
    int64_t at = 0;
    for (size_t d = axes.size(); d-- > 0; i /= axes[d].count) at += i % axes[d].count * axes[d].stride;
    return at;
  };
  const int64_t per_outer = (p.depth.back().count + p.lanes - 1) / p.lanes;
  for (int64_t b = 0; b < p.batches(); ++b)
    for (int64_t lane = 0; lane < p.lanes; ++lane)
      for (int64_t c = 0; c < p.chunks; ++c) {
        const int64_t k = c % per_outer * p.lanes + lane;
        if (k >= p.depth.back().count) continue;
        const int64_t from = offset_of(p.batch, b) + offset_of(p.depth, c / per_outer * p.depth.back().count + k);
        const int64_t to = ((b * p.lanes + lane) * p.chunks + c) * p.column.count;
        for (int64_t o = 0; o < p.column.count; ++o)
          std::copy_n(cast.data.get() + size_t(from + o * p.column.stride) * size, size,
                      out.data.get() + size_t(to + o) * size);
      }
  return out;
}

}  // namespace trine::compile
