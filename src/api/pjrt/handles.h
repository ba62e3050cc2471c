// What the caller's opaque pointers point to. Every object that PJRT hands out is one of these.
#pragma once

#include <array>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "api/executable.h"
#include "api/machine.h"
#include "api/pjrt/abi_executable.h"
#include "api/pjrt/layouts.h"
#include "run/devices/client.h"
#include "run/drivers/native/native.h"

namespace trine::api::pjrt {

struct ErrorHandle {
  Error error;
};

struct Event {
  run::Future future;
  std::unique_ptr<run::Promise> promise = {};  // of events the caller sets
};

struct Text {
  std::string bytes;
};

// Named values with the memory their names and values point to.
class NamedValues {
 public:
  void add(std::string_view name, std::string_view value);
  void add(std::string_view name, int64_t value);
  void add(std::string_view name, float value);
  void add(std::string_view name, std::vector<int64_t> value);

  const NamedValue* data() const { return values_.data(); }
  size_t size() const { return values_.size(); }

 private:
  NamedValue& add_one(std::string_view name, NamedValueType type, size_t size);

  std::deque<std::string> texts_;
  std::deque<std::vector<int64_t>> lists_;
  std::vector<NamedValue> values_;
};

struct DeviceDescription {
  int id = 0, process = 0;
  std::string kind, debug_text, text;
  NamedValues attributes;

  DeviceDescription(const Machine& machine, const run::DeviceInfo& info);
};

struct Memory {
  Device* device = nullptr;
  run::MemoryKind kind = run::MemoryKind::device;
  int id = 0;
  std::string text;
};

struct Device {
  run::Device* device = nullptr;
  Client* client = nullptr;
  DeviceDescription description;
  std::array<Memory, size_t(run::MemoryKind::count)> memories = {};
  std::array<Memory*, size_t(run::MemoryKind::count)> memory_pointers = {};
  Device* self[1] = {};

  Memory* memory(run::MemoryKind kind = run::MemoryKind::device) { return &memories[size_t(kind)]; }

  bool is_here() const;  // and not another process's
};

struct TopologyDescription {
  Machine machine;
  std::vector<std::unique_ptr<DeviceDescription>> descriptions;
  std::vector<DeviceDescription*> pointers;
  std::string version;
  NamedValues attributes;

  explicit TopologyDescription(Machine chosen);
};

struct Client {
  Machine machine;
  std::unique_ptr<run::Client> client;
  std::vector<std::unique_ptr<Device>> devices;
  std::vector<Device*> device_pointers, here;  // of all processes, of this one
  std::vector<Memory*> memory_pointers;
  std::unique_ptr<TopologyDescription> topology;

  Device* find(const run::Device& device) const;
};

// A tensor that is not row-major is one for run/, of the dims as they lie in memory.
struct BufferLayout {
  Dims dims, minor_to_major;  // as the caller has them
};
using BufferLayoutPtr = std::shared_ptr<const BufferLayout>;  // null: row-major

struct Executable {
  ExecutablePtr program;
  std::string compile_options;  // as the caller wrote them
  std::string hlo;              // what is shown of it; empty: the program's text is
  std::vector<BufferType> output_types;
  std::vector<int64_t> output_dims;
  std::vector<size_t> output_ranks;
  std::vector<run::MemoryKind> kinds;  // of memory, of outputs
  std::vector<const char*> memory_kinds;
  std::vector<size_t> memory_kind_sizes;
  std::vector<MemoryLayout> layouts;  // of inputs, then of outputs
  std::vector<MemoryLayout*> layout_pointers;
  std::vector<BufferLayoutPtr> output_layouts;
  NamedValues costs;

  Executable(ExecutablePtr executable, std::string options, std::vector<run::MemoryKind> output_kinds);
};

struct LoadedExecutable {
  Client* client = nullptr;
  std::shared_ptr<Executable> executable;
  std::shared_ptr<run::NativeProgram> native;
  std::vector<Device*> devices, here;  // of all participants, of those in this process
  std::atomic<bool> is_deleted = false;
  std::mutex mutex;
  std::map<Device*, std::shared_ptr<run::NativeProgram>> elsewhere;  // runs on a device the caller names
};

struct Buffer {
  Device* device = nullptr;
  std::unique_ptr<run::Buffer> buffer;
  BufferLayoutPtr layout = {};

  const Dims& dims() const { return layout ? layout->dims : buffer->dims(); }
};

struct TransferManager {
  Memory* memory = nullptr;
  struct Item {
    std::unique_ptr<Buffer> buffer;  // until it is retrieved
    std::shared_ptr<run::Storage> storage;
    run::Promise ready;
    bool is_done = false;
  };
  std::mutex mutex;
  std::vector<Item> items;
};

}  // namespace trine::api::pjrt
