// Row accessors over the simulated memories; see core.h. A row outside memory is a fault, and its read is zeros.
#include "arch/core.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "arch/runs.h"
#include "base/number/convert.h"
#include "base/result.h"
#include "base/text.h"

namespace trine::arch {

namespace {

// Calls f(begin, n) for each piece without gaps of a row that starts at `at`.
template <class F>
void over_stretches(const Tile& t, size_t at, F f) {
  if (t.dense) return f(at, static_cast<size_t>(t.high));
  over_pieces(*t.pattern, t.element_bytes(),
              [&](int64_t o, int64_t bytes) { f(at + static_cast<size_t>(o), static_cast<size_t>(bytes)); });
}

uint64_t load_element(const std::byte* from, int bytes) {
  uint64_t v = 0;
  std::memcpy(&v, from, static_cast<size_t>(bytes));
  return v;
}

int64_t load_int(const std::byte* from, Dtype dtype) {
  const DtypeRow& format = trine::row(dtype);
  const uint64_t stored = load_element(from, format.bits / 8);
  if (format.kind == DtypeKind::floating) {
    const float v = format.widen(stored);
    return std::isnan(v) ? 0 : std::llrint(std::clamp(v, -9.2e18f, 9.2e18f));
  }
  const int unused = 64 - format.bits;
  return format.kind == DtypeKind::signed_int ? static_cast<int64_t>(stored << unused) >> unused
                                              : static_cast<int64_t>(stored);
}

// Calls f with an unsigned integer of this many bytes, so that its loop is made for the width.
template <class F>
void over_width(int bytes, F f) {
  if (bytes == 1) return f(uint8_t{});
  if (bytes == 2) return f(uint16_t{});
  if (bytes == 8) return f(uint64_t{});
  f(uint32_t{});
}

// The elements of a row, one after the other.
void gather(const Walk& walk, const std::byte* from, std::byte* out, int size) {
  over_width(size, [&](auto width) {
    constexpr int64_t kSize = sizeof width;
    walk.each([&](int64_t o, int64_t n, int64_t stride) {
      if (stride == kSize)
        std::memcpy(out, from + o, static_cast<size_t>(n * kSize));
      else
        for (int64_t i = 0; i < n; ++i) std::memcpy(out + i * kSize, from + o + i * stride, sizeof width);
      out += n * kSize;
    });
  });
}

void scatter(const Walk& walk, const std::byte* in, std::byte* to, int size) {
  over_width(size, [&](auto width) {
    constexpr int64_t kSize = sizeof width;
    walk.each([&](int64_t o, int64_t n, int64_t stride) {
      if (stride == kSize)
        std::memcpy(to + o, in, static_cast<size_t>(n * kSize));
      else
        for (int64_t i = 0; i < n; ++i) std::memcpy(to + o + i * stride, in + i * kSize, sizeof width);
      in += n * kSize;
    });
  });
}

void widen_bits(const std::byte* from, uint32_t* out, int64_t n, int size) {
  if (size == 4) {
    std::memcpy(out, from, static_cast<size_t>(n) * 4);
    return;
  }
  over_width(size, [&](auto width) {
    for (int64_t i = 0; i < n; ++i) {
      std::memcpy(&width, from + i * static_cast<int64_t>(sizeof width), sizeof width);
      out[i] = static_cast<uint32_t>(width);
    }
  });
}

void narrow_bits(const uint32_t* in, std::byte* to, int64_t n, int size) {
  over_width(size, [&](auto width) {
    for (int64_t i = 0; i < n; ++i) {
      width = static_cast<decltype(width)>(in[i]);
      std::memcpy(to + i * static_cast<int64_t>(sizeof width), &width, sizeof width);
    }
  });
}

}  // namespace

std::string_view name(FaultKind k) {
  static constexpr std::string_view kNames[] = {"uninitialized-read",
                                                "out-of-bounds",
                                                "accumulate-uninitialized",
                                                "nan",
                                                "out-of-range-input",
                                                "bad-register",
                                                "race",
                                                "deadlock",
                                                "over-capacity",
                                                "collective-mismatch"};
  return kNames[static_cast<int>(k)];
}

// On chip only what the program's tensors reach, so that a small program has its rows close together. A row more than a
// whole number of pages keeps the partitions of a tile from sharing a few lines of the host's cache.
static Memory memory_for(const Program& program, int core, Space space, int partitions) {
  constexpr int64_t kPage = 4096, kLine = 64;
  int64_t end = 0;
  for (const Tensor& t : program.tensors)
    if (t.space == space && t.core == core) end = std::max(end, t.address + bytes_per_partition(t));
  const int64_t pitch = (end + kPage - 1) / kPage * kPage + kLine;
  return Memory::make(static_cast<size_t>(partitions * pitch), static_cast<size_t>(pitch), space == Space::psum);
}

Core::Core(Machine& machine, int number, const CoreShape& shape)
    : sbuf(memory_for(machine.program(), number, Space::sbuf, shape.partitions)),
      psum(memory_for(machine.program(), number, Space::psum, shape.partitions)),
      semaphores(static_cast<size_t>(shape.semaphores)),
      machine_(machine),
      shape_(shape) {}

Memory& Core::memory(const Tile& t) {
  if (t.space == Space::hbm) return machine_.hbm_of(t.tensor);
  Core& owner = machine_.cores[t.core];
  return t.space == Space::sbuf ? owner.sbuf : owner.psum;
}

void Core::fault(FaultKind kind, std::string_view operand, std::string detail) {
  for (const Fault& f : faults)
    if (f.kind == kind && f.operand == operand) return;  // the first row that is wrong speaks for the others
  faults.push_back({kind, std::string(operand), std::move(detail)});
}

// The index tile of a gather, with one integer entry per row or group.
static Tile index_tile(Core& core, const Tile& t) {
  const Program& program = core.machine().program();
  Tile index = base_tile(program, program.operands[t.dynamic->index]);
  index.offset = t.index_offset;
  return index;
}

// One entry of an index tile, without the scratch that a row in hand may be using.
int64_t Core::index_at(const Tile& index, int64_t row, int64_t element) {
  const Pattern& p = *index.pattern;
  int64_t offset = index.offset + (index.on_chip() ? 0 : row * index.row_stride);
  for (size_t d = p.rank; d-- > 0; element /= p.dims[d].count)
    offset += element % p.dims[d].count * p.dims[d].stride * index.element_bytes();
  Memory& m = memory(index);
  const size_t size = static_cast<size_t>(index.element_bytes());
  if (offset < index.begin || offset + index.element_bytes() > index.end) {
    fault(FaultKind::out_of_bounds, slot_, cat("its index tile reaches byte ", offset, " of ", index.end));
    return 0;
  }
  const int lane = index.partition + static_cast<int>(row);
  const size_t begin = static_cast<size_t>(offset);
  const size_t at = begin + (index.on_chip() ? static_cast<size_t>(lane) * m.pitch : size_t{0});
  if (tracked && !m.complete && !(index.on_chip() ? m.written_in.all(lane, 1, begin, size) : m.written.all(at, size)))
    fault(FaultKind::uninitialized_read, slot_, cat("its index tile is read and nobody wrote entry ", row));
  return load_int(m.bytes + at, index.dtype);
}

std::vector<int64_t> Core::indices(const Tile& t) {
  const Tile index = index_tile(*this, t);
  const bool by_column = t.dynamic->kind == DynamicKind::free;  // index[i mod G, i div G]
  const int64_t across = index.row_elements, down = index.partitions;
  const int64_t n = by_column ? across * down : std::min<int64_t>(across * down, t.partitions);
  std::vector<int64_t> all(static_cast<size_t>(n));
  const size_t before = faults.size();
  for (int64_t i = 0; i < n; ++i)
    all[static_cast<size_t>(i)] =
        by_column ? index_at(index, i % down, i / down) : index_at(index, i / across, i % across);
  faults.resize(before);
  return all;
}

// Where a row starts. False when it reaches outside its tensor.
bool Core::row_offset(const Tile& t, int row, int64_t& offset) {
  offset = t.offset;
  if (t.on_chip() && t.partition + row >= shape_.partitions) return false;
  if (t.dynamic && t.dynamic->kind == DynamicKind::rows) {
    const Tile index = index_tile(*this, t);
    if (row >= index.elements()) return false;
    const int64_t i = index_at(index, row / index.row_elements, row % index.row_elements);
    int64_t reach = 0;
    if (__builtin_mul_overflow(i, t.dynamic->scale * t.element_bytes(), &reach) ||
        __builtin_add_overflow(offset, reach, &offset))
      return false;
  } else if (t.space == Space::hbm) {
    offset += row * t.row_stride;
  }
  return offset >= t.begin - t.low && offset <= t.end - t.high;
}

std::byte* Core::row_address(const Tile& t, int row, bool writing, bool& ok) {
  int64_t offset = 0;
  ok = row_offset(t, row, offset);
  if (!ok) {
    if (oob == Oob::error) fault_outside(t, row, offset);
    return nullptr;
  }
  Memory& m = memory(t);
  const size_t at =
      static_cast<size_t>(offset) + (t.on_chip() ? static_cast<size_t>(t.partition + row) * m.pitch : size_t{0});
  if (tracked) track(t, {row, 1, offset}, m, writing);
  return m.bytes + at;
}

void Core::track(const Tile& t, const Stretch& s, Memory& m, bool writing) {
  if (t.space == Space::psum) close_groups(t, s, writing);
  if (m.complete) return;
  if (t.moves) note_moving(t, m);
  if (!writing) {
    if (!all_written(t, s, m)) fault_unwritten(t, s, m);
    return;
  }
  if (t.on_chip())
    return over_stretches(t, static_cast<size_t>(s.offset),
                          [&](size_t begin, size_t n) { m.written_in.set(t.partition + s.row, s.count, begin, n); });
  if (t.dense && t.row_stride == t.high)
    return m.written.set(static_cast<size_t>(s.offset), static_cast<size_t>(s.count * t.high));
  for (int row = 0; row < s.count; ++row)
    over_stretches(t, static_cast<size_t>(s.offset + row * t.row_stride),
                   [&](size_t begin, size_t n) { m.written.set(begin, n); });
}

bool Core::all_written(const Tile& t, const Stretch& s, const Memory& m) const {
  bool all = true;
  if (t.on_chip()) {
    over_stretches(t, static_cast<size_t>(s.offset),
                   [&](size_t begin, size_t n) { all &= m.written_in.all(t.partition + s.row, s.count, begin, n); });
    return all;
  }
  if (t.dense && t.row_stride == t.high)
    return m.written.all(static_cast<size_t>(s.offset), static_cast<size_t>(s.count * t.high));
  for (int row = 0; row < s.count; ++row)
    over_stretches(t, static_cast<size_t>(s.offset + row * t.row_stride),
                   [&](size_t begin, size_t n) { all &= m.written.all(begin, n); });
  return all;
}

void Core::fault_unwritten(const Tile& t, const Stretch& s, const Memory& m) {
  machine_.settled = false;
  Stretch one{s.row, 1, s.offset};
  while (all_written(t, one, m)) {
    ++one.row;
    if (!t.on_chip()) one.offset += t.row_stride;
  }
  const Tensor& tensor = machine_.program().tensors[t.tensor];
  fault(FaultKind::uninitialized_read, slot_,
        t.on_chip()
            ? cat("partition ", t.partition + one.row, " of ", tensor.name, " is read and nobody wrote it")
            : cat("row ", one.row, " of ", tensor.name, ", at byte ", one.offset, ", is read and nobody wrote it"));
}

// Where the address depends on data, other data could name any row of the tensor.
void Core::note_moving(const Tile& t, const Memory& m) {
  if (machine_.settled && !m.complete && !machine_.all_written(t)) machine_.settled = false;
}

void Core::may_write(const Tile& t) {
  if (tracked) note_moving(t, memory(t));
}

Rows Core::rows(const Tile& t, bool writing) {
  if (t.dynamic || t.partitions < 1) return {};
  Memory& m = memory(t);
  const ptrdiff_t apart = t.on_chip() ? static_cast<ptrdiff_t>(m.pitch) : t.row_stride;
  const int64_t reach = t.on_chip() ? 0 : (t.partitions - 1) * t.row_stride;
  if (t.on_chip() && t.partition + t.partitions > shape_.partitions) return {};
  if (t.offset + std::min<int64_t>(reach, 0) < t.begin - t.low ||
      t.offset + std::max<int64_t>(reach, 0) > t.end - t.high)
    return {};
  const size_t at =
      static_cast<size_t>(t.offset) + (t.on_chip() ? static_cast<size_t>(t.partition) * m.pitch : size_t{0});
  if (tracked) track(t, {0, t.partitions, t.offset}, m, writing);
  return {m.bytes + at, apart};
}

void Core::fault_outside(const Tile& t, int row, int64_t offset) {
  const Tensor& tensor = machine_.program().tensors[t.tensor];
  fault(FaultKind::out_of_bounds, slot_,
        cat("row ", row, " covers bytes ", offset + t.low - t.begin, " to ", offset + t.high - t.begin, " of ",
            tensor.name, ", which has ", t.end - t.begin));
}

// A PSUM location that another engine reads or writes ends its accumulation group there; once overwritten it is no
// longer the sum of a matmul. nc_matmul opens the group again after its own store.
void Core::close_groups(const Tile& t, const Stretch& s, bool writing) {
  Core& owner = machine_.cores[t.core];
  over_stretches(t, static_cast<size_t>(s.offset), [&](size_t begin, size_t n) {
    owner.psum.open_in.clear(t.partition + s.row, s.count, begin, n);
    if (writing) owner.psum.summed_in.clear(t.partition + s.row, s.count, begin, n);
  });
}

bool Core::row_skipped(const Tile& t, int row) {
  int64_t offset = 0;
  return !row_offset(t, row, offset);
}

// v4 gather along the free dim: group i of the row starts at index[i mod G, i div G]·scale, with the index tile's
// partitions as G (16 for vector, scalar and gpsimd operands, 32 for the tensor engine's).
void Core::gather_free(const Tile& t, int row, std::byte* out) {
  const std::vector<int64_t> index = indices(t);
  const int64_t size = t.element_bytes(), groups = static_cast<int64_t>(index.size());
  const int64_t group_bytes = t.row_elements / groups * size;
  const Tensor& tensor = machine_.program().tensors[t.tensor];
  Memory& m = memory(t);
  if (tracked) note_moving(t, m);
  const size_t base = static_cast<size_t>(t.partition + row) * m.pitch;
  std::memset(out, 0, static_cast<size_t>(t.row_elements * size));
  for (int64_t g = 0; g < groups; ++g) {
    const int64_t i = index[static_cast<size_t>(g)];
    int64_t offset = 0;
    if (__builtin_mul_overflow(i, t.dynamic->scale * size, &offset) ||
        __builtin_add_overflow(offset, t.offset, &offset) || offset < t.begin || offset > t.end - group_bytes) {
      if (oob == Oob::error) fault(FaultKind::out_of_bounds, slot_, cat("index ", i, " points outside ", tensor.name));
      continue;
    }
    const size_t at = base + static_cast<size_t>(offset);
    if (tracked && !m.complete &&
        !m.written_in.all(t.partition + row, 1, static_cast<size_t>(offset), static_cast<size_t>(group_bytes)))
      fault(FaultKind::uninitialized_read, slot_,
            cat("index ", i, " of ", tensor.name, " is read and nobody wrote it"));
    std::memcpy(out + g * group_bytes, m.bytes + at, static_cast<size_t>(group_bytes));
  }
}

void Core::read_bytes(const Tile& t, int row, std::byte* out) {
  if (t.dynamic && t.dynamic->kind == DynamicKind::free) return gather_free(t, row, out);
  bool ok = true;
  const int size = t.element_bytes();
  const std::byte* from = row_address(t, row, false, ok);
  if (!ok) {
    std::memset(out, 0, static_cast<size_t>(t.row_elements * size));
    return;
  }
  gather(Walk(*t.pattern, size), from, out, size);
}

void Core::write_bytes(const Tile& t, int row, const std::byte* in) {
  bool ok = true;
  const int size = t.element_bytes();
  std::byte* to = row_address(t, row, true, ok);
  if (ok) scatter(Walk(*t.pattern, size), in, to, size);
}

void Core::read_all_bytes(const Tile& t, std::byte* out) {
  const int size = t.element_bytes();
  const int64_t row = t.row_elements * size;
  if (const Rows from = rows(t, false)) {
    const Walk walk(*t.pattern, size);
    for (int p = 0; p < t.partitions; ++p, out += row) gather(walk, from.at(p), out, size);
    return;
  }
  for (int p = 0; p < t.partitions; ++p, out += row) read_bytes(t, p, out);
}

static void write_rows_of(Core& core, const Tile& t, const std::byte* in, int64_t apart) {
  const int size = t.element_bytes();
  if (const Rows to = core.rows(t, true)) {
    const Walk walk(*t.pattern, size);
    for (int p = 0; p < t.partitions; ++p, in += apart) scatter(walk, in, to.at(p), size);
    return;
  }
  for (int p = 0; p < t.partitions; ++p, in += apart) core.write_bytes(t, p, in);
}

void Core::write_all_bytes(const Tile& t, const std::byte* in) {
  write_rows_of(*this, t, in, t.row_elements * t.element_bytes());
}

void Core::fill_bytes(const Tile& t, const std::byte* in) { write_rows_of(*this, t, in, 0); }

std::byte* Core::row_scratch(const Tile& t) {
  row_bytes_.resize(static_cast<size_t>(t.row_elements * t.element_bytes()));
  return row_bytes_.data();
}

const std::byte* Core::row_data(const Tile& t, int row) {
  if (!t.contiguous()) {
    std::byte* const copy = row_scratch(t);
    read_bytes(t, row, copy);
    return copy;
  }
  bool ok = true;
  const std::byte* const at = row_address(t, row, false, ok);
  if (ok) return at;
  std::byte* const zeros = row_scratch(t);
  std::memset(zeros, 0, row_bytes_.size());
  return zeros;
}

void Core::read(const Tile& t, int row, float* out) {
  widen_row(row_data(t, row), t.dtype, out, static_cast<size_t>(t.row_elements));
}

void Core::write(const Tile& t, int row, const float* in) {
  const size_t n = static_cast<size_t>(t.row_elements);
  if (trap_nan && std::any_of(in, in + n, [](float v) { return std::isnan(v); }))
    fault(FaultKind::nan, slot_, cat("row ", row, " of the result holds NaN"));
  if (t.contiguous()) {
    bool ok = true;
    std::byte* const to = row_address(t, row, true, ok);
    if (ok) round_row(in, to, t.dtype, n, rounding);
    return;
  }
  std::byte* const copy = row_scratch(t);
  round_row(in, copy, t.dtype, n, rounding);
  write_bytes(t, row, copy);
}

void Core::take(const Tile& t, const std::byte* at, float* out) {
  const size_t n = static_cast<size_t>(t.row_elements);
  if (t.dense) return widen_row(at, t.dtype, out, n);
  const int size = t.element_bytes();
  const bool as_it_is = t.dtype == Dtype::f32;
  std::byte* const copy = as_it_is ? reinterpret_cast<std::byte*>(out) : row_scratch(t);
  gather(Walk(*t.pattern, size), at, copy, size);
  if (!as_it_is) widen_row(copy, t.dtype, out, n);
}

void Core::put(const Tile& t, std::byte* at, const float* in) {
  const size_t n = static_cast<size_t>(t.row_elements);
  if (t.dense) return round_row(in, at, t.dtype, n, rounding);
  const int size = t.element_bytes();
  std::byte* const copy = row_scratch(t);
  round_row(in, copy, t.dtype, n, rounding);
  scatter(Walk(*t.pattern, size), copy, at, size);
}

void Core::read_all(const Tile& t, float* out) {
  const Rows from = rows(t, false);
  for (int p = 0; p < t.partitions; ++p, out += t.row_elements)
    if (from)
      take(t, from.at(p), out);
    else
      read(t, p, out);
}

void Core::read_bits(const Tile& t, int row, uint32_t* out) {
  widen_bits(row_data(t, row), out, t.row_elements, t.element_bytes());
}

void Core::write_bits(const Tile& t, int row, const uint32_t* in) {
  std::byte* const copy = row_scratch(t);
  narrow_bits(in, copy, t.row_elements, t.element_bytes());
  write_bytes(t, row, copy);
}

void Core::read_all_bits(const Tile& t, uint32_t* out) {
  if (t.element_bytes() == 4) return read_all_bytes(t, reinterpret_cast<std::byte*>(out));
  for (int p = 0; p < t.partitions; ++p) read_bits(t, p, out + p * t.row_elements);
}

void Core::write_all_bits(const Tile& t, const uint32_t* in) {
  if (t.element_bytes() == 4) return write_all_bytes(t, reinterpret_cast<const std::byte*>(in));
  for (int p = 0; p < t.partitions; ++p) write_bits(t, p, in + p * t.row_elements);
}

void Core::read_int(const Tile& t, int row, int64_t* out) {
  const std::byte* from = row_data(t, row);
  const int size = t.element_bytes();
  for (int64_t i = 0; i < t.row_elements; ++i) out[i] = load_int(from + i * size, t.dtype);
}

void Core::write_int(const Tile& t, int row, const int64_t* in) {
  std::byte* const copy = row_scratch(t);
  const int size = t.element_bytes();
  const DtypeRow& format = trine::row(t.dtype);
  const bool whole = size == 8 || is_packed(t.dtype);
  for (int64_t i = 0; i < t.row_elements; ++i) {
    uint64_t bits = 0;
    if (is_floating(t.dtype))
      bits = format.round(static_cast<float>(in[i]), rounding);
    else if (t.dtype == Dtype::boolean)
      bits = in[i] != 0;
    else if (whole)
      bits = static_cast<uint64_t>(in[i]);
    else
      bits = static_cast<uint64_t>(
          std::clamp(in[i], static_cast<int64_t>(format.min_finite), static_cast<int64_t>(format.max_finite)));
    std::memcpy(copy + i * size, &bits, static_cast<size_t>(size));
  }
  write_bytes(t, row, copy);
}

const float* Core::view(const Tile& t, int row, float* scratch) {
  if (t.dtype == Dtype::f32 && t.contiguous()) {
    const std::byte* at = row_data(t, row);
    if (reinterpret_cast<uintptr_t>(at) % alignof(float) == 0 && at != row_bytes_.data())
      return reinterpret_cast<const float*>(at);
  }
  read(t, row, scratch);
  return scratch;
}

void Core::store(const Tile& t, int row, const float* values) {
  bool ok = true;
  if (t.dtype == Dtype::f32 && t.contiguous() && !trap_nan) {
    std::byte* const at = row_address(t, row, true, ok);
    if (ok) std::memcpy(at, values, static_cast<size_t>(t.row_elements) * sizeof(float));
    return;
  }
  write(t, row, values);
}

Machine::Machine(const Program& program, const CoreShape& shape) : hbm(program.tensors.size()), program_(program) {
  cores.reserve(program.cores);
  for (int i = 0; i < program.cores; ++i) cores.emplace_back(*this, i, shape);
  for (size_t i = 0; i < program.tensors.size(); ++i)
    if (program.tensors[i].space == Space::hbm && storage(static_cast<uint32_t>(i)) == i)
      hbm[i] = Memory::make(static_cast<size_t>(tensor_bytes(program.tensors[i])), 0);
}

bool Machine::all_written(const Tile& t) {
  complete_.resize(program_.tensors.size());
  if (complete_[t.tensor]) return true;
  const Tensor& tensor = program_.tensors[t.tensor];
  if (!t.on_chip()) {
    const Memory& m = hbm_of(t.tensor);
    complete_[t.tensor] = m.complete || m.written.all(0, m.size);
    return complete_[t.tensor];
  }
  const Core& owner = cores[t.core];
  const Memory& m = t.space == Space::sbuf ? owner.sbuf : owner.psum;
  return complete_[t.tensor] =
             m.written_in.all(tensor.partition, tensor.shape.empty() ? 1 : static_cast<int>(tensor.shape[0]),
                              static_cast<size_t>(tensor.address), static_cast<size_t>(bytes_per_partition(tensor)));
}

void Machine::restart() {
  for (Core& core : cores) {
    std::fill(core.semaphores.begin(), core.semaphores.end(), 0);
    core.registers = {};
    core.vector_acc = core.scalar_acc = {};
    core.vector_rng = core.gpsimd_rng = {};
    core.faults.clear();
  }
}

Machine::~Machine() {
  for (Core& core : cores)
    for (Memory* m : {&core.sbuf, &core.psum}) m->give_back();
}

std::string Machine::refused() const {
  const auto missing = [](const Memory& m) {
    return m.size && (!m.bytes || !(m.pitch ? m.written_in.held() : m.written.held()));
  };
  for (size_t i = 0; i < hbm.size(); ++i)
    if (missing(hbm[i])) return program_.tensors[i].name;
  for (const Core& core : cores)
    if (missing(core.sbuf) || missing(core.psum) || !core.psum.summed_in.held() || !core.psum.open_in.held())
      return "SBUF and PSUM";
  return {};
}

}  // namespace trine::arch
