// A weight that stays packed: outputs in tiles of 16, whose codes lie side by side so that no sum crosses lanes.
// Bits per weight are the file's; only the order of the bytes differs. Invariant: row() gives what the file's row
// means.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "host/packed/format.h"

namespace trine::host {

class PackedMatrix {
 public:
  PackedMatrix() = default;
  // `bytes` has `outputs` rows of `inputs` weights, as in the file. scales: of I8 and FP8, one for each output.
  // order: which row of the file is output i; empty: the i-th.
  static Result<PackedMatrix> make(Packed format, int64_t outputs, int64_t inputs, std::span<const std::byte> bytes,
                                   std::span<const float> scales = {}, std::span<const int32_t> order = {});

  Packed format() const { return format_; }
  int64_t outputs() const { return outputs_; }
  int64_t inputs() const { return inputs_; }
  int64_t tiles() const { return (outputs_ + kTile - 1) / kTile; }
  int64_t tile_bytes() const { return tile_bytes_; }
  int64_t bytes() const { return tiles() * tile_bytes_; }
  const std::byte* tile(int64_t t) const { return data_.get() + t * tile_bytes_; }
  const float* scales() const { return scales_.empty() ? nullptr : scales_.data(); }
  explicit operator bool() const { return outputs_ > 0; }

  void row(int64_t output, float* to) const;  // one output's weights as f32

 private:
  struct Free {
    void operator()(std::byte* p) const;
  };

  Packed format_ = Packed::f32;
  int64_t outputs_ = 0, inputs_ = 0, tile_bytes_ = 0;
  std::unique_ptr<std::byte[], Free> data_;
  std::vector<float> scales_;  // I8, FP8: padded to whole tiles
};

Result<Packed> packed_named(std::string_view name);
Result<Packed> packed_of_gguf(int32_t number);

// Where a code and the scales of a group lie inside a tile.
struct TileAt {
  int64_t codes, scales, supers;
};
TileAt tile_at(const PackedFormat& f, int64_t group);

}  // namespace trine::host
