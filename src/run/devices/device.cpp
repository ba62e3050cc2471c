// Devices of an instance: which chip and core each is, and what it has.
#include "run/devices/device.h"

#include "base/text.h"

namespace trine::run {

namespace {

// The chip's number counts the innermost level fastest; within a torus, the last side fastest (rows, columns).
std::vector<int64_t> coordinates(const arch::Instance& instance, int64_t chip) {
  std::vector<int64_t> out;
  for (const arch::Level& level : instance.levels) {
    int64_t in_level = chip % level.size();
    chip /= level.size();
    std::vector<int64_t> sides(level.sides.size());
    for (size_t i = level.sides.size(); i-- > 0; in_level /= level.sides[i]) sides[i] = in_level % level.sides[i];
    out.insert(out.end(), sides.begin(), sides.end());
  }
  if (out.empty()) out.push_back(0);
  return out;
}

}  // namespace

std::vector<DeviceInfo> device_infos(const arch::Instance& instance, int64_t lnc) {
  std::vector<DeviceInfo> out;
  const int64_t per_chip = instance.chip->cores / lnc;
  for (int64_t chip = 0; chip < instance.chips; ++chip)
    for (int64_t core = 0; core < per_chip; ++core)
      out.push_back({.id = int(out.size()), .chip = chip, .core = core, .coordinates = coordinates(instance, chip)});
  return out;
}

Device::Device(const arch::Instance& instance, int64_t lnc, DeviceInfo info, bool is_here)
    : info_(std::move(info)),
      kind_(cat("NC_v", instance.chip->generation)),
      name_(cat("neuron:", info_.id, " (", instance.name, ", chip ", info_.chip, ", core ", info_.core,
                is_here ? "" : cat(", of process ", info_.process), ")")),
      memories_{Memory::make(name_, is_here ? instance.chip->hbm.bytes / instance.chip->cores * lnc : 0)} {
  for (size_t k = 1; k < memories_.size(); ++k)
    memories_[k] = Memory::make(cat(run::name(MemoryKind(k)), " of ", name_), is_here ? INT64_MAX : 0);
}

}  // namespace trine::run
