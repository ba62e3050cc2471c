// Devices, their descriptions and memories, and topologies: what a machine is, without anything running.
#include "api/numerics.h"
#include "api/pjrt/calls.h"
#include "base/text.h"

namespace trine::api::pjrt {

namespace {

void give(const std::string& text, const char*& data, size_t& size) {
  data = text.data();
  size = text.size();
}

}  // namespace

DeviceDescription::DeviceDescription(const Machine& machine, const run::DeviceInfo& info)
    : id(info.id), process(info.process), kind(cat("NC_v", machine.chip().generation)) {
  text = cat("neuron:", id);
  debug_text = cat("NeuronCore ", id, " (", kind, ", chip ", info.chip, ", core ", info.core, " of ",
                   machine.instance.name, ")");
  attributes.add("coords", info.coordinates);
  attributes.add("chip", info.chip);
  attributes.add("core_on_chip", info.core);
  attributes.add("instance", machine.instance.name);
  attributes.add("hbm_bytes", machine.chip().hbm.bytes / machine.chip().cores * machine.lnc);
  attributes.add("logical_nc_config", machine.lnc);
}

bool Device::is_here() const { return client->client->is_here(*device); }

TopologyDescription::TopologyDescription(Machine chosen) : machine(std::move(chosen)) {
  for (const run::DeviceInfo& info : run::device_infos(machine.instance, machine.lnc)) {
    descriptions.push_back(std::make_unique<DeviceDescription>(machine, info));
    pointers.push_back(descriptions.back().get());
  }
  version = cat("trine ", TRINE_VERSION, ", ", machine.instance.name);
  // JAX's persistent cache tells programs apart by this text. What is wrong with it is said when a program is compiled.
  if (const auto numerics = numerics_from_environment(); numerics && !numerics_text(*numerics).empty())
    version += cat(", ", numerics_text(*numerics));
  attributes.add("instance", machine.instance.name);
  attributes.add("logical_nc_config", machine.lnc);
}

ErrorHandle* device_description_id(DeviceDescriptionIdArgs* args) {
  args->id = args->device_description->id;
  return nullptr;
}
ErrorHandle* device_description_process_index(DeviceDescriptionProcessIndexArgs* args) {
  args->process_index = args->device_description->process;
  return nullptr;
}
ErrorHandle* device_description_attributes(DeviceDescriptionAttributesArgs* args) {
  args->attributes = args->device_description->attributes.data();
  args->num_attributes = args->device_description->attributes.size();
  return nullptr;
}
ErrorHandle* device_description_kind(DeviceDescriptionKindArgs* args) {
  give(args->device_description->kind, args->device_kind, args->device_kind_size);
  return nullptr;
}
ErrorHandle* device_description_debug_string(DeviceDescriptionDebugStringArgs* args) {
  give(args->device_description->debug_text, args->debug_string, args->debug_string_size);
  return nullptr;
}
ErrorHandle* device_description_to_string(DeviceDescriptionToStringArgs* args) {
  give(args->device_description->text, args->to_string, args->to_string_size);
  return nullptr;
}

ErrorHandle* device_get_description(DeviceGetDescriptionArgs* args) {
  args->device_description = &args->device->description;
  return nullptr;
}
ErrorHandle* device_is_addressable(DeviceIsAddressableArgs* args) {
  args->is_addressable = args->device->is_here();
  return nullptr;
}
ErrorHandle* device_local_hardware_id(DeviceLocalHardwareIdArgs* args) {
  args->local_hardware_id = args->device->description.id;
  return nullptr;
}
ErrorHandle* device_addressable_memories(DeviceAddressableMemoriesArgs* args) {
  args->memories = args->device->memory_pointers.data();
  args->num_memories = args->device->memory_pointers.size();
  return nullptr;
}
ErrorHandle* device_default_memory(DeviceDefaultMemoryArgs* args) {
  args->memory = args->device->memory();
  return nullptr;
}
ErrorHandle* device_memory_stats(DeviceMemoryStatsArgs* args) {
  const run::MemoryStats stats = args->device->device->memory().stats();
  args->bytes_in_use = stats.in_use_bytes;
  args->peak_bytes_in_use = stats.peak_bytes;
  args->peak_bytes_in_use_is_set = true;
  args->num_allocs = stats.allocations;
  args->num_allocs_is_set = true;
  args->largest_alloc_size = stats.largest_bytes;
  args->largest_alloc_size_is_set = true;
  args->bytes_limit = stats.limit_bytes;
  args->bytes_limit_is_set = true;
  args->largest_free_block_bytes = stats.limit_bytes - stats.in_use_bytes;
  args->largest_free_block_bytes_is_set = true;
  args->bytes_reservable_limit = stats.limit_bytes;
  args->bytes_reservable_limit_is_set = true;
  args->bytes_reserved_is_set = args->peak_bytes_reserved_is_set = false;
  args->pool_bytes_is_set = args->peak_pool_bytes_is_set = false;
  return nullptr;
}

ErrorHandle* memory_id(MemoryIdArgs* args) {
  args->id = args->memory->id;
  return nullptr;
}
ErrorHandle* memory_kind(MemoryKindArgs* args) {
  const std::string_view kind = run::name(args->memory->kind);
  args->kind = kind.data();
  args->kind_size = kind.size();
  return nullptr;
}
ErrorHandle* memory_kind_id(MemoryKindIdArgs* args) {
  args->kind_id = int(args->memory->kind);
  return nullptr;
}
ErrorHandle* memory_debug_string(MemoryDebugStringArgs* args) {
  give(args->memory->text, args->debug_string, args->debug_string_size);
  return nullptr;
}
ErrorHandle* memory_to_string(MemoryToStringArgs* args) {
  give(args->memory->text, args->to_string, args->to_string_size);
  return nullptr;
}
ErrorHandle* memory_addressable_by_devices(MemoryAddressableByDevicesArgs* args) {
  args->devices = args->memory->device->self;
  args->num_devices = 1;
  return nullptr;
}

// A topology is named by an instance: "trn2.48xlarge", or "trn2.48xlarge:lnc=1".
static Result<std::unique_ptr<TopologyDescription>> make_topology(std::string_view name) {
  const size_t colon = name.find(":lnc=");
  MachineChoice choice{.instance = std::string(name.substr(0, colon))};
  if (colon != std::string_view::npos) choice.lnc = name.substr(colon + 5);
  return std::make_unique<TopologyDescription>(TRY(choose_machine(choice)));
}

ErrorHandle* topology_create(TopologyDescriptionCreateArgs* args) {
  auto made = make_topology({args->topology_name, args->topology_name_size});
  if (!made) return make_error(made.error());
  args->topology = made->release();
  return nullptr;
}
ErrorHandle* topology_destroy(TopologyDescriptionDestroyArgs* args) {
  delete args->topology;
  return nullptr;
}
ErrorHandle* topology_platform_name(TopologyDescriptionPlatformNameArgs* args) {
  args->platform_name = kPlatform.data();
  args->platform_name_size = kPlatform.size();
  return nullptr;
}
ErrorHandle* topology_platform_version(TopologyDescriptionPlatformVersionArgs* args) {
  give(args->topology->version, args->platform_version, args->platform_version_size);
  return nullptr;
}
ErrorHandle* topology_get_device_descriptions(TopologyDescriptionGetDeviceDescriptionsArgs* args) {
  args->descriptions = args->topology->pointers.data();
  args->num_descriptions = args->topology->pointers.size();
  return nullptr;
}
ErrorHandle* topology_serialize(TopologyDescriptionSerializeArgs* args) {
  const Machine& machine = args->topology->machine;
  args->serialized_topology = make_text(cat(machine.instance.name, ":lnc=", machine.lnc));
  args->serialized_topology_deleter = free_text;
  give(args->serialized_topology->bytes, args->serialized_bytes, args->serialized_bytes_size);
  return nullptr;
}
ErrorHandle* topology_deserialize(TopologyDescriptionDeserializeArgs* args) {
  auto made = make_topology({args->serialized_topology, args->serialized_topology_size});
  if (!made) return make_error(made.error());
  args->topology = made->release();
  return nullptr;
}
ErrorHandle* topology_attributes(TopologyDescriptionAttributesArgs* args) {
  args->attributes = args->topology->attributes.data();
  args->num_attributes = args->topology->attributes.size();
  return nullptr;
}

}  // namespace trine::api::pjrt
