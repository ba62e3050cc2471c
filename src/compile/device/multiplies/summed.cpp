// See summed.h.
#include "compile/device/multiplies/summed.h"

#include <algorithm>

#include "compile/device/multiplies/dot.h"
#include "ir/constant.h"
#include "ir/op_ids.h"

namespace trine::compile::device {

namespace {

// Columns of a block: their sums take half of PSUM at most, and what is computed of them fits SBUF many times over.
int64_t columns_most(const arch::Chip& chip) {
  const int64_t size = bytes(Dtype::f32), banks = chip.psum.banks / 2;
  return std::min(banks * chip.psum.bank_bytes, chip.sbuf.bytes_per_partition / 16) / size;
}

// What a multiply by ones sums: groups of rows; nothing where it is none.
std::optional<Summed> sums_of(const ir::Node& dot) {
  const std::optional<Summed> none;
  if (dot.op != op::dot_general || !dot.attrs.flag(kKeepsFormat) || dot.types[0].dtype != Dtype::f32) return none;
  if (ir::splat(dot.inputs[0]) != 1.0 || dot.inputs[1].type().dtype != Dtype::f32) return none;
  if (!dot.attrs.ints("lhs_batch").empty()) return none;
  const ir::Ints& over = dot.attrs.ints("rhs_contract");
  if (dot.inputs[0].type().rank() != int(over.size())) return none;
  const Dims& dims = dot.inputs[1].type().dims;
  Summed out;
  size_t d = dims.size();
  const auto summed = [&] { return std::find(over.begin(), over.end(), int64_t(d - 1)) != over.end(); };
  for (; d > 0 && !summed(); --d) out.channels *= dims[d - 1];
  for (; d > 0 && (summed() || dims[d - 1] == 1); --d) continue;
  for (; d > 0 && !summed(); --d) out.groups *= dims[d - 1];
  return d == 0 ? std::optional(out) : none;
}

}  // namespace

std::optional<SumWalk> walk_of_sum(const Dims& space, const Summed& sum, const arch::Chip& chip) {
  const int64_t most = columns_most(chip);
  size_t outer = 0, split = space.size();
  int64_t groups = 1, columns = 1;
  while (split > 0 && columns < sum.channels) columns *= space[--split];
  while (outer < split && groups < sum.groups) groups *= space[outer++];
  if (columns != sum.channels || groups != sum.groups || columns > most) return std::nullopt;
  // A partition takes as many neighbouring rows as leave some for all partitions.
  const int64_t all = element_count(space) / groups;
  while (split > outer && columns * space[split - 1] <= 4 * most &&
         all / (columns * space[split - 1]) >= chip.partitions)
    columns *= space[--split];
  SumWalk out{.split = split, .blocks = cut(Dims(space.begin() + ptrdiff_t(split), space.end()), most)};
  const std::vector<Block> each =
      cut(Dims(space.begin() + ptrdiff_t(outer), space.begin() + ptrdiff_t(split)), chip.partitions);
  for (int64_t g = 0; g < groups; ++g)
    for (Block tile : each) {
      int64_t rest = g;
      for (size_t d = outer; d-- > 0; rest /= space[d]) {
        tile.begin.insert(tile.begin.begin(), rest % space[d]);
        tile.count.insert(tile.count.begin(), 1);
      }
      out.tiles.push_back(std::move(tile));
    }
  return out;
}

SummedBy find_summed(std::vector<Unit>& units, std::span<const ir::Value> live_out,
                     const std::unordered_map<const ir::Node*, std::vector<const ir::Node*>>& users, Store& store,
                     const arch::Chip& chip) {
  std::unordered_map<const ir::Node*, size_t> loops;  // by what they make alone
  for (size_t u = 0; u < units.size(); ++u) {
    const Unit& unit = units[u];
    if (unit.is_loop() && !unit.product && !unit.has_reduction() && unit.roots.size() == 1) loops[unit.roots[0]] = u;
  }
  for (const ir::Value& v : live_out) loops.erase(memory_root(v).node);
  SummedBy out;
  std::unordered_map<const ir::Node*, size_t> first;  // the loop that comes before the multiply
  for (const Unit& unit : units) {
    const ir::Node* const dot = unit.product ? unit.product : unit.single;
    auto sum = dot && !unit.attention ? sums_of(*dot) : std::nullopt;
    if (!sum) continue;
    const auto read_once = [&](const ir::Node* node) {
      const auto found = users.find(node);
      return found != users.end() && found->second.size() == 1;
    };
    const ir::Node* from = dot->inputs[1].node;
    while (is_alias(*from) && read_once(from)) from = from->inputs[0].node;
    const auto loop = loops.find(from);
    if (loop == loops.end() || !read_once(from) || store.fits(store.of(from->result()))) continue;
    if (store.of(from->result()).dtype != Dtype::f32) continue;
    sum->loop = units[loop->second];
    if (!walk_of_sum(sum->loop.space, *sum, chip)) continue;
    out[dot] = *std::move(sum);
    first[dot] = loop->second;
  }
  if (out.empty()) return out;
  std::vector<bool> moves(units.size());
  for (const auto& [dot, u] : first) moves[u] = true;
  std::vector<Unit> order;
  for (size_t u = 0; u < units.size(); ++u) {
    if (moves[u]) continue;
    const ir::Node* const dot = units[u].product ? units[u].product : units[u].single;
    if (const auto loop = first.find(dot); loop != first.end()) order.push_back(units[loop->second]);
    order.push_back(units[u]);
  }
  units = std::move(order);
  return out;
}

}  // namespace trine::compile::device
