// Bytes as text of 64 letters (RFC 4648), for payloads inside StableHLO's attributes.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace trine {

std::string to_base64(std::span<const std::byte> bytes);
std::optional<std::vector<std::byte>> from_base64(std::string_view text);  // nothing where it is no base64

}  // namespace trine
