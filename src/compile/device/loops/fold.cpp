// Which dims of a loop go along partitions; see fold.h.
#include "compile/device/loops/fold.h"

#include "compile/thresholds.h"

#include <algorithm>

#include "ir/op_ids.h"

namespace trine::compile::device {

namespace {

namespace tuned = thresholds::partitions;

class Folding {
 public:
  Folding(const arch::Chip& chip, Store& store, const Unit& unit, const Joined* joined)
      : chip_(chip), store_(store), unit_(unit), joined_(joined) {}

  Fold all() {
    const size_t rank = unit_.space.size();
    Fold out;
    if (unit_.has_reduction()) {
      for (size_t d = 0; d < rank; ++d) (unit_.inner[d] ? out.frees : out.parts).push_back(d);
      out.rows_each = rows_each(out);
      if (out.rows_each > 1) out.frees.insert(out.frees.begin(), out.parts.back());
      return out;
    }
    int64_t best = -1;
    size_t best_split = rank ? rank - 1 : 0;
    bool best_transposed = false;
    for (size_t split = 0; split <= rank; ++split)
      for (bool transposed : {false, true}) {
        if (joined_ && (transposed || columns_from(split) % joined_->run)) continue;
        const int64_t score = score_of(split, transposed);
        if (score > best) best = score, best_split = split, best_transposed = transposed;
      }
    if (best <= 0) best_split = plain_split(), best_transposed = false;
    while (joined_ && columns_from(best_split) % joined_->run) --best_split;
    for (size_t d = 0; d < rank; ++d) ((d < best_split) != best_transposed ? out.parts : out.frees).push_back(d);
    return out;
  }

 private:
  // Rows of a few elements that a partition takes at once; 1 where they are long, few, or on chip one by one.
  int64_t rows_each(const Fold& fold) const {
    if (fold.parts.empty() || fold.parts.back() > fold.frees.front()) return 1;
    int64_t n = 1;
    for (size_t d : fold.frees) n *= unit_.space[d];
    const int64_t all = element_count(unit_.space);
    if (n < 2 || n > tuned::kRowTiny || all < tuned::kTinyLeast) return 1;
    for (const ir::Node* node : unit_.members)
      for (const ir::Value& v : node->inputs)
        if (!unit_.members.count(v.node) && v.type().elements() == all && store_.has(v) && !store_.of(v).forms.empty())
          return 1;
    for (int64_t each = std::min(tuned::kRowLong / n, all / n / chip_.partitions); each > 1; --each)
      if (unit_.space[fold.parts.back()] % each == 0) return each;
    return 1;
  }
  // Minor dims along the free side: the fewest for which what is spread over the loop still lies evenly over
  // partitions; more where rows would be a few elements, as the channels of an image are.
  size_t plain_split() const {
    const size_t rank = unit_.space.size();
    size_t at = rank ? rank - 1 : 0;
    for (size_t split = at; split > 1; --split)
      if (spreads_evenly(split)) {
        at = split;
        break;
      }
    if (columns_from(at) >= tuned::kRowShort) return at;
    const int64_t all = element_count(unit_.space);
    for (size_t split = at; split-- > 1 && columns_from(at) < tuned::kRowLong;) {
      if (all < chip_.partitions * columns_from(split)) break;
      if (spreads_evenly(split)) at = split;
    }
    return at;
  }
  int64_t columns_from(size_t split) const {
    int64_t columns = 1;
    for (size_t d = split; d < unit_.space.size(); ++d) columns *= unit_.space[d];
    return columns;
  }
  bool spreads_evenly(size_t split) const {
    for (const ir::Node* node : unit_.members) {
      if (node->op != op::broadcast_in_dim || node->types[0].dims != unit_.space) continue;
      const ir::Ints& to = node->attrs.ints("broadcast_dimensions");
      bool moves = false;  // some dim so far: a dim within it that does not move would break the run
      for (size_t d = 0; d < split; ++d) {
        // One item of it in each tile at most.
        const bool fixed = columns_from(d + 1) / columns_from(split) >= chip_.partitions;
        if (unit_.space[d] == 1 || fixed) continue;
        size_t at = 0;
        while (at < to.size() && to[at] != int64_t(d)) ++at;
        const bool here = at < to.size() && node->inputs[0].type().dims[at] != 1;
        if (moves && !here) return false;
        moves = moves || here;
      }
    }
    return true;
  }
  // Elements that would be read where they are on chip.
  int64_t score_of(size_t split, bool transposed) const {
    Dims sides[2];
    for (size_t d = 0; d < unit_.space.size(); ++d) sides[(d < split) != transposed ? 0 : 1].push_back(unit_.space[d]);
    const Tiling tiling = Tiling::of(sides[0], chip_.partitions);
    const int64_t columns = columns_from(split);
    int64_t score = 0;
    // What does not stay on chip goes to memory by rows.
    const int64_t each = element_count(sides[1]) * tiling.tiles();
    for (const ir::Node* root : unit_.roots)
      if (transposed && each * bytes(store_.of(root->result()).dtype) > store_.keep_bytes()) return 0;
    for (const ir::Node* node : unit_.members)
      for (const ir::Value& v : node->inputs) {
        if (unit_.members.count(v.node) || !store_.has(v) || v.type().elements() != element_count(unit_.space))
          continue;
        for (const Form& f : store_.of(v).forms)
          if (f.transposed == transposed && f.columns == columns && f.tiling.same(tiling)) score += v.type().elements();
      }
    return score;
  }

  const arch::Chip& chip_;
  Store& store_;
  const Unit& unit_;
  const Joined* joined_;
};

}  // namespace

Fold choose_fold(const arch::Chip& chip, Store& store, const Unit& unit, const Joined* joined) {
  return Folding(chip, store, unit, joined).all();
}

}  // namespace trine::compile::device
