// Makes the devices of an instance.
#include "run/devices/client.h"

#include <algorithm>

#include "base/pool.h"
#include "base/text.h"

namespace trine::run {

Client::Client(ClientOptions options)
    : options_(std::move(options)),
      permits_(ThreadPool::process().threads()),
      sum_orders_({options_.instance.get(), 1, options_.lnc}) {}

Result<std::unique_ptr<Client>> Client::make(ClientOptions options) {
  const arch::Instance& instance = *options.instance;
  const int64_t cores = instance.cores() / options.lnc;
  for (int id : options.visible)
    if (id < 0 || id >= cores)
      return fail(Code::out_of_range,
                  cat("core ", id, " is not there: ", instance.name, " has cores 0 to ", cores - 1));
  std::unique_ptr<Client> client(new Client(std::move(options)));
  const auto& visible = client->options_.visible;
  const auto& owners = client->options_.owners;
  for (DeviceInfo& info : device_infos(instance, client->lnc())) {
    const auto found = std::find(visible.begin(), visible.end(), info.id);
    if (!visible.empty() && found == visible.end()) continue;
    if (!owners.empty()) info.process = owners[size_t(found - visible.begin())];
    const bool is_here = info.process == client->process();
    client->devices_.push_back(std::make_unique<Device>(instance, client->lnc(), std::move(info), is_here));
    client->pointers_.push_back(client->devices_.back().get());
  }
  return client;
}

Result<Device*> Client::find_device(int id) const {
  for (Device* d : pointers_)
    if (d->id() == id) return d;
  return fail(Code::not_found, cat("device ", id, " is not one of the ", pointers_.size(), " of this client"));
}

}  // namespace trine::run
