// Made-up inputs; see random_input.h.
#include "run/drivers/random_input.h"

#include <cstring>

#include "base/number/convert.h"
#include "base/number/random.h"

namespace trine::run {

std::vector<std::byte> random_bytes(const arch::Tensor& tensor, uint64_t seed) {
  std::vector<std::byte> out(static_cast<size_t>(arch::tensor_bytes(tensor)));
  const Dtype element = row(tensor.dtype).element;  // of a packed carrier its parts
  const DtypeKind kind = row(element).kind;
  const size_t n = out.size() * 8 / static_cast<size_t>(bits(element));
  constexpr size_t kChunk = 4096;
  std::vector<uint32_t> words(kChunk);
  std::vector<float> values(kChunk);
  Rounding rounding;
  for (size_t at = 0; at < n; at += kChunk) {
    const size_t take = std::min(kChunk, n - at);
    random_fill(seed, at, words.data(), take);
    for (size_t i = 0; i < take; ++i) {
      if (kind == DtypeKind::floating)
        values[i] = static_cast<float>(static_cast<int32_t>(words[i]) >> 8) * 0x1p-23f;
      else if (kind == DtypeKind::signed_int)
        values[i] = static_cast<float>(static_cast<int>(words[i] >> 28) - 8);
      else
        values[i] = static_cast<float>(words[i] >> (kind == DtypeKind::boolean ? 31 : 29));
    }
    round_row(values.data(), out.data() + at * static_cast<size_t>(bits(element)) / 8, element, take, rounding);
  }
  return out;
}

}  // namespace trine::run
