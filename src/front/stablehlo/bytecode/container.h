// The frame of an MLIR bytecode file: header, sections, tables of strings, dialects, op names, attributes, types,
// properties and resources. What the entries mean is read elsewhere; here they are only found and bounded.
#pragma once

#include <string_view>
#include <vector>

#include "base/result.h"
#include "front/stablehlo/bytecode/bytes.h"

namespace trine::front::stablehlo {

inline constexpr std::string_view kBytecodeMagic = "ML\xefR";

struct OpName {
  std::string_view dialect = {}, name = {};
};

struct Entry {  // an attribute or a type, not yet read
  std::string_view dialect = {};
  Bytes bytes = {};
  bool custom = false;  // its dialect's own encoding, else text
};

struct Resource {
  std::string_view name = {};
  std::string_view blob = {};  // empty where the file has only the name
};

struct Container {
  uint64_t version = 0;  // of MLIR's bytecode
  std::string_view producer = {};
  std::vector<std::string_view> strings = {};
  std::vector<std::string_view> dialects = {};
  std::vector<OpName> ops = {};
  std::vector<Entry> attrs = {}, types = {};
  std::vector<Bytes> properties = {};
  std::vector<Resource> resources = {};  // of dialects, in the order handles count them
  Bytes ir = {};

  bool has_dialect(std::string_view name) const;
};

// Everything points into `bytes`.
Result<Container> read_container(std::string_view bytes);

struct Section {
  int id = 0;
  Bytes bytes = {};
};
inline constexpr int kIrSection = 4;
Result<Section> read_section(Bytes& from);

}  // namespace trine::front::stablehlo
