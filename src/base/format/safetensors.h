// safetensors: tensors by name in one file, 8 bytes of header length, a header of JSON, then the bytes. Read where they
// lie; written in the order given. Formats that it has no name for are refused.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/tensor.h"

namespace trine {

struct NamedTensor {
  std::string name = {};
  TensorView tensor = {};  // of the file's bytes: read only
};

Result<std::string> write_safetensors(std::span<const NamedTensor> tensors);
// Views into `file`, which must stay; names in the order of the file's bytes.
Result<std::vector<NamedTensor>> read_safetensors(std::span<const std::byte> file, std::string_view name);

}  // namespace trine
