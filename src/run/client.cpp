// Makes the devices of an instance.
#include "run/client.h"

#include <algorithm>

#include "base/pool.h"
#include "base/text.h"

namespace trine::run {

Client::Client(ClientOptions options)
    : options_(std::move(options)),
      turns_(ThreadPool::process().threads()),
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
  for (DevicePlace& place : device_places(instance, client->lnc())) {
    if (!visible.empty() && std::find(visible.begin(), visible.end(), place.id) == visible.end()) continue;
    client->devices_.push_back(std::make_unique<Device>(instance, client->lnc(), std::move(place)));
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
