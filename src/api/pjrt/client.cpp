// The client: the devices of the chosen machine. Options of JAX's: "instance", "lnc"; from jax.distributed "node_id"
// and "num_nodes", with a store of texts in which processes find each other.
#include <algorithm>
#include <cstdlib>

#include "api/limits.h"
#include "api/pjrt/calls.h"
#include "api/publish.h"
#include "api/recording.h"
#include "base/text.h"
#include "run/devices/sockets.h"

namespace trine::api::pjrt {

namespace {

struct ClientChoice {
  MachineChoice machine = {};
  int process = 0, processes = 1;
};

Result<ClientChoice> choice_of(const ClientCreateArgs& args) {
  ClientChoice choice;
  for (size_t i = 0; i < args.num_options; ++i) {
    const NamedValue& option = args.create_options[i];
    const std::string_view name(option.name, option.name_size);
    const std::string value = option.type == NamedValueType::string
                                  ? std::string(option.string_value, option.value_size)
                              : option.type == NamedValueType::int64 ? std::to_string(option.int64_value)
                                                                     : std::string();
    if (name == "instance")
      choice.machine.instance = value;
    else if (name == "lnc")
      choice.machine.lnc = value;
    else if (name == "node_id")
      choice.process = int(option.int64_value);
    else if (name == "num_nodes")
      choice.processes = int(option.int64_value);
    else
      return fail(Code::invalid,
                  cat("no client option \"", name, "\"; there are instance, lnc, node_id and num_nodes"));
  }
  return choice;
}

// The caller's store of texts.
class CallersBoard : public run::Board {
 public:
  explicit CallersBoard(const ClientCreateArgs& args) : args_(args) {}

  Result<void> put(const std::string& key, const std::string& text) override {
    KeyValuePutCallbackArgs put{};
    put.struct_size = sizeof(put);
    put.key = key.data();
    put.key_size = key.size();
    put.value = text.data();
    put.value_size = text.size();
    put.callback_error = &on_error_;
    put.user_arg = args_.kv_put_user_arg;
    return outcome(args_.kv_put_callback(&put));
  }
  Result<std::string> get(const std::string& key, int timeout_ms) override {
    KeyValueGetCallbackArgs get{};
    get.struct_size = sizeof(get);
    get.key = key.data();
    get.key_size = key.size();
    get.timeout_in_ms = timeout_ms;
    get.callback_error = &on_error_;
    get.user_arg = args_.kv_get_user_arg;
    TRY(outcome(args_.kv_get_callback(&get)));
    std::string out(get.value, get.value_size);
    if (get.value_deleter_callback) get.value_deleter_callback(get.value);
    return out;
  }

 private:
  static ErrorHandle* make(ErrorCode code, const char* message, size_t size) {
    return make_error(fail(code_from(code), std::string(message, size)));
  }
  static Result<void> outcome(ErrorHandle* made) {
    const std::unique_ptr<ErrorHandle> error(made);
    if (error) return error->error;
    return {};
  }

  const ClientCreateArgs& args_;
  CallbackError on_error_ = make;
};

// The machine of each process, counted from 0: those that reach each other by names of one machine are on it.
Result<std::vector<int>> meet(run::Board& board, const ClientChoice& choice, const Machine& machine) {
  constexpr int kMeetMs = 120'000;
  const auto about = [&](std::string_view where) { return cat(where, " ", machine.instance.name, " ", machine.lnc); };
  const std::string mine = about(run::machine_identity());
  TRY(board.put(cat("trine/machine/", choice.process), mine));
  std::vector<std::string> known;
  std::vector<int> out;
  for (int p = 0; p < choice.processes; ++p) {
    const auto text = p == choice.process ? Result<std::string>(mine) : board.get(cat("trine/machine/", p), kMeetMs);
    if (!text)
      return fail(Code::io, cat("process ", p, " of ", choice.processes, " did not come: ", text.error().message));
    const std::string where = text->substr(0, text->find(' '));
    if (*text != about(where))
      return fail(Code::invalid, cat("process ", p, " is on ",
                                     std::string_view(*text).substr(std::min(text->size(), where.size() + 1)),
                                     " (instance, physical cores in a logical one), process ", choice.process, " on ",
                                     machine.instance.name, " ", machine.lnc, ": all must have the same"));
    const auto found = std::find(known.begin(), known.end(), where);
    out.push_back(int(found - known.begin()));
    if (found == known.end()) known.push_back(where);
  }
  return out;
}

// The devices of the machines, shared out among the processes of a job.
Result<run::ClientOptions> share_out(const Machine& machine, const ClientChoice& choice, const ClientCreateArgs& args) {
  run::ClientOptions out{.instance = std::make_shared<arch::Instance>(machine.instance), .lnc = machine.lnc};
  if (choice.processes == 1) {
    out.visible = TRY(process_cores(machine, 0, std::vector<int>{0}));
    return out;
  }
  if (!args.kv_get_callback || !args.kv_put_callback)
    return fail(Code::invalid, "several processes, but no store to meet in: call jax.distributed.initialize first");
  if (choice.processes < 1 || choice.process < 0 || choice.process >= choice.processes)
    return fail(Code::invalid, cat("process ", choice.process, " of ", choice.processes));
  CallersBoard board(args);
  const std::vector<int> nodes = TRY(meet(board, choice, machine));
  const int64_t cores = machine.instance.cores() / machine.lnc;
  std::string mine;
  for (const int core : TRY(process_cores(machine, choice.process, nodes)))
    mine += cat(mine.empty() ? "" : " ", nodes[size_t(choice.process)] * cores + core);
  out.nodes = *std::max_element(nodes.begin(), nodes.end()) + 1;
  out.peers = TRY(run::Peers::connect(board, choice.process, choice.processes, std::move(mine)));
  for (int p = 0; p < choice.processes; ++p) {
    for (const std::string_view id : split(out.peers->about()[size_t(p)], ' ')) {
      const int core = std::atoi(std::string(id).c_str());
      const auto known = std::find(out.visible.begin(), out.visible.end(), core);
      if (known != out.visible.end())
        return fail(Code::invalid, cat("core ", core, " is used by process ",
                                       out.owners[size_t(known - out.visible.begin())], " and by process ", p));
      out.visible.push_back(core);
      out.owners.push_back(p);
    }
  }
  return out;
}

std::unique_ptr<Device> make_device(Client& client, run::Device& device) {
  std::unique_ptr<Device> out(new Device{
      .device = &device, .client = &client, .description = DeviceDescription(client.machine, device.info())});
  constexpr size_t kKinds = size_t(run::MemoryKind::count);
  for (size_t k = 0; k < kKinds; ++k) {
    const auto kind = run::MemoryKind(k);
    const std::string what = k == 0 ? "HBM" : std::string(run::name(kind));
    out->memories[k] = {out.get(), kind, device.id() * int(kKinds) + int(k),
                        cat(what, " of ", out->description.debug_text)};
    out->memory_pointers[k] = &out->memories[k];
  }
  out->self[0] = out.get();
  return out;
}

Result<std::unique_ptr<Client>> make_client(const ClientCreateArgs& args) {
  auto client = std::make_unique<Client>();
  const ClientChoice choice = TRY(choice_of(args));
  client->machine = TRY(choose_machine(choice.machine));
  run::ClientOptions shares = TRY(share_out(client->machine, choice, args));
  shares.page = page_options("jax");
  client->client = TRY(run::Client::make(std::move(shares)));
  for (run::Device* device : client->client->devices()) {
    client->devices.push_back(make_device(*client, *device));
    Device* made = client->devices.back().get();
    client->device_pointers.push_back(made);
    if (!made->is_here()) continue;
    client->here.push_back(made);
    client->memory_pointers.insert(client->memory_pointers.end(), made->memory_pointers.begin(),
                                   made->memory_pointers.end());
  }
  client->topology = std::make_unique<TopologyDescription>(client->machine);
  return client;
}

}  // namespace

Device* Client::find(const run::Device& device) const {
  return *std::find_if(device_pointers.begin(), device_pointers.end(), [&](Device* d) { return d->device == &device; });
}

ErrorHandle* client_create(ClientCreateArgs* args) {
  if (const auto set = set_limits_from_environment(); !set) return make_error(set.error());
  record_runs_from_environment("jax");
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
  args->process_index = args->client->client->process();
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
  args->addressable_devices = args->client->here.data();
  args->num_addressable_devices = args->client->here.size();
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
// Who is gone is seen sooner by the sockets between processes.
ErrorHandle* client_update_global_process_info(ClientUpdateGlobalProcessInfoArgs*) { return nullptr; }

}  // namespace trine::api::pjrt
