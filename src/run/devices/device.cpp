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

std::vector<DeviceInfo> device_infos(const arch::Instance& instance, int64_t lnc, int64_t nodes) {
  std::vector<DeviceInfo> out;
  const int64_t per_chip = instance.chip->cores / lnc;
  for (int64_t node = 0; node < nodes; ++node)
    for (int64_t chip = 0; chip < instance.chips; ++chip)
      for (int64_t core = 0; core < per_chip; ++core) {
        std::vector<int64_t> at = coordinates(instance, chip);
        if (nodes > 1) at.push_back(node);
        out.push_back({.id = int(out.size()), .node = node, .chip = chip, .core = core, .coordinates = std::move(at)});
      }
  return out;
}

Device::Device(const arch::Instance& instance, int64_t lnc, DeviceInfo info, bool is_here)
    : info_(std::move(info)),
      kind_(cat("NC_v", instance.chip->generation)),
      name_(cat("neuron:", info_.id, " (", instance.name, info_.node > 0 ? cat(" ", info_.node) : "", ", chip ",
                info_.chip, ", core ", info_.core, is_here ? "" : cat(", of process ", info_.process), ")")),
      memories_{Memory::make(name_, is_here ? instance.chip->hbm.bytes / instance.chip->cores * lnc : 0)} {
  for (size_t k = 1; k < memories_.size(); ++k)
    memories_[k] = Memory::make(cat(run::name(MemoryKind(k)), " of ", name_), is_here ? INT64_MAX : 0);
}

void Device::publish(std::shared_ptr<Page> page, size_t core) {
  page_ = std::move(page);
  page_core_ = core;
  counters_ = &page_->core(core);
  memory().publish(page_, core);
}

}  // namespace trine::run
