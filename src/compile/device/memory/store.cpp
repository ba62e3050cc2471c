// Movement between forms and HBM; see store.h.
#include "compile/device/memory/store.h"

#include <algorithm>
#include <utility>

#include "base/text.h"
#include "compile/device/loops/map.h"
#include "compile/device/memory/transpose.h"
#include "compile/graph/fuse.h"
#include "compile/graph/index_map.h"

namespace trine::compile::device {

std::optional<Dtype> device_dtype(Dtype dtype) {
  if (dtype == Dtype::boolean) return Dtype::u8;
  // No address reaches half a byte, no engine works on more than a word, and exponents alone are scales of MX blocks.
  if (!is_on_chip(dtype) || dtype == Dtype::f8e8m0 || bits(dtype) < 8 || bits(dtype) > 32) return std::nullopt;
  return dtype;
}

ir::Value memory_root(ir::Value value) {
  while (is_alias(*value.node)) value = value.node->inputs[0];
  return value;
}

Memory& Store::of(const ir::Value& value) {
  const ir::Value root = memory_root(value);
  auto& found = memories_[root];
  if (!found) {
    found = std::make_unique<Memory>();
    found->dtype = device_dtype(root.type().dtype).value_or(Dtype::f32);
    found->dims = root.type().dims;
    found->elements = root.type().elements();
  }
  return *found;
}

void Store::mirror(const Store& other, const arch::Program& theirs, const ir::Value& value) {
  const auto found = other.memories_.find(memory_root(value));
  if (found == other.memories_.end()) return;
  Memory& m = of(value);
  if (m.hbm >= 0 || !m.forms.empty()) return;
  m = *found->second;
  for (Form& f : m.forms)
    for (size_t t = 0; t < f.tensors.size(); ++t)
      f.tensors[t] = rec_.sbuf(f.dtype, f.tiling.size(int64_t(t)), f.free(), f.transposed ? "turned" : "tile").tensor;
  if (m.hbm < 0) return;
  const arch::Tensor& t = theirs.tensors[size_t(m.hbm)];
  m.hbm = rec_.hbm("", t.dtype, t.shape, t.kind == arch::TensorKind::constant ? arch::TensorKind::scratch : t.kind);
}

// A part of a transfer that one instruction walks: on chip `lanes` partitions from `lane` on, from a column on; in HBM
// rows and at most three dims inside each.
struct Walked {
  int64_t lane = 0, lanes = 1, column = 0, e0 = 0;
  Axis rows = {};
  Axes inner = {};
  int64_t columns = 1;
};

// Runs f(Walked) for parts that are as large as can be. Elements go over in order, so HBM's rows need not be the
// partitions: where these are two dims the outer one is.
template <class F>
static void over_transfers(int64_t e0, const Axes& part, const Axes& free, bool in_one_range, F f) {
  constexpr size_t kDims = 4;  // of HBM's side
  const Axes p = collapse(part), c = collapse(free);
  const size_t last = p.size() > 1 && in_one_range && p.size() + c.size() <= kDims ? 0 : p.size() - 1;
  const size_t beside = std::min(c.size(), kDims - (p.size() - last));  // dims of c that one part has
  const auto offset = [](const Axes& axes, size_t count, int64_t i) {
    int64_t at = 0;
    for (size_t d = count; d-- > 0; i /= axes[d].count) at += i % axes[d].count * axes[d].stride;
    return at;
  };
  Walked w{.rows = p[last], .inner = Axes(p.begin() + ptrdiff_t(last) + 1, p.end())};
  w.inner.insert(w.inner.end(), c.end() - ptrdiff_t(beside), c.end());
  w.columns = count_of(Axes(c.end() - ptrdiff_t(beside), c.end()));
  w.lanes = count_of(Axes(p.begin() + ptrdiff_t(last), p.end()));
  const int64_t lanes = count_of(p) / w.lanes, columns = count_of(c) / w.columns;
  for (int64_t i = 0; i < lanes; ++i)
    for (int64_t j = 0; j < columns; ++j) {
      w.lane = i * w.lanes, w.column = j * w.columns;
      w.e0 = e0 + offset(p, last, i) + offset(c, c.size() - beside, j);
      f(w);
    }
}

Memory& Store::made(const ir::Value& value) {
  Memory& m = of(value);
  ir::Value v = memory_root(value);
  if (has(v) || v.type().is_token || m.elements == 0) return m;
  const size_t rank = v.type().dims.size();
  IndexMap map = identity_map(int(rank));
  while (!has(v) && view_kind(*v.node) != ViewKind::none) {
    map = through_view(*v.node, map);
    v = v.node->inputs[0];
  }
  if (!has(v)) {
    rec_.fail_with(fail(Code::internal, cat(v.node->op, " ", ir::text(v.type()), " is read before it is made")));
    return m;
  }
  Memory& base = of(v);
  const Walk walk = walk_of(map, v.type().dims, rank);
  Axes axes;
  for (size_t d = 0; d < rank; ++d) axes.push_back({walk.strides[d], m.dims[d]});
  const uint32_t from = hbm(base);
  keep_in_hbm(m, "", arch::TensorKind::scratch);
  over_transfers(walk.offset, {{0, 1}}, axes, false, [&](const Walked& w) {
    rec_.transfer({.tensor = uint32_t(m.hbm), .dtype = m.dtype, .offset = w.column, .axes = {{1, w.columns}}},
                  {.tensor = from, .dtype = base.dtype, .offset = w.e0, .axes = w.inner});
  });
  return m;
}

const Memory* Store::find(const ir::Value& value) const {
  const auto found = memories_.find(memory_root(value));
  return found == memories_.end() ? nullptr : found->second.get();
}

bool Store::has(const ir::Value& value) const {
  const Memory* const m = find(value);
  return m && (m->hbm >= 0 || m->input >= 0 || !m->forms.empty());
}

void Store::keep_in_hbm(Memory& m, std::string_view name, arch::TensorKind kind, std::span<const std::byte> data) {
  m.hbm = rec_.hbm(name, m.dtype, m.dims, kind, data);
}

// The two sides of a part of a transfer.
static std::pair<View, View> sides(const Walked& w, View on_chip, uint32_t hbm, Dtype dtype) {
  on_chip.partition += int(w.lane);
  on_chip.partitions = int(w.lanes);
  on_chip.offset += w.column;
  on_chip.axes = {{1, w.columns}};
  View there{
      .tensor = hbm, .dtype = dtype, .partitions = int(w.rows.count), .row_stride = w.rows.stride, .offset = w.e0};
  there.axes = w.inner;
  return {std::move(on_chip), std::move(there)};
}

void Store::load(const View& dst, uint32_t hbm, Dtype dtype, int64_t e0, const Axes& part, const Axes& free) {
  over_transfers(e0, part, free, !rec_.lies_elsewhere(hbm), [&](const Walked& w) {
    const auto [to, from] = sides(w, dst, hbm, dtype);
    rec_.transfer(to, from);
  });
}

void Store::store(uint32_t hbm, Dtype dtype, int64_t e0, const Axes& part, const Axes& free, const View& src) {
  over_transfers(e0, part, free, !rec_.lies_elsewhere(hbm), [&](const Walked& w) {
    const auto [from, to] = sides(w, src, hbm, dtype);
    rec_.transfer(to, from);
  });
}

Form& Store::new_form(Memory& m, Dtype dtype, bool transposed, int64_t columns, const Tiling& tiling) {
  Form f{dtype, transposed, m.elements / std::max<int64_t>(columns, 1), columns, tiling, {}};
  for (int64_t t = 0; t < tiling.tiles(); ++t)
    f.tensors.push_back(rec_.sbuf(dtype, tiling.size(t), f.free(), transposed ? "turned" : "tile").tensor);
  m.forms.push_back(std::move(f));
  return m.forms.back();
}

uint32_t Store::hbm(Memory& m) {
  if (m.hbm >= 0) return uint32_t(m.hbm);
  if (m.input >= 0) {  // a weight whose order stays as it is
    keep_in_hbm(m, cat("arg", m.input), arch::TensorKind::input);
    return uint32_t(m.hbm);
  }
  keep_in_hbm(m, "", arch::TensorKind::scratch);
  write(m, uint32_t(m.hbm));
  return uint32_t(m.hbm);
}

void Store::write(Memory& m, uint32_t hbm) {
  if (m.forms.empty())
    return rec_.fail_with(
        fail(Code::internal, cat("a value of ", shape_text(m.dtype, m.dims), " is read that nobody made")));
  // Rows lie in HBM as they do on partitions; columns would go element by element.
  const Form* from = &m.forms[0];
  for (const Form& f : m.forms)
    if (!f.transposed && f.dtype == m.dtype) from = &f;
  const TransposeEngine chosen = choice.transpose_engine;
  if (m.no_product) choice.transpose_engine = exact_transpose_engine(rec_.chip(), chosen);
  const auto done = [&] { choice.transpose_engine = chosen; };
  if (from->transposed && from->columns * bytes(m.dtype) > keep_bytes()) {
    store_transposed(m, hbm, Form(*from));
    return done();
  }
  if (from->transposed)
    from = &form(m, m.dtype, false, from->columns, Tiling::plain(from->rows, rec_.chip().partitions));
  done();
  for (int64_t t = 0; t < from->tiling.tiles(); ++t)
    store(hbm, m.dtype, from->tiling.begin(t) * from->columns, {{from->columns, from->tiling.size(t)}},
          {{1, from->columns}}, from->tile(t));
}

Store::Mark Store::mark() const {
  Mark out;
  for (const auto& [value, memory] : memories_) out[memory.get()] = {memory->forms.size(), memory->hbm};
  return out;
}

void Store::back_to(const Mark& mark) {
  for (auto& [value, memory] : memories_) {
    const auto found = mark.find(memory.get());
    const Snapshot before = found == mark.end() ? Snapshot{} : found->second;
    memory->forms.resize(std::min(before.forms, memory->forms.size()));
    memory->hbm = before.hbm;
  }
}

// Rows too long for one partition: each tile of columns is transposed and stored by itself.
void Store::store_transposed(Memory& m, uint32_t hbm, const Form& from) {
  const int64_t lanes = rec_.chip().partitions;
  for (int64_t t = 0; t < from.tiling.tiles(); ++t)
    for (int64_t r = 0; r < from.rows; r += lanes) {
      const int64_t rows = std::min(lanes, from.rows - r), width = from.tiling.size(t);
      View data = from.tile(t);
      data.offset = r;
      data.axes = {{1, rows}};
      const View part = rec_.sbuf(m.dtype, rows, width, "rows");
      emit_transpose(rec_, choice.transpose_engine, part, {&data, 1});
      store(hbm, m.dtype, r * from.columns + from.tiling.begin(t), {{from.columns, rows}}, {{1, width}}, part);
    }
}

// Rows to partitions or back, blocks of 128 by 128, several in one bank of PSUM.
void Store::transpose(const Form& from, Form& to) {
  const int64_t lanes = rec_.chip().partitions;
  const int64_t most = std::min(rec_.chip().psum.bank_bytes / std::max(bytes(from.dtype), 1), 4 * lanes);
  for (int64_t t = 0; t < to.tiling.tiles(); ++t) {
    std::vector<View> tiles;
    int64_t begin = 0, filled = 0;  // columns of `to`
    const auto flush = [&] {
      if (tiles.empty()) return;
      View dst = to.tile(t);
      dst.offset = begin;
      dst.axes = {{1, filled}};
      emit_transpose(rec_, choice.transpose_engine, dst, tiles, most);
      begin += std::exchange(filled, 0);
      tiles.clear();
    };
    for (int64_t s = 0; s < from.tiling.tiles(); ++s) {
      if (filled + from.tiling.size(s) > most) flush();
      tiles.push_back(from.tile(s));
      tiles.back().offset = to.tiling.begin(t);
      tiles.back().axes = {{1, to.tiling.size(t)}};
      filled += from.tiling.size(s);
    }
    flush();
  }
}

void Store::copy_form(const Form& from, Form& to) {
  for (int64_t t = 0; t < to.tiling.tiles(); ++t) emit_copy(rec_, to.tile(t), Val::tile(from.tile(t)));
}

void Store::fill_from_hbm(Memory& m, Form& to) {
  for (int64_t t = 0; t < to.tiling.tiles(); ++t)
    load(to.tile(t), uint32_t(m.hbm), m.dtype, to.tiling.begin(t) * to.columns, {{to.columns, to.tiling.size(t)}},
         {{1, to.columns}});
}

// Rows that need not be on chip first.
bool Store::fill_transposed_from_hbm(Memory& m, Form& to) {
  bool done = !m.elsewhere;
  for (int64_t t = 0; t < to.tiling.tiles() && done; ++t)
    done = load_transposed(rec_, choice.transpose_engine, to.tile(t),
                           {uint32_t(m.hbm), m.dtype, to.tiling.begin(t), {to.columns, to.rows}});
  return done;
}

const Form& Store::form(Memory& m, Dtype dtype, bool transposed, int64_t columns, const Tiling& tiling) {
  const int64_t extent = transposed ? columns : m.elements / columns;
  const Tiling wanted = tiling.period ? tiling : Tiling::plain(extent, rec_.chip().partitions);
  const auto fits = [&](const Form& f, bool side) {
    return f.transposed == side && f.columns == columns &&
           (tiling.period == 0 || side != transposed || f.tiling.same(wanted));
  };
  for (const Form& f : m.forms)
    if (fits(f, transposed) && f.dtype == dtype) return f;
  for (const Form& f : m.forms)
    if (fits(f, transposed)) {
      const Form from = f;
      Form& to = new_form(m, dtype, transposed, columns, from.tiling);
      copy_form(from, to);
      return to;
    }
  for (const Form& f : m.forms)
    if (fits(f, !transposed)) {
      Form from = f;
      if (bytes(dtype) < bytes(from.dtype)) from = form(m, dtype, from.transposed, columns, from.tiling);
      Form& to = new_form(m, dtype, transposed, columns, wanted);
      transpose(from, to);
      return to;
    }
  hbm(m);
  if (transposed && choice.transpose_engine == TransposeEngine::dma) {
    Form& to = new_form(m, m.dtype, true, columns, wanted);
    if (fill_transposed_from_hbm(m, to)) return m.dtype == dtype ? to : form(m, dtype, true, columns, wanted);
    m.forms.pop_back();
  }
  if (transposed) {
    form(m, dtype, false, columns, Tiling{0, 0, 0});
    return form(m, dtype, true, columns, tiling);
  }
  if (dtype != m.dtype) {
    form(m, m.dtype, false, columns, wanted);
    return form(m, dtype, false, columns, wanted);
  }
  Form& to = new_form(m, dtype, false, columns, wanted);
  fill_from_hbm(m, to);
  return to;
}

}  // namespace trine::compile::device
