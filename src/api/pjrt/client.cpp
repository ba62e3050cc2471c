// The client: the devices of the chosen machine. Options of JAX's: "instance", "lnc".
#include <algorithm>

#include "api/pjrt/calls.h"
#include "base/text.h"

namespace trine::api::pjrt {

namespace {

Result<MachineChoice> choice_of(const ClientCreateArgs& args) {
  MachineChoice choice;
  for (size_t i = 0; i < args.num_options; ++i) {
    const NamedValue& option = args.create_options[i];
    const std::string_view name(option.name, option.name_size);
    const std::string value = option.type == NamedValueType::string
                                  ? std::string(option.string_value, option.value_size)
                              : option.type == NamedValueType::int64 ? std::to_string(option.int64_value)
                                                                     : std::string();
    if (name == "instance")
      choice.instance = value;
    else if (name == "lnc")
      choice.lnc = value;
    else
      return fail(Code::invalid, cat("no client option \"", name, "\"; there are instance and lnc"));
  }
  return choice;
}

std::unique_ptr<Device> make_device(Client& client, run::Device& device) {
  std::unique_ptr<Device> out(new Device{.device = &device,
                                         .client = &client,
                                         .description = DeviceDescription(client.machine, device.place()),
                                         .memory = {}});
  out->memory = {out.get(), device.id(), cat("HBM of ", out->description.debug_text)};
  out->memories[0] = &out->memory;
  out->self[0] = out.get();
  return out;
}

Result<std::unique_ptr<Client>> make_client(const ClientCreateArgs& args) {
  auto client = std::make_unique<Client>();
  client->machine = TRY(choose_machine(TRY(choice_of(args))));
  client->client = TRY(run::Client::make({.instance = std::make_shared<arch::Instance>(client->machine.instance),
                                          .lnc = client->machine.lnc,
                                          .visible = TRY(visible_cores(client->machine))}));
  for (run::Device* device : client->client->devices()) {
    client->devices.push_back(make_device(*client, *device));
    client->device_pointers.push_back(client->devices.back().get());
    client->memory_pointers.push_back(&client->devices.back()->memory);
  }
  client->topology = std::make_unique<TopologyDescription>(client->machine);
  return client;
}

}  // namespace

Device* Client::find(const run::Device& device) const {
  return *std::find_if(device_pointers.begin(), device_pointers.end(), [&](Device* d) { return d->device == &device; });
}

ErrorHandle* client_create(ClientCreateArgs* args) {
  auto made = make_client(*args);
  if (!made) return make_error(made.error());
  args->client = made->release();
  return nullptr;
}
ErrorHandle* client_destroy(ClientDestroyArgs* args) {
  delete args->client;
  return nullptr;
}
ErrorHandle* client_platform_name(ClientPlatformNameArgs* args) {
  args->platform_name = kPlatform.data();
  args->platform_name_size = kPlatform.size();
  return nullptr;
}
ErrorHandle* client_process_index(ClientProcessIndexArgs* args) {
  args->process_index = 0;
  return nullptr;
}
ErrorHandle* client_platform_version(ClientPlatformVersionArgs* args) {
  args->platform_version = args->client->topology->version.data();
  args->platform_version_size = args->client->topology->version.size();
  return nullptr;
}
ErrorHandle* client_topology_description(ClientTopologyDescriptionArgs* args) {
  args->topology = args->client->topology.get();
  return nullptr;
}
ErrorHandle* client_devices(ClientDevicesArgs* args) {
  args->devices = args->client->device_pointers.data();
  args->num_devices = args->client->device_pointers.size();
  return nullptr;
}
ErrorHandle* client_addressable_devices(ClientAddressableDevicesArgs* args) {
  args->addressable_devices = args->client->device_pointers.data();
  args->num_addressable_devices = args->client->device_pointers.size();
  return nullptr;
}

static ErrorHandle* look_up(const Client& client, int id, Device*& device) {
  auto found = client.client->find_device(id);
  if (!found) return make_error(found.error());
  device = client.find(**found);
  return nullptr;
}
ErrorHandle* client_lookup_device(ClientLookupDeviceArgs* args) {
  return look_up(*args->client, args->id, args->device);
}
ErrorHandle* client_lookup_addressable_device(ClientLookupAddressableDeviceArgs* args) {
  return look_up(*args->client, args->local_hardware_id, args->addressable_device);
}
ErrorHandle* client_addressable_memories(ClientAddressableMemoriesArgs* args) {
  args->addressable_memories = args->client->memory_pointers.data();
  args->num_addressable_memories = args->client->memory_pointers.size();
  return nullptr;
}
ErrorHandle* client_default_device_assignment(ClientDefaultDeviceAssignmentArgs* args) {
  const size_t count = size_t(args->num_replicas) * size_t(args->num_partitions);
  const auto& devices = args->client->device_pointers;
  if (count > devices.size() || count > args->default_assignment_size)
    return make_error(fail(Code::invalid, cat("a program for ", count, " devices, but there are ", devices.size())));
  for (size_t i = 0; i < count; ++i) args->default_assignment[i] = devices[i]->description.id;
  return nullptr;
}
// Device memory is this machine's: there is nothing to pin.
ErrorHandle* client_dma_map(ClientDmaMapArgs*) { return nullptr; }
ErrorHandle* client_dma_unmap(ClientDmaUnmapArgs*) { return nullptr; }

}  // namespace trine::api::pjrt
