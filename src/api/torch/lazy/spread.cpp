// Worlds and layouts are made once; parts are copied block by block.
#include "api/torch/lazy/spread.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <set>

#include "api/executable.h"
#include "api/numerics.h"
#include "api/torch/devices.h"
#include "base/text.h"

namespace trine::api::neuron {

namespace {

template <class T>
struct Interned {
  std::mutex mutex;
  std::map<std::string, std::unique_ptr<T>> all;
};

// The prime factors of the axes, major first.
std::vector<int64_t> digits_of(std::span<const int64_t> axes) {
  std::vector<int64_t> out;
  for (int64_t size : axes)
    for (int64_t p = 2; size > 1; ++p)
      for (; size % p == 0; size /= p) out.push_back(p);
  return out;
}

Result<std::unique_ptr<World>> make_world(std::span<const int64_t> ids, const std::vector<int64_t>& digits) {
  auto out = std::make_unique<World>();
  std::set<int64_t> seen;
  bool is_counted = true;
  for (size_t i = 0; i < ids.size(); ++i) {
    if (!seen.insert(ids[i]).second) return fail(Code::invalid, cat("a mesh that names device ", ids[i], " twice"));
    out->devices.push_back(TRY(device(int(ids[i]))));
    is_counted = is_counted && ids[i] == int64_t(i);
  }
  if (!is_counted) out->ids.assign(ids.begin(), ids.end());
  for (size_t i = 0; i < digits.size(); ++i) out->text += cat(i ? ", " : "[", "\"d", i, "\"=", digits[i]);
  out->text += "]";
  ir::Attrs attrs;
  attrs.set("meshes", ir::Strings{cat("mesh = #sdy.mesh<", out->text, ">")});
  out->meshes = TRY(compile::Meshes::make(attrs, int64_t(ids.size())));
  return out;
}

// By which digits each dim is cut, from XLA's text: `{devices=[4,1,2]0,1,2,… last_tile_dim_replicate}`. A digit's
// weight in the number of a part is that number for the device that has a one there, and zeros.
Result<compile::Sharding> read_sharding(const World& world, std::string_view text, size_t rank) {
  compile::Sharding out(rank);
  if (text == "{replicated}") return out;
  const Error unreadable = fail(Code::internal, cat("a sharding that cannot be read: ", text));
  const size_t open = text.find('['), close = text.find(']');
  if (open == std::string_view::npos || close == std::string_view::npos) return unreadable;
  const auto numbers = [](std::string_view list) {
    std::vector<int64_t> found;
    for (const std::string_view word : split(list, ',')) found.push_back(std::atoll(std::string(word).c_str()));
    return found;
  };
  const auto counts = numbers(text.substr(open + 1, close - open - 1));
  const auto devices = numbers(text.substr(close + 1, text.find_first_of(" }", close) - close - 1));
  if (counts.size() < rank || devices.size() != world.devices.size()) return unreadable;
  for (size_t d = 0; d < rank; ++d) {
    int64_t inner = 1;
    for (size_t k = d + 1; k < counts.size(); ++k) inner *= counts[k];
    std::vector<std::pair<int64_t, int>> weights;
    for (size_t a = 0; a < world.meshes.atoms().size(); ++a) {
      const auto at = std::find(devices.begin(), devices.end(), world.meshes.atoms()[a].stride) - devices.begin();
      if (const int64_t weight = int64_t(at) / inner % counts[d]) weights.emplace_back(-weight, int(a));
    }
    std::sort(weights.begin(), weights.end());
    for (const auto& [weight, atom] : weights) out[d].push_back(atom);
  }
  return out;
}

// Copies a block between a dense array of `whole` dims, where it begins at `start`, and one of its own dims.
struct BlockCopy {
  const Dims& whole;
  const Dims& block;
  const std::vector<int64_t>& start;
  size_t element = 1;
  std::byte* in_whole = nullptr;
  std::byte* in_block = nullptr;
  bool gathers = false;

  void run(size_t dim, int64_t at, int64_t& taken) const {
    int64_t inner = 1, plane = 1;
    for (size_t d = dim; d < whole.size(); ++d) inner *= block[d];
    for (size_t d = dim + 1; d < whole.size(); ++d) plane *= whole[d];
    const bool is_dense = dim >= whole.size() ||
                          std::equal(whole.begin() + int64_t(dim) + 1, whole.end(), block.begin() + int64_t(dim) + 1);
    if (is_dense) {
      const int64_t from = dim < whole.size() ? at + start[dim] * plane : at;
      std::byte* const w = in_whole + size_t(from) * element;
      std::byte* const b = in_block + size_t(taken) * element;
      std::memcpy(gathers ? w : b, gathers ? b : w, size_t(inner) * element);
      taken += inner;
      return;
    }
    for (int64_t i = 0; i < block[dim]; ++i) run(dim + 1, at + (start[dim] + i) * plane, taken);
  }
};

Result<std::unique_ptr<run::Buffer>> new_part(run::Device& on, Dtype dtype, const Dims& dims) {
  auto storage = TRY(on.memory().allocate({.dtype = dtype, .dims = dims}));
  return std::make_unique<run::Buffer>(on, dtype, dims, std::move(storage), run::Future());
}

}  // namespace

Result<const World*> World::find(std::span<const int64_t> ids, std::span<const int64_t> axes) {
  static auto* known = new Interned<World>;
  int64_t total = 1;
  for (int64_t a : axes) total *= std::max<int64_t>(a, 1);
  if (total != int64_t(ids.size()))
    return fail(Code::invalid, cat("a mesh of ", ids.size(), " devices whose axes multiply to ", total));
  const std::vector<int64_t> digits = digits_of(axes);
  std::string key;
  for (int64_t v : digits) key += cat(v, " ");
  for (int64_t v : ids) key += cat("/", v);
  const std::lock_guard lock(known->mutex);
  std::unique_ptr<World>& found = known->all[key];
  if (!found) {
    auto made = make_world(ids, digits);
    if (!made) {
      known->all.erase(key);
      return Error(made.error());
    }
    found = std::move(*made);
    found->number = int64_t(known->all.size());
  }
  return found.get();
}

compile::Atoms World::digits(std::span<const int64_t> axes, int64_t axis) const {
  const auto before = digits_of(axes.first(size_t(axis))), own = digits_of(axes.subspan(size_t(axis), 1));
  compile::Atoms out;
  for (size_t i = 0; i < own.size(); ++i) out.push_back(int(before.size() + i));
  return out;
}

std::string layout_text(const compile::Sharding& sharding) {
  std::string out = "[";
  for (size_t d = 0; d < sharding.size(); ++d) {
    out += d ? ", {" : "{";
    for (size_t i = 0; i < sharding[d].size(); ++i) out += cat(i ? ", " : "", "\"d", sharding[d][i], "\"");
    out += "}";
  }
  return out + "]";
}

const Layout* Layout::find(const World& world, Dims dims, compile::Sharding sharding) {
  static auto* known = new Interned<Layout>;
  bool is_whole = true;
  for (size_t d = 0; d < dims.size(); ++d) {
    while (!sharding[d].empty() && dims[d] % world.meshes.count(sharding[d]) != 0) sharding[d].pop_back();
    is_whole = is_whole && sharding[d].empty();
  }
  if (is_whole) return nullptr;
  const std::string text = layout_text(sharding);
  std::string key = cat(world.number, text);
  for (int64_t d : dims) key += cat(" ", d);
  const std::lock_guard lock(known->mutex);
  std::unique_ptr<Layout>& found = known->all[key];
  if (!found)
    found = std::make_unique<Layout>(Layout{std::move(dims), std::move(sharding), text, int64_t(known->all.size())});
  return found.get();
}

std::vector<int64_t> part_start(const World& world, const Layout& layout, size_t device) {
  const Dims local = world.meshes.local(layout.dims, layout.sharding);
  std::vector<int64_t> out;
  for (size_t d = 0; d < local.size(); ++d)
    out.push_back(world.meshes.index(layout.sharding[d], int64_t(device)) * local[d]);
  return out;
}

Result<Parts> scatter(const World& world, const Layout* layout, Dtype dtype, const Dims& dims, const std::byte* from) {
  Parts out;
  for (size_t d = 0; d < world.devices.size(); ++d) {
    const Dims local = layout ? world.meshes.local(layout->dims, layout->sharding) : dims;
    out.push_back(TRY(new_part(*world.devices[d], dtype, local)));
    std::byte* const to = TRY(out.back()->use())->data();
    if (!layout) {
      std::memcpy(to, from, out.back()->bytes());
      continue;
    }
    const auto start = part_start(world, *layout, d);
    int64_t taken = 0;
    BlockCopy{.whole = layout->dims,
              .block = local,
              .start = start,
              .element = size_t(bytes(dtype)),
              .in_whole = const_cast<std::byte*>(from),
              .in_block = to}
        .run(0, 0, taken);
  }
  return out;
}

Result<void> gather(const World& world, const Layout* layout, const Parts& parts, std::byte* to) {
  if (!layout) {
    std::memcpy(to, TRY(parts[0]->use())->data(), parts[0]->bytes());
    return {};
  }
  std::set<std::vector<int64_t>> seen;  // several devices may have the same
  for (size_t d = 0; d < parts.size(); ++d) {
    const auto start = part_start(world, *layout, d);
    if (!seen.insert(start).second) continue;
    const Dims local = world.meshes.local(layout->dims, layout->sharding);
    int64_t taken = 0;
    BlockCopy{.whole = layout->dims,
              .block = local,
              .start = start,
              .element = size_t(bytes(parts[d]->dtype())),
              .in_whole = to,
              .in_block = TRY(parts[d]->use())->data(),
              .gathers = true}
        .run(0, 0, taken);
  }
  return {};
}

Result<std::shared_ptr<const Spread>> Spread::make(const World& world, const std::string& text) {
  CompileOptions options{.partitions = int64_t(world.devices.size())};
  options.numerics = TRY(numerics_from_environment());
  const ExecutablePtr compiled = TRY(compile(text, options));
  auto out = std::make_shared<Spread>();
  out->world = &world;
  out->program = TRY(run::NativeProgram::make(*TRY(client()), compiled->name(), compiled->plan, world.devices,
                                              {.partitions = options.partitions}));
  for (size_t i = 0; i < compiled->output_count(); ++i) {
    Dims dims = compiled->output(i).dims;
    const compile::Sharding sharding = TRY(read_sharding(world, compiled->shardings.results[i], dims.size()));
    for (size_t d = 0; d < dims.size(); ++d) dims[d] *= world.meshes.count(sharding[d]);
    out->outputs.push_back(Layout::find(world, std::move(dims), sharding));
  }
  return std::shared_ptr<const Spread>(std::move(out));
}

Result<std::vector<Parts>> Spread::run(std::span<const Input> inputs) const {
  const arch::HostPlan& plan = program->plan();
  const size_t count = world->devices.size();
  std::vector<std::vector<run::Buffer*>> arguments(count);
  Parts made;  // for this run alone
  for (size_t i = 0; i < inputs.size(); ++i) {
    const arch::Slot& slot = plan.slots[plan.inputs[i]];
    for (size_t d = 0; d < count; ++d) {
      run::Buffer* part = inputs[i].parts ? (*inputs[i].parts)[d].get() : nullptr;
      if (!part) {
        made.push_back(TRY(new_part(*world->devices[d], slot.dtype, slot.dims)));
        part = made.back().get();
        std::memcpy(TRY(part->use())->data(), inputs[i].bytes, part->bytes());
      } else if (part->dtype() != slot.dtype || part->dims() != slot.dims) {  // the same bytes, seen otherwise
        made.push_back(
            std::make_unique<run::Buffer>(*world->devices[d], slot.dtype, slot.dims, TRY(part->use()), run::Future()));
        part = made.back().get();
      }
      arguments[d].push_back(part);
    }
  }
  const std::vector<std::span<run::Buffer* const>> lists(arguments.begin(), arguments.end());
  auto launched = TRY(program->launch(lists));
  Result<void> outcome;
  for (const run::Future& done : launched.done)
    if (auto ended = done.wait(); !ended && outcome) outcome = std::move(ended);
  TRY(std::move(outcome));
  std::vector<Parts> out(plan.outputs.size());
  for (size_t o = 0; o < out.size(); ++o)
    for (size_t d = 0; d < count; ++d) out[o].push_back(std::move(launched.outputs[d][o]));
  return out;
}

}  // namespace trine::api::neuron
