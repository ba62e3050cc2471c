// Formats in which a weight may lie in memory while it is multiplied: GGUF's blocks of few bits, and floats.
// A row is a format; what its bits mean is GGUF's (the blocks' layouts are those of `ggml`, which its `gguf` package
// reads).
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace trine::host {

// How the scales of 32 weights are kept: `half` an f16 each, `halves` scale and minimum, `super` eight pairs of six
// bits below two f16 for 256 weights, `sixteen` a signed byte for 16 weights below an f16 for 256, `none`: floats.
enum class ScaleKind : uint8_t { none, half, halves, super, sixteen };

struct PackedFormat {
  std::string_view name;
  int32_t gguf;      // GGUF's number; -1: not GGUF's
  int32_t elements;  // of a block in the file
  int32_t bytes;     // of a block in the file
  int32_t bits;      // of a code; 0: a float that is multiplied as f32
  int32_t bias;      // what is taken off a code
  ScaleKind scales;
};

enum class Packed : uint8_t { f32, f16, bf16, i8, fp8, q4_0, q4_1, q5_0, q5_1, q8_0, q4_k, q5_k, q6_k, count };

inline constexpr std::array<PackedFormat, size_t(Packed::count)> kPackedFormats{{
    {"F32", 0, 1, 4, 0, 0, ScaleKind::none},
    {"F16", 1, 1, 2, 0, 0, ScaleKind::none},
    {"BF16", 30, 1, 2, 0, 0, ScaleKind::none},
    {"I8", -1, 1, 1, 0, 0, ScaleKind::none},   // with an f32 scale for each output
    {"FP8", -1, 1, 1, 0, 0, ScaleKind::none},  // e4m3fn, likewise
    {"Q4_0", 2, 32, 18, 4, 8, ScaleKind::half},
    {"Q4_1", 3, 32, 20, 4, 0, ScaleKind::halves},
    {"Q5_0", 6, 32, 22, 5, 16, ScaleKind::half},
    {"Q5_1", 7, 32, 24, 5, 0, ScaleKind::halves},
    {"Q8_0", 8, 32, 34, 8, 128, ScaleKind::half},
    {"Q4_K", 12, 256, 144, 4, 0, ScaleKind::super},
    {"Q5_K", 13, 256, 176, 5, 0, ScaleKind::super},
    {"Q6_K", 14, 256, 210, 6, 32, ScaleKind::sixteen},
}};

inline constexpr const PackedFormat& row(Packed format) { return kPackedFormats[size_t(format)]; }

inline constexpr int kTile = 16;   // outputs whose weights lie side by side
inline constexpr int kGroup = 32;  // inputs that share a scale of the activations

// Bytes of a tile: of the codes of one group, of the scales of one group, of the scales of a block of 256.
inline constexpr int64_t code_bytes(int bits) { return int64_t(bits) * kTile * kGroup / 8; }
inline constexpr int64_t scale_bytes(ScaleKind kind) {
  return kind == ScaleKind::half     ? 2 * kTile
         : kind == ScaleKind::halves ? 4 * kTile
         : kind == ScaleKind::none   ? 0
                                     : 2 * kTile;
}
inline constexpr int64_t super_bytes(ScaleKind kind) {
  return kind == ScaleKind::super ? 4 * kTile : kind == ScaleKind::sixteen ? 2 * kTile : 0;
}

}  // namespace trine::host
