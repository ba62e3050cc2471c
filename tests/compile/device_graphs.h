// Small graphs that the device compiler's graph passes change, as text.
#pragma once

#include <string>
#include <vector>

namespace trine::compile {

struct DeviceGraph {
  std::string name = {}, text = {};
  double tolerance = 2e-5;  // of a result that passes change, relative to the larger of 1 and what it was
  int64_t room = 0;         // bytes of SBUF in a partition; 0: the chip's own
};

std::vector<DeviceGraph> device_graphs();

}  // namespace trine::compile
