// A Client: the devices of one virtual machine, as one process uses them. Several may live in a process. Devices of
// other processes are there to be named; nothing can be put on them.
#pragma once

#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "run/devices/device.h"
#include "run/devices/peers.h"
#include "run/devices/permits.h"
#include "run/devices/sum_order.h"

namespace trine::run {

struct ClientOptions {
  std::shared_ptr<const arch::Instance> instance = {};
  int64_t lnc = 1;
  int64_t nodes = 1;              // equal instances, joined by their network; device ids count over all of them
  std::vector<int> visible = {};  // ids of the devices to use; empty: all
  // Where other processes have devices of the machine: how to reach them, and the process of each visible device.
  std::unique_ptr<Peers> peers = {};
  std::vector<int> owners = {};
  PageOptions page = {};  // where its counters are published; without a folder nowhere. The cores are filled in here
};

class Client {
 public:
  static Result<std::unique_ptr<Client>> make(ClientOptions options);

  const arch::Instance& instance() const { return *options_.instance; }
  int64_t lnc() const { return options_.lnc; }
  std::span<Device* const> devices() const { return pointers_; }  // of all processes
  Result<Device*> find_device(int id) const;
  int process() const { return options_.peers ? options_.peers->process() : 0; }
  bool is_here(const Device& device) const { return device.info().process == process(); }
  Peers* peers() const { return options_.peers.get(); }
  Permits& permits() { return permits_; }
  SumOrders& sum_orders() { return sum_orders_; }
  std::mutex& launch_order() { return launch_order_; }  // held while a program is queued on several devices

 private:
  explicit Client(ClientOptions options);
  void publish();

  const ClientOptions options_;
  Permits permits_;
  SumOrders sum_orders_;
  std::mutex launch_order_;
  std::vector<std::unique_ptr<Device>> devices_;
  std::vector<Device*> pointers_;
};

}  // namespace trine::run
