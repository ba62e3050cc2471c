// Program v1: a Program as one file that can be mapped. Little endian: a header {magic, version, sections, size,
// checksum}, a table of {kind, offset, size, checksum}, then the sections, 64-byte aligned. docs/container.md is the
// format. Invariant: same Program, same bytes; a file that is read without error passes check_structure().
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "arch/program/program.h"
#include "base/result.h"

namespace trine::arch {

inline constexpr std::string_view kProgramMagic = "TRINEPRG";
inline constexpr uint32_t kProgramVersion = 1;

enum class SectionKind : uint32_t {
  origin = 1,  // name, chip, producer, cores
  dialect,     // dtype names, and name, operands and attributes of each instruction used
  memory_map,  // tensors with their address; inputs, outputs, aliases
  strings,
  lines,       // source lines
  operands,    // operands, patterns, dynamic addresses, attributes, lists
  semaphores,  // waits, updates, steps
  streams,
  constants,     // raw bytes
  host_plan,     // reserved: the same computation for the host
  loading,       // JSON: how inputs are prepared, flags, where weights lie
  graph,         // the tensor graph's text, weights as parameters
  weights,       // safetensors
  kernel_insns,  // of a recording: engines, order and flags of each instruction
  parts,         // programs of a model that the host runs parts of, one after the other
};

// A section that the Program itself knows nothing of: kinds past host_plan.
struct Attachment {
  SectionKind kind = SectionKind::loading;
  std::span<const std::byte> bytes = {};
};

std::vector<std::byte> program_bytes(const Program& p, std::span<const Attachment> attached = {});
// Writes size and checksums into a file whose header and table are in place; false when they are not.
bool seal(std::span<std::byte> file);
Result<void> write_program(const Program& p, const std::string& path);

// Copies what it keeps, unless `owner` keeps the bytes alive: then constants stay where they are.
// attached: what else is in the file, as parts of `bytes`.
Result<Program> parse_program(std::span<const std::byte> bytes, std::string_view name,
                              std::shared_ptr<const void> owner = {}, std::vector<Attachment>* attached = nullptr);
Result<Program> read_program(const std::string& path);  // maps the file

// Container or assembly text, told apart by the magic. Instructions of a text get its lines as source lines.
Result<Program> parse_any(std::span<const std::byte> bytes, const std::string& name);
Result<Program> load_program(const std::string& path);

}  // namespace trine::arch
