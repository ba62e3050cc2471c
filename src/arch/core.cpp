// Row accessors over the simulated memories; see core.h. A row that cannot be placed is a fault, and its read is zeros.
#include "arch/core.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <cstring>

#include <sys/mman.h>

#include "arch/runs.h"
#include "base/convert.h"
#include "base/result.h"
#include "base/text.h"

namespace trine::arch {

namespace {

// Calls f(first word, mask) over the words of a bit range.
template <class F>
void over_words(size_t begin, size_t n, F f) {
  const size_t end = begin + n;
  while (begin < end) {
    const size_t word = begin / 64, low = begin % 64, take = std::min(end - begin, 64 - low);
    const uint64_t mask = (take == 64 ? ~0ull : ((1ull << take) - 1)) << low;
    if (!f(word, mask)) return;
    begin += take;
  }
}

uint64_t load_element(const std::byte* from, int bytes) {
  uint64_t v = 0;
  std::memcpy(&v, from, static_cast<size_t>(bytes));
  return v;
}

}  // namespace

// Large pieces are mapped without a reservation, so that a program may place more HBM than the host has.
static constexpr size_t kMappedFrom = 1 << 20;

LazyBytes::LazyBytes(size_t n) : size_(n) {
  if (!n) return;
  if (n < kMappedFrom) {
    data_ = static_cast<std::byte*>(std::calloc(n, 1));
    return;
  }
  void* const at = mmap(nullptr, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at != MAP_FAILED) data_ = static_cast<std::byte*>(at);
}

LazyBytes::~LazyBytes() {
  if (!data_) return;
  if (size_ < kMappedFrom)
    std::free(data_);
  else
    munmap(data_, size_);
}

void WrittenBits::set(size_t begin, size_t n) {
  over_words(begin, n, [&](size_t w, uint64_t m) { return words_[w] |= m, true; });
}
void WrittenBits::clear(size_t begin, size_t n) {
  over_words(begin, n, [&](size_t w, uint64_t m) { return words_[w] &= ~m, true; });
}
bool WrittenBits::all(size_t begin, size_t n) const {
  bool ok = true;
  over_words(begin, n, [&](size_t w, uint64_t m) { return ok = (words_[w] & m) == m; });
  return ok;
}
bool WrittenBits::any(size_t begin, size_t n) const {
  bool found = false;
  over_words(begin, n, [&](size_t w, uint64_t m) { return !(found = (words_[w] & m) != 0); });
  return found;
}

Memory Memory::make(size_t size, size_t pitch) {
  Memory m;
  m.owned = LazyBytes(size);
  m.bytes = m.owned.data();
  m.size = size;
  m.pitch = pitch;
  m.written = WrittenBits(size);
  return m;
}

Memory Memory::borrow(const std::byte* bytes, size_t size) {
  Memory m;
  m.bytes = const_cast<std::byte*>(bytes);
  m.size = size;
  m.complete = true;
  return m;
}

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

Core::Core(Machine& machine, const CoreShape& shape)
    : sbuf(Memory::make(static_cast<size_t>(shape.partitions * shape.sbuf_bytes),
                        static_cast<size_t>(shape.sbuf_bytes))),
      psum(Memory::make(static_cast<size_t>(shape.partitions * shape.psum_bytes),
                        static_cast<size_t>(shape.psum_bytes))),
      psum_matmul(psum.size),
      psum_open(psum.size),
      semaphores(static_cast<size_t>(shape.semaphores)),
      machine_(machine),
      shape_(shape) {}

Memory& Core::memory(const Tile& t) {
  if (t.space == Space::hbm) return machine_.hbm_of(t.tensor);
  Core& owner = machine_.cores[t.core];
  return t.space == Space::sbuf ? owner.sbuf : owner.psum;
}

void Core::fault(FaultKind kind, std::string_view operand, std::string detail) {
  faults.push_back({kind, std::string(operand), std::move(detail)});
}

// The index tile of a gather, with one integer entry per row or group.
static Tile index_tile(Core& core, const Tile& t) {
  const Program& program = core.machine().program();
  Tile index = unplaced(program, program.operands[t.dynamic->index]);
  index.offset = t.index_offset;
  return index;
}

static int64_t row_index(Core& core, const Tile& t, int row) {
  const Tile index = index_tile(core, t);
  std::vector<int64_t> values(static_cast<size_t>(index.row_elements));
  core.read_int(index, static_cast<int>(row / index.row_elements), values.data());
  return values[static_cast<size_t>(row % index.row_elements)];
}

std::byte* Core::place_row(const Tile& t, int row, bool writing, bool& ok) {
  Memory& m = memory(t);
  int64_t offset = t.offset;
  if (t.dynamic && t.dynamic->kind == DynamicKind::rows) {
    offset += row_index(*this, t, row) * t.dynamic->scale * t.element_bytes();
  } else if (t.space == Space::hbm) {
    offset += row * t.row_stride;
  }
  const auto [low, high] = row_extent(*t.pattern, t.element_bytes());
  const Tensor& tensor = machine_.program().tensors[t.tensor];
  const int64_t begin = t.space == Space::hbm ? 0 : tensor.address;
  const int64_t end = t.space == Space::hbm ? static_cast<int64_t>(m.size) : begin + bytes_per_partition(tensor);
  ok = offset + low >= begin && offset + high <= end;
  if (!ok) {
    if (oob == Oob::error)
      fault(FaultKind::out_of_bounds, slot_,
            cat("row ", row, " covers bytes ", offset + low - begin, " to ", offset + high - begin, " of ", tensor.name,
                ", which has ", end - begin));
    return nullptr;
  }
  const int64_t base = t.space == Space::hbm ? 0 : (t.partition + row) * static_cast<int64_t>(m.pitch);
  std::byte* const at = m.bytes + base + offset;
  if (t.space == Space::psum) close_groups(t, base + offset, writing);
  if (m.complete) return at;
  if (writing) {
    over_runs(*t.pattern, t.element_bytes(), [&](int64_t o, int64_t n, int64_t stride) {
      if (stride == t.element_bytes())
        m.written.set(static_cast<size_t>(base + offset + o), static_cast<size_t>(n * stride));
      else
        for (int64_t i = 0; i < n; ++i)
          m.written.set(static_cast<size_t>(base + offset + o + i * stride), static_cast<size_t>(t.element_bytes()));
    });
    return at;
  }
  bool all = true;
  over_runs(*t.pattern, t.element_bytes(), [&](int64_t o, int64_t n, int64_t stride) {
    if (stride == t.element_bytes())
      all &= m.written.all(static_cast<size_t>(base + offset + o), static_cast<size_t>(n * stride));
    else
      for (int64_t i = 0; i < n; ++i)
        all &=
            m.written.all(static_cast<size_t>(base + offset + o + i * stride), static_cast<size_t>(t.element_bytes()));
  });
  if (!all)
    fault(
        FaultKind::uninitialized_read, slot_,
        cat("row ", row, " of ", tensor.name, " (partition ", t.partition + row, ") was read before anybody wrote it"));
  return at;
}

// A PSUM location that another engine reads or writes ends its accumulation group there; once overwritten it is no
// longer the sum of a matmul. nc_matmul opens the group again after its own store.
void Core::close_groups(const Tile& t, int64_t at, bool writing) {
  Core& owner = machine_.cores[t.core];
  over_pieces(*t.pattern, t.element_bytes(), [&](int64_t o, int64_t bytes) {
    owner.psum_open.clear(static_cast<size_t>(at + o), static_cast<size_t>(bytes));
    if (writing) owner.psum_matmul.clear(static_cast<size_t>(at + o), static_cast<size_t>(bytes));
  });
}

bool Core::row_skipped(const Tile& t, int row) {
  bool ok = true;
  const Oob saved = oob;
  oob = Oob::skip;
  const size_t before = faults.size();
  place_row(t, row, false, ok);
  faults.resize(before);
  oob = saved;
  return !ok;
}

// v4 gather along the free dim: group i of the row starts at index[i mod G, i div G]·scale, with the index tile's
// partitions as G (16 for vector, scalar and gpsimd operands, 32 for the tensor engine's).
void Core::gather_free(const Tile& t, int row, std::byte* out) {
  const Tile index = index_tile(*this, t);
  const int64_t groups = index.elements(), size = t.element_bytes(), group_bytes = t.row_elements / groups * size;
  const Tensor& tensor = machine_.program().tensors[t.tensor];
  Memory& m = memory(t);
  const int64_t base = (t.partition + row) * static_cast<int64_t>(m.pitch),
                end = tensor.address + bytes_per_partition(tensor);
  std::vector<int64_t> column(static_cast<size_t>(index.row_elements));
  for (int64_t g = 0; g < groups; ++g) {
    read_int(index, static_cast<int>(g % index.partitions), column.data());
    const int64_t at = column[static_cast<size_t>(g / index.partitions)];
    const int64_t offset = t.offset + at * t.dynamic->scale * size;
    std::byte* const to = out + g * group_bytes;
    if (offset < tensor.address || offset + group_bytes > end) {
      if (oob == Oob::error) fault(FaultKind::out_of_bounds, slot_, cat("index ", at, " points outside ", tensor.name));
      std::memset(to, 0, static_cast<size_t>(group_bytes));
      continue;
    }
    if (!m.complete && !m.written.all(static_cast<size_t>(base + offset), static_cast<size_t>(group_bytes)))
      fault(FaultKind::uninitialized_read, slot_, cat("index ", at, " of ", tensor.name, " was never written"));
    std::memcpy(to, m.bytes + base + offset, static_cast<size_t>(group_bytes));
  }
}

void Core::read_bytes(const Tile& t, int row, std::byte* out) {
  if (t.dynamic && t.dynamic->kind == DynamicKind::free) return gather_free(t, row, out);
  bool ok = true;
  const int size = t.element_bytes();
  const std::byte* from = place_row(t, row, false, ok);
  if (!ok) {
    std::memset(out, 0, static_cast<size_t>(t.row_elements * size));
    return;
  }
  over_runs(*t.pattern, size, [&](int64_t o, int64_t n, int64_t stride) {
    if (stride == size)
      std::memcpy(out, from + o, static_cast<size_t>(n * size));
    else
      for (int64_t i = 0; i < n; ++i) std::memcpy(out + i * size, from + o + i * stride, static_cast<size_t>(size));
    out += n * size;
  });
}

void Core::write_bytes(const Tile& t, int row, const std::byte* in) {
  bool ok = true;
  const int size = t.element_bytes();
  std::byte* to = place_row(t, row, true, ok);
  if (!ok) return;
  over_runs(*t.pattern, size, [&](int64_t o, int64_t n, int64_t stride) {
    if (stride == size)
      std::memcpy(to + o, in, static_cast<size_t>(n * size));
    else
      for (int64_t i = 0; i < n; ++i) std::memcpy(to + o + i * stride, in + i * size, static_cast<size_t>(size));
    in += n * size;
  });
}

std::byte* Core::row_scratch(const Tile& t) {
  row_bytes_.resize(static_cast<size_t>(t.row_elements * t.element_bytes()));
  return row_bytes_.data();
}

const std::byte* Core::row_in_place(const Tile& t, int row) {
  if (!t.contiguous()) {
    std::byte* const copy = row_scratch(t);
    read_bytes(t, row, copy);
    return copy;
  }
  bool ok = true;
  const std::byte* const at = place_row(t, row, false, ok);
  if (ok) return at;
  std::byte* const zeros = row_scratch(t);
  std::memset(zeros, 0, row_bytes_.size());
  return zeros;
}

void Core::read(const Tile& t, int row, float* out) {
  widen_row(row_in_place(t, row), t.dtype, out, static_cast<size_t>(t.row_elements));
}

void Core::write(const Tile& t, int row, const float* in) {
  const size_t n = static_cast<size_t>(t.row_elements);
  if (trap_nan && std::any_of(in, in + n, [](float v) { return std::isnan(v); }))
    fault(FaultKind::nan, slot_, cat("row ", row, " of the result holds NaN"));
  if (t.contiguous()) {
    bool ok = true;
    std::byte* const to = place_row(t, row, true, ok);
    if (ok) round_row(in, to, t.dtype, n, rounding);
    return;
  }
  std::byte* const copy = row_scratch(t);
  round_row(in, copy, t.dtype, n, rounding);
  write_bytes(t, row, copy);
}

void Core::read_bits(const Tile& t, int row, uint32_t* out) {
  const std::byte* from = row_in_place(t, row);
  const int size = t.element_bytes();
  for (int64_t i = 0; i < t.row_elements; ++i) out[i] = static_cast<uint32_t>(load_element(from + i * size, size));
}

void Core::write_bits(const Tile& t, int row, const uint32_t* in) {
  std::byte* const copy = row_scratch(t);
  const int size = t.element_bytes();
  for (int64_t i = 0; i < t.row_elements; ++i) {
    const uint64_t v = in[i];
    std::memcpy(copy + i * size, &v, static_cast<size_t>(size));
  }
  write_bytes(t, row, copy);
}

void Core::read_int(const Tile& t, int row, int64_t* out) {
  const std::byte* from = row_in_place(t, row);
  const int size = t.element_bytes(), unused = 64 - 8 * size;
  const bool is_signed = trine::row(t.dtype).kind == DtypeKind::signed_int;
  const bool floating = is_floating(t.dtype);
  for (int64_t i = 0; i < t.row_elements; ++i) {
    const uint64_t bits = load_element(from + i * size, size);
    if (floating)
      out[i] = std::llrint(std::clamp(trine::row(t.dtype).widen(bits), -9.2e18f, 9.2e18f));
    else
      out[i] = is_signed ? static_cast<int64_t>(bits << unused) >> unused : static_cast<int64_t>(bits);
  }
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
    const std::byte* at = row_in_place(t, row);
    if (reinterpret_cast<uintptr_t>(at) % alignof(float) == 0 && at != row_bytes_.data())
      return reinterpret_cast<const float*>(at);
  }
  read(t, row, scratch);
  return scratch;
}

float* Core::target(const Tile& t, int row, float* scratch) {
  if (t.dtype != Dtype::f32 || !t.contiguous() || trap_nan || (t.dynamic && t.dynamic->kind == DynamicKind::rows))
    return scratch;
  Memory& m = memory(t);
  const int64_t base = t.space == Space::hbm ? row * t.row_stride : (t.partition + row) * static_cast<int64_t>(m.pitch);
  std::byte* const at = m.bytes + base + t.offset;
  const bool inside = base + t.offset >= 0 && base + t.offset + t.row_elements * 4 <= static_cast<int64_t>(m.size);
  return inside && reinterpret_cast<uintptr_t>(at) % alignof(float) == 0 ? reinterpret_cast<float*>(at) : scratch;
}

void Core::store(const Tile& t, int row, const float* values) {
  bool ok = true;
  if (t.dtype == Dtype::f32 && t.contiguous() && !trap_nan) {
    std::byte* const at = place_row(t, row, true, ok);
    if (ok && reinterpret_cast<const std::byte*>(values) != at)
      std::memcpy(at, values, static_cast<size_t>(t.row_elements) * sizeof(float));
    return;
  }
  write(t, row, values);
}

Machine::Machine(const Program& program, const CoreShape& shape) : hbm(program.tensors.size()), program_(program) {
  cores.reserve(program.cores);
  for (int i = 0; i < program.cores; ++i) cores.emplace_back(*this, shape);
  for (size_t i = 0; i < program.tensors.size(); ++i)
    if (program.tensors[i].space == Space::hbm && storage(static_cast<uint32_t>(i)) == i)
      hbm[i] = Memory::make(static_cast<size_t>(tensor_bytes(program.tensors[i])), 0);
}

}  // namespace trine::arch
