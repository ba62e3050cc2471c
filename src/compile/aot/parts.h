// A split program as JSON and bytes: its parts in order, programs as artifacts one after the other, what the host runs
// as graph text. Invariant: parts that are read without error are safe to run on inputs of the graph's types.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/format/json.h"
#include "compile/device/device.h"

namespace trine::compile {

// The types that a split program takes and gives.
struct Signature {
  std::vector<ir::Type> inputs = {}, results = {};
};
Signature signature_of(const ir::Graph& graph);
Json signature_json(const Signature& signature);
Result<Signature> parse_signature(const Json& json);

// programs: the bytes of every program, which the JSON counts offsets in.
Json parts_json(const SplitProgram& made, std::string& programs);
// signature: of what was split, in the types that parts take. `owner` keeps the bytes alive.
Result<SplitProgram> parse_parts(const Json& json, std::span<const std::byte> programs, const Signature& signature,
                                 std::string_view name, std::shared_ptr<const void> owner);

// The part's program has what it is said to write.
Result<void> check_results(const DevicePart& part);

}  // namespace trine::compile
