// Copies by rows: inner dims that lie evenly on both sides are one memcpy; large boxes go to the pool.
#include "host/move.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/pool.h"

namespace trine::host {

namespace {

constexpr int64_t kParallelBytes = 1 << 20;  // below, sharing out costs more than copying

struct Loop {
  int64_t count = 0, to = 0, from = 0;  // strides in bytes
};

// Dims merged where both sides go on evenly, outermost first; the last is contiguous when both strides are one.
std::vector<Loop> loops_of(const BoxSide& to, const BoxSide& from, const Dims& dims, int64_t size) {
  std::vector<Loop> out;
  for (size_t d = 0; d < dims.size(); ++d) {
    if (dims[d] == 1) continue;
    Loop next{dims[d], to.strides[d] * size, from.strides[d] * size};
    if (!out.empty() && out.back().to == next.to * next.count && out.back().from == next.from * next.count) {
      next.count *= out.back().count;
      out.back() = next;
    } else {
      out.push_back(next);
    }
  }
  return out;
}

template <class T>
void copy_units(std::byte* to, const std::byte* from, const Loop& loop) {
  for (int64_t i = 0; i < loop.count; ++i) std::memcpy(to + i * loop.to, from + i * loop.from, sizeof(T));
}

void copy_row(std::byte* to, const std::byte* from, const Loop& loop, size_t size) {
  if (loop.to == int64_t(size) && loop.from == int64_t(size)) {
    std::memcpy(to, from, size_t(loop.count) * size);
    return;
  }
  switch (size) {
    case 1:
      return copy_units<uint8_t>(to, from, loop);
    case 2:
      return copy_units<uint16_t>(to, from, loop);
    case 4:
      return copy_units<uint32_t>(to, from, loop);
    case 8:
      return copy_units<uint64_t>(to, from, loop);
    default:
      return copy_units<std::array<uint64_t, 2>>(to, from, loop);
  }
}

void copy_loops(std::byte* to, const std::byte* from, std::span<const Loop> loops, size_t size) {
  if (loops.empty()) {
    std::memcpy(to, from, size);
  } else if (loops.size() == 1) {
    copy_row(to, from, loops[0], size);
  } else {
    for (int64_t i = 0; i < loops[0].count; ++i)
      copy_loops(to + i * loops[0].to, from + i * loops[0].from, loops.subspan(1), size);
  }
}

BoxSide whole(const TensorView& v) { return {v.as<std::byte>(), row_major_strides(v.dims)}; }

int64_t read_int(const TensorView& v) {
  return dispatch_element(v.dtype, [&](auto element) -> int64_t {
    using E = decltype(element);
    if constexpr (E::kIsInteger) {
      return int64_t(E::load(*v.as<const typename E::Storage>()));
    } else {
      return 0;
    }
  });
}

// Where the box begins, in bytes: each start moved so that the box lies inside.
int64_t start_of(const TensorView& x, const Dims& box, std::span<const TensorView> starts) {
  const Dims strides = row_major_strides(x.dims);
  int64_t at = 0;
  for (size_t d = 0; d < x.dims.size(); ++d)
    at += std::clamp<int64_t>(read_int(starts[d]), 0, x.dims[d] - box[d]) * strides[d];
  return at * bytes(x.dtype);
}

void concatenate(int64_t dim, std::span<const TensorView> in, const TensorView& out) {
  BoxSide to = whole(out);
  for (const TensorView& part : in) {
    copy_box(to, whole(part), part.dims, size_t(bytes(out.dtype)));
    to.data += part.dims[size_t(dim)] * to.strides[size_t(dim)] * bytes(out.dtype);
  }
}

void fill(const TensorView& out, const TensorView& value) {
  const size_t size = size_t(bytes(out.dtype)), all = out.bytes();
  if (all == 0) return;
  auto* p = out.as<std::byte>();
  std::memcpy(p, value.data, size);
  for (size_t done = size; done < all; done *= 2) std::memcpy(p + done, p, std::min(done, all - done));
}

// Elements of x that stay inside the result, as one box on either side.
void pad(const arch::MoveStep& step, const TensorView& x, const TensorView& value, const TensorView& out) {
  fill(out, value);
  BoxSide to = whole(out), from = whole(x);
  Dims box = x.dims;
  const int64_t size = bytes(out.dtype);
  for (size_t d = 0; d < box.size(); ++d) {
    const int64_t step_by = step.gaps[d] + 1, low = step.low[d];
    const int64_t first = low < 0 ? (-low + step_by - 1) / step_by : 0;  // the first element at index 0 or later
    const int64_t room = out.dims[d] - 1 - low;                          // the last one's index, before division
    const int64_t last = room < 0 ? -1 : std::min(x.dims[d] - 1, room / step_by);
    box[d] = std::max<int64_t>(0, last - first + 1);
    from.data += first * from.strides[d] * size;
    to.data += (low + first * step_by) * to.strides[d] * size;
    to.strides[d] *= step_by;
  }
  if (element_count(box) > 0) copy_box(to, from, box, size_t(size));
}

}  // namespace

void copy_box(const BoxSide& to, const BoxSide& from, const Dims& dims, size_t size) {
  const int64_t elements = element_count(dims);
  if (elements == 0) return;
  const std::vector<Loop> loops = loops_of(to, from, dims, int64_t(size));
  if (elements * int64_t(size) < kParallelBytes || loops.size() < 2) {
    copy_loops(to.data, from.data, loops, size);
    return;
  }
  const int64_t each = elements / loops[0].count * int64_t(size);
  parallel_for(loops[0].count, std::max<int64_t>(1, kParallelBytes / 4 / std::max<int64_t>(1, each)),
               [&](int64_t begin, int64_t end) {
                 Loop part = loops[0];
                 part.count = end - begin;
                 std::vector<Loop> here = loops;
                 here[0] = part;
                 copy_loops(to.data + begin * part.to, from.data + begin * part.from, here, size);
               });
}

void run_move(const arch::MoveStep& step, std::span<const TensorView> in, std::span<const TensorView> out) {
  const TensorView& to = out[0];
  const size_t size = size_t(bytes(to.dtype));
  switch (step.kind) {
    case arch::MoveKind::slice: {
      BoxSide from = whole(in[0]);
      from.data += start_of(in[0], to.dims, in.subspan(1));
      return copy_box(whole(to), from, to.dims, size);
    }
    case arch::MoveKind::update: {
      if (to.data != in[0].data) copy_box(whole(to), whole(in[0]), to.dims, size);
      BoxSide at = whole(to);
      at.data += start_of(to, in[1].dims, in.subspan(2));
      return copy_box(at, whole(in[1]), in[1].dims, size);
    }
    case arch::MoveKind::concatenate:
      return concatenate(step.dim, in, to);
    case arch::MoveKind::pad:
      return pad(step, in[0], in[1], to);
  }
}

}  // namespace trine::host
