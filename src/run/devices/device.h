// A virtual device: one logical NeuronCore of the chosen instance, with its share of the chip's HBM, a queue of
// programs and counters. Owned by a Client; lives as long as it.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "arch/instances/instance.h"
#include "run/devices/memory.h"
#include "run/devices/queue.h"

namespace trine::run {

struct DeviceInfo {
  int id = 0;                             // logical core, counted over all instances
  int process = 0;                        // that owns it
  int64_t node = 0;                       // the instance, of several equal ones
  int64_t chip = 0;                       // counted over the instance
  int64_t core = 0;                       // logical, of the chip
  std::vector<int64_t> coordinates = {};  // of the chip, one per side of the topology, innermost level first
};

class Device {
 public:
  Device(const arch::Instance& instance, int64_t lnc, DeviceInfo info, bool is_here = true);

  const DeviceInfo& info() const { return info_; }
  int id() const { return info_.id; }
  const std::string& kind() const { return kind_; }  // "NC_v2"
  const std::string& name() const { return name_; }  // "neuron:3 (trn1.32xlarge, chip 1, core 1)"
  Memory& memory(MemoryKind kind = MemoryKind::device) const { return *memories_[size_t(kind)]; }
  CoreCounters& counters() { return *counters_; }
  // Where others see what happens here: the page and the core's position in it; null where nothing is published.
  Page* page() const { return page_.get(); }
  size_t page_core() const { return page_core_; }
  void publish(std::shared_ptr<Page> page, size_t core);
  Queue& queue() { return queue_; }

 private:
  const DeviceInfo info_;
  const std::string kind_, name_;
  // Shared with the storage in them, which a framework may free last.
  std::array<std::shared_ptr<Memory>, size_t(MemoryKind::count)> memories_;
  std::unique_ptr<CoreCounters> own_ = std::make_unique<CoreCounters>();
  CoreCounters* counters_ = own_.get();
  std::shared_ptr<Page> page_;
  size_t page_core_ = 0;
  Queue queue_;
};

// Where each logical core of so many equal instances is.
std::vector<DeviceInfo> device_infos(const arch::Instance& instance, int64_t lnc, int64_t nodes = 1);

}  // namespace trine::run
