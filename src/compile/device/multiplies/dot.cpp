// Axes, panels and the order of multiplies; see dot.h.
#include "compile/device/multiplies/dot.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <span>
#include <utility>

#include "base/text.h"
#include "compile/device/choose/choose.h"
#include "compile/device/loops/map.h"
#include "compile/device/memory/transpose.h"
#include "compile/graph/index_map.h"
#include "compile/thresholds.h"

namespace trine::compile::device {

namespace {

namespace tuned = thresholds::dot;

// Outermost first; neighbours that every side walks on are one.
std::vector<Shared> merged(const std::vector<Shared>& dims) {
  std::vector<Shared> out;
  for (const Shared& d : dims) {
    if (d.count == 1) continue;
    if (!out.empty() && out.back().left == d.left * d.count && out.back().right == d.right * d.count &&
        out.back().out == d.out * d.count) {
      out.back() = {out.back().count * d.count, d.left, d.right, d.out};
    } else {
      out.push_back(d);
    }
  }
  return out;
}

class Dot : public Product {
 public:
  Dot(Recorder& rec, Store& store, const ir::Node& dot, const ir::Node& out, bool transposed, const DotPolicy& policy)
      : rec_(rec), store_(store), how_(store.choice), transposed_(transposed) {
    left_ = side_of(store, dot.inputs[0]);
    right_ = side_of(store, dot.inputs[1]);
    out_ = &store.of(out.result());
    dtype_ = left_.memory->dtype == right_.memory->dtype ? left_.memory->dtype : Dtype::f32;
    if (policy.cast && !dot.attrs.flag(kKeepsFormat)) dtype_ = *policy.cast;
    find_axes(dot, out);
  }
  Dot(Recorder& rec, Store& store, const Strides& s, const DotPolicy& policy)
      : rec_(rec), store_(store), how_(store.choice), transposed_(false), windows_(s.windows) {
    left_ = s.left;
    right_ = s.right;
    out_ = &store.of(s.out);
    dtype_ = policy.cast.value_or(left_.memory->dtype == right_.memory->dtype ? left_.memory->dtype : Dtype::f32);
    take_axes(s.batch, s.rows, s.columns, s.depth);
  }

  void run() {
    allocate_output();
    const int64_t block_m = panel_rows(), block_n = panel_columns(), strip = strip_rows();
    int64_t batches = 1;
    for (const Shared& b : batch_) batches *= b.count;
    if (const int64_t rows = deep_rows()) {
      const int64_t columns = deep_columns();
      for (int64_t b = 0; b < batches; ++b)
        for (int64_t m = 0; m < m_.count; m += rows)
          for (int64_t n = 0; n < n_.count; n += columns)
            run_deep(enter(b), {m, std::min(m + rows, m_.count)}, {n, std::min(n + columns, n_.count)});
      return;
    }
    for (int64_t b = 0; b < batches; ++b) {
      const auto [left, right, to] = enter(b);
      for (int64_t begin = 0; begin < m_.count; begin += block_m)
        for (int64_t n = 0; n < n_.count && !rec_.error(); n += block_n) {
          const int64_t width = std::min(block_n, n_.count - n), end = std::min(begin + block_m, m_.count);
          const Panel& c = panel(right_, false, right + n * n_.right, {n_.right, width}, n);
          for (int64_t m = begin; m < end; m += strip) {
            const int64_t height = std::min(strip, end - m);
            const Panel& a = panel(left_, true, left + m * m_.left, {m_.left, height}, begin);
            multiply(a, c, height, width, to + m * m_.out + n * n_.out);
          }
        }
    }
  }

  // How the choice cuts it: choices that cut it alike write the same.
  std::array<int64_t, 4> cut() const { return {panel_rows(), strip_rows(), panel_columns(), deep_rows()}; }

  // The right operand passes by once for many rows, where it would for each panel.
  bool spares_passes() const { return deep_rows() > 0 && share_of(right_) > 2 * store_.keep_bytes(); }
  // Multiplies of the tensor engine; panels narrower than its own tile need more of them.
  int64_t steps() const {
    int64_t n = chunks();
    for (const Shared& b : batch_) n *= b.count;
    const auto tiles = [&](const Shared& side, int64_t most) {
      const int64_t panel = &side == &m_ ? strip_rows() : panel_columns();
      const int64_t tile = deep_rows() ? most : std::min(most, panel);
      return (side.count + tile - 1) / tile;
    };
    return n * tiles(across(), rec_.chip().tensor.stationary_max) * tiles(along(), rec_.columns_max());
  }
  // What all rows of the left operand take of SBUF.
  double left_share() const { return double(m_.count * chunks() * bytes(dtype_)) / double(sbuf()); }

  // --- as a product that is asked for block by block ---

  void prefer(bool transposed) { by_columns_ = transposed; }
  bool is_transposed() const override { return by_columns_; }
  int64_t panel_rows() const override {
    const int64_t step = by_columns_ ? rec_.columns_max() : rec_.chip().partitions;
    const int64_t rows = panel_count(m_.count, step, sbuf() / how_.left);
    return rows > how_.strip && rows < m_.count ? rows / how_.strip * how_.strip : rows;
  }
  bool holds(int64_t part, int64_t free, int64_t minor, bool in_a_row) const override {
    // Every dim of the product lies densely after the next, rows before columns; tiles never reach over one.
    const bool dense = n_.out == 1 && (m_.count == 1 || m_.out == n_.count);
    const auto even = [](int64_t count, int64_t block) { return count % block == 0 || count <= block; };
    const int64_t rows = by_columns_ ? free : part, columns = by_columns_ ? part : free;
    // But the last, where nothing follows it.
    const bool rows_fit = even(m_.count, rows) || (in_a_row && batch_.empty()),
               columns_fit = even(n_.count, columns) || (!by_columns_ && n_.count == minor);
    const bool in_panels = (strip_rows() % rows == 0 || strip_rows() == m_.count) &&
                           (panel_columns() % columns == 0 || panel_columns() == n_.count);
    const bool in_one = rows <= m_.count && columns <= n_.count;  // batch
    return dense && in_one && in_panels && !deep_rows() && rows_fit && columns_fit && across().count >= 32;
  }
  int64_t block_columns() const override {
    return std::min(rec_.columns_max(), by_columns_ ? strip_rows() : panel_columns());
  }
  View block(int64_t e0, const Axes& part, const Axes& free) override {
    int64_t b = 0;
    for (const Shared& s : batch_) {
      b = b * s.count + e0 / s.out % s.count;
      e0 -= e0 / s.out % s.count * s.out;
    }
    const int64_t m = m_.count > 1 ? e0 / m_.out : 0, n = m_.count > 1 ? e0 % m_.out : e0;
    const int64_t rows = count_of(by_columns_ ? free : part), columns = count_of(by_columns_ ? part : free);
    const auto [left, right, to] = enter(b);
    const int64_t pm = strip_rows(), pn = panel_columns(), m0 = m / pm * pm, n0 = n / pn * pn;
    const Panel& c = panel(right_, false, right + n0 * n_.right, {n_.right, std::min(pn, n_.count - n0)}, n0);
    const Panel& a = panel(left_, true, left + m0 * m_.left, {m_.left, std::min(pm, m_.count - m0)}, m / panel_rows());
    const Panel &still = by_columns_ ? c : a, &moving = by_columns_ ? a : c;
    return accumulate(still, moving, by_columns_ ? n - n0 : m - m0, by_columns_ ? columns : rows,
                      by_columns_ ? m - m0 : n - n0, by_columns_ ? rows : columns);
  }

 private:
  // K chunks of one operand, each [k, columns].
  using Panel = std::vector<View>;

  struct Offsets {
    int64_t left = 0, right = 0, out = 0;
  };
  // Where a batch begins on each side.
  Offsets enter(int64_t b) {
    Offsets at{left_.walk.offset, right_.walk.offset, 0};
    int64_t rest = b, lefts = 1, rights = 1;
    left_.batch = right_.batch = 0;
    for (size_t d = batch_.size(); d-- > 0; rest /= batch_[d].count) {
      const Shared& s = batch_[d];
      const int64_t i = rest % s.count;
      at.left += i * s.left, at.right += i * s.right, at.out += i * s.out;
      if (s.left) left_.batch += i * lefts, lefts *= s.count;
      if (s.right) right_.batch += i * rights, rights *= s.count;
    }
    return at;
  }

  // --- a contraction so deep that few rows of it fit: in parts, whose products are summed in SBUF ---

  // Sums that stay on chip.
  int64_t deep_sums() const { return sbuf() * 3 / 8 * rec_.chip().partitions / 4; }
  // Columns of those: all, but where rows would be fewer than columns; operands pass by least often for as many of
  // each.
  int64_t deep_columns() const {
    const auto side = std::max(rec_.columns_max(), int64_t(std::sqrt(double(deep_sums()))) / how_.strip * how_.strip);
    return m_.count > side && n_.count > side && deep_sums() / n_.count < side ? side : std::max<int64_t>(n_.count, 1);
  }
  // Rows whose sums stay on chip; 0 where they would be no more than a panel's.
  int64_t deep_rows() const {
    const int64_t fit = deep_sums() / deep_columns();
    const int64_t rows = std::min(m_.count, fit / how_.strip * how_.strip);
    if (too_deep()) return std::max(rows, std::min(m_.count, how_.strip));
    return how_.deep && rows >= 2 * panel_rows() && panel_rows() < m_.count ? rows : 0;
  }
  // Not even the narrowest panel would have its share.
  bool too_deep() const { return chunks() * tuned::kNarrow * bytes(dtype_) > sbuf() / 4; }
  struct Part {
    int64_t begin = 0, end = 0;
  };
  void run_deep(const Offsets& at, const Part& ms, const Part& ns) {
    const int64_t rows = ms.end - ms.begin;
    const int64_t all = chunks(),
                  each = std::max<int64_t>(1, sbuf() / 4 / (std::max(rows, tuned::kNarrow) * bytes(dtype_)));
    chunks_ = {0, std::min(all, each)};
    const int64_t block_n = panel_columns(), strip = std::min(rows, how_.strip);
    std::map<int64_t, View> sums;  // by where a block goes
    for (int64_t first = 0; first < all; first += each) {
      chunks_ = {first, std::min(all, first + each)};
      for (auto& cached : panels_) cached.clear();
      for (int64_t n = ns.begin; n < ns.end && !rec_.error(); n += block_n) {
        const int64_t width = std::min(block_n, ns.end - n);
        const Panel& c = panel(right_, false, at.right + n * n_.right, {n_.right, width}, n);
        for (int64_t m = ms.begin; m < ms.end; m += strip) {
          const int64_t height = std::min(strip, ms.end - m);
          const Panel& a = panel(left_, true, at.left + m * m_.left, {m_.left, height}, ms.begin);
          add_deep(a, c, height, width, at.out + m * m_.out + n * n_.out, chunks_.end == all, sums);
        }
      }
    }
    chunks_ = {};
  }
  void add_deep(const Panel& a, const Panel& c, int64_t height, int64_t width, int64_t to, bool last,
                std::map<int64_t, View>& sums) {
    over_blocks(a, c, height, width, to, [&](const View& acc, int64_t e0, const Axis& part, const Axis& free) {
      const auto before = sums.find(e0);
      if (before == sums.end() && last) return put(acc, e0, part, free);
      const View sum = rec_.sbuf(Dtype::f32, part.count, free.count, "sum");
      if (before == sums.end())
        emit_copy(rec_, sum, Val::tile(acc));
      else
        rec_.emit("tensor_tensor", {{"dst", sum}, {"data1", acc}, {"data2", before->second}},
                  {{"op", std::string_view("add")}}, arch::kVector);
      if (last) return put(sum, e0, part, free);
      sums[e0] = sum;
    });
  }

  // A panel of the left operand is loaded in strips, so that the first can be used before the last is there.
  int64_t strip_rows() const { return std::min(panel_rows(), how_.strip); }
  int64_t panel_columns() const {
    return panel_count(n_.count, by_columns_ ? rec_.chip().partitions : rec_.columns_max(), sbuf() / how_.right);
  }

  void find_axes(const ir::Node& dot, const ir::Node& out) {
    const auto& lb = dot.attrs.ints("lhs_batch");
    const auto& rb = dot.attrs.ints("rhs_batch");
    const auto& lc = dot.attrs.ints("lhs_contract");
    const auto& rc = dot.attrs.ints("rhs_contract");
    const Dims &ld = dot.inputs[0].type().dims, &rd = dot.inputs[1].type().dims;
    // Strides of the dot's own dims in the output's memory.
    Dims strides = row_major_strides(out.types[0].dims);
    if (&out != &dot) {
      const Dims transposed = strides;
      const ir::Ints& from = out.attrs.ints("permutation");
      for (size_t d = 0; d < from.size(); ++d) strides[size_t(from[d])] = transposed[d];
    }
    const auto has = [](const ir::Ints& list, size_t d) {
      return std::find(list.begin(), list.end(), int64_t(d)) != list.end();
    };
    std::vector<Shared> batch, rows, columns, depth;
    size_t at = 0;
    for (size_t i = 0; i < lb.size(); ++i)
      batch.push_back(
          {ld[size_t(lb[i])], left_.walk.strides[size_t(lb[i])], right_.walk.strides[size_t(rb[i])], strides[at++]});
    for (size_t d = 0; d < ld.size(); ++d)
      if (!has(lb, d) && !has(lc, d)) rows.push_back({ld[d], left_.walk.strides[d], 0, strides[at++]});
    for (size_t d = 0; d < rd.size(); ++d)
      if (!has(rb, d) && !has(rc, d)) columns.push_back({rd[d], 0, right_.walk.strides[d], strides[at++]});
    for (size_t i = 0; i < lc.size(); ++i)
      depth.push_back({ld[size_t(lc[i])], left_.walk.strides[size_t(lc[i])], right_.walk.strides[size_t(rc[i])], 0});
    take_axes(batch, rows, columns, depth);
  }
  void take_axes(const std::vector<Shared>& batch, const std::vector<Shared>& rows, const std::vector<Shared>& columns,
                 const std::vector<Shared>& depth) {
    batch_ = merged(batch);
    take_inner(merged(rows), m_);
    take_inner(merged(columns), n_);
    depth_ = merged(depth);
    if (depth_.empty()) depth_.push_back({1, 0, 0, 0});
    cut_ = depth_.size() - 1;
    if (windows_ && lies_in_a_row())
      find_cut();
    else if (can_join())
      join_depth();
  }
  // --- short contracted dims side by side: partitions hold several of the next one's items ---

  // Neither side is transposed on its way here, nor a weight whose order in memory follows from the last dim alone.
  bool can_join() const {
    const auto is_plain = [](const Side& side) { return side.memory->input < 0 && !side.memory->panels; };
    return depth_.size() > 1 && is_plain(left_) && is_plain(right_) &&
           std::all_of(depth_.begin(), depth_.end(), [](const Shared& d) { return d.left != 1 && d.right != 1; });
  }
  // Rows of a window that the kernel has one after the other: transposed together.
  bool lies_in_a_row() const {
    bool all = depth_.back().left == 1 && depth_.back().right > 0 && m_.left > 1;
    for (size_t d = 0; d + 1 < depth_.size(); ++d)
      all = all && depth_[d].right == depth_[d + 1].right * depth_[d + 1].count;
    return all;
  }
  // In the order that needs the fewest chunks; of more dims than any op of a model has, in the order given.
  void join_depth() {
    std::vector<size_t> order(depth_.size());
    std::iota(order.begin(), order.end(), size_t{0});
    const std::vector<Shared> given = depth_;
    std::vector<Shared> best;
    int64_t fewest = 0;
    do {
      for (size_t d = 0; d < order.size(); ++d) depth_[d] = given[order[d]];
      find_cut();
      if (best.empty() || chunks() < fewest) best = depth_, fewest = chunks();
    } while (order.size() <= tuned::kOrdered && std::next_permutation(order.begin(), order.end()));
    depth_ = best;
    find_cut();
  }
  void find_cut() {
    cut_ = depth_.size() - 1;
    while (cut_ > 0 && items() * depth_[cut_].count <= rec_.chip().partitions) --cut_;
  }
  // Of the dims that every chunk has as a whole.
  int64_t items() const {
    int64_t n = 1;
    for (size_t d = cut_ + 1; d < depth_.size(); ++d) n *= depth_[d].count;
    return n;
  }
  int64_t run() const { return rec_.chip().partitions / items(); }  // of the dim that is cut

  // The minor dim is the multiply's own; those around it are walked as batches.
  void take_inner(const std::vector<Shared>& dims, Shared& inner) {
    if (dims.empty()) return;
    inner = dims.back();
    batch_.insert(batch_.end(), dims.begin(), dims.end() - 1);
  }

  int64_t sbuf() const { return rec_.chip().sbuf.bytes_per_partition; }
  int64_t chunks() const {
    if (chunks_.end) return chunks_.end - chunks_.begin;
    int64_t outer = 1;
    for (size_t d = 0; d < cut_; ++d) outer *= depth_[d].count;
    return outer * ((depth_[cut_].count + run() - 1) / run());
  }
  // As many columns of a panel as its share of SBUF holds, in steps of the engine's own size. The left operand's panel
  // stays while all of the right one passes by, panel after panel, the next loaded while one is used.
  int64_t panel_count(int64_t extent, int64_t step, int64_t share) const {
    const int64_t fit = share / (chunks() * bytes(dtype_));
    const int64_t whole =
        fit >= step ? fit / step * step : std::max(tuned::kNarrow, fit / tuned::kNarrow * tuned::kNarrow);
    return std::min(extent, whole);
  }

  // Runs f(chunk number, e0 shift, axes over k) for each chunk of the contracted dims.
  template <class F>
  void over_chunks(bool is_left, F f) const {
    const int64_t step = run();
    int64_t outer = 1, chunk = 0;
    for (size_t d = 0; d < cut_; ++d) outer *= depth_[d].count;
    const auto stride = [&](const Shared& s) { return is_left ? s.left : s.right; };
    Axes axes = {{stride(depth_[cut_]), step}};
    for (size_t d = cut_ + 1; d < depth_.size(); ++d) axes.push_back({stride(depth_[d]), depth_[d].count});
    for (int64_t o = 0; o < outer; ++o) {
      int64_t rest = o, shift = 0;
      for (size_t d = cut_; d-- > 0; rest /= depth_[d].count) shift += rest % depth_[d].count * stride(depth_[d]);
      for (int64_t k = 0; k < depth_[cut_].count; k += step, ++chunk) {
        axes[0].count = std::min(step, depth_[cut_].count - k);
        if (!chunks_.end || (chunk >= chunks_.begin && chunk < chunks_.end))
          f(chunk - chunks_.begin, shift + k * stride(depth_[cut_]), axes);
      }
    }
  }

  // What is streamed is kept as long as its group is in hand.
  const Panel& panel(const Side& side, bool is_left, int64_t e0, const Axis& columns, int64_t group) {
    const std::array<int64_t, 4> key = {is_left, e0, columns.stride, columns.count};
    auto& cached = panels_[is_left];
    if (auto found = cached.find(key); found != cached.end()) return found->second;
    if (cached.size() > 64 || group != groups_[is_left]) cached.clear();
    groups_[is_left] = group;
    Panel made;
    if (lay_out(side, is_left, columns)) {
      load_panel(side, (e0 - side.walk.offset) % (columns.stride * column_count(is_left)) / columns.stride, columns,
                 made);
    } else if (!on_chip(side, is_left, e0, columns, made)) {
      made.clear();
      stream(side, is_left, e0, columns, made);
    }
    return cached[key] = std::move(made);
  }

  int64_t column_count(bool is_left) const { return is_left ? m_.count : n_.count; }

  // A weight that has no layout yet is laid out for this multiply.
  bool lay_out(const Side& side, bool is_left, const Axis& columns) {
    Memory& m = *side.memory;
    if (m.panels) return m.panel_owner == this;
    if (m.input < 0 || m.hbm >= 0 || side.walk.offset || columns.stride <= 0) return false;
    const auto stride = [&](const Shared& s) { return is_left ? s.left : s.right; };
    const Part part = std::exchange(chunks_, {});
    PanelLayout p{.column = {columns.stride, column_count(is_left)}, .chunks = chunks()};
    chunks_ = part;
    for (const Shared& b : batch_)
      if (stride(b)) p.batch.push_back({stride(b), b.count});
    for (size_t d = 0; d < cut_; ++d) p.depth.push_back({stride(depth_[d]), depth_[d].count});
    p.depth.push_back({stride(depth_.back()), depth_[cut_].count * items()});
    p.lanes = std::min(std::as_const(*this).run(), depth_[cut_].count) * items();
    if (count_of(p.batch) * count_of(p.depth) * p.column.count != m.elements) return false;
    // So deep that even its widest panel would be read in rows for which a descriptor takes as long as for more: panels
    // lie one after the other.
    const int64_t widest = sbuf() / 4 / p.chunks;  // bytes
    if (!is_left && columns.count < n_.count && widest < tuned::kRowBytes) p.strip = columns.count;
    m.dtype = dtype_;
    m.hbm = rec_.hbm(cat("arg", m.input), dtype_, {p.batches() * p.lanes, p.chunks * p.column.count},
                     arch::TensorKind::input);
    m.panels = std::move(p);
    m.panel_owner = this;
    return true;
  }
  void load_panel(const Side& side, int64_t begin, const Axis& columns, Panel& out) {
    const PanelLayout& p = *side.memory->panels;
    const int64_t all = p.column.count, wide = p.strip ? columns.count : all;
    const int64_t first = side.batch * p.lanes * p.chunks * all + begin * (p.strip ? p.lanes * p.chunks : 1);
    const View whole = rec_.sbuf(dtype_, p.lanes, chunks() * columns.count, "panel");
    store_.load(whole, uint32_t(side.memory->hbm), dtype_, first + chunks_.begin * wide, {{p.chunks * wide, p.lanes}},
                {{wide, chunks()}, {1, columns.count}});
    over_chunks(true, [&](int64_t i, int64_t, const Axes& k) {
      View v = whole;
      v.partitions = int(count_of(k));
      v.offset = i * columns.count;
      v.axes = {{1, columns.count}};
      out.push_back(v);
    });
  }

  bool is_given(const Memory& m) {
    return m.hbm >= 0 && rec_.kernel().program().tensors[size_t(m.hbm)].kind == arch::TensorKind::input;
  }
  bool from_form(const Form& form, bool is_left, int64_t e0, const Axis& columns, Panel& out) const {
    out.clear();
    bool all = form.dtype == dtype_;
    over_chunks(is_left, [&](int64_t, int64_t shift, const Axes& k) {
      if (!all) return;
      auto view = access(form, e0 + shift, k, {columns});
      all = view && starts_well(*view);
      if (all) out.push_back(*view);
    });
    return all;
  }

  int64_t share_of(const Side& side) const {
    return side.memory->elements * bytes(dtype_) / rec_.chip().partitions;  // bytes per partition
  }
  // From tiles that hold the value, or that it may be brought into as a whole.
  bool on_chip(const Side& side, bool is_left, int64_t e0, const Axis& columns, Panel& out) {
    Memory& m = *side.memory;
    for (const Form& f : m.forms)
      if (from_form(f, is_left, e0, columns, out)) return true;
    const int64_t share = share_of(side), other = share_of(is_left ? right_ : left_);
    if (share > 2 * store_.keep_bytes() || depth_.size() != 1 || m.elsewhere) return false;
    // Of two that do not both fit, the larger passes by.
    if (share + other > 2 * store_.keep_bytes() && (share > other || (share == other && !is_left))) return false;
    // What is given in HBM and passes by once need not be there as a whole before the first multiply.
    if (m.forms.empty() && is_given(m) && share > sbuf() / 16 && (is_left || panel_rows() >= m_.count)) return false;
    const int64_t step = is_left ? depth_[0].left : depth_[0].right, k = depth_[0].count;
    const bool minor = step == 1 && k > 1;
    // On the way there it is in memory's format, and by rows before they are transposed.
    const int64_t raw = m.dtype == dtype_ ? 0 : share * bytes(m.dtype) / bytes(dtype_);
    if (m.forms.empty() && share * (minor ? 2 : 1) + raw > 3 * store_.keep_bytes()) return false;
    int64_t width = minor ? k : step;
    if (k == 1) width = columns.count;
    for (const Form& f : m.forms)
      if (minor && f.columns % k == 0) width = f.columns;
    if (width <= 0 || m.elements % width) return false;
    const int64_t extent = minor ? width : m.elements / width, lanes = rec_.chip().partitions;
    Tiling tiling = Tiling::plain(extent, lanes);
    if (extent > k && lanes % k != 0 && k % lanes != 0) tiling = {extent, k, std::min(k, lanes)};
    if (extent % tiling.period) return false;
    const int64_t free = minor ? m.elements / width : width;
    if (free * bytes(dtype_) * tiling.tiles() > 2 * store_.keep_bytes()) return false;
    // Rows that hold K are read again only where they were cut for it.
    const Form& f = store_.form(m, dtype_, minor, width, tiling);
    return from_form(f, is_left, e0, columns, out);
  }

  // Straight from HBM: [k, chunk, columns] in one go where K is not the minor dim, else by rows and transposed.
  void stream(const Side& side, bool is_left, int64_t e0, const Axis& columns, Panel& out) {
    Memory& m = *side.memory;
    const uint32_t hbm = store_.hbm(m);
    std::vector<Chunk> parts;
    over_chunks(is_left, [&](int64_t, int64_t shift, const Axes& k) { parts.push_back({shift, k}); });
    const View whole = rec_.sbuf(dtype_, parts[0].count(), int64_t(parts.size()) * columns.count, "panel");
    for (size_t i = 0; i < parts.size(); ++i) {
      View v = whole;
      v.partitions = int(parts[i].count());
      v.offset = int64_t(i) * columns.count;
      v.axes = {{1, columns.count}};
      out.push_back(v);
    }
    const bool minor = parts[0].k.back().stride == 1 && parts[0].count() > 1 && columns.stride != 1;
    if (minor && load_chunks_transposed(m, hbm, e0, columns, parts, out)) return;
    if (minor) return stream_transposed(m, hbm, e0, columns, parts, out);
    if (m.dtype == dtype_) return load_chunks(m, hbm, e0, columns, parts, whole);
    // Cast a few chunks at a time.
    const auto together = size_t(std::max<int64_t>(1, sbuf() / 16 / (columns.count * bytes(m.dtype))));
    for (size_t first = 0; first < parts.size(); first += together) {
      const size_t count = std::min(together, parts.size() - first);
      const View raw = rec_.sbuf(m.dtype, whole.partitions, int64_t(count) * columns.count, "raw");
      load_chunks(m, hbm, e0, columns, Parts(parts).subspan(first, count), raw);
      for (size_t i = 0; i < count; ++i) {
        View from = out[first + i];
        from.tensor = raw.tensor;
        from.dtype = m.dtype;
        from.offset = int64_t(i) * columns.count;
        emit_copy(rec_, out[first + i], Val::tile(from));
      }
    }
  }
  // A part of the contracted dims: where it begins, and its indices on partitions.
  struct Chunk {
    int64_t first = 0;
    Axes k = {};
    int64_t count() const { return count_of(k); }
  };
  using Parts = std::span<const Chunk>;

  // Whole chunks that lie evenly go in one transfer; those of fetched rows that lie far apart each in its own.
  void load_chunks(Memory& m, uint32_t hbm, int64_t e0, const Axis& columns, Parts parts, const View& raw) {
    const auto& dma = rec_.chip().dma;
    const int64_t full = parts[0].count(), at = parts[0].first, pitch = parts.size() > 1 ? parts[1].first - at : 0;
    const bool jumps_cost = m.elsewhere && dma.descriptor_far_ns > dma.descriptor_strided_ns;
    size_t even = 1, most = jumps_cost && pitch * bytes(m.dtype) >= dma.far_bytes ? 1 : parts.size();
    while (even < most && parts[even].count() == full && parts[even].first == at + int64_t(even) * pitch) ++even;
    View dst = raw;
    dst.partitions = int(full);
    dst.axes = {{1, int64_t(even) * columns.count}};
    store_.load(dst, hbm, m.dtype, e0 + at, parts[0].k, {{pitch, int64_t(even)}, columns});
    for (size_t i = even; i < parts.size(); ++i) {
      dst.offset = int64_t(i) * columns.count;
      dst.partitions = int(parts[i].count());
      dst.axes = {{1, columns.count}};
      store_.load(dst, hbm, m.dtype, e0 + parts[i].first, parts[i].k, {columns});
    }
  }

  // Chunks that lie evenly in one transfer, transposed on its way; what has another format is cast a few chunks at a
  // time.
  bool load_chunks_transposed(Memory& m, uint32_t hbm, int64_t e0, const Axis& columns, Parts parts, const Panel& out) {
    if (m.elsewhere || transpose_engine_of(rec_.chip(), how_.transpose_engine, m.dtype) != TransposeEngine::dma)
      return false;
    if (std::any_of(parts.begin(), parts.end(), [](const Chunk& c) { return collapse(c.k).size() > 1; })) return false;
    const bool casts = m.dtype != dtype_;
    const auto together = size_t(std::max<int64_t>(1, sbuf() / 16 / (columns.count * bytes(m.dtype))));
    for (size_t first = 0, count = 0; first < parts.size(); first += count) {
      const int64_t pitch = first + 1 < parts.size() ? parts[first + 1].first - parts[first].first : 0;
      for (count = 1; first + count < parts.size() && (!casts || count < together); ++count)
        if (parts[first + count].count() != parts[first].count() ||
            parts[first + count].first != parts[first].first + int64_t(count) * pitch)
          break;
      View dst = casts ? rec_.sbuf(m.dtype, out[first].partitions, int64_t(count) * columns.count, "raw") : out[first];
      dst.axes = {{1, int64_t(count) * columns.count}};
      if (!load_transposed(rec_, how_.transpose_engine, dst,
                           {hbm, m.dtype, e0 + parts[first].first, columns, {pitch, int64_t(count)}}))
        return false;
      View to = out[first];
      to.axes = dst.axes;
      if (casts) emit_copy(rec_, to, Val::tile(dst));
    }
    return true;
  }

  void stream_transposed(Memory& m, uint32_t hbm, int64_t e0, const Axis& columns, const std::vector<Chunk>& parts,
                         const Panel& out) {
    const int64_t lanes = rec_.chip().partitions;
    for (int64_t begin = 0; begin < columns.count; begin += lanes)
      for (size_t first = 0; first < parts.size(); first += tuned::kTogether) {
        const size_t count = std::min(tuned::kTogether, parts.size() - first);
        transpose_rows(m, hbm, e0, columns, begin, Parts(parts).subspan(first, count),
                       std::span(out).subspan(first, count));
      }
  }
  // Rows of the operand from `begin` on, some chunks of k wide, into those chunks' columns.
  void transpose_rows(Memory& m, uint32_t hbm, int64_t e0, const Axis& columns, int64_t begin, Parts parts,
                      std::span<const View> out) {
    const int64_t rows = std::min(rec_.chip().partitions, columns.count - begin);
    int64_t total = 0, at = 0;
    for (const auto& p : parts) total += p.count();
    View raw = rec_.sbuf(m.dtype, rows, total, "rows"), cast = raw;
    for (size_t i = 0; i < parts.size();) {  // runs of k that follow one another
      size_t j = i + 1;
      Axes k = parts[i].k;
      const auto follows = [&](const Chunk& next) {
        return next.first == parts[i].first + k[0].count * k[0].stride &&
               std::equal(k.begin() + 1, k.end(), next.k.begin() + 1, next.k.end());
      };
      while (j < parts.size() && follows(parts[j])) k[0].count += parts[j++].k[0].count;
      View dst = raw;
      dst.offset = at;
      dst.axes = {{1, count_of(k)}};
      store_.load(dst, hbm, m.dtype, e0 + parts[i].first + begin * columns.stride, {{columns.stride, rows}}, k);
      at += count_of(k);
      i = j;
    }
    if (m.dtype != dtype_) {
      cast = rec_.sbuf(dtype_, rows, total, "rows");
      emit_copy(rec_, cast, Val::tile(raw));
    }
    at = 0;
    for (size_t i = 0; i < parts.size(); ++i) {
      const int64_t k = parts[i].count();
      View data = cast, dst = out[i];
      data.offset = at;
      data.axes = {{1, k}};
      dst.offset += begin;
      dst.axes = {{1, rows}};
      emit_transpose(rec_, how_.transpose_engine, dst, {&data, 1});
      at += k;
    }
  }

  // --- results ---

  // The side of the product that goes to partitions, and the other.
  const Shared& across() const { return by_columns_ ? n_ : m_; }
  const Shared& along() const { return by_columns_ ? m_ : n_; }

  void allocate_output() {
    const int64_t lanes = rec_.chip().partitions;
    const bool fits = out_->elements * bytes(out_->dtype) / lanes <= store_.keep_bytes();
    const int64_t columns = columns_of_output();
    if (fits && columns > 0 && out_->elements % columns == 0)
      for (bool transposed : {transposed_, !transposed_})
        if (allocate_output(transposed, columns)) return;
    by_columns_ = m_.count > 1 && m_.out == 1 && n_.count > 1;
    store_.keep_in_hbm(*out_, "", arch::TensorKind::scratch);
  }
  // One side's elements are neighbours, the other's a row apart.
  int64_t columns_of_output() const {
    if (m_.count > 1 && n_.count > 1) return std::min(m_.out, n_.out) == 1 ? std::max(m_.out, n_.out) : -1;
    const Shared& one = m_.count > 1 ? m_ : n_;
    return one.out == 1 || one.count == 1 ? one.count : one.out;
  }
  bool allocate_output(bool transposed, int64_t columns) {
    const int64_t lanes = rec_.chip().partitions;
    const auto moves_columns = [&](const Shared& s) { return s.count > 1 && s.out == 1; };
    by_columns_ = transposed ? !moves_columns(m_) : moves_columns(m_);
    if (m_.count == 1 && n_.count > 1) by_columns_ = transposed == moves_columns(n_);
    const int64_t extent = transposed ? columns : out_->elements / columns, own = across().count;
    Tiling tiling = Tiling::plain(extent, lanes);
    const bool aligned = own % lanes == 0 || extent == own || (lanes % own == 0 && own % 32 == 0);
    if (!aligned) tiling = {extent, own, std::min(own, lanes)};
    if (extent % tiling.period) return false;
    const int64_t free = transposed ? out_->elements / columns : columns;
    if (transposed && !transposed_ && free < 32) return false;  // nobody asked for so many tiles of so few columns
    if (free * bytes(out_->dtype) * tiling.tiles() > store_.keep_bytes()) return false;
    const Form probe{out_->dtype, transposed, out_->elements / columns,
                     columns,     tiling,     std::vector<uint32_t>(size_t(tiling.tiles()))};
    if (!reach(probe)) return false;
    form_ = &store_.new_form(*out_, out_->dtype, transposed, columns, tiling);
    return true;
  }
  // Does the form hold the first and the last block?
  bool reach(const Form& form) const {
    const int64_t lanes = rec_.chip().partitions;
    const Shared &p = across(), &f = along();
    int64_t last = 0;
    for (const Shared& b : batch_) last += (b.count - 1) * b.out;
    const int64_t tail = (p.count - 1) / lanes * lanes;
    for (int64_t e0 : {int64_t{0}, last})
      for (int64_t at : {int64_t{0}, tail}) {
        const auto v = access(form, e0 + at * p.out, {{p.out, std::min(lanes, p.count - at)}}, {{f.out, f.count}});
        if (!v || !starts_well(*v)) return false;
      }
    return true;
  }

  void multiply(const Panel& a, const Panel& c, int64_t height, int64_t width, int64_t to) {
    over_blocks(a, c, height, width, to,
                [&](const View& acc, int64_t e0, const Axis& part, const Axis& free) { put(acc, e0, part, free); });
  }
  // Runs f(sum in PSUM, where it goes) for each block of the product of two panels.
  template <class F>
  void over_blocks(const Panel& a, const Panel& c, int64_t height, int64_t width, int64_t to, F f) {
    const Panel &still = by_columns_ ? c : a, &moving = by_columns_ ? a : c;
    const int64_t tall = by_columns_ ? width : height, wide = by_columns_ ? height : width;
    const Shared &p = across(), &q = along();
    const int64_t lanes = rec_.chip().tensor.stationary_max, most = rec_.columns_max();
    for (int64_t i = 0; i < tall; i += lanes)
      for (int64_t j = 0; j < wide; j += most) {
        const int64_t rows = std::min(lanes, tall - i), columns = std::min(most, wide - j);
        const View acc = accumulate(still, moving, i, rows, j, columns);
        f(acc, to + i * p.out + j * q.out, Axis{p.out, rows}, Axis{q.out, columns});
      }
  }
  View accumulate(const Panel& still, const Panel& moving, int64_t i, int64_t rows, int64_t j, int64_t columns) {
    const View acc = rec_.psum(rows, columns);
    for (size_t k = 0; k < still.size(); ++k)
      rec_.emit("nc_matmul",
                {{"dst", acc}, {"stationary", part(still[k], i, rows)}, {"moving", part(moving[k], j, columns)}},
                {{"accumulate", std::string_view(k ? "add" : "overwrite")}});
    return acc;
  }
  static View part(View v, int64_t begin, int64_t count) {
    const int64_t stride = v.axes.empty() ? 1 : v.axes.back().stride;
    v.offset += begin * stride;
    v.axes = {{stride, count}};
    return v;
  }
  void put(const View& acc, int64_t e0, const Axis& part, const Axis& free) {
    if (form_) {
      const auto dst = access(*form_, e0, {part}, {free});
      CHECK(dst, "a product's own form holds its blocks");
      return emit_copy(rec_, *dst, Val::tile(acc));
    }
    const View t = rec_.sbuf(out_->dtype, part.count, free.count, "product");
    emit_copy(rec_, t, Val::tile(acc));
    store_.store(uint32_t(out_->hbm), out_->dtype, e0, {part}, {free}, t);
  }

  Recorder& rec_;
  Store& store_;
  const Choice how_;
  Side left_, right_;
  Memory* out_ = nullptr;
  Form* form_ = nullptr;
  Dtype dtype_ = Dtype::f32;
  bool transposed_;          // how the output is wanted
  bool by_columns_ = false;  // columns of the product go to partitions
  bool windows_ = false;     // as Strides
  std::vector<Shared> batch_, depth_;
  size_t cut_ = 0;  // of depth_: the dim that chunks have a run of
  Shared m_, n_;
  Part chunks_ = {};  // of the contracted dims, those in hand; end 0: all
  std::map<std::array<int64_t, 4>, Panel> panels_[2];
  int64_t groups_[2] = {-1, -1};
};

}  // namespace

Side side_of(Store& store, ir::Value v) {
  const size_t rank = v.type().dims.size();
  IndexMap map = identity_map(int(rank));
  while (!store.has(v) && view_kind(*v.node) != ViewKind::none) {
    map = through_view(*v.node, map);
    v = v.node->inputs[0];
  }
  return {&store.of(v), walk_of(map, v.type().dims, rank)};
}

bool multiplies(Dtype d) {
  return d == Dtype::f32 || d == Dtype::bf16 || d == Dtype::f16 || d == Dtype::f8e4m3 || d == Dtype::f8e5m2;
}

std::string dot_obstacle(const ir::Node& dot) {
  for (const ir::Value& v : dot.inputs)
    if (!multiplies(v.type().dtype)) return cat("the tensor engine does not multiply ", shape_text(v.type().dtype, {}));
  if (!multiplies(dot.types[0].dtype)) return cat("a product of ", shape_text(dot.types[0].dtype, {}));
  return {};
}

std::unique_ptr<Product> product_of(Recorder& rec, Store& store, const ir::Node& dot, bool transposed,
                                    const DotPolicy& policy) {
  auto out = std::make_unique<Dot>(rec, store, dot, dot, transposed, policy);
  out->prefer(transposed);
  return out;
}

void lower_dot(Recorder& rec, Store& store, const ir::Node& dot, const ir::Node& out, bool transposed,
               const DotPolicy& policy) {
  if (out.types[0].elements()) Dot(rec, store, dot, out, transposed, policy).run();
}

std::vector<Choice> dot_variants(Recorder& rec, Store& store, const ir::Node& dot, bool transposed,
                                 const DotPolicy& policy) {
  static constexpr Choice kVariants[] = {{}, {.left = 8}, {.left = 2, .right = 16}, {.strip = 128}, {.deep = true}};
  const Choice before = store.choice;
  std::vector<Choice> variants(std::begin(kVariants), std::end(kVariants)), out;
  store.choice = {};
  if (Dot(rec, store, dot, dot, transposed, policy).left_share() <= 0.25 / variants[0].left)
    variants.insert(variants.begin(), Choice{.right = 4});
  store.choice = variants.back();
  const Dot deep(rec, store, dot, dot, transposed, policy);
  if (size_t(deep.steps()) >= thresholds::choose::kTimedMax && deep.spares_passes())  // the first is taken
    std::rotate(variants.begin(), variants.end() - 1, variants.end());
  std::vector<std::array<int64_t, 4>> cuts;
  std::vector<int64_t> steps;
  for (const Choice& variant : variants) {
    store.choice = variant;
    Dot made(rec, store, dot, dot, transposed, policy);
    made.prefer(transposed);
    if (std::find(cuts.begin(), cuts.end(), made.cut()) != cuts.end()) continue;
    cuts.push_back(made.cut());
    steps.push_back(made.steps());
    out.push_back(variant);
  }
  // The first is taken where it is too long to be timed: so it is not one that panels narrower than a tile make long.
  if (2 * size_t(steps.front()) >= thresholds::choose::kTimedMax)  // loads and drains come on top; twice is chosen
    std::swap(out.front(), out[size_t(std::ranges::min_element(steps) - steps.begin())]);
  store.choice = before;
  return out;
}

std::unique_ptr<Product> product_of(Recorder& rec, Store& store, const Strides& strides, const DotPolicy& policy) {
  return std::make_unique<Dot>(rec, store, strides, policy);
}

void lower_strides(Recorder& rec, Store& store, const Strides& strides, const DotPolicy& policy) {
  Dot(rec, store, strides, policy).run();
}

}  // namespace trine::compile::device
