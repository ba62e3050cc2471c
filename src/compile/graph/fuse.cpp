// From the last node to the first: a node joins the loop that uses it, or begins one of its own.
#include "compile/graph/fuse.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <queue>

#include "compile/graph/complex_parts.h"
#include "compile/graph/index_map.h"
#include "compile/graph/loop_ops.h"
#include "compile/host/conv.h"
#include "compile/host/epilogue.h"
#include "compile/host/join.h"
#include "compile/host/windows.h"
#include "compile/thresholds.h"
#include "ir/op_ids.h"

namespace trine::compile {

namespace {

namespace tuned = thresholds::fuse;

constexpr int kRowDepth = 8;         // ops between a row's reduction and its use
constexpr size_t kSearchMax = 4000;  // units looked at for a cycle; beyond, assume one

using NodeSet = std::unordered_set<const ir::Node*>;

bool is_loop_constant(const ir::Node& node) {
  return node.op == op::iota && node.types[0].dtype != Dtype::boolean && arch::is_loop_dtype(node.types[0].dtype);
}

bool is_trailing(const ir::Ints& dims, size_t rank) {
  for (size_t i = 0; i < dims.size(); ++i)
    if (std::find(dims.begin(), dims.end(), int64_t(rank - 1 - i)) == dims.end()) return false;
  return true;
}

class Fuser {
 public:
  Fuser(std::span<const ir::Node* const> nodes, std::span<const ir::Value> live_out, const FuseOptions& options,
        bool searches_all)
      : nodes_(nodes), options_(options), searches_all_(searches_all) {
    for (const ir::Node* node : nodes) {
      for (const ir::Value& v : node->inputs) add_user(v, *node);
      for (const ir::Value& v : node->captures)
        if (!has_plans(*node) || !is_made_anew(*v.node)) add_user(v, *node);
    }
    for (const ir::Value& v : live_out) live_out_.insert(v.node);
  }

  std::optional<Fusion> all() {
    find_attentions();
    for (size_t i = nodes_.size(); i-- > 0;) {
      const ir::Node& node = *nodes_[i];
      if (node.op == op::parameter || node.op == op::constant) continue;
      if (is_made_anew(node) && !users_.count(&node) && !live_out_.count(&node)) continue;
      fuse_node(node);
    }
    if (units_.size() <= tuned::kSmallPlan) merge_small();
    for (size_t u = 0; u < units_.size(); ++u) take_product(u);
    return in_order();
  }

 private:
  // Nodes inside get no unit; the root stands for all of them.
  void find_attentions() {
    for (size_t i = nodes_.size(); i-- > 0;) {
      if (inside_.count(nodes_[i])) continue;
      auto found = match_attention(*nodes_[i], users_, live_out_);
      // A host's step leaves nothing of its rows of scores, so one whose rows a gradient reads is computed op by op.
      const auto on_host = [](const AttentionMatch& m) { return m.is_plain() && !m.keeps_rows; };
      if (!found || !(options_.attention ? options_.attention(*found) : on_host(*found))) continue;
      const AttentionMatch& match = attentions_.emplace_back(*std::move(found));
      for (const ir::Node* node : match.inside) inside_[node] = &match;
      for (const ir::Value& v : match.reads()) read_by_[v.node].push_back(&match);
    }
  }
  void add_user(const ir::Value& v, const ir::Node& node) {
    auto& users = users_[v.node];
    if (users.empty() || users.back() != &node) users.push_back(&node);
  }

  enum class Class : uint8_t { other, map, reduce, view, alias };

  Class class_of(const ir::Node& node) const {
    if (is_loop_map(node) || is_loop_constant(node) || is_gather(node)) return Class::map;
    if (is_loop_reduce(node)) return Class::reduce;
    if (view_kind(node) != ViewKind::none && arch::is_loop_dtype(node.types[0].dtype)) return Class::view;
    return is_alias(node) ? Class::alias : Class::other;
  }

  // What the users of a node ask of it: memory, and the loops it could be part of.
  struct Wish {
    bool memory = false;
    bool walked = false;  // by users that need no memory of a view's own
    std::vector<size_t> loops = {};
  };
  // Gathers of loops find their operand in memory, at any element of it; their indices are computed on the way.
  bool is_gather(const ir::Node& node) const { return options_.gathers && is_loop_gather(node); }
  bool gathers_from(const ir::Node& user, const ir::Node& node) const {
    return is_gather(user) && user.inputs[0].node == &node;
  }
  // Index vectors put together of their parts, for gathers alone: they read the parts.
  bool joins_indices(const ir::Node& node, const Wish& wish) {
    if (node.op != op::concatenate || wish.memory || wish.walked || wish.loops.empty()) return false;
    const auto& users = users_[&node];
    return std::all_of(users.begin(), users.end(), [&](const ir::Node* user) {
      return is_gather(*user) && !inside_.count(user) &&
             user->attrs.integer("index_vector_dim") == node.attrs.integer("dimension");
    });
  }

  Wish wish_of(const ir::Node& node) {
    Wish wish{.memory = live_out_.count(&node) > 0};
    std::unordered_set<size_t> loops;
    const bool is_view = class_of(node) == Class::view;
    if (read_by_.count(&node)) (is_view ? wish.walked : wish.memory) = true;
    for (const ir::Node* user : users_[&node]) {
      if (inside_.count(user)) continue;
      if (is_view && walks_operands(*user) && !(options_.dense && options_.dense(*user))) {
        wish.walked = true;
        continue;
      }
      if (views_.count(user)) {  // its own users find it through this node, besides the loops it may be part of
        (is_view && !is_alias(*user) ? wish.walked : wish.memory) = true;
        if (!loops_of_.count(user)) continue;
      }
      auto found = loops_of_.find(user);
      const bool is_gathered = gathers_from(*user, node);
      bool part = !is_view && !is_complex_part(node) && sees_part(*user);
      if (part && found != loops_of_.end() && is_tiny_part(node, found->second)) part = false;
      if (in_parts_.count(user)) part = true;
      if (part && !is_gathered && found != loops_of_.end() && is_through(node)) {
        part = false;
        in_parts_.insert(&node);
      }
      part = part || is_gathered;
      if (found == loops_of_.end() || part) {
        wish.memory = true;
        continue;
      }
      for (size_t loop : found->second)
        if (loops.insert(loop).second) wish.loops.push_back(loop);
    }
    std::sort(wish.loops.begin(), wish.loops.end());
    return wish;
  }

  // --- joins: concatenations and pads, which loops are cut for

  bool is_joined(const ir::Node& node) const { return options_.joins && is_join(node); }
  // Costs nothing to look at once more, elsewhere: what lies in memory, seen otherwise.
  bool is_through(const ir::Node& node) const { return class_of(node) == Class::view || is_joined(node); }
  // Numbers so few that a loop of as few computes any of them where it needs it.
  bool is_tiny_part(const ir::Node& node, const std::vector<size_t>& loops) const {
    if (!options_.joins || node.types[0].elements() > tuned::kPartNumbersMax) return false;
    return std::all_of(loops.begin(), loops.end(), [&](size_t l) { return is_tiny(units_[l]); });
  }
  static bool is_tiny(const Unit& loop) {
    return !loop.has_reduction() && element_count(loop.space) <= tuned::kPartNumbersMax &&
           loop.op_count <= tuned::kPartOpsMax;
  }
  // Would a loop of its own compute parts of it on the way?
  bool computes_parts(const ir::Node& node) {
    int64_t computed = 0;
    for (const ir::Value& part : node.inputs) {
      const ir::Node* from = part.node;
      while (is_alias(*from) && users_[from].size() == 1) from = from->inputs[0].node;
      const Class kind = class_of(*from);
      const bool is_own = kind == Class::map && !live_out_.count(from) && users_[from].size() == 1;
      if (is_own || (kind == Class::view && !is_alias(*from)) || is_joined(*from)) computed += part.type().elements();
    }
    return 2 * computed >= node.types[0].elements();
  }
  bool fuse_join(const ir::Node& node, const Wish& wish) {
    if (!is_joined(node) || !has_long_runs(node)) return false;
    const auto is_cut = [&](size_t l) {
      return !units_[l].has_reduction() && fits(node, units_[l]) && boxes_of(units_[l].joins, node) <= tuned::kBoxesMax;
    };
    const bool is_once = wish.loops.size() == 1 || in_parts_.count(&node) || !computes_parts(node);
    if (!wish.memory && !wish.walked && !wish.loops.empty() && is_once &&
        std::all_of(wish.loops.begin(), wish.loops.end(), is_cut)) {
      for (size_t loop : wish.loops) join(node, loop), units_[loop].joins.push_back(&node);
      return true;
    }
    if (!computes_parts(node) || boxes_of({}, node) > tuned::kBoxesMax) return false;
    in_parts_.erase(&node);
    begin_loop(node, node.types[0].dims, std::vector<bool>(node.types[0].dims.size()));
    units_.back().joins.push_back(&node);
    return true;
  }
  // Does a user see some of a node's elements only? Of a pair, through a half of it, too.
  bool sees_part(const ir::Node& user) {
    if (!is_complex_part(user)) return view_kind(user) == ViewKind::part;
    const auto& users = users_[&user];
    return std::any_of(users.begin(), users.end(), [&](const ir::Node* u) { return sees_part(*u); });
  }

  void fuse_node(const ir::Node& node) {
    if (auto found = inside_.find(&node); found != inside_.end()) {
      if (!found->second || found->second->root != &node) return;
      units_.push_back({.single = &node, .attention = found->second});
      unit_of_[&node] = units_.size() - 1;
      return;
    }
    const Class kind = class_of(node);
    const Wish wish = wish_of(node);
    // Read by attentions alone, and they know it without memory.
    if (!wish.memory && !wish.walked && wish.loops.empty() && is_inside(users_[&node])) {
      inside_[&node] = nullptr;
      return;
    }
    switch (kind) {
      case Class::other:
        if (joins_indices(node, wish)) {
          for (size_t loop : wish.loops) join(node, loop);
          return;
        }
        if (fuse_join(node, wish)) return;
        in_parts_.erase(&node);
        units_.push_back({.single = &node});
        unit_of_[&node] = units_.size() - 1;
        return;
      case Class::alias:
        views_.insert(&node);
        return;
      case Class::view:
        return fuse_view(node, wish);
      case Class::map:
        return fuse_map(node, wish);
      case Class::reduce:
        return fuse_reduce(node, wish);
    }
  }

  bool is_inside(const std::vector<const ir::Node*>& users) const {
    return !users.empty() && std::all_of(users.begin(), users.end(), [&](auto* u) { return inside_.count(u) > 0; });
  }

  void join(const ir::Node& node, size_t loop) {
    units_[loop].members.insert(&node);
    units_[loop].op_count += class_of(node) != Class::view;
    loops_of_[&node].push_back(loop);
  }
  void add_root(const ir::Node& node, size_t loop) {
    if (!units_[loop].members.count(&node)) join(node, loop);
    units_[loop].roots.push_back(&node);
    unit_of_[&node] = loop;
  }
  void begin_loop(const ir::Node& node, Dims space, std::vector<bool> inner) {
    units_.push_back({.space = std::move(space), .inner = std::move(inner)});
    add_root(node, units_.size() - 1);
  }

  // A view is read through by every loop that uses it; memory of its own only where someone needs it dense.
  void fuse_view(const ir::Node& node, const Wish& wish) {
    for (size_t loop : wish.loops) join(node, loop);
    if (is_alias(node) && (wish.memory || wish.walked))
      views_.insert(&node);
    else if (wish.memory)
      begin_loop(node, node.types[0].dims, std::vector<bool>(node.types[0].dims.size()));
    else if (wish.walked)
      views_.insert(&node);
  }

  static bool is_full(const Unit& loop) { return loop.op_count >= tuned::kOpsMax; }
  // Does a dim that stays lie within one that is reduced?
  static bool is_transposed(const Unit& loop) {
    bool reduced = false;
    for (size_t d = 0; d < loop.space.size(); ++d) {
      if (reduced && !loop.inner[d] && loop.space[d] > 1) return true;
      reduced = reduced || (loop.inner[d] && loop.space[d] > 1);
    }
    return false;
  }
  bool fits(const ir::Node& node, const Unit& loop) const {
    if (is_full(loop)) return false;
    const int64_t here = node.types[0].elements(), all = element_count(loop.space);
    if (options_.rows_apart && here == all && is_transposed(loop)) return false;
    if (is_part(node, loop.joins) || (options_.joins && is_tiny(loop))) return here <= all;
    if (here >= all || loop_cost(node) <= tuned::kDuplicateCostMax) return here <= all;
    int64_t rows = 1;
    for (size_t d = 0; d < loop.space.size(); ++d) rows *= loop.inner[d] ? 1 : loop.space[d];
    if (loop.has_reduction()) return here <= rows;  // once per row
    return comes_of_rows(node, loop.space, kRowDepth);
  }
  // Is the node made of a reduction that the loop will do row by row? Then it will be computed once per row.
  static bool comes_of_rows(const ir::Node& node, const Dims& space, int depth) {
    if (is_loop_reduce(node))
      return node.inputs[0].type().dims == space && is_trailing(node.attrs.ints("dimensions"), space.size());
    if (depth == 0 || (!is_loop_map(node) && view_kind(node) != ViewKind::whole)) return false;
    return std::any_of(node.inputs.begin(), node.inputs.end(),
                       [&](const ir::Value& v) { return comes_of_rows(*v.node, space, depth - 1); });
  }

  // The first of several loops that use what a multiply makes, if the multiply can be done with it.
  std::optional<size_t> beside_product(const ir::Node& node, const Wish& wish) {
    const auto is_product = [](const ir::Value& v) { return makes_products(*v.node); };
    if (!options_.once_over_products || wish.loops.size() < 2 || node.op == op::convert) return std::nullopt;
    if (std::none_of(node.inputs.begin(), node.inputs.end(), is_product)) return std::nullopt;
    for (size_t i = wish.loops.size(); i-- > 0;)
      if (!units_[wish.loops[i]].has_reduction() && can_add_root(node, wish.loops[i])) return wish.loops[i];
    return std::nullopt;
  }

  void fuse_map(const ir::Node& node, const Wish& wish) {
    if (const auto loop = beside_product(node, wish)) return add_root(node, *loop);
    const bool all_fit =
        std::all_of(wish.loops.begin(), wish.loops.end(), [&](size_t l) { return fits(node, units_[l]); });
    if (!wish.memory && all_fit && !wish.loops.empty() &&
        (wish.loops.size() == 1 || is_loop_constant(node) || is_cheap_chain(node, int(wish.loops.size())))) {
      for (size_t loop : wish.loops) join(node, loop);
      return;
    }
    for (size_t loop : wish.loops) {
      if (!can_add_root(node, loop)) continue;
      return add_root(node, loop);
    }
    for (size_t loop : wish.loops)
      if (can_add_row(node, loop)) return add_root(node, loop);
    for (size_t loop : wish.loops)
      if (const auto next = overflow_.find(loop); next != overflow_.end() && can_add_root(node, next->second))
        return add_root(node, next->second);
    begin_loop(node, node.types[0].dims, std::vector<bool>(node.types[0].dims.size()));
    for (size_t loop : wish.loops)
      if (is_full(units_[loop])) overflow_[loop] = units_.size() - 1;
  }

  // One cheap op on values that have memory anyway, or few ops on one large value.
  bool is_cheap_chain(const ir::Node& node, int loops) {
    if (loop_cost(node) > 1) return is_rebuilt(node, loops);
    return is_rebuilt(node, loops) || std::all_of(node.inputs.begin(), node.inputs.end(), [&](const ir::Value& v) {
             const Class kind = class_of(*v.node);
             return kind == Class::other || v.node->op == op::parameter || v.node->op == op::constant ||
                    v.node->types[0].elements() == 1;
           });
  }

  // Computed again by every loop: quicker than memory where the tensor is large and comes of one that has memory
  // anyway. Where memory is a cache, all the work that one loop would save the others counts.
  bool is_rebuilt(const ir::Node& node, int loops) {
    const int64_t all = node.types[0].elements();
    if (all < tuned::kRebuiltMin) return false;
    NodeSet seen = {&node};
    std::vector<const ir::Node*> worklist = {&node};
    int cost = 0, leaves = 0, again = options_.once_in_cache && all <= tuned::kCachedSpace ? loops - 1 : 1;
    bool seen_otherwise = false;  // under other dims: then only what costs next to nothing
    while (!worklist.empty()) {
      const ir::Node& n = *worklist.back();
      worklist.pop_back();
      cost += loop_cost(n);
      if (cost * again > tuned::kRebuiltCost || leaves > 1) return false;
      for (const ir::Value& v : n.inputs) {
        if (!seen.insert(v.node).second) continue;
        const Class kind = class_of(*v.node);
        if (v.type().elements() <= all / 16) {
          if (kind == Class::reduce && all < tuned::kHugeSpace) return false;  // its own loop was to go along
        } else if (kind == Class::other || kind == Class::alias || v.node->op == op::parameter ||
                   live_out_.count(v.node)) {
          ++leaves;
          if (kind == Class::alias) seen_otherwise = true;
          if (kind == Class::alias && makes_products(*v.node->inputs[0].node)) return false;  // its loop makes it
        } else if (kind == Class::map || (kind == Class::view && view_kind(*v.node) == ViewKind::whole)) {
          worklist.push_back(v.node);
        } else {
          return false;
        }
      }
    }
    return leaves <= 1 && (!seen_otherwise || cost <= tuned::kDuplicateCostMax);
  }

  // May a loop that uses the node also write it to memory? Only where no other user of it must come before the loop.
  bool can_add_root(const ir::Node& node, size_t loop) {
    const Unit& unit = units_[loop];
    if (node.types[0].dims != unit.space || is_full(unit)) return false;
    if (options_.rows_apart && is_transposed(unit)) return false;
    return !has_view(node, unit) && can_write(node, loop);
  }
  // Does a member look at the node, or at a half of a pair, elsewhere than at its own element?
  bool has_view(const ir::Node& node, const Unit& unit) {
    const auto& users = users_[&node];
    return std::any_of(users.begin(), users.end(), [&](const ir::Node* user) {
      return unit.members.count(user) &&
             (is_complex_part(*user) ? has_view(*user, unit)
                                     : view_kind(*user) != ViewKind::none || is_gather(*user) || is_join(*user));
    });
  }

  // The same of what a loop makes of its rows' reductions, one for each row.
  bool can_add_row(const ir::Node& node, size_t loop) {
    const Unit& unit = units_[loop];
    if (!options_.rows_together || !unit.has_reduction() || is_full(unit)) return false;
    Dims rows;
    for (size_t d = 0; d < unit.space.size(); ++d)
      if (!unit.inner[d]) rows.push_back(unit.space[d]);
    if (node.types[0].dims != rows || !comes_of_rows(node, unit.space, kRowDepth)) return false;
    for (const ir::Node* user : users_[&node])
      if (unit.members.count(user) && !used_by_row(*user, int(rows.size()), unit)) return false;
    return can_write(node, loop);
  }
  // May the loop write the node as far as what is read from memory is concerned?
  bool can_write(const ir::Node& node, size_t loop) { return !is_seen_otherwise(node, loop) && !reaches(node, loop); }
  // Does the loop read the node's memory under other dims, and so other elements than it has at hand?
  bool is_seen_otherwise(const ir::Node& node, size_t loop) {
    std::vector<size_t> found;
    for (const ir::Node* user : users_[&node]) {
      if (views_.count(user)) readers(user, found);
      if (gathers_from(*user, node) && units_[loop].members.count(user)) return true;
    }
    return std::find(found.begin(), found.end(), loop) != found.end();
  }

  // The units that read a node's value from memory.
  void readers(const ir::Node* node, std::vector<size_t>& out) {
    if (auto found = read_by_.find(node); found != read_by_.end())
      for (const AttentionMatch* match : found->second) out.push_back(unit_of_.at(match->root));
    for (const ir::Node* user : users_[node]) {
      if (inside_.count(user)) continue;
      const bool is_view = views_.count(user) > 0;  // which may be part of loops besides
      if (is_view) readers(user, out);
      if (auto loops = loops_of_.find(user); loops != loops_of_.end()) {
        for (size_t l : loops->second)
          if (!units_[l].members.count(node) || gathers_from(*user, *node)) out.push_back(l);
      } else if (auto unit = unit_of_.find(user); !is_view && unit != unit_of_.end()) {
        out.push_back(unit->second);
      }
    }
  }
  // Would the loop, were it to write the node, wait for a unit that waits for the node?
  bool reaches(const ir::Node& node, size_t loop) {
    // No value made after the loop's last member comes before it, but a unit that reads it may make others, too.
    uint32_t last = searches_all_ ? UINT32_MAX : 0;
    for (const ir::Node* member : units_[loop].members) last = std::max(last, member->id);
    std::unordered_set<size_t> seen = {loop};
    std::vector<size_t> worklist, found;
    readers(&node, found);
    for (size_t u : found)
      if (u != loop && seen.insert(u).second) worklist.push_back(u);
    while (!worklist.empty()) {
      if (seen.size() > kSearchMax) return true;
      const Unit& unit = units_[worklist.back()];
      worklist.pop_back();
      found.clear();
      for (const ir::Node* node : {unit.single, unit.product})
        if (node && node->id < last) readers(node, found);
      for (const ir::Node* root : unit.roots)
        if (root->id < last) readers(root, found);
      for (size_t u : found) {
        if (u == loop) return true;
        if (seen.insert(u).second) worklist.push_back(u);
      }
    }
    return false;
  }

  void fuse_reduce(const ir::Node& node, const Wish& wish) {
    const Dims& space = node.inputs[0].type().dims;
    std::vector<bool> inner(space.size());
    for (int64_t d : node.attrs.ints("dimensions")) inner[size_t(d)] = true;
    if (wish.loops.size() == 1 && suits(node, space, inner, wish.loops[0]) &&
        (!wish.memory || can_write(node, wish.loops[0]))) {
      units_[wish.loops[0]].inner = inner;
      join(node, wish.loops[0]);
      if (wish.memory) add_root(node, wish.loops[0]);
      return;
    }
    if (wish.loops.size() == 1 && !wish.memory && comes_after(node, units_[wish.loops[0]])) {
      units_[wish.loops[0]].space = space;
      units_[wish.loops[0]].inner = std::move(inner);
      return join(node, wish.loops[0]);
    }
    if (const auto loop = over_the_same_rows(node, space, inner)) {
      units_[*loop].inner = inner;
      return add_root(node, *loop);
    }
    begin_loop(node, space, std::move(inner));
  }

  // Does the loop make a little of the reduction's results, and of numbers that are the same for all of them?
  bool comes_after(const ir::Node& reduction, const Unit& unit) const {
    const Dims& rows = reduction.types[0].dims;
    if (!options_.rows_after || !unit.joins.empty() || unit.has_reduction() || unit.space != rows ||
        unit.op_count > tuned::kRowOpsMax)
      return false;
    if (reduction.attrs.ints("dimensions").empty()) return false;
    return std::all_of(unit.members.begin(), unit.members.end(), [&](const ir::Node* member) {
      if (class_of(*member) == Class::view) return member->inputs[0].type().elements() == 1;
      if (member->types[0].dims != rows || loop_cost(*member) > tuned::kDuplicateCostMax) return false;
      return std::all_of(member->inputs.begin(), member->inputs.end(), [&](const ir::Value& v) {
        return v.node == &reduction || unit.members.count(v.node) || v.node->op == op::constant ||
               v.type().elements() == 1;
      });
    });
  }

  // A loop that reduces, or will reduce, what the node does along the same dims.
  std::optional<size_t> over_the_same_rows(const ir::Node& node, const Dims& space, const std::vector<bool>& inner) {
    if (!options_.rows_together || !is_trailing(node.attrs.ints("dimensions"), space.size())) return std::nullopt;
    const NodeSet mine = large_inputs({&node}, space);
    for (size_t u = units_.size(); u-- > 0;) {
      const Unit& unit = units_[u];
      if (!unit.is_loop() || !unit.joins.empty() || unit.space != space || is_full(unit)) continue;
      if (unit.has_reduction() ? unit.inner != inner : !will_reduce_rows(unit)) continue;
      const NodeSet others = large_inputs(unit.roots, space);
      const bool shares = std::any_of(mine.begin(), mine.end(), [&](const ir::Node* n) { return others.count(n) > 0; });
      if (shares && can_write(node, u)) return u;
    }
    return std::nullopt;
  }
  static bool will_reduce_rows(const Unit& unit) {
    return std::any_of(unit.members.begin(), unit.members.end(), [&](const ir::Node* n) {
      return n->op == op::broadcast_in_dim && n->types[0].dims == unit.space &&
             comes_of_rows(*n, unit.space, kRowDepth);
    });
  }
  // What has memory anyway and is as large as the space, of all that the nodes are made of elementwise.
  NodeSet large_inputs(const std::vector<const ir::Node*>& nodes, const Dims& space) {
    NodeSet out, seen;
    std::vector<const ir::Node*> worklist = nodes;
    const int64_t all = element_count(space);
    while (!worklist.empty() && seen.size() < tuned::kOpsMax) {
      const ir::Node& n = *worklist.back();
      worklist.pop_back();
      if (!seen.insert(&n).second) continue;
      const Class kind = class_of(n);
      if (kind == Class::other)
        out.insert(&n);
      else
        for (const ir::Value& v : n.inputs)
          if (v.type().elements() == all) worklist.push_back(v.node);
    }
    return out;
  }

  // Can the loop compute the reduction on its way: the same space, rows that fit a cache, used row by row?
  bool suits(const ir::Node& node, const Dims& space, const std::vector<bool>& inner, size_t loop) {
    const Unit& unit = units_[loop];
    if (!unit.joins.empty() || unit.space != space || is_full(unit)) return false;
    if (unit.has_reduction() && unit.inner != inner) return false;
    if (!is_trailing(node.attrs.ints("dimensions"), space.size())) return false;
    const int64_t all = element_count(space), rows = node.types[0].elements();
    if (rows < tuned::kRowsMin && all > tuned::kSmallSpace) return false;
    for (const ir::Node* user : users_[&node])
      if (unit.members.count(user) && !used_by_row(*user, node.types[0].rank(), unit)) return false;
    return true;
  }
  // The rows' dims come first: a user sees them in place, by itself or through broadcasts that keep them there.
  bool used_by_row(const ir::Node& user, int rows, const Unit& unit) {
    if (user.op == op::broadcast_in_dim) {
      const ir::Ints& to = user.attrs.ints("broadcast_dimensions");
      for (int d = 0; d < rows; ++d)
        if (to[size_t(d)] != d) return false;
      std::unordered_set<const ir::Node*> seen;
      if (user.types[0].dims == unit.space) return read_in_place(user, unit, seen);
    } else if (view_kind(user) != ViewKind::none) {
      return false;
    } else if (class_of(user) == Class::reduce || is_gather(user) || is_join(user)) {
      return false;
    }
    for (const ir::Node* next : users_[&user])
      if (unit.members.count(next) && !used_by_row(*next, rows, unit)) return false;
    return true;
  }

  // Not a view, or one that changes nothing but dims of one element.
  bool is_in_place(const ir::Node& node) const {
    if (is_gather(node) || is_join(node)) return false;
    if (view_kind(node) == ViewKind::none) return true;
    const auto without_ones = [](Dims dims) {
      std::erase(dims, 1);
      return dims;
    };
    return is_alias(node) && without_ones(node.types[0].dims) == without_ones(node.inputs[0].type().dims);
  }
  // Do the loop's members read the node, and what they make of it, at their own elements alone?
  bool read_in_place(const ir::Node& node, const Unit& unit, std::unordered_set<const ir::Node*>& seen) {
    for (const ir::Node* user : users_[&node]) {
      if (!unit.members.count(user) || !seen.insert(user).second || class_of(*user) == Class::reduce) continue;
      if (!is_in_place(*user) || !read_in_place(*user, unit, seen)) return false;
    }
    return true;
  }

  bool is_single(const ir::Node* node) const {
    auto unit = unit_of_.find(node);
    return unit != unit_of_.end() && units_[unit->second].single && !units_[unit->second].attention;
  }
  // The last multiply that a loop reads at its own elements becomes part of the loop's unit, where nothing must come
  // between them.
  void take_product(size_t loop) {
    Unit& unit = units_[loop];
    if (!unit.is_loop() || unit.has_reduction() || !unit.joins.empty()) return;
    const ir::Node* product = nullptr;
    for (const ir::Node* member : unit.members) {
      for (const ir::Value& v : member->inputs) {
        if (unit.members.count(v.node) || gathers_from(*member, *v.node)) continue;
        const ir::Node* from = v.node;
        while (views_.count(from) && is_alias(*from)) from = from->inputs[0].node;
        const bool fits = makes_products(*from) && !is_complex(from->types[0].dtype) &&
                          from->types[0].elements() >= element_count(unit.space);
        if (fits && is_single(from) && (!product || product->id < from->id)) product = from;
      }
    }
    if (!product || is_gathered(*product, unit) || reaches(*product, loop)) return;
    std::vector<size_t> found;
    readers(product, found);
    unit.product = product;
    const bool is_given =
        std::any_of(live_out_.begin(), live_out_.end(), [&](const ir::Node* result) {  // itself or seen otherwise
          while (views_.count(result) && is_alias(*result)) result = result->inputs[0].node;
          return result == product;
        });
    unit.keeps_product = is_given || std::any_of(found.begin(), found.end(), [&](size_t u) { return u != loop; });
    units_[unit_of_[product]] = {};
    unit_of_[product] = loop;
  }

  // Does the loop gather from the node's memory, under whatever dims?
  bool is_gathered(const ir::Node& node, const Unit& unit) const {
    return std::any_of(unit.members.begin(), unit.members.end(), [&](const ir::Node* member) {
      if (!is_gather(*member)) return false;
      const ir::Node* from = member->inputs[0].node;
      while (views_.count(from) && is_alias(*from)) from = from->inputs[0].node;
      return from == &node;
    });
  }

  // What each unit waits for.
  std::vector<std::unordered_set<size_t>> needs() {
    std::vector<std::unordered_set<size_t>> out(units_.size());
    for (size_t u = 0; u < units_.size(); ++u) {
      auto all = [&](const ir::Node* n) {
        for (const ir::Value& v : n->inputs) collect(v.node, u, out[u], gathers_from(*n, *v.node));
        for (const ir::Value& v : n->captures) collect(v.node, u, out[u]);
      };
      if (units_[u].attention) {
        for (const ir::Value& v : units_[u].attention->reads()) collect(v.node, u, out[u]);
      } else if (units_[u].single) {
        all(units_[u].single);
      }
      if (units_[u].product) all(units_[u].product);
      for (const ir::Node* member : units_[u].members) all(member);
    }
    return out;
  }

  // Small loops that do not wait for each other become one: of those, starting costs more than computing.
  void merge_small() {
    for (size_t a = 0; a < units_.size(); ++a) {
      for (size_t b = a + 1; b < units_.size(); ++b) {
        const std::optional<Unit> both = merged(units_[a], units_[b]);
        if (!both || waits(a, b) || waits(b, a)) continue;
        replace(b, a);
        units_[a] = *both;
        b = a;
      }
    }
  }
  static std::optional<Unit> merged(const Unit& a, const Unit& b) {
    auto is_small = [](const Unit& u) { return u.is_loop() && element_count(u.space) <= tuned::kTinySpace; };
    if (!is_small(a) || !is_small(b) || a.op_count + b.op_count > tuned::kOpsMax) return std::nullopt;
    if ((!a.joins.empty() && b.has_reduction()) || (!b.joins.empty() && a.has_reduction())) return std::nullopt;
    const Unit &wide = a.space.size() < b.space.size() ? b : a, &other = &wide == &a ? b : a;
    Unit out = wide;
    if (wide.space == other.space) {
      if (wide.has_reduction() && other.has_reduction() && wide.inner != other.inner) return std::nullopt;
      if (!wide.has_reduction()) out.inner = other.inner;
    } else {
      // Single numbers are computed once per row, where there is one row.
      const bool one_row = std::find(wide.inner.begin(), wide.inner.end(), false) == wide.inner.end();
      if (!other.space.empty() || (wide.has_reduction() && !one_row)) return std::nullopt;
      out.inner.assign(wide.space.size(), true);
    }
    out.roots.insert(out.roots.end(), other.roots.begin(), other.roots.end());
    out.members.insert(other.members.begin(), other.members.end());
    out.op_count += other.op_count;  // those of both count twice
    out.joins.insert(out.joins.end(), other.joins.begin(), other.joins.end());
    return out;
  }
  // Does `from` wait for `to`, if through others?
  bool waits(size_t from, size_t to) {
    const auto all = needs();
    std::vector<bool> seen(units_.size());
    std::vector<size_t> worklist = {from};
    while (!worklist.empty()) {
      const size_t u = worklist.back();
      worklist.pop_back();
      if (u == to) return true;
      for (size_t next : all[u])
        if (!seen[next]) seen[next] = true, worklist.push_back(next);
    }
    return false;
  }
  // Unit `old`, the work of which `by` does, goes; the last unit takes its number.
  void replace(size_t old, size_t by) {
    auto renamed = [&, last = units_.size() - 1](size_t u) { return u == old ? by : u == last ? old : u; };
    for (auto& [node, loops] : loops_of_) {
      for (size_t& l : loops) l = renamed(l);
      std::sort(loops.begin(), loops.end());
      loops.erase(std::unique(loops.begin(), loops.end()), loops.end());
    }
    for (auto& [node, unit] : unit_of_) unit = renamed(unit);
    std::swap(units_[old], units_.back());
    units_.pop_back();
  }

  // Units by need; among those that are ready, the one whose last node is earliest. Nothing where some wait in a
  // circle.
  std::optional<Fusion> in_order() {
    std::vector<std::vector<size_t>> next(units_.size());
    std::vector<size_t> waits(units_.size(), 0), order(units_.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::erase_if(order, [&](size_t u) { return !units_[u].single && units_[u].roots.empty(); });  // taken by a loop
    auto key = [&](size_t u) -> uint32_t {
      const bool number =
          !units_[u].single && element_count(units_[u].space) == 1;  // takes no room, and others may wait
      if (options_.results_first && (next[u].empty() || number)) return 0;
      return units_[u].single ? units_[u].single->id : units_[u].roots.back()->id;
    };
    const auto all = needs();
    for (size_t u : order) {
      std::sort(units_[u].roots.begin(), units_[u].roots.end(), [](auto* a, auto* b) { return a->id < b->id; });
      for (size_t from : all[u]) next[from].push_back(u), ++waits[u];
    }
    using Item = std::pair<uint32_t, size_t>;
    std::priority_queue<Item, std::vector<Item>, std::greater<>> ready;
    for (size_t u : order)
      if (waits[u] == 0) ready.emplace(key(u), u);
    Fusion out{.views = std::move(views_), .attentions = std::move(attentions_)};
    while (!ready.empty()) {
      const size_t u = ready.top().second;
      ready.pop();
      for (size_t v : next[u])
        if (--waits[v] == 0) ready.emplace(key(v), v);
      out.units.push_back(std::move(units_[u]));
    }
    if (out.units.size() != order.size()) return std::nullopt;
    return out;
  }
  // The unit that puts in memory what a member's input stands for, where the loop does not compute it.
  void collect(const ir::Node* node, size_t asking, std::unordered_set<size_t>& out, bool from_memory = false) {
    if (!from_memory && units_[asking].members.count(node)) return;
    // Under other dims it is read from memory even where the loop computes it besides.
    while (!unit_of_.count(node) && views_.count(node)) node = node->inputs[0].node;
    if (auto unit = unit_of_.find(node); unit != unit_of_.end() && unit->second != asking) out.insert(unit->second);
  }

  std::span<const ir::Node* const> nodes_;
  FuseOptions options_;
  bool searches_all_;
  NodeUsers users_;
  NodeSet live_out_, views_;
  NodeSet in_parts_;  // joins, and views of what they join, of which loops see several parts
  std::deque<AttentionMatch> attentions_;
  std::unordered_map<const ir::Node*, const AttentionMatch*> inside_;  // null: nothing needs the node
  std::unordered_map<const ir::Node*, std::vector<const AttentionMatch*>> read_by_;
  std::vector<Unit> units_;
  std::unordered_map<const ir::Node*, std::vector<size_t>> loops_of_;  // loops a node is computed in
  std::unordered_map<const ir::Node*, size_t> unit_of_;                // the unit that writes it to memory
  std::unordered_map<size_t, size_t> overflow_;  // of a full loop: the one for what it has no room for
};

}  // namespace

bool Unit::has_reduction() const { return std::find(inner.begin(), inner.end(), true) != inner.end(); }

bool is_alias(const ir::Node& node) {
  if (node.op == op::reshape) return true;
  if (node.op != op::broadcast_in_dim || node.inputs[0].type().elements() != node.types[0].elements()) return false;
  const ir::Ints& to = node.attrs.ints("broadcast_dimensions");
  return std::is_sorted(to.begin(), to.end());
}

bool has_plans(const ir::Node& node) { return node.op == op::while_ || node.op == op::case_; }

bool is_made_anew(const ir::Node& node) {
  return node.op == op::constant || is_loop_constant(node) ||
         (node.op == op::broadcast_in_dim && node.inputs[0].node->op == op::constant);
}

bool walks_operands(const ir::Node& node) {
  if (is_host_conv(node)) return true;
  if (node.op != op::dot_general) return false;
  auto is_plain = [](Dtype d) { return !is_packed(d) && bits(d) >= 8; };
  return is_plain(node.inputs[0].type().dtype) && is_plain(node.types[0].dtype) &&
         node.inputs[0].type().dtype == node.inputs[1].type().dtype;
}

Fusion fuse(std::span<const ir::Node* const> nodes, std::span<const ir::Value> live_out, const FuseOptions& options) {
  auto quick = Fuser(nodes, live_out, options, false).all();
  if (quick) return std::move(*quick);
  auto careful = Fuser(nodes, live_out, options, true).all();
  CHECK(careful, "units have an order");
  return std::move(*careful);
}

}  // namespace trine::compile
