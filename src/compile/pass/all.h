// All passes of all pipelines, as rows that no state is needed to read: for lists, for the page of passes and for the
// check of their order.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace trine::compile {

struct PassRow {
  std::string_view pipeline = {}, name = {}, needs = {}, leaves = {}, form = {}, help = {};
  bool is_stage = false;
};

std::vector<PassRow> all_passes();  // graph, host, device, stream; each in its order
// Is it one of them, or `all`? The error names the nearest.
Result<void> check_pass_name(std::string_view name);

// The pipelines one after the other, as a program goes through them: what a pass needs is left by one before it.
inline constexpr std::string_view kHostPipelines[] = {"graph", "host"};
inline constexpr std::string_view kDevicePipelines[] = {"graph", "device", "stream"};
Result<void> check_pass_order(std::span<const PassRow> rows, std::span<const std::string_view> pipelines);

}  // namespace trine::compile
