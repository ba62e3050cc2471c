// A compiled graph as bytes: its Program, and beside it how inputs are prepared. What the cache keeps and .trn files
// begin with. Invariant: bytes that are read without error are safe to prepare inputs by.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/format/json.h"
#include "compile/device/device.h"

namespace trine::compile {

// A graph's text, read and verified; and back.
Result<ir::Graph> read_graph(std::string_view text, std::string_view name);
std::string graph_text(const ir::Graph& graph);

// JSON of the section `loading`; parse_inputs() is its inverse.
Json inputs_json(const std::vector<DeviceInput>& inputs);
Result<std::vector<DeviceInput>> parse_inputs(const Json& json);

std::string artifact_bytes(const DeviceProgram& made);
// `owner` keeps the bytes alive, which constants then stay in.
Result<DeviceProgram> parse_artifact(std::span<const std::byte> bytes, std::string_view name,
                                     std::shared_ptr<const void> owner);

}  // namespace trine::compile
