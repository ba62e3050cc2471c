// Reads instance files; see instance.h. `like` fills in what a file leaves out, one level deep, as for chips.
#include "arch/instances/instance.h"

#include <algorithm>

#include "base/embedded.h"
#include "base/file.h"

namespace trine::arch {

std::span<const EmbeddedFile> embedded_instances();  // written by the build

namespace {

constexpr std::string_view kWiringNames[] = {"line", "ring", "torus", "all_to_all"};
constexpr std::string_view kWords[] = {"name", "title",     "aliases",  "note",   "chip",
                                       "like", "like_from", "topology", "devices"};
constexpr int64_t kChipsMax = 1 << 20;

template <class Field>
constexpr InstanceRow row(std::string_view path, std::string_view unit, Field field, std::string_view meaning,
                          double max = 0) {
  return fact<Instance>(path, unit, field, meaning, max);
}

constexpr InstanceRow kRows[] = {
    row(
        "chips", "count", [](Instance& i) -> auto& { return i.chips; }, "chips, all hosts together", kChipsMax),
    row(
        "hosts", "count", [](Instance& i) -> auto& { return i.hosts; }, "hosts, each with an equal share of the chips"),
    row(
        "host.vcpus", "count", [](Instance& i) -> auto& { return i.host.vcpus; }, "host processors", 1e6),
    row(
        "host.memory_bytes", "bytes", [](Instance& i) -> auto& { return i.host.memory_bytes; }, "host memory"),
    row(
        "host.numa_nodes", "count", [](Instance& i) -> auto& { return i.host.numa_nodes; }, "NUMA nodes of a host", 64),
    optional_fact(row(
        "network.efa_gbps", "gbps", [](Instance& i) -> auto& { return i.network.efa_gbps; },
        "network to other instances")),
    row(
        "network.hop_ns", "ns", [](Instance& i) -> auto& { return i.network.hop_ns; }, "latency of one network hop"),
    optional_fact(row(
        "price.on_demand_usd_per_hour", "usd_per_hour",
        [](Instance& i) -> auto& { return i.price.on_demand_usd_per_hour; }, "on demand")),
    optional_fact(row(
        "price.reserved_usd_per_hour", "usd_per_hour",
        [](Instance& i) -> auto& { return i.price.reserved_usd_per_hour; }, "reserved")),
    optional_fact(row(
        "price.reserved_3y_usd_per_hour", "usd_per_hour",
        [](Instance& i) -> auto& { return i.price.reserved_3y_usd_per_hour; }, "reserved, three years")),
    optional_fact(row(
        "price.capacity_block_usd_per_hour", "usd_per_hour",
        [](Instance& i) -> auto& { return i.price.capacity_block_usd_per_hour; }, "capacity block")),
    row(
        "power.host_watts", "watts", [](Instance& i) -> auto& { return i.power.host_watts; },
        "all that is not a chip: host, network, fans, losses"),
    row(
        "power.pue_factor", "factor", [](Instance& i) -> auto& { return i.power.pue_factor; },
        "watts of the building per watt of the machine"),
};
static_assert(facts_well_formed<Instance>(kRows), "known unit, unit in the path, no path twice");

const EmbeddedFile* find_embedded(std::string_view name) {
  for (const EmbeddedFile& f : embedded_instances())
    if (f.name == cat(name, ".json")) return &f;
  return nullptr;
}

class Reader {
 public:
  explicit Reader(std::string_view file_name) : file_(file_name) {}

  Result<Instance> read(std::string_view text, bool may_inherit) {
    const Json root = TRY(parse_json(text, file_));
    if (!root.is_object()) return wrong("", cat("found ", root.kind(), ", expected an object"));
    Instance instance;
    const Json* like = root.find("like");
    if (like) instance = TRY(base(*like, root, may_inherit));
    TRY(words(root, instance, like != nullptr));
    TRY(read_facts(instance_rows(), root, file_, like == nullptr, instance, instance.sources));
    instance.prices = TRY(read_prices(root, file_));
    if (const Json* levels = root.find("topology")) TRY(topology(*levels, instance));
    if (const Json* list = root.find("devices")) TRY(devices(*list, instance));
    std::vector<std::string> paths;
    for (const InstanceRow& r : kRows) paths.emplace_back(r.path);
    TRY(check_unknown(root, paths, kWords, file_));
    TRY(consistent(instance));
    return instance;
  }

 private:
  Result<Instance> base(const Json& like, const Json& root, bool may_inherit) {
    if (!may_inherit)
      return wrong("like", "an instance that is like another cannot itself be a base; name its base instead");
    const EmbeddedFile* file = find_embedded(like.string());
    if (!file) return wrong("like", cat("no instance \"", like.string(), "\""));
    Instance instance = TRY(Reader(file->name).read(file->text, false));
    instance.aliases.clear();
    instance.note.clear();
    const Json* reason = root.find("like_from");
    const std::string lead = reason ? reason->string() : cat("like ", like.string());
    std::erase_if(instance.sources, [](const auto& s) { return s.first.starts_with("price."); });  // never inherited
    instance.price = {};
    for (auto& [path, from] : instance.sources) from = cat(lead, ": ", from);
    return instance;
  }

  Result<void> words(const Json& root, Instance& instance, bool inherited) {
    for (const auto& [key, field] : {std::pair{"name", &instance.name}, std::pair{"title", &instance.title}}) {
      const Json* v = root.find(key);
      if (!v || v->string().empty()) return wrong(key, "missing; every instance has one, a string");
      *field = v->string();
    }
    if (const Json* note = root.find("note")) instance.note = note->string();
    if (const Json* aliases = root.find("aliases"))
      for (const Json& a : aliases->items()) instance.aliases.push_back(a.string());
    const Json* chip = root.find("chip");
    if (!chip && inherited) return {};
    if (!chip || !chip->is_string()) return wrong("chip", "missing; expected a chip's name");
    auto found = find_chip(chip->string());
    if (!found) return wrong("chip", found.error().message);
    instance.chip = *found;
    return {};
  }

  Result<void> topology(const Json& levels, Instance& instance) {
    instance.levels.clear();
    if (!levels.is_array()) return wrong("topology", cat("found ", levels.kind(), ", expected an array of levels"));
    if (levels.items().size() > 8) return wrong("topology", "more than 8 levels");
    for (const Json& level : levels.items()) {
      const std::string path = cat("topology[", instance.levels.size(), "]");
      instance.levels.push_back(TRY(read_level(level, path)));
    }
    return {};
  }

  // {"bdf": […], "numa_node": […], "from": …}: one entry per chip of a host.
  Result<void> devices(const Json& v, Instance& instance) {
    const Json *bdf = v.find("bdf"), *numa = v.find("numa_node"), *from = v.find("from");
    if (!bdf || !numa || !from || trim(from->string()).empty())
      return wrong("devices", "expected bdf, numa_node and a source under \"from\"");
    instance.bdf.clear();
    instance.numa_node.clear();
    for (const Json& b : bdf->items()) instance.bdf.push_back(b.string());
    for (const Json& n : numa->items()) instance.numa_node.push_back(n.integer());
    instance.sources.insert_or_assign("devices", from->string());
    return {};
  }

  Result<Level> read_level(const Json& v, const std::string& path) {
    Level level;
    for (const auto& [key, child] : v.members())
      if (key != "wiring" && key != "sides" && key != "from" && key != "link_bytes_per_ns" && key != "hop_ns")
        return wrong(cat(path, ".", key), "no such key; expected wiring, sides, from, link_bytes_per_ns and hop_ns");
    const Json *wiring = v.find("wiring"), *sides = v.find("sides"), *from = v.find("from");
    const std::string& name = wiring ? wiring->string() : v.string();
    const auto known = std::find(std::begin(kWiringNames), std::end(kWiringNames), name);
    if (known == std::end(kWiringNames))
      return wrong(path + ".wiring", cat("found \"", name, "\", expected line, ring, torus or all_to_all"));
    level.wiring = static_cast<Wiring>(known - std::begin(kWiringNames));
    const size_t expected = level.wiring == Wiring::torus ? 2 : 1;
    if (!sides || sides->items().size() != expected)
      return wrong(path + ".sides", cat("expected ", expected, " numbers"));
    for (const Json& side : sides->items()) {
      if (!side.is_integer() || side.integer() < 2 || side.integer() > 4096)
        return wrong(path + ".sides", "expected whole numbers from 2 to 4096");
      level.sides.push_back(side.integer());
    }
    if (!from || trim(from->string()).empty()) return wrong(path, "no source under \"from\"");
    level.from = from->string();
    level.link_bytes_per_ns = TRY(number(v, path, "link_bytes_per_ns", "bytes_per_ns", level.link_from));
    level.hop_ns = TRY(number(v, path, "hop_ns", "ns", level.hop_from));
    return level;
  }

  Result<double> number(const Json& level, const std::string& path, std::string_view key, std::string_view unit,
                        std::string& from) {
    const std::string full = cat(path, ".", key);
    const Json* entry = level.find(key);
    if (!entry) return wrong(full, "missing");
    const double v = TRY(read_entry(*entry, file_, full, from));
    const FactUnit limits = find_fact_unit(unit);
    TRY(check_limits(v, limits.min, limits.max, false, unit, file_, full));
    return v;
  }

  Result<void> consistent(const Instance& i) {
    int64_t chips = 1;
    for (const Level& level : i.levels) {
      chips *= level.size();
      if (chips > kChipsMax) return wrong("topology", cat("more than ", kChipsMax, " chips"));
    }
    if (chips != i.chips) return wrong("chips", cat("found ", i.chips, ", but the topology has ", chips));
    if (i.chips % i.hosts != 0)
      return wrong("hosts", cat("found ", i.hosts, ", expected a divisor of ", i.chips, " chips"));
    const auto per_host = static_cast<size_t>(i.chips_per_host());
    if (!i.bdf.empty() && (i.bdf.size() != per_host || i.numa_node.size() != per_host))
      return wrong("devices", cat("expected ", per_host, " entries each, one per chip of a host"));
    for (const int64_t n : i.numa_node)
      if (n < 0 || n >= i.host.numa_nodes)
        return wrong("devices.numa_node", cat("found ", n, ", expected less than host.numa_nodes"));
    return {};
  }

  Error wrong(std::string_view path, std::string message) const { return fact_error(file_, path, std::move(message)); }

  std::string_view file_;
};

std::vector<Instance> read_all() {
  std::vector<Instance> out;
  for (const EmbeddedFile& f : embedded_instances()) {
    Result<Instance> instance = parse_instance(f.text, f.name);
    CHECK(instance, instance.error().text().c_str());
    out.push_back(*std::move(instance));
  }
  const auto key = [](const Instance& i) {
    return std::tuple(i.chip->generation, i.chip->name, i.chips, i.host.vcpus);
  };
  std::stable_sort(out.begin(), out.end(), [&](auto& a, auto& b) { return key(a) < key(b); });
  return out;
}

}  // namespace

std::string_view wiring_name(Wiring wiring) { return kWiringNames[static_cast<size_t>(wiring)]; }

int64_t Level::size() const {
  int64_t n = 1;
  for (const int64_t side : sides) n *= side;
  return n;
}

std::span<const InstanceRow> instance_rows() { return kRows; }

std::optional<double> known_number(const Instance& instance, std::string_view path) {
  for (const InstanceRow& r : kRows)
    if (r.path == path && instance.knows(path)) return read_fact(instance, r);
  return {};
}

std::span<const Instance> all_instances() {
  static const std::vector<Instance> instances = read_all();
  return instances;
}

Result<const Instance*> find_instance(std::string_view name) {
  const std::string wanted = lower(name.substr(0, 256));
  std::vector<std::string> names;
  for (const Instance& i : all_instances()) {
    if (i.name == wanted || std::count(i.aliases.begin(), i.aliases.end(), wanted)) return &i;
    names.push_back(i.name);
  }
  return fail(Code::not_found, cat("no instance \"", wanted, "\"; nearest: ", join(nearest(wanted, names), ", "),
                                   " (trine use lists all)"));
}

Result<Instance> parse_instance(std::string_view json, std::string_view file_name) {
  return Reader(file_name).read(json, true);
}

Result<Instance> load_instance_file(const std::string& path) {
  const std::string text = TRY(read_file(path));
  return parse_instance(text, path);
}

}  // namespace trine::arch
