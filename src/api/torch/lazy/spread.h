// SPMD: storages of `xla` dealt over several devices of this process, as torch_xla's mark_sharding asks for.
// A World is the devices of a mesh in its order, numbered by prime digits, so that axes of any mesh are runs of digits.
// A Layout says by which digits a storage's dims are cut; its parts lie on the devices. Not which op computes where:
// that is compile/partition's. Invariant: a storage is whole in memory, or in parts, and its value is the same.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "compile/partition/sharding.h"
#include "run/drivers/native/native.h"

namespace trine::api::neuron {

struct World {
  std::vector<run::Device*> devices = {};
  std::vector<int64_t> ids = {};  // of the devices; empty where they are 0, 1, 2 ...
  compile::Meshes meshes = {};
  std::string text = {};  // `["d0"=2, "d1"=2]`, as Shardy writes a mesh
  int64_t number = 0;

  // `axes`: sizes of the mesh's axes, major first. The same World for meshes whose digits are the same.
  static Result<const World*> find(std::span<const int64_t> ids, std::span<const int64_t> axes);
  compile::Atoms digits(std::span<const int64_t> axes, int64_t axis) const;
};

struct Layout {
  Dims dims = {};  // of the whole storage, in the order of memory
  compile::Sharding sharding = {};
  std::string text = {};  // `[{"d0"}, {}]`
  int64_t number = 0;

  // Null: every device has all of it. Digits that do not divide their dim are left out.
  static const Layout* find(const World& world, Dims dims, compile::Sharding sharding);
};
std::string layout_text(const compile::Sharding& sharding);

using Parts = std::vector<std::unique_ptr<run::Buffer>>;  // by device of a World

// Without a layout: the whole on every device.
Result<Parts> scatter(const World& world, const Layout* layout, Dtype dtype, const Dims& dims, const std::byte* from);
Result<void> gather(const World& world, const Layout* layout, const Parts& parts, std::byte* to);
std::vector<int64_t> part_start(const World& world, const Layout& layout, size_t device);  // in each dim

// A program over the devices of a World.
struct Spread {
  const World* world = nullptr;
  std::shared_ptr<run::NativeProgram> program = {};
  std::vector<const Layout*> outputs = {};

  static Result<std::shared_ptr<const Spread>> make(const World& world, const std::string& text);

  struct Input {
    const Parts* parts = nullptr;  // or
    const void* bytes = nullptr;   // the same for all
  };
  Result<std::vector<Parts>> run(std::span<const Input> inputs) const;  // done when it returns
};

}  // namespace trine::api::neuron
