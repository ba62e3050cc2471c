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
        visit(area, row / kSide * across + b, ones(row % kSide, n), p.bytes);
      row += n;
    }
  pieces_.clear();
}

void Shadow::flush_hbm(size_t area) {
  for (const Piece& p : pieces_)
    for (int64_t b = p.block; b < p.block + p.count;) {
      const int64_t n = std::min(p.block + p.count - b, kSide - b % kSide);
      visit(area, b / kSide, ones(b % kSide, n), p.bytes);
      b += n;
    }
  pieces_.clear();
}

void Shadow::visit(size_t area, int64_t cell, uint64_t rows, uint64_t bytes) {
  uint32_t* const head = reinterpret_cast<uint32_t*>(areas_[area].heads.data()) + cell;
  const Access& a = *access_;
  const Clock& clock = *clock_;
  uint32_t* link = head;
  uint32_t grown = 0;  // an entry of this same access that can take the footprint in
  while (*link) {
    Entry& e = entries_[*link];
    const Access& old = e.access;
    if (old.thread != a.thread && old.period > clock[old.thread]) {
      if ((old.write || a.write) && (e.rows & rows) && (e.bytes & bytes)) report(area, cell, e, rows, bytes);
    } else if (a.write || !old.write) {
      if (!(e.bytes & ~bytes))
        e.rows &= ~rows;
      else if (!(e.rows & ~rows))
        e.bytes &= ~bytes;
      if (!e.rows || !e.bytes) {
        const uint32_t gone = *link;
        *link = e.next;
        e.next = free_;
        free_ = gone;
        continue;
      }
    }
    if (old == a && (e.rows == rows || e.bytes == bytes)) grown = *link;
    link = &e.next;
  }
  if (grown) {
    entries_[grown].rows |= rows;
    entries_[grown].bytes |= bytes;
    return;
  }
  if (!free_) {
    entries_.push_back({});
    free_ = static_cast<uint32_t>(entries_.size() - 1);
  }
  const uint32_t fresh = free_;
  free_ = entries_[fresh].next;
  entries_[fresh] = {bytes, rows, a, *head};
  *head = fresh;
}

void Shadow::report(size_t area, int64_t cell, const Entry& e, uint64_t rows, uint64_t bytes) {
  Clash c{e.access, *access_, 0, std::countr_zero(e.bytes & bytes)};
  const int64_t row = std::countr_zero(e.rows & rows), across = areas_[area].cells_across;
  if (across) {
    c.row = cell / across * kSide + row;
    c.byte += cell % across * kSide;
  } else {
    c.byte += (cell * kSide + row) * kSide;
  }
  on_clash_(c);
}

}  // namespace trine::run
