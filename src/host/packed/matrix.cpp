// Packing: the file's blocks, one code after the other, into tiles; and back for a row.
#include "host/packed/matrix.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <new>

#include "base/number/number.h"
#include "base/pool.h"
#include "base/text.h"

namespace trine::host {

namespace {

float half(const uint8_t* p) {
  uint16_t h;
  std::memcpy(&h, p, 2);
  return static_cast<float>(std::bit_cast<_Float16>(h));
}

// The two bytes of a scale in the file, for each of `kTile` outputs.
void put_half(std::byte* to, int lane, const uint8_t* from) { std::memcpy(to + 2 * lane, from, 2); }

// Codes of 32 weights of one file row, and their scales into the tile.
struct Codes {
  uint8_t code[kGroup];
};

void six_bits(const uint8_t* s, int part, uint8_t& scale, uint8_t& minimum) {
  if (part < 4) {
    scale = s[part] & 63, minimum = s[part + 4] & 63;
  } else {
    scale = uint8_t((s[part + 4] & 15) | (s[part - 4] >> 6) << 4);
    minimum = uint8_t((s[part + 4] >> 4) | (s[part] >> 6) << 4);
  }
}

Codes codes_simple(const PackedFormat& f, const uint8_t* block) {
  Codes c;
  const int head = f.bytes - (f.bits == 8 ? 32 : 16);
  const uint8_t* q = block + head;
  uint32_t high = 0;
  if (f.bits == 5) std::memcpy(&high, q - 4, 4);
  for (int i = 0; i < kGroup; ++i) {
    if (f.bits == 8) {
      c.code[i] = uint8_t(int(int8_t(q[i])) + 128);
    } else {
      c.code[i] = uint8_t(i < 16 ? q[i] & 15 : q[i - 16] >> 4);
      if (f.bits == 5) c.code[i] |= uint8_t((high >> i & 1) << 4);
    }
  }
  return c;
}

Codes codes_k(Packed format, const uint8_t* block, int part) {
  Codes c;
  if (format == Packed::q6_k) {
    const int half_at = part / 4, quarter = part % 4;
    const uint8_t* low = block + half_at * 64 + (quarter & 1) * 32;
    const uint8_t* high = block + 128 + half_at * 32;
    for (int i = 0; i < kGroup; ++i)
      c.code[i] = uint8_t((quarter < 2 ? low[i] & 15 : low[i] >> 4) | (high[i] >> 2 * quarter & 3) << 4);
    return c;
  }
  const uint8_t* q = block + (format == Packed::q4_k ? 16 : 48) + part / 2 * 32;
  for (int i = 0; i < kGroup; ++i) {
    c.code[i] = uint8_t(part & 1 ? q[i] >> 4 : q[i] & 15);
    if (format == Packed::q5_k) c.code[i] |= uint8_t((block[16 + i] >> part & 1) << 4);
  }
  return c;
}

// A lane of a group: k = 4 g + i lies in byte 4 lane + i of register g; two registers share a chunk of nibbles.
void put_codes(const PackedFormat& f, std::byte* to, int lane, const Codes& c) {
  auto* u = reinterpret_cast<uint8_t*>(to) + 4 * lane;
  for (int g = 0; g < 8; ++g)
    for (int i = 0; i < 4; ++i) {
      const uint8_t code = c.code[4 * g + i];
      if (f.bits == 8) {
        u[64 * g + i] = code;
        continue;
      }
      u[64 * (g / 2) + i] |= uint8_t((code & 15) << (g & 1 ? 4 : 0));
      if (f.bits == 5) u[256 + i] |= uint8_t((code >> 4 & 1) << g);
      if (f.bits == 6) u[256 + 64 * (g / 4) + i] |= uint8_t((code >> 4 & 3) << 2 * (g % 4));
    }
}

uint8_t code_at(const PackedFormat& f, const std::byte* codes, int lane, int k) {
  auto* u = reinterpret_cast<const uint8_t*>(codes) + 4 * lane;
  const int g = k / 4, i = k % 4;
  if (f.bits == 8) return u[64 * g + i];
  uint8_t code = uint8_t(g & 1 ? u[64 * (g / 2) + i] >> 4 : u[64 * (g / 2) + i] & 15);
  if (f.bits == 5) code |= uint8_t((u[256 + i] >> g & 1) << 4);
  if (f.bits == 6) code |= uint8_t((u[256 + 64 * (g / 4) + i] >> 2 * (g % 4) & 3) << 4);
  return code;
}

void pack_lane(Packed format, std::byte* tile, int lane, const uint8_t* file_row, int64_t groups) {
  const PackedFormat& f = row(format);
  for (int64_t g = 0; g < groups; ++g) {
    const TileAt at = tile_at(f, g);
    if (f.elements == kGroup) {
      const uint8_t* block = file_row + g * f.bytes;
      put_codes(f, tile + at.codes, lane, codes_simple(f, block));
      put_half(tile + at.scales, lane, block);
      if (f.scales == ScaleKind::halves) put_half(tile + at.scales + 2 * kTile, lane, block + 2);
      continue;
    }
    const uint8_t* block = file_row + g / 8 * f.bytes;
    const int part = int(g % 8);
    put_codes(f, tile + at.codes, lane, codes_k(format, block, part));
    if (f.scales == ScaleKind::super) {
      uint8_t scale, minimum;
      six_bits(block + 4, part, scale, minimum);
      tile[at.scales + lane] = std::byte(scale), tile[at.scales + kTile + lane] = std::byte(minimum);
      put_half(tile + at.supers, lane, block), put_half(tile + at.supers + 2 * kTile, lane, block + 2);
    } else {
      tile[at.scales + lane] = std::byte(block[192 + 2 * part]);
      tile[at.scales + kTile + lane] = std::byte(block[193 + 2 * part]);
      put_half(tile + at.supers, lane, block + 208);
    }
  }
}

float f32_of(Packed format, const std::byte* p) {
  const auto* u = reinterpret_cast<const uint8_t*>(p);
  uint16_t two = 0;
  if (format != Packed::i8 && format != Packed::fp8) std::memcpy(&two, u, 2);
  switch (format) {
    case Packed::f16:
      return half(u);
    case Packed::bf16:
      return std::bit_cast<float>(uint32_t(two) << 16);
    case Packed::i8:
      return float(int8_t(*u));
    case Packed::fp8:
      return static_cast<float>(std::bit_cast<_Float16>(uint16_t((*u & 0x80) << 8 | (*u & 0x7f) << 7))) * 256.0f;
    default: {
      float v;
      std::memcpy(&v, u, 4);
      return v;
    }
  }
}

}  // namespace

TileAt tile_at(const PackedFormat& f, int64_t group) {
  const int64_t codes = code_bytes(f.bits), scales = scale_bytes(f.scales);
  if (f.elements == kGroup) return {group * (codes + scales), group * (codes + scales) + codes, 0};
  const int64_t block = group / 8 * (8 * (codes + scales) + super_bytes(f.scales));
  const int64_t at = block + super_bytes(f.scales) + group % 8 * (codes + scales);
  return {at, at + codes, block};
}

void PackedMatrix::Free::operator()(std::byte* p) const { ::operator delete[](p, std::align_val_t{64}); }

Result<PackedMatrix> PackedMatrix::make(Packed format, int64_t outputs, int64_t inputs,
                                        std::span<const std::byte> bytes, std::span<const float> scales,
                                        std::span<const int32_t> order) {
  const PackedFormat& f = trine::host::row(format);
  if (outputs <= 0 || inputs <= 0 || inputs % f.elements)
    return fail(Code::invalid,
                cat("a weight of ", outputs, " × ", inputs, " is no whole number of ", f.name, " blocks"));
  const int64_t row_bytes = inputs / f.elements * f.bytes;
  if (int64_t(bytes.size()) != outputs * row_bytes)
    return fail(Code::invalid, cat("a weight of ", outputs, " × ", inputs, " as ", f.name, " has ", outputs * row_bytes,
                                   " bytes; ", bytes.size(), " are given"));
  const bool scaled = format == Packed::i8 || format == Packed::fp8;
  if (scaled != !scales.empty() || (scaled && int64_t(scales.size()) != outputs))
    return fail(Code::invalid, cat(f.name, " with ", scales.size(), " scales for ", outputs, " outputs"));
  for (const int32_t o : order)
    if (int64_t(order.size()) != outputs || o < 0 || o >= outputs)
      return fail(Code::invalid, cat("an order of ", order.size(), " rows that names row ", o, " of ", outputs));
  PackedMatrix m;
  m.format_ = format, m.outputs_ = outputs, m.inputs_ = inputs;
  m.tile_bytes_ = f.bits ? inputs / kGroup * (code_bytes(f.bits) + scale_bytes(f.scales)) +
                               (f.elements == 256 ? inputs / 256 * super_bytes(f.scales) : 0)
                         : inputs * kTile * f.bytes;
  const size_t size = size_t(m.tiles() * m.tile_bytes_);
  m.data_.reset(static_cast<std::byte*>(::operator new[](size, std::align_val_t{64}, std::nothrow)));
  if (!m.data_) return fail(Code::out_of_memory, cat("no ", size, " bytes for a weight"));
  ::madvise(m.data_.get(), size, MADV_HUGEPAGE);
  if (scaled) {
    m.scales_.assign(size_t(m.tiles() * kTile), 0.0f);
    for (int64_t o = 0; o < outputs; ++o) m.scales_[size_t(o)] = scales[size_t(order.empty() ? o : order[size_t(o)])];
  }
  const auto* file = reinterpret_cast<const uint8_t*>(bytes.data());
  parallel_for(m.tiles(), 1, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      std::byte* tile = m.data_.get() + t * m.tile_bytes_;
      std::memset(tile, 0, size_t(m.tile_bytes_));
      for (int lane = 0; lane < kTile && t * kTile + lane < outputs; ++lane) {
        const int64_t o = t * kTile + lane;
        const uint8_t* from = file + (order.empty() ? o : int64_t(order[size_t(o)])) * row_bytes;
        if (f.bits) {
          pack_lane(format, tile, lane, from, inputs / kGroup);
        } else {
          for (int64_t k = 0; k < inputs; ++k)
            std::memcpy(tile + (k * kTile + lane) * f.bytes, from + k * f.bytes, size_t(f.bytes));
        }
      }
    }
  });
  return m;
}

void PackedMatrix::row(int64_t output, float* to) const {
  const PackedFormat& f = trine::host::row(format_);
  const std::byte* tile_ = tile(output / kTile);
  const int lane = int(output % kTile);
  if (!f.bits) {
    const float scale = scales_.empty() ? 1.0f : scales_[size_t(output)];
    for (int64_t k = 0; k < inputs_; ++k) to[k] = f32_of(format_, tile_ + (k * kTile + lane) * f.bytes) * scale;
    return;
  }
  for (int64_t g = 0; g < inputs_ / kGroup; ++g) {
    const TileAt at = tile_at(f, g);
    const auto* s = reinterpret_cast<const uint8_t*>(tile_ + at.scales);
    const auto* super = reinterpret_cast<const uint8_t*>(tile_ + at.supers);
    for (int k = 0; k < kGroup; ++k) {
      const float code = float(int(code_at(f, tile_ + at.codes, lane, k)) - f.bias);
      float& v = to[g * kGroup + k];
      switch (f.scales) {
        case ScaleKind::halves:
          v = code * half(s + 2 * lane) + half(s + 2 * kTile + 2 * lane);
          break;
        case ScaleKind::super:
          v = code * (half(super + 2 * lane) * float(s[lane])) -
              half(super + 2 * kTile + 2 * lane) * float(s[kTile + lane]);
          break;
        case ScaleKind::sixteen:
          v = code * (half(super + 2 * lane) * float(int8_t(s[(k < 16 ? 0 : kTile) + lane])));
          break;
        default:
          v = code * half(s + 2 * lane);
      }
    }
  }
}

Result<Packed> packed_named(std::string_view name) {
  for (size_t i = 0; i < kPackedFormats.size(); ++i)
    if (kPackedFormats[i].name == name) return Packed(i);
  return fail(Code::unsupported,
              cat("a weight of format ", name, "; multiplied as they lie are F32, F16, BF16, I8, FP8, ",
                  "Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q4_K, Q5_K, Q6_K"));
}

Result<Packed> packed_of_gguf(int32_t number) {
  for (size_t i = 0; i < kPackedFormats.size(); ++i)
    if (kPackedFormats[i].gguf == number && number >= 0) return Packed(i);
  return fail(Code::unsupported, cat("a weight of GGUF's format ", number));
}

}  // namespace trine::host
