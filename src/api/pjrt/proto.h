// Fields of protobuf messages, as profiles and HLO are given to JAX.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "api/pjrt/calls.h"

namespace trine::api::pjrt {

inline void put(std::string& to, uint64_t field, uint64_t value) {
  write_varint(to, field << 3);
  write_varint(to, value);
}
inline void put(std::string& to, uint64_t field, std::string_view bytes) {
  write_varint(to, field << 3 | 2);
  write_varint(to, bytes.size());
  to += bytes;
}

}  // namespace trine::api::pjrt
