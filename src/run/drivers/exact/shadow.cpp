// Footprints of accesses and the cells that remember them; see shadow.h.
#include "run/drivers/exact/shadow.h"

#include <algorithm>
#include <bit>

#include "arch/runs.h"

namespace trine::run {

using arch::Space;

namespace {

constexpr int64_t kSide = 64;  // rows and bytes of a cell

// `n` ones from bit `first`; both may reach past the word's end only together with a smaller n.
uint64_t ones(int64_t first, int64_t n) { return (n >= kSide ? ~0ull : (1ull << n) - 1) << first; }

int64_t blocks(int64_t bytes) { return (bytes + kSide - 1) / kSide; }

// So many pieces of one access are worth sorting by cell first.
constexpr size_t kScattered = 4;

}  // namespace

Shadow::Shadow(const arch::Machine& machine, OnClash on_clash, bool any_row)
    : machine_(machine), on_clash_(std::move(on_clash)), any_row_(any_row) {
  const arch::Program& program = machine.program();
  for (const arch::Core& core : machine.cores)
    for (const arch::Memory* m : {&core.sbuf, &core.psum}) {
      const int64_t across = blocks(static_cast<int64_t>(m->pitch)), down = blocks(core.shape().partitions);
      areas_.push_back({arch::LazyBytes(static_cast<size_t>(across * down) * sizeof(uint32_t)), across});
    }
  for (const arch::Tensor& t : program.tensors) {
    const int64_t cells = t.space == Space::hbm ? blocks(blocks(tensor_bytes(t))) : 0;
    areas_.push_back({arch::LazyBytes(static_cast<size_t>(cells) * sizeof(uint32_t)), 0});
  }
}

size_t Shadow::area_of(const arch::Tile& t) const {
  if (t.space == Space::hbm) return machine_.cores.size() * 2 + machine_.storage(t.tensor);
  return t.core * size_t{2} + (t.space == Space::psum);
}

// A piece that is finished and continues the one before it becomes part of that one.
void Shadow::add_piece(int64_t block, int64_t count, uint64_t bytes) {
  if (!pieces_.empty()) {
    Piece& last = pieces_.back();
    if (last.block == block && last.count == 1 && count == 1) {
      last.bytes |= bytes;
      return;
    }
    if (pieces_.size() > 1) {
      Piece& before = pieces_[pieces_.size() - 2];
      if (before.bytes == last.bytes && before.block + before.count == last.block) {
        before.count += last.count;
        pieces_.pop_back();
      }
    }
  }
  pieces_.push_back({block, count, bytes});
}

void Shadow::add_bytes(int64_t begin, int64_t n) {
  const int64_t low = begin % kSide;
  if (low || n < kSide) {
    const int64_t head = std::min(n, kSide - low);
    add_piece(begin / kSide, 1, ones(low, head));
    begin += head;
    n -= head;
  }
  if (n >= kSide) add_piece(begin / kSide, n / kSide, ~0ull);
  if (n % kSide) add_piece((begin + n) / kSide, 1, ones(0, n % kSide));
}

void Shadow::add_row(const arch::Tile& t, int64_t offset) {
  if (offset + t.low < t.begin || offset + t.high > t.end) return;
  const int64_t size = t.element_bytes();
  arch::over_runs(*t.pattern, static_cast<int>(size), [&](int64_t o, int64_t n, int64_t stride) {
    if (stride == size) return add_bytes(offset + o, n * size);
    for (int64_t i = 0; i < n; ++i) add_bytes(offset + o + i * stride, size);
  });
}

void Shadow::touch(arch::Core& core, const arch::Tile& t, const Access& a, const Clock& clock) {
  access_ = &a;
  clock_ = &clock;
  const size_t area = area_of(t);
  if (t.moves && any_row_) return touch_tensor(area, t);
  if (t.dynamic) {
    const std::vector<int64_t> index = core.indices(t);
    const int64_t scale = t.dynamic->scale * t.element_bytes();
    if (t.dynamic->kind == arch::DynamicKind::free) {
      const int64_t group_bytes = t.row_elements / static_cast<int64_t>(index.size()) * t.element_bytes();
      for (const int64_t i : index)
        if (const int64_t at = t.offset + i * scale; at >= t.begin && at + group_bytes <= t.end && group_bytes)
          add_bytes(at, group_bytes);
      flush_chip(area, t.partition, t.partitions);
    } else {
      for (size_t row = 0; row < index.size(); ++row) {
        add_row(t, t.offset + index[row] * scale);
        if (t.on_chip()) flush_chip(area, t.partition + static_cast<int>(row), 1);
      }
      if (!t.on_chip()) flush_hbm(area);
    }
    return;
  }
  if (t.on_chip()) {
    add_row(t, t.offset);
    return flush_chip(area, t.partition, t.partitions);
  }
  const bool one_piece = t.dense && t.row_stride == t.high;
  if (one_piece && t.offset >= t.begin && t.offset + t.partitions * t.high <= t.end)
    add_bytes(t.offset, t.partitions * t.high);
  else
    for (int row = 0; row < t.partitions; ++row) add_row(t, t.offset + row * t.row_stride);
  flush_hbm(area);
}

void Shadow::touch_tensor(size_t area, const arch::Tile& t) {
  const arch::Tensor& tensor = machine_.program().tensors[t.tensor];
  if (t.end > t.begin) add_bytes(t.begin, t.end - t.begin);
  if (!t.on_chip()) return flush_hbm(area);
  flush_chip(area, tensor.partition, tensor.shape.empty() ? 1 : static_cast<int>(tensor.shape[0]));
}

void Shadow::flush_chip(size_t area, int first, int count) {
  const int64_t across = areas_[area].cells_across;
  for (const Piece& p : pieces_)
    for (int64_t row = first; row < first + count;) {
      const int64_t n = std::min(first + count - row, kSide - row % kSide);
      for (int64_t b = p.block; b < p.block + p.count; ++b)
        visit(area, row / kSide * across + b, {p.bytes, ones(row % kSide, n)});
      row += n;
    }
  pieces_.clear();
}

void Shadow::flush_hbm(size_t area) {
  if (pieces_.size() > kScattered) return flush_scattered(area);
  for (const Piece& p : pieces_)
    for (int64_t b = p.block; b < p.block + p.count;) {
      const int64_t n = std::min(p.block + p.count - b, kSide - b % kSide);
      visit(area, b / kSide, {p.bytes, ones(b % kSide, n)});
      b += n;
    }
  pieces_.clear();
}

// Each cell once, with all that the access touches there.
void Shadow::flush_scattered(size_t area) {
  Area& own = areas_[area];
  if (!own.found.data()) own.found = arch::LazyBytes(own.heads.size());
  uint32_t* const found = reinterpret_cast<uint32_t*>(own.found.data());
  for (const Piece& p : pieces_)
    for (int64_t b = p.block; b < p.block + p.count; ++b) {
      uint32_t& number = found[b / kSide];
      if (!number) {
        cells_.push_back({b / kSide, {}});
        number = static_cast<uint32_t>(cells_.size());
      }
      cells_[number - 1].rows[static_cast<size_t>(b % kSide)] |= p.bytes;
    }
  pieces_.clear();
  for (const Cell& c : cells_) {
    found[c.cell] = 0;
    Footprint f;
    bool alike = true;
    for (size_t r = 0; r < c.rows.size(); ++r) {
      if (!c.rows[r]) continue;
      alike &= !f.rows || f.bytes == c.rows[r];
      f.rows |= 1ull << r;
      f.bytes |= c.rows[r];
    }
    if (!alike) f.each = &c.rows;
    visit(area, c.cell, f);
  }
  cells_.clear();
}

void Shadow::visit(size_t area, int64_t cell, const Footprint& f) {
  uint32_t& head = reinterpret_cast<uint32_t*>(areas_[area].heads.data())[cell];
  const Access& a = *access_;
  const Clock& clock = *clock_;
  uint32_t* link = &head;
  bool grown = false;  // an entry of this same access has taken the footprint in
  while (*link) {
    Entry& e = entries_[*link];
    const Access& old = e.access;
    if (old.thread != a.thread && old.period > clock[old.thread]) {
      if ((old.write || a.write) && (e.rows & f.rows) && (e.bytes & f.bytes)) look_at(area, cell, e, f);
    } else if (old == a) {
      grown = grown || grow(e, f);
    } else if (a.write || !old.write) {
      subtract(e, f);
      if (!e.rows) {
        forget(*link);
        continue;
      }
    }
    link = &e.next;
  }
  if (!grown) remember(head, f);
}
// Takes what f covers out of e, as far as the rest can be written down.
void Shadow::subtract(Entry& e, const Footprint& f) {
  if (!e.each && !f.each) {
    if (!(e.bytes & ~f.bytes))
      e.rows &= ~f.rows;
    else if (!(e.rows & ~f.rows))
      e.bytes &= ~f.bytes;
    if (!e.bytes) e.rows = 0;
    return;
  }
  Rows* const own = e.each ? &each_[e.each] : nullptr;
  uint64_t left = 0;  // bytes
  for (uint64_t rows = e.rows; rows; rows &= rows - 1) {
    const int r = std::countr_zero(rows);
    const uint64_t taken = f.rows >> r & 1 ? f.at(r) : 0,
                   rest = (own ? (*own)[static_cast<size_t>(r)] : e.bytes) & ~taken;
    if (own) (*own)[static_cast<size_t>(r)] = rest;
    if (!rest) e.rows &= ~(1ull << r);
    left |= rest;
  }
  if (own) e.bytes = left;
}

// Takes f in, where that can be written down.
bool Shadow::grow(Entry& e, const Footprint& f) {
  if (!e.each && (f.each || (e.rows != f.rows && e.bytes != f.bytes))) return false;
  for (uint64_t rows = e.each ? f.rows : 0; rows; rows &= rows - 1) {
    const int r = std::countr_zero(rows);
    each_[e.each][static_cast<size_t>(r)] |= f.at(r);
  }
  e.rows |= f.rows;
  e.bytes |= f.bytes;
  return true;
}

void Shadow::forget(uint32_t& link) {
  Entry& e = entries_[link];
  const uint32_t gone = link;
  if (e.each) each_free_.push_back(e.each);
  link = e.next;
  e.next = free_;
  free_ = gone;
}

void Shadow::remember(uint32_t& head, const Footprint& f) {
  if (!free_) {
    entries_.push_back({});
    free_ = static_cast<uint32_t>(entries_.size() - 1);
  }
  const uint32_t fresh = free_;
  free_ = entries_[fresh].next;
  entries_[fresh] = {f.bytes, f.rows, *access_, head, 0};
  head = fresh;
  if (!f.each) return;
  if (each_free_.empty()) {
    each_free_.push_back(static_cast<uint32_t>(each_.size()));
    each_.emplace_back();
  }
  entries_[fresh].each = each_free_.back();
  each_free_.pop_back();
  each_[entries_[fresh].each] = *f.each;
}

// The first byte that two unordered accesses share.
void Shadow::look_at(size_t area, int64_t cell, const Entry& e, const Footprint& f) {
  const Footprint old = of(e);
  for (uint64_t rows = e.rows & f.rows; rows; rows &= rows - 1) {
    const int row = std::countr_zero(rows);
    const uint64_t bytes = old.at(row) & f.at(row);
    if (!bytes) continue;
    Clash c{e.access, *access_, 0, std::countr_zero(bytes)};
    const int64_t across = areas_[area].cells_across;
    if (across) {
      c.row = cell / across * kSide + row;
      c.byte += cell % across * kSide;
    } else {
      c.byte += (cell * kSide + row) * kSide;
    }
    return on_clash_(c);
  }
}

}  // namespace trine::run
