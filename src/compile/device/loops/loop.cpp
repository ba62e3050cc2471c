// Pulls each root's value tile by tile, as host/loop_emit.cpp does for the host; see loop.h.
#include "compile/device/loops/loop.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "base/text.h"
#include "compile/device/loops/blocks.h"
#include "compile/device/loops/fold.h"
#include "compile/device/loops/join.h"
#include "compile/device/loops/operands.h"
#include "compile/device/loops/peephole.h"
#include "compile/device/loops/row_sums.h"
#include "compile/device/memory/load_transposed.h"
#include "compile/device/memory/moves.h"
#include "compile/graph/index_map.h"
#include "compile/graph/loop_ops.h"
#include "compile/graph/range.h"
#include "compile/thresholds.h"
#include "ir/constant.h"
#include "ir/op_ids.h"

namespace trine::compile::device {

namespace {

namespace tuned = thresholds::partitions;

class Loop {
 public:
  Loop(Recorder& rec, Store& store, const Unit& unit)
      : rec_(rec), store_(store), operands_(rec, store), unit_(unit), joined_(joined_by(unit)) {
    const Fold fold = choose_fold(rec.chip(), store, unit, joined_ ? &*joined_ : nullptr);
    parts_ = fold.parts, frees_ = fold.frees, per_ = fold.rows_each;
    for (const ir::Node* node : unit.members)
      for (const ir::Value& v : node->inputs) ++uses_[v.node];
    for (const ir::Node* root : unit.roots) ++uses_[root];
    for (const ir::Node* node : unit.members)
      if (node->op == op::reduce) reductions_.push_back(node);
    std::sort(reductions_.begin(), reductions_.end(), [](auto* a, auto* b) { return a->id < b->id; });
  }

  // Of a block, where the choice leaves them all together.
  int64_t columns() const { return is_list() ? unit_.space[0] / rec_.chip().partitions : element_count(free_dims()); }

  // The same over a product: rows and columns as the multiply makes them.
  bool run_over(Product& product) {
    if (unit_.has_reduction() || joined_ || !reads_directly()) return false;
    const size_t rank = unit_.space.size();
    parts_.clear(), frees_.clear();
    for (size_t d = 0; d < rank; ++d) ((d + 1 < rank) != product.is_transposed() ? parts_ : frees_).push_back(d);
    tiles_ = cut(dims_of(parts_), rec_.chip().partitions);
    blocks_ = cut(dims_of(frees_), product.block_columns());
    for (int64_t most = product.block_columns() / 2; most >= rec_.chip().partitions && !begin_evenly(frees_, blocks_);
         most /= 2)
      blocks_ = cut(dims_of(frees_), most);
    if (!begin_evenly(parts_, tiles_) || !begin_evenly(frees_, blocks_)) return false;
    const auto wide = std::count_if(unit_.space.begin(), unit_.space.end() - 1, [](int64_t n) { return n > 1; });
    if (!product.holds(element_count(tiles_[0].count), element_count(blocks_[0].count), unit_.space.back(), wide <= 1))
      return false;
    product_ = &product;
    make_results();
    // Panel by panel of the left operand's rows; inside, each panel of the right one is used for all of them.
    const bool transposed = product.is_transposed();
    const size_t rows = transposed ? blocks_.size() : tiles_.size(),
                 others = transposed ? tiles_.size() : blocks_.size();
    const auto step = size_t(transposed ? element_count(blocks_[0].count) : element_count(tiles_[0].count));
    const size_t group = std::max<size_t>(1, size_t(product.panel_rows()) / std::max<size_t>(1, step));
    for (size_t begin = 0; begin < rows; begin += group)
      for (size_t other = 0; other < others; ++other)
        for (size_t row = begin; row < std::min(rows, begin + group); ++row)
          visit(transposed ? other : row, transposed ? row : other);
    return true;
  }

  void run() {
    const Dims part = part_dims(), free = free_dims();
    if (element_count(unit_.space) == 0) return;
    if (is_list()) return run_list();
    tiles_ = cut(part, rec_.chip().partitions);
    for (Block& tile : tiles_) tile.step = per_;
    note_reads();
    const int64_t wide = store_.choice.columns / (joined_ ? int64_t(joined_->parts.size()) : 1);
    blocks_ = cut(free, wide);
    for (int64_t most = wide / 2;
         per_ == 1 && most >= tuned::kRowShort && operands_.widest(frees_, blocks_[0]) > thresholds::cover::kCoverBytes;
         most /= 2)
      blocks_ = cut(free, most);
    if (joined_ && !has_whole_runs()) return apart();
    if (blocks_.size() > 1 && per_ == 1 && unit_.has_reduction()) shifted_ = shifted_sums(unit_);
    operands_.keeps = passes() > 1 && operands_.row_bytes(frees_, free_dims()) <=
                                          rec_.chip().sbuf.bytes_per_partition / tuned::kRowsShare;
    make_results();
    over_tiles();
  }

  // The root's rows summed into `out`; false where they do not lie so, or have no room.
  bool run_summed(const Summed& sum, Memory& out) {
    const auto walk = walk_of_sum(unit_.space, sum, rec_.chip());
    if (!walk || joined_ || sum.groups * sum.channels * bytes(out.dtype) > store_.keep_bytes()) return false;
    parts_.clear(), frees_.clear(), per_ = 1;
    for (size_t d = 0; d < unit_.space.size(); ++d) (d < walk->split ? parts_ : frees_).push_back(d);
    tiles_ = walk->tiles, blocks_ = walk->blocks;
    note_reads();
    View to = store_.new_form(out, Dtype::f32, false, sum.groups * sum.channels, Tiling::plain(1, 1)).tile(0);
    const size_t each = tiles_.size() / size_t(sum.groups);
    for (tile_ = 0; tile_ < tiles_.size(); to.offset += sum.channels) sum_tiles(tile_ + each, sum.channels, to);
    return true;
  }

 private:
  // Tiles up to `end` by the tensor engine, all partitions at once and block after block on top of each other.
  void sum_tiles(size_t end, int64_t channels, View to) {
    const int64_t bank = rec_.columns_max(), first = element_count(blocks_[0].count);
    const int64_t wide = channels > bank ? channels : std::min(first, bank / channels * channels);
    std::vector<View> sums;
    for (int64_t c = 0; c < wide; c += bank) sums.push_back(rec_.psum(1, std::min(bank, wide - c)));
    const ir::Node& root = *unit_.roots[0];
    for (const size_t begin = tile_; tile_ < end; ++tile_) {
      rows_.clear();
      operands_.enter_tile();
      partitions_ = int(element_count(tiles_[tile_].count));
      View ones = rec_.constant_row(1.0);
      ones.partitions = partitions_;
      for (size_t b = 0; b < blocks_.size(); ++b) {
        enter(b);
        const View t = rec_.sbuf(Dtype::f32, partitions_, columns_);
        into(root.result(), root_map(root), t);
        for (int64_t at = 0, count = 0; at < columns_; at += count) {
          View part = t, sum = sums[size_t(at % wide / bank)];
          count = std::min(sum.columns(), columns_ - at);
          part.offset = at, part.axes = sum.axes = {{1, count}};
          const bool begins = tile_ == begin && b == 0 && at < wide;
          rec_.emit("nc_matmul", {{"dst", sum}, {"stationary", ones}, {"moving", part}},
                    {{"accumulate", std::string_view(begins ? "overwrite" : "add")}});
        }
      }
    }
    for (View& sum : sums) {
      const int64_t count = sum.columns();
      to.axes = {{1, std::min(count, channels)}};
      if (count > channels) sum.axes = {{1, channels}, {channels, count / channels}};
      if (count > channels)
        rec_.emit("tensor_reduce", {{"dst", to}, {"data", sum}}, {{"op", std::string_view("add")}});
      else
        rec_.emit("tensor_copy", {{"dst", to}, {"src", sum}}, {}, arch::kVector);
      to.offset += count;
    }
  }

  // One dim that nothing divides evenly: a run of it on each partition, and what is left on one.
  bool is_list() const {
    return unit_.space.size() == 1 && !unit_.has_reduction() && frees_.size() == 1 &&
           unit_.space[0] >= tuned::kListLeast;
  }
  void run_list() {
    const int64_t n = unit_.space[0], lanes = rec_.chip().partitions, each = n / lanes;
    parts_ = {0};
    is_list_ = true;
    tiles_ = {{{0}, {lanes}, each}};
    blocks_ = cut({each}, store_.choice.columns);
    make_results();
    over_tiles();
    if (n == lanes * each) return;
    tiles_ = {{{lanes * each}, {1}}};
    blocks_ = cut({n - lanes * each}, store_.choice.columns);
    at_tile_ = SIZE_MAX;
    over_tiles();
  }
  void over_tiles() {
    for (tile_ = 0; tile_ < tiles_.size(); ++tile_) {
      rows_.clear(), reduced_.clear(), sums_.clear();
      operands_.enter_tile();
      partitions_ = int(element_count(tiles_[tile_].count));
      for (const ir::Node* root : unit_.roots)
        if (is_row(*root)) put(*root, 0);
      for (size_t b = 0; b < blocks_.size(); ++b) {
        enter(b);
        for (const ir::Node* root : unit_.roots) {
          if (joined_)
            put_joined(b);
          else if (!is_row(*root))
            put(*root, b);
        }
      }
    }
  }

  void visit(size_t tile, size_t block) {
    if (tile != tile_ || rows_tile_ != tile) rows_.clear();
    tile_ = rows_tile_ = tile;
    partitions_ = int(element_count(tiles_[tile].count));
    at_tile_ = SIZE_MAX;
    enter(block);
    for (const ir::Node* root : unit_.roots) put(*root, block);
  }
  // Does each begin at a multiple of the first one's elements, as a product is asked for them?
  bool begin_evenly(const std::vector<size_t>& dims, const std::vector<Block>& blocks) const {
    const Dims strides = row_major_strides(dims_of(dims));
    const int64_t each = element_count(blocks[0].count);
    return std::all_of(blocks.begin(), blocks.end(), [&](const Block& b) {
      int64_t begin = 0;
      for (size_t d = 0; d < strides.size(); ++d) begin += b.begin[d] * strides[d];
      return begin % each == 0;
    });
  }
  // Is the product read where the loop is, by ops and not through views?
  bool reads_directly() const {
    if (unit_.product->types[0].dims != unit_.space || unit_.space.size() < 2) return false;
    for (const ir::Node* node : unit_.members)
      for (const ir::Value& v : node->inputs) {
        if (v.node == unit_.product && view_kind(*node) != ViewKind::none) return false;
        if (v.node == unit_.product && node->op == op::reshape) return false;
      }
    return !unit_.keeps_product;
  }
  Dims dims_of(const std::vector<size_t>& which) const {
    Dims out;
    for (size_t d : which) out.push_back(unit_.space[d]);
    return out;
  }
  // Where partitions take several rows each, the last dim of rows is on both sides.
  Dims part_dims() const {
    Dims out = dims_of(parts_);
    if (per_ > 1) out.back() /= per_;
    return out;
  }
  Dims free_dims() const {
    Dims out = dims_of(frees_);
    if (per_ > 1) out.front() = per_;
    return out;
  }
  bool is_row(const ir::Node& root) const {
    return unit_.has_reduction() && (root.op == op::reduce || root.types[0].dims != unit_.space);
  }
  bool is_part(int dim) const { return std::find(parts_.begin(), parts_.end(), size_t(dim)) != parts_.end(); }

  // --- results ---

  // Where a root's elements go: a form on chip where it may stay, else HBM.
  struct Result {
    Memory* memory = nullptr;
    Form* form = nullptr;
  };
  void make_results() {
    bool leading = true, trailing = true;  // partitions are the major dims, or the minor ones
    for (size_t i = 0; i < parts_.size(); ++i) {
      leading = leading && parts_[i] == i;
      trailing = trailing && parts_[i] == unit_.space.size() - parts_.size() + i;
    }
    const Dims part = part_dims(), free = free_dims();
    const Tiling tiling = Tiling::of(part, rec_.chip().partitions);
    for (const ir::Node* root : unit_.roots) {
      Result r{&store_.of(root->result())};
      r.memory->no_product = !product_;
      const int64_t width = is_row(*root) ? per_ : element_count(free) * (joined_ ? int64_t(joined_->parts.size()) : 1);
      // Large ones of several parts are queries and keys, which attention reads a head at a time.
      const int64_t room = store_.keep_bytes() / (joined_ ? 4 : 1);
      const bool fits = !is_list_ && width * bytes(r.memory->dtype) * tiling.tiles() <= room;
      if (fits && is_row(*root))
        r.form = &store_.new_form(*r.memory, r.memory->dtype, false, per_, tiling);
      else if (fits && leading)
        r.form = &store_.new_form(*r.memory, r.memory->dtype, false, width, tiling);
      else if (fits && trailing)
        r.form = &store_.new_form(*r.memory, r.memory->dtype, true, element_count(part), tiling);
      else
        store_.keep_in_hbm(*r.memory, "", arch::TensorKind::scratch);
      results_[root] = r;
    }
  }

  IndexMap root_map(const ir::Node& root) const {
    IndexMap map;
    for (size_t d = 0; d < unit_.space.size(); ++d)
      if (!is_row(root) || !unit_.inner[d]) map.push_back({int(d), 1, 0});
    return map;
  }

  void put(const ir::Node& root, size_t block) {
    const Result& r = results_[&root];
    const IndexMap map = root_map(root);
    const Slice at = slice(walk_of(map, root.types[0].dims, unit_.space.size()), !is_row(root), block);
    if (r.form) {
      const auto dst = access(*r.form, at.e0, at.part, at.free);
      CHECK(dst, "a result's own form holds its tiles");
      return into(root.result(), map, *dst);
    }
    const View t = rec_.sbuf(r.memory->dtype, partitions_, count_of(at.free));
    into(root.result(), map, t);
    if (product_ && store_by_rows(rec_, store_, *r.memory, at.e0, at.part, at.free, t)) return;
    store_.store(uint32_t(r.memory->hbm), r.memory->dtype, at.e0, at.part, at.free, t);
  }
  void into(const ir::Value& v, const IndexMap& map, const View& dst) {
    const ir::Node& root = *v.node;
    Memo& memo = is_row(root) ? rows_ : block_;
    if (auto found = memo.find({v, map}); found != memo.end())
      return emit_copy(rec_, dst, over(found->second, is_row(root)));
    const auto done = [&] { memo[{v, map}] = dst.columns() == 1 ? Val::row(dst) : Val::tile(dst); };
    if (view_kind(root) == ViewKind::none && root.op != op::reduce && root.op != op::iota &&
        unit_.members.count(&root)) {
      const Val made = elementwise(root, map, &dst);
      if (!made.is_pending() && !made.is_number() && made.view.tensor == dst.tensor) return done();
      emit_copy(rec_, dst, made);
      return done();
    }
    emit_copy(rec_, dst, over(value(v, map), is_row(root)));
  }

  // --- results side by side; see join.h ---

  bool has_whole_runs() const {
    const Dims strides = row_major_strides(dims_of(frees_));
    return std::all_of(blocks_.begin(), blocks_.end(), [&](const Block& b) {
      int64_t begin = 0;
      for (size_t d = 0; d < strides.size(); ++d) begin += b.begin[d] * strides[d];
      return begin % joined_->run == 0 && element_count(b.count) % joined_->run == 0;
    });
  }
  void put_joined(size_t block) {
    const Result& r = results_[joined_->node];
    Walk walk{0, row_major_strides(unit_.space)};
    for (int64_t& stride : walk.strides) stride = joined_->stride(stride);
    const Slice whole = slice(walk, true, block);
    const int64_t all = columns_ * int64_t(joined_->parts.size());
    const View t = r.form ? View{} : rec_.sbuf(r.memory->dtype, partitions_, all);
    for (size_t i = 0; i < joined_->parts.size(); ++i) {
      const int64_t first = int64_t(i) * joined_->run;
      View dst = t;
      dst.offset = first, dst.axes = whole.free;
      if (r.form) {
        const auto held = access(*r.form, whole.e0 + first, whole.part, whole.free);
        CHECK(held, "a result's own form holds its tiles");
        dst = *held;
      }
      into(joined_->parts[i], identity_map(int(unit_.space.size())), dst);
    }
    if (!r.form) store_.store(uint32_t(r.memory->hbm), r.memory->dtype, whole.e0, whole.part, {{1, all}}, t);
  }
  // Each part by itself, then all of them put together.
  void apart() {
    Unit each = unit_;
    each.members.erase(joined_->node);
    each.roots.clear();
    for (const ir::Value& v : joined_->parts)
      if (each.members.count(v.node)) each.roots.push_back(v.node);
    if (!each.roots.empty()) Loop(rec_, store_, each).run();
    for (const ir::Value& v : joined_->node->inputs) store_.made(v);
    lower_concatenate(rec_, store_, *joined_->node);
  }

  // --- where a walk is at the tile and block in hand ---

  Slice slice(const Walk& walk, bool with_free, size_t block) const {
    Slice out{walk.offset};
    const auto side = [&](const std::vector<size_t>& dims, const Block& b, Axes& axes) {
      for (size_t i = 0; i < dims.size(); ++i) {
        const int64_t stride = walk.strides[dims[i]] * (i + 1 == dims.size() ? b.step : 1);
        out.e0 += b.begin[i] * stride;
        axes.push_back({stride, b.count[i]});
      }
    };
    side(parts_, tiles_[tile_], out.part);
    if (with_free && !blocks_.empty())
      side(frees_, blocks_[block], out.free);
    else if (per_ > 1)
      side({frees_[0]}, {{0}, {per_}}, out.free);
    if (out.part.empty()) out.part.push_back({0, 1});
    if (out.free.empty()) out.free.push_back({0, 1});
    return out;
  }

  AtTile at_tile() const { return {dims_of(parts_), part_dims(), tiles_, tile_}; }
  void enter(size_t block) {
    if (at_block_ == block && at_tile_ == tile_) return;
    at_block_ = block, at_tile_ = tile_;
    block_.clear();
    operands_.enter_block();
    columns_ = element_count(blocks_[block].count);
  }

  // --- values ---

  bool by_row(const IndexMap& map) const {
    return std::all_of(map.begin(), map.end(), [&](const IndexTerm& t) {
      return t.dim < 0 || t.scale == 0 || unit_.space[size_t(t.dim)] == 1 || (is_part(t.dim) && !is_list_);
    });
  }
  // Inputs of an elementwise op have its dims, or are scalars.
  static IndexMap operand_map(const ir::Node&, const ir::Value& v, const IndexMap& map) {
    return v.type().dims.size() == map.size() ? map : IndexMap{};
  }

  Val value(const ir::Value& v, const IndexMap& map) {
    if (const auto number = ir::splat(v)) return Val::of(*number);
    const bool row = by_row(map);
    Memo& memo = row ? rows_ : block_;
    if (auto found = memo.find({v, map}); found != memo.end()) return found->second;
    const Val out = compute(v, map, row);
    return (row ? rows_ : block_)[{v, map}] = out;
  }

  Val compute(const ir::Value& v, const IndexMap& map, bool row) {
    const ir::Node& node = *v.node;
    if (!unit_.members.count(&node)) return fetch(v, map);
    if (view_kind(node) != ViewKind::none) return value(node.inputs[0], through_view(node, map));
    if (node.op == op::iota) return iota(node, map, row);
    if (node.op == op::reduce) return reduce(node);
    return elementwise(node, map, nullptr);
  }

  // dst: where the result should go where it is computed at all, and not only noted.
  Val elementwise(const ir::Node& node, const IndexMap& map, const View* dst) {
    const bool row = by_row(map);
    const int64_t columns = row ? per_ : columns_;
    const auto target = [&] {
      return dst ? *dst : rec_.sbuf(*device_dtype(node.types[0].dtype), partitions_, columns);
    };
    const auto activated = [&](const Val& x, std::string_view act) {
      const View to = target();
      emit_activation(rec_, to, as_tile(x, columns), act);
      return made(to, row);
    };
    if (const auto fused = match_activation(node, unit_.members))
      return activated(over(value(fused->input, map), row), fused->act);
    if (const ir::Node* const wide = narrowed(node, map)) {
      const View to = target();
      const Val v = elementwise(*wide, map, &to);
      if (v.is_number() || v.is_pending() || v.view.tensor != to.tensor) emit_copy(rec_, to, v);
      return made(to, row);
    }
    if (!row)
      if (const auto one_hot = match_one_hot(node, unit_.members))
        if (auto v = chosen(*one_hot, map, target())) return *v;
    std::vector<Val> inputs;
    for (const ir::Value& in : node.inputs) inputs.push_back(over(value(in, operand_map(node, in, map)), row));
    if (const std::string_view act = activation_of(node); !act.empty() && !inputs[0].is_number())
      return activated(inputs[0], act);
    if (node.op == op::convert && widens(node)) return inputs[0];
    if (!row)
      if (auto later = pend(rec_, node, inputs)) return *later;
    return emit_map(rec_, node, inputs, partitions_, columns, dst);
  }
  // What is computed for rows: one value for each partition, or one for each of its rows.
  Val made(View v, bool row) const { return row && per_ == 1 ? Val::row(std::move(v)) : Val::tile(std::move(v)); }
  // Values of a partition's rows, along all elements of each.
  Val over(Val v, bool row) const {
    if (per_ == 1 || row || !v.is_tile() || v.view.columns() != per_) return v;
    const Axis rows = collapse(v.view.axes)[0];
    v.view.axes = {{rows.count == per_ ? rows.stride : 0, per_}, {0, columns_ / per_}};
    return v;
  }
  // A value that is only asked for in a narrower format is computed in it: engines round as they write.
  const ir::Node* narrowed(const ir::Node& node, const IndexMap& map) const {
    if (node.op != op::convert) return nullptr;
    const ir::Node& from = *node.inputs[0].node;
    const Dtype wide = from.types[0].dtype, narrow = node.types[0].dtype;
    const auto is_float = [](Dtype d) { return is_floating(d) && bytes(d) >= 2 && bytes(d) <= 4; };
    if (wide != Dtype::f32 || !is_float(narrow) || from.op == op::reduce || from.op == op::iota || !has_map(from))
      return nullptr;
    const auto uses = uses_.find(&from);
    if (!unit_.members.count(&from) || uses == uses_.end() || uses->second != 1 || block_.count({from.result(), map}))
      return nullptr;
    return &from;
  }

  std::optional<Val> chosen(const OneHot& c, const IndexMap& map, const View& to) {
    const Val by = c.value ? value(c.value, operand_map(*c.value.node, c.value, map)) : Val::of(1);
    if (!by.is_row() && !by.is_number()) return std::nullopt;
    // Elsewhere it is 0 times the value: only what is known to be finite may be.
    if (c.value && range_of(c.value).size() > std::numeric_limits<float>::max()) return std::nullopt;
    const Val at = value(c.at, operand_map(*c.at.node, c.at, map));
    if (!at.is_row() && !at.is_number()) return std::nullopt;
    Source index = f32_of(at);
    View count;
    if (counts_columns(c.count, map)) {
      count = operands_.counted(columns_, at_tile());
      if (const int64_t begin = blocks_[at_block_].begin[0]) index = row_math(rec_, index, double(begin), "subtract");
    } else {
      const Val v = value(c.count, map);
      if (!v.is_tile() || v.is_pending()) return std::nullopt;
      count = v.view;
    }
    rec_.emit("tensor_scalar", {{"dst", to}, {"data", count}, {"operand0", index}, {"operand1", f32_of(by)}},
              {{"op0", std::string_view("equal")}, {"op1", std::string_view("multiply")}}, arch::kVector);
    return Val::tile(to);
  }
  // Does it count the elements of a row from its first?
  bool counts_columns(ir::Value count, IndexMap map) const {
    for (; view_kind(*count.node) != ViewKind::none; count = count.node->inputs[0])
      map = through_view(*count.node, map);
    const IndexTerm term = map[size_t(count.node->attrs.integer("iota_dimension"))];
    return frees_.size() == 1 && per_ == 1 && !is_list_ && term.dim == int(frees_[0]) && term.scale == 1 &&
           term.offset == 0;
  }
  Source f32_of(const Val& v) {
    if (v.is_number()) return v.number;
    if (v.view.dtype == Dtype::f32) return v.view;
    const View t = rec_.sbuf(Dtype::f32, partitions_, 1);
    emit_copy(rec_, t, v);
    return t;
  }
  // Engines widen floats as they read.
  static bool widens(const ir::Node& node) {
    const Dtype from = node.inputs[0].type().dtype, to = node.types[0].dtype;
    return !is_integer(from) && from != Dtype::boolean && !is_integer(to) && to != Dtype::boolean &&
           bytes(from) <= bytes(to) && to == Dtype::f32;
  }
  Val as_tile(Val v, int64_t columns) {
    if (v.is_number()) return Val::tile(spread(v));
    if (v.is_row() && columns != 1) v.view.axes = {{0, columns}};
    return v;
  }

  Val iota(const ir::Node& node, const IndexMap& map, bool row) {
    const IndexTerm term = map[size_t(node.attrs.integer("iota_dimension"))];
    if (term.dim < 0 || term.scale == 0) return Val::of(double(term.offset));
    // As an affine value of the loop's dims: its walk is the iota itself.
    Walk walk{term.offset, std::vector<int64_t>(unit_.space.size(), 0)};
    walk.strides[size_t(term.dim)] = term.scale;
    const Slice at = slice(walk, !row, at_block_);
    const View whole = rec_.sbuf(Dtype::s32, partitions_, row ? per_ : columns_, "iota");
    iota_rows(whole, at);
    const Dtype dtype = *device_dtype(node.types[0].dtype);
    if (dtype == Dtype::s32 || dtype == Dtype::u32) return made(whole, row);
    const View cast = rec_.sbuf(dtype, partitions_, row ? per_ : columns_, "iota");
    rec_.emit("tensor_copy", {{"dst", cast}, {"src", whole}}, {}, arch::kVector);
    return made(cast, row);
  }
  // One instruction where partitions step evenly; else in runs of even ones, through memory where those are small.
  void iota_rows(const View& dst, const Slice& at) {
    const Axes part = collapse(at.part), free = collapse(at.free);
    std::vector<int64_t> pattern;
    for (const Axis& a : free) pattern.insert(pattern.end(), {a.stride, a.count});
    if (part.size() == 1) return rec_.emit_iota(dst, pattern, at.e0, part[0].count == 1 ? 0 : part[0].stride);
    std::vector<int32_t> values;
    for (int64_t p = 0; p < count_of(part); ++p) {
      int64_t rest = p, at_row = at.e0;
      for (size_t d = part.size(); d-- > 0; rest /= part[d].count) at_row += rest % part[d].count * part[d].stride;
      values.push_back(int32_t(at_row));
    }
    const uint32_t starts = rec_.hbm("", Dtype::s32, {int64_t(values.size())}, arch::TensorKind::constant,
                                     std::as_bytes(std::span(values)));
    const View first = rec_.sbuf(Dtype::s32, partitions_, 1, "iota"),
               steps = rec_.sbuf(Dtype::s32, partitions_, dst.columns());
    store_.load(first, starts, Dtype::s32, 0, {{1, partitions_}}, {{0, 1}});
    rec_.emit_iota(steps, pattern, 0, 0);
    View wide = first;
    wide.axes = {{0, dst.columns()}};
    rec_.emit("tensor_tensor", {{"dst", dst}, {"data1", steps}, {"data2", wide}}, {{"op", std::string_view("add")}},
              arch::kGpsimd);
  }

  static std::pair<std::string_view, double> alu_of(std::string_view kind) {
    constexpr double kInf = std::numeric_limits<double>::infinity();
    if (kind == "maximum" || kind == "or") return {"max", kind == "or" ? 0 : -kInf};
    if (kind == "minimum" || kind == "and") return {"min", kind == "and" ? 1 : kInf};
    return {kind == "multiply" ? "multiply" : "add", kind == "multiply" ? 1 : 0};
  }

  // part = the value's elements of the block in hand, reduced.
  void reduce_block(const ir::Value& v, const IndexMap& map, std::string_view alu, const View& part) {
    const ir::Node& node = *v.node;
    if (alu == "add" && unit_.members.count(&node))
      if (const auto one_hot = match_one_hot(node, unit_.members); one_hot && pick(*one_hot, map, part)) return;
    const std::string_view act = unit_.members.count(&node) ? activation_of(node) : std::string_view();
    if (alu == "add" && !act.empty() && columns_ > 1 && per_ == 1 && !by_row(map) && !block_.count({v, map})) {
      const Val x = as_tile(value(node.inputs[0], map), columns_);  // the sum comes with the activation
      const View to = rec_.sbuf(*device_dtype(node.types[0].dtype), partitions_, columns_);
      emit_activation(rec_, to, x, act, &part);
      block_[{v, map}] = Val::tile(to);
      return;
    }
    Val x = over(value(v, map), false);
    if (!x.is_tile()) x = Val::tile(spread(x));
    const bool flips = x.scaled && (!x.scale.is_number() || x.scale.number < 0);
    if (x.is_pending() && (per_ > 1 || alu == "multiply" || (alu != "add" && flips))) x = settle(rec_, x);
    const Val plain = Val::tile(x.view);
    if (columns_ == 1)
      emit_copy(rec_, part, plain);
    else
      rec_.emit("tensor_reduce", {{"dst", part}, {"data", x.view}}, {{"op", alu}});
    if (!x.is_pending()) return;
    Source out = x.scaled ? row_math(rec_, part, x.scale, "multiply") : Source(part);
    if (x.shifted)
      out = row_math(rec_, out, alu == "add" ? row_math(rec_, x.bias, double(columns_), "multiply") : x.bias, "add");
    rec_.emit("tensor_copy", {{"dst", part}, {"src", out.view}}, {}, arch::kVector);
  }

  // The row's element at one index, where counting along the block reaches it.
  bool pick(const OneHot& c, const IndexMap& map, const View& part) {
    if (!c.value || ir::splat(c.value) || by_row(map) || !counts_columns(c.count, map)) return false;
    const Val at = value(c.at, map), x = value(c.value, map);
    if (!at.is_row() || !x.is_tile() || x.view.columns() != columns_) return false;
    emit_pick(rec_, part, x, f32_of(at).view, blocks_[at_block_].begin[0]);
    return true;
  }

  // How many times rows are read.
  int passes() {
    int out = 0;
    for (const ir::Node* root : unit_.roots) out = std::max(out, level(root) + !is_row(*root));
    return out;
  }
  // How many times rows must be read before a value is known; see pass.
  int level(const ir::Node* node) {
    if (!unit_.members.count(node)) return 0;
    if (const auto found = levels_.find(node); found != levels_.end()) return found->second;
    int out = 0;
    const ShiftedSum* const shifted = shifted_of(*node);
    if (shifted) out = std::max(level(shifted->top), level(shifted->by.node));
    for (size_t i = 0; !shifted && i < node->inputs.size(); ++i) out = std::max(out, level(node->inputs[i].node));
    return levels_[node] = out + (node->op == op::reduce && !shifted);
  }
  const ShiftedSum* shifted_of(const ir::Node& node) const {
    const auto found = std::find_if(shifted_.begin(), shifted_.end(), [&](auto& s) { return s.sum == &node; });
    return found == shifted_.end() ? nullptr : &*found;
  }

  // Over every block of the tile in hand; one value per partition.
  Val reduce(const ir::Node& node) {
    if (const auto found = reduced_.find(&node); found != reduced_.end()) return found->second;
    if (const ShiftedSum* const shifted = shifted_of(node)) {
      reduce(*shifted->top);
      const Val by = value(shifted->by, identity_map(int(unit_.space.size())));
      return reduced_[&node] = finished(node, sums_.at(&node).total(by));
    }
    pass(level(&node));
    return reduced_.at(&node);
  }
  // All reductions that wait for the same number of others, in one reading of the rows.
  void pass(int of_level) {
    std::vector<const ir::Node*> all;
    for (const ir::Node* node : reductions_) {
      if (level(node) < of_level) reduce(*node);
      if (level(node) == of_level && !shifted_of(*node) && !reduced_.count(node)) all.push_back(node);
    }
    const size_t here = at_block_;
    std::vector<View> totals(all.size());
    for (size_t b = 0; b < blocks_.size(); ++b) {
      enter(b);
      for (size_t i = 0; i < all.size(); ++i) totals[i] = with_block(*all[i], totals[i], b);
    }
    if (here != at_block_ && here < blocks_.size()) enter(here);
    for (size_t i = 0; i < all.size(); ++i) reduced_[all[i]] = finished(*all[i], totals[i]);
  }
  View with_block(const ir::Node& node, const View& total, size_t block) {
    const auto alu = alu_of(node.attrs.text("kind")).first;
    const IndexMap map = identity_map(int(unit_.space.size()));
    const View part = rec_.sbuf(Dtype::f32, partitions_, per_, "sum");
    reduce_block(node.inputs[0], map, alu, part);
    for (const ShiftedSum& s : shifted_)
      if (s.top == &node)
        sums_.try_emplace(s.sum, rec_, partitions_, blocks_.size())
            .first->second.add(block, as_tile(value(s.x, map), columns_), columns_, part);
    if (block == 0) return part;
    const View sum = rec_.sbuf(Dtype::f32, partitions_, 1, "sum");
    rec_.emit("tensor_tensor", {{"dst", sum}, {"data1", total}, {"data2", part}}, {{"op", alu}}, arch::kVector);
    return sum;
  }
  // With what it begins from, in its format.
  Val finished(const ir::Node& node, View total) {
    const auto [alu, identity] = alu_of(node.attrs.text("kind"));
    if (ir::splat(node.inputs[1]) != identity) {
      const Val start = value(node.inputs[1], {});
      const View sum = rec_.sbuf(Dtype::f32, partitions_, per_, "sum");
      if (start.is_number())
        rec_.emit("tensor_scalar", {{"dst", sum}, {"data", total}, {"operand0", start.number}}, {{"op0", alu}});
      else
        rec_.emit("tensor_tensor", {{"dst", sum}, {"data1", total}, {"data2", start.view}}, {{"op", alu}},
                  arch::kVector);
      total = sum;
    }
    const Dtype dtype = *device_dtype(node.types[0].dtype);
    if (dtype == Dtype::f32) return made(total, true);
    const View cast = rec_.sbuf(dtype, partitions_, per_, "sum");
    emit_copy(rec_, cast, made(total, true));
    return made(cast, true);
  }
  View spread(const Val& v) {
    const View t = rec_.sbuf(Dtype::f32, partitions_, columns_);
    emit_copy(rec_, t, v);
    return t;
  }

  // --- operands from memory ---

  // A view that nobody stored is read through.
  void look_through(ir::Value& v, IndexMap& map) const {
    while (!(product_ && v.node == unit_.product) && !store_.has(v) && view_kind(*v.node) != ViewKind::none) {
      map = through_view(*v.node, map);
      v = v.node->inputs[0];
    }
  }
  void note_reads() {
    std::set<KeyLess::Key, KeyLess> seen;
    std::vector<KeyLess::Key> worklist;
    for (const ir::Node* root : unit_.roots)
      if (!joined_) worklist.push_back({root->result(), root_map(*root)});
    if (joined_)
      for (const ir::Value& part : joined_->parts) worklist.push_back({part, identity_map(int(unit_.space.size()))});
    while (!worklist.empty()) {
      auto [v, map] = std::move(worklist.back());
      worklist.pop_back();
      if (ir::splat(v) || !seen.insert({v, map}).second) continue;
      if (!unit_.members.count(v.node)) {
        look_through(v, map);
        if (!store_.has(v)) continue;
        const Walk walk = walk_of(map, v.type().dims, unit_.space.size());
        operands_.reads.add(store_.of(v), walk.strides, walk.offset);
      } else if (view_kind(*v.node) != ViewKind::none) {
        worklist.push_back({v.node->inputs[0], through_view(*v.node, map)});
      } else if (v.node->op == op::reduce) {
        worklist.push_back({v.node->inputs[0], identity_map(int(unit_.space.size()))});
      } else {
        for (const ir::Value& in : v.node->inputs) worklist.push_back({in, operand_map(*v.node, in, map)});
      }
    }
  }
  Val fetch(ir::Value v, IndexMap map) {
    look_through(v, map);
    if (!store_.has(v) && !(product_ && v.node == unit_.product)) {
      rec_.fail_with(fail(Code::internal, cat(v.node->op, " ", ir::text(v.type()), " is read before it is made")));
      return Val::of(0);
    }
    const Walk walk = walk_of(map, v.type().dims, unit_.space.size());
    const bool row = by_row(map);
    const Slice at = slice(walk, !row, at_block_);
    if (product_ && v.node == unit_.product) return Val::tile(product_->block(at.e0, at.part, at.free));
    return made(operands_.read(store_.of(v), at, walk, at_tile()), row);
  }

  Recorder& rec_;
  Store& store_;
  Operands operands_;
  const Unit& unit_;
  std::optional<Joined> joined_;
  Product* product_ = nullptr;
  size_t rows_tile_ = SIZE_MAX;
  std::vector<size_t> parts_, frees_;  // dims of the space
  std::vector<Block> tiles_, blocks_;
  bool is_list_ = false;  // the one dim is on both sides
  int64_t per_ = 1;       // rows of a partition, where a loop reduces along them
  size_t tile_ = 0, at_block_ = 0, at_tile_ = SIZE_MAX;
  int partitions_ = 1;
  int64_t columns_ = 1;
  Memo rows_, block_;
  std::unordered_map<const ir::Node*, int> uses_;  // in the loop, and by those after it
  std::unordered_map<const ir::Node*, Result> results_;
  std::vector<const ir::Node*> reductions_;  // by id
  std::vector<ShiftedSum> shifted_;
  std::unordered_map<const ir::Node*, int> levels_;
  std::unordered_map<const ir::Node*, Val> reduced_;  // of the tile in hand
  std::unordered_map<const ir::Node*, BlockSums> sums_;
};

}  // namespace

std::string loop_obstacle(const Unit& unit) {
  for (const ir::Node* node : unit.members) {
    std::string why = move_obstacle(*node);  // formats alone
    if (!why.empty()) return why;
    if (view_kind(*node) != ViewKind::none || node->op == op::iota || node->op == op::concatenate) continue;
    if (node->op == op::reduce) {
      const Dtype d = node->types[0].dtype;
      const std::string_view kind = node->attrs.text("kind");
      if (d != Dtype::boolean && is_integer(d)) return cat("reduce of ", shape_text(d, {}), " is inexact on the chip");
      if (kind == "xor" || (kind == "multiply" && d == Dtype::boolean)) return cat("reduce by ", kind);
      continue;
    }
    if (!has_map(*node, &why)) return why;
  }
  return {};
}

std::vector<Choice> loop_variants(Recorder& rec, Store& store, const Unit& unit) {
  std::vector<Choice> out = {{}};
  const int64_t columns = Loop(rec, store, unit).columns();
  for (int64_t most : {2048, 1024, 8192})
    if (columns > std::min(most, out[0].columns)) out.push_back({.columns = most});
  return out;
}

void lower_loop(Recorder& rec, Store& store, const Unit& unit) { Loop(rec, store, unit).run(); }

bool lower_summed(Recorder& rec, Store& store, const Summed& sum, Memory& out) {
  return Loop(rec, store, sum.loop).run_summed(sum, out);
}

bool lower_epilogue(Recorder& rec, Store& store, const Unit& unit, Product& product) {
  return Loop(rec, store, unit).run_over(product);
}

}  // namespace trine::compile::device
