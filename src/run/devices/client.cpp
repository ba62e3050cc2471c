// Makes the devices of an instance.
#include "run/devices/client.h"

#include <algorithm>

#include "base/pool.h"
#include "base/text.h"

namespace trine::run {

Client::Client(ClientOptions options)
    : options_(std::move(options)),
      permits_(ThreadPool::process().threads()),
      sum_orders_({options_.instance.get(), options_.nodes, options_.lnc}) {}

Result<std::unique_ptr<Client>> Client::make(ClientOptions options) {
  const arch::Instance& instance = *options.instance;
  const int64_t cores = options.nodes * instance.cores() / options.lnc;
  for (int id : options.visible)
    if (id < 0 || id >= cores)
      return fail(Code::out_of_range,
                  cat("core ", id, " is not there: ", instance.name, " has cores 0 to ", cores - 1));
  std::unique_ptr<Client> client(new Client(std::move(options)));
  const auto& visible = client->options_.visible;
  const auto& owners = client->options_.owners;
  for (DeviceInfo& info : device_infos(instance, client->lnc(), client->options_.nodes)) {
    const auto found = std::find(visible.begin(), visible.end(), info.id);
    if (!visible.empty() && found == visible.end()) continue;
    if (!owners.empty()) info.process = owners[size_t(found - visible.begin())];
    const bool is_here = info.process == client->process();
    client->devices_.push_back(std::make_unique<Device>(instance, client->lnc(), std::move(info), is_here));
    client->pointers_.push_back(client->devices_.back().get());
  }
  client->publish();
  return client;
}

// Who cannot publish runs all the same.
void Client::publish() {
  PageOptions page = options_.page;
  if (page.folder.empty()) return;
  page.instance = instance().name, page.lnc = lnc();
  std::vector<Device*> here;
  for (Device* d : pointers_) {
    if (!is_here(*d)) continue;
    here.push_back(d);
    page.cores.push_back({d->id(), d->info().chip, d->info().core, d->memory().stats().limit_bytes});
  }
  const auto made = Page::make(page);
  for (size_t i = 0; made && i < here.size(); ++i) here[i]->publish(*made, i);
}

Result<Device*> Client::find_device(int id) const {
  for (Device* d : pointers_)
    if (d->id() == id) return d;
  return fail(Code::not_found, cat("device ", id, " is not one of the ", pointers_.size(), " of this client"));
}

}  // namespace trine::run
