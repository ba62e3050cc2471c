// MLIR bytecode of versions 1 to 6, as docs/BytecodeFormat.md of MLIR describes it.
#include "front/stablehlo/bytecode/container.h"

#include <algorithm>
#include <array>
#include <optional>

namespace trine::front::stablehlo {

namespace {

constexpr uint64_t kVersionMin = 1, kVersionMax = 6;
constexpr uint64_t kOpCount = 4;           // version from which the op table begins with its size
constexpr uint64_t kNativeProperties = 5;  // version from which op names carry a flag and properties exist

constexpr std::array<std::string_view, 9> kSectionNames = {"string",  "dialect",  "attribute",       "attribute offset",
                                                           "IR",      "resource", "resource offset", "dialect version",
                                                           "property"};
enum : int { kStrings, kDialects, kAttrs, kAttrOffsets, kIr, kResources, kResourceOffsets, kVersions, kProperties };

using Sections = std::array<std::optional<Bytes>, kSectionNames.size()>;

Result<Sections> read_sections(Bytes from) {
  Sections found;
  while (from.left() > 0) {
    const Bytes before = from;
    const Section section = TRY(read_section(from));
    if (found[size_t(section.id)]) return before.error(cat("a second ", kSectionNames[size_t(section.id)], " section"));
    found[size_t(section.id)] = section.bytes;
  }
  for (int id : {kStrings, kDialects, kAttrs, kAttrOffsets, kIr})
    if (!found[size_t(id)]) return from.error(cat("the file has no ", kSectionNames[size_t(id)], " section"));
  return found;
}

Result<void> read_strings(Container& out, Bytes from) {
  const uint64_t n = TRY(from.count("the number of strings"));
  std::vector<uint64_t> sizes(n);
  uint64_t total = 0;
  for (size_t i = n; i-- > 0;) {  // lengths are stored last first
    sizes[i] = TRY(from.count("a string's length"));
    total += sizes[i];
  }
  if (n > 0 && total != from.left())
    return from.error(cat("strings of ", total, " bytes, but the section has ", from.left()));
  for (size_t i = 0; i < n; ++i) {
    const std::string_view text = TRY(from.take(sizes[i], "a string")).rest();
    if (text.empty() || text.back() != '\0') return from.error("a string without its zero byte");
    out.strings.push_back(text.substr(0, text.size() - 1));
  }
  return {};
}

// Calls f(dialect, cursor) for each entry of groups "dialect, count, entries", until `total` are read (or the end).
template <class F>
Result<void> read_groups(Bytes& from, const Container& out, std::optional<uint64_t> total, F f) {
  uint64_t seen = 0;
  while (total ? seen < *total : from.left() > 0) {
    const uint64_t dialect = TRY(from.below(out.dialects.size(), "a dialect's number"));
    const uint64_t n = TRY(from.count("the size of a dialect's group"));
    if (n == 0 || (total && n > *total - seen)) return from.error(cat("a dialect's group of ", n, " entries"));
    for (uint64_t i = 0; i < n; ++i) TRY(f(out.dialects[dialect], from));
    seen += n;
  }
  return {};
}

Result<void> read_dialects(Container& out, Bytes from) {
  const uint64_t n = TRY(from.count("the number of dialects"));
  for (uint64_t i = 0; i < n; ++i) {
    const Flagged name = TRY(from.flagged("a dialect's name"));
    if (name.value >= out.strings.size()) return from.error(cat("a dialect named by string ", name.value));
    out.dialects.push_back(out.strings[name.value]);
    if (!name.flag) continue;
    const Section versions = TRY(read_section(from));
    if (versions.id != kVersions) return from.error("expected a dialect version section");
  }
  if (out.version >= kOpCount) TRY(from.count("the number of op names"));
  return read_groups(from, out, std::nullopt, [&](std::string_view dialect, Bytes& at) -> Result<void> {
    uint64_t name = TRY(at.varint("an op's name"));
    if (out.version >= kNativeProperties) name >>= 1;  // whether the writer knew the op
    if (name >= out.strings.size()) return at.error(cat("an op named by string ", name));
    out.ops.push_back({dialect, out.strings[name]});
    return {};
  });
}

Result<void> read_entries(Container& out, Bytes offsets, Bytes data) {
  const uint64_t attrs = TRY(offsets.count("the number of attributes"));
  const uint64_t types = TRY(offsets.count("the number of types"));
  for (auto [list, n] : {std::pair{&out.attrs, attrs}, std::pair{&out.types, types}}) {
    TRY(read_groups(offsets, out, n, [&, into = list](std::string_view dialect, Bytes& at) -> Result<void> {
      const Flagged size = TRY(at.flagged("the size of an attribute or type"));
      into->push_back({dialect, TRY(data.take(size.value, "an attribute or type")), size.flag});
      return {};
    }));
  }
  if (offsets.left() > 0) return offsets.error("bytes after the last attribute's size");
  return {};
}

Result<void> read_properties(Container& out, Bytes from) {
  const uint64_t n = TRY(from.count("the number of property sets"));
  for (uint64_t i = 0; i < n; ++i) {
    const uint64_t size = TRY(from.varint("the size of a property set"));
    out.properties.push_back(TRY(from.take(size, "a property set")));
  }
  return {};
}

// A blob begins with its alignment and size; padding brings it to that alignment in the file.
Result<std::string_view> read_blob(Bytes from) {
  const uint64_t alignment = TRY(from.varint("a resource's alignment"));
  const uint64_t size = TRY(from.varint("a resource's size"));
  if (alignment == 0 || (alignment & (alignment - 1)) != 0) return from.error(cat("an alignment of ", alignment));
  if (size > from.left()) return from.error(cat("a resource of ", size, " bytes in ", from.left()));
  const uint64_t padding = from.left() - size;
  if (padding >= alignment) return from.error(cat(padding, " bytes of padding to an alignment of ", alignment));
  TRY(from.take(padding, "padding"));
  return from.rest();
}

Result<void> read_resources(Container& out, Bytes offsets, Bytes data) {
  enum : uint8_t { kBlob, kBool, kString };
  auto one = [&](Bytes& at, bool keep) -> Result<void> {
    const uint64_t name = TRY(at.below(out.strings.size(), "a resource's name"));
    const uint64_t size = TRY(at.varint("a resource's size"));
    const uint8_t kind = TRY(at.byte("a resource's kind"));
    const Bytes bytes = TRY(data.take(size, "a resource"));
    if (!keep) return {};
    out.resources.push_back({out.strings[name], {}});
    if (size > 0 && kind == kBlob) out.resources.back().blob = TRY(read_blob(bytes));
    return {};
  };
  const uint64_t external = TRY(offsets.count("the number of external resource groups"));
  for (uint64_t g = 0; g < external; ++g) {
    TRY(offsets.below(out.strings.size(), "a resource group's name"));
    const uint64_t n = TRY(offsets.count("the size of a resource group"));
    for (uint64_t i = 0; i < n; ++i) TRY(one(offsets, false));
  }
  return read_groups(offsets, out, std::nullopt, [&](std::string_view, Bytes& at) { return one(at, true); });
}

}  // namespace

bool Container::has_dialect(std::string_view name) const {
  return std::find(dialects.begin(), dialects.end(), name) != dialects.end();
}

Result<Section> read_section(Bytes& from) {
  const Bytes before = from;
  const uint8_t head = TRY(from.byte("a section"));
  const int id = head & 0x7f;
  if (size_t(id) >= kSectionNames.size())
    return before.error(cat("a section of kind ", id, "; the last known is ", kSectionNames.size() - 1));
  const uint64_t size = TRY(from.varint("a section's size"));
  if ((head & 0x80) != 0) {
    const uint64_t alignment = TRY(from.varint("a section's alignment"));
    if (alignment == 0 || (alignment & (alignment - 1)) != 0) return before.error(cat("an alignment of ", alignment));
    while (from.offset() % alignment != 0)
      if (TRY(from.byte("padding")) != 0xCB) return before.error("padding that is not 0xCB");
  }
  return Section{id, TRY(from.take(size, cat("the ", kSectionNames[size_t(id)], " section")))};
}

Result<Container> read_container(std::string_view bytes) {
  Bytes from(bytes, 0);
  if (!bytes.starts_with(kBytecodeMagic)) return from.error("MLIR bytecode begins with 4D 4C EF 52");
  TRY(from.take(kBytecodeMagic.size(), "the magic number"));
  Container out;
  const Bytes before = from;
  out.version = TRY(from.varint("the bytecode's version"));
  if (out.version < kVersionMin || out.version > kVersionMax) {
    Error e =
        before.error(cat("bytecode version ", out.version, "; this reader knows ", kVersionMin, " to ", kVersionMax));
    e.code = Code::unsupported;
    return e;
  }
  out.producer = TRY(from.until_zero("the producer's name"));
  const Sections sections = TRY(read_sections(from));
  TRY(read_strings(out, *sections[kStrings]));
  TRY(read_dialects(out, *sections[kDialects]));
  TRY(read_entries(out, *sections[kAttrOffsets], *sections[kAttrs]));
  if (sections[kProperties]) TRY(read_properties(out, *sections[kProperties]));
  if (sections[kResourceOffsets]) {
    if (!sections[kResources]) return from.error("resource offsets without resources");
    TRY(read_resources(out, *sections[kResourceOffsets], *sections[kResources]));
  }
  out.ir = *sections[kIr];
  return out;
}

}  // namespace trine::front::stablehlo
