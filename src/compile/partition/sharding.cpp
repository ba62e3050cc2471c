// Shardy's text form, atoms of device numbers, and XLA's text form.
#include "compile/partition/sharding.h"

#include <algorithm>
#include <charconv>
#include <set>

#include "base/text.h"

namespace trine::compile {

namespace {

// A cursor over Shardy's text: identifiers in quotes, numbers, punctuation.
struct Cursor {
  std::string_view rest;

  void blank() {
    while (rest.starts_with(' ')) rest.remove_prefix(1);
  }
  bool eat(std::string_view token) {
    blank();
    if (!rest.starts_with(token)) return false;
    rest.remove_prefix(token.size());
    return true;
  }
  bool quoted(std::string& out) {
    if (!eat("\"")) return false;
    const size_t end = rest.find('"');
    if (end == std::string_view::npos) return false;
    out = rest.substr(0, end);
    rest.remove_prefix(end + 1);
    return true;
  }
  bool number(int64_t& out) {
    blank();
    const auto read = std::from_chars(rest.data(), rest.data() + rest.size(), out);
    if (read.ec != std::errc{}) return false;
    rest.remove_prefix(size_t(read.ptr - rest.data()));
    return true;
  }
  std::string_view name() {
    size_t n = 0;
    while (n < rest.size() && (std::isalnum(static_cast<unsigned char>(rest[n])) || rest[n] == '_')) ++n;
    const std::string_view out = rest.substr(0, n);
    rest.remove_prefix(n);
    return out;
  }
};

Error unreadable(std::string_view text) { return fail(Code::invalid, cat("a sharding that cannot be read: ", text)); }

struct AxisRef {
  std::string name;
  int64_t pre = 1, size = 0;  // of a part of the axis; size 0: all of it
};

bool read_axis(Cursor& c, AxisRef& axis) {
  if (!c.quoted(axis.name)) return false;
  if (!c.eat(":(")) return true;
  return c.number(axis.pre) && c.eat(")") && c.number(axis.size) && axis.pre > 0 && axis.size > 0;
}

}  // namespace

// `4, 2, ...]`: every device once.
static bool read_order(Cursor& c, std::vector<int64_t>& order, int64_t devices) {
  std::set<int64_t> seen;
  while (!c.eat("]")) {
    int64_t device = 0;
    if (!c.number(device) || device < 0 || device >= devices || !seen.insert(device).second) return false;
    order.push_back(device);
    c.eat(",");
  }
  return int64_t(order.size()) == devices;
}

// `mesh = #sdy.mesh<["x"=4, "y"=2], device_ids=[...]>`
Result<void> Meshes::add_mesh(std::string_view text) {
  const size_t equals = text.find(" = ");
  if (equals == std::string_view::npos) return unreadable(text);
  Cursor c{text.substr(equals + 3)};
  std::vector<std::pair<std::string, int64_t>> axes;
  if (!c.eat("#sdy.mesh<[") && !c.eat("<[")) return unreadable(text);
  int64_t total = 1;
  while (!c.eat("]")) {
    std::string name;
    int64_t size = 0;
    if (!c.quoted(name) || !c.eat("=") || !c.number(size) || size < 1 || size > devices_) return unreadable(text);
    axes.emplace_back(std::move(name), size);
    total *= size;
    if (total > devices_) break;
    c.eat(",");
  }
  if (axes.empty() && c.eat(", device_ids=[")) return {};  // one device of all
  if (total != 1 && total != devices_)                     // of one device: nothing is cut, so it is everywhere
    return fail(Code::unsupported, cat("a mesh of other than the program's ", devices_, " devices: ", text));
  Mesh mesh;
  if (total == devices_ && c.eat(", device_ids=[") && !read_order(c, mesh.order, devices_)) return unreadable(text);
  int64_t stride = 1;
  for (size_t i = axes.size(); i-- > 0; stride *= axes[i].second) mesh.axes[axes[i].first] = {axes[i].second, stride};
  meshes_.emplace(std::string(trim(text.substr(0, equals))), std::move(mesh));
  return {};
}

Result<Meshes> Meshes::make(const ir::Attrs& attrs, int64_t devices) {
  Meshes out;
  out.devices_ = devices;
  for (const std::string& text : attrs.strings("meshes")) TRY(out.add_mesh(text));
  std::set<int64_t> cuts = {1, devices};
  for (const auto& [name, mesh] : out.meshes_)
    for (const auto& [axis_name, axis] : mesh.axes) cuts.insert({axis.stride, axis.stride * axis.size});
  // Strides of meshes that do not divide each other have no common digits.
  for (auto it = cuts.begin(); std::next(it) != cuts.end(); ++it) {
    if (*std::next(it) % *it) return fail(Code::unsupported, "meshes whose axes have no common parts");
    out.atoms_.insert(out.atoms_.begin(), {*std::next(it) / *it, *it});
  }
  return out;
}

Result<Atoms> Meshes::atoms_of(const Axis& axis) const {
  Atoms out;
  int64_t covered = 1;
  for (size_t i = 0; i < atoms_.size(); ++i) {
    const Atom& a = atoms_[i];
    if (a.stride >= axis.stride && a.stride * a.size <= axis.stride * axis.size) {
      out.push_back(int(i));
      covered *= a.size;
    }
  }
  if (covered != axis.size) return fail(Code::unsupported, "a part of a mesh axis that crosses another mesh's axes");
  return out;
}

const Meshes::Mesh* Meshes::find(std::string_view reference) const {
  const auto found = meshes_.find(reference);
  return found == meshes_.end() ? nullptr : &found->second;
}

Result<Atoms> Meshes::axes(const std::vector<std::string>& names) const {
  Atoms out;
  for (const std::string& name : names) {
    const auto mesh =
        std::find_if(meshes_.begin(), meshes_.end(), [&](auto& m) { return m.second.axes.contains(name); });
    if (mesh == meshes_.end()) return fail(Code::invalid, cat("no mesh has an axis \"", name, "\""));
    for (int atom : TRY(atoms_of(mesh->second.axes.find(name)->second))) out.push_back(atom);
  }
  return out;
}

Result<Meshes::Parsed> Meshes::parse(std::string_view text, const Dims& dims) const {
  Parsed out{Sharding(dims.size()), std::vector<bool>(dims.size(), text.empty())};
  if (text.empty()) return out;
  if (text.starts_with('{'))
    return fail(Code::unsupported, cat("the sharding ", text, " of GSPMD; set JAX_USE_SHARDY_PARTITIONER=true"));
  // Which mesh; one without axes is a single device.
  Cursor c{text};
  c.eat("#sdy.sharding");
  if (!c.eat("<")) return unreadable(text);
  if (c.eat("mesh<[], device_ids=[") || c.eat("@maximal_mesh")) {
    out.is_single = true;
    return out;
  }
  if (!c.eat("@")) return unreadable(text);
  const Mesh* mesh = find(c.name());
  if (!mesh) {
    out.is_single = true;
    return out;
  }
  if (!c.eat(",") || !c.eat("[")) return unreadable(text);
  // Of each dim its axes. An axis that does not divide the dim, and what follows it, is left out.
  out.order = mesh->order;
  std::set<int> used;
  for (size_t d = 0; !c.eat("]"); ++d) {
    if (d >= dims.size() || !c.eat("{")) return unreadable(text);
    bool fits = true;
    while (!c.eat("}")) {
      if (c.eat("?")) {
        out.is_open[d] = true;
        continue;
      }
      AxisRef ref;
      if (!read_axis(c, ref)) return unreadable(text);
      c.eat(",");
      const auto axis = mesh->axes.find(ref.name);
      if (axis == mesh->axes.end()) return fail(Code::invalid, cat("the mesh has no axis \"", ref.name, "\""));
      Axis part = axis->second;
      if (ref.size) {
        if (ref.pre > part.size || ref.size > part.size / ref.pre || part.size % (ref.pre * ref.size))
          return fail(Code::invalid, cat("a part of an axis that does not divide it in ", text));
        part = {ref.size, part.stride * (part.size / (ref.pre * ref.size))};
      }
      for (int atom : TRY(atoms_of(part))) {
        if (!used.insert(atom).second) return fail(Code::invalid, cat("an axis used twice in ", text));
        Atoms longer = out.dims[d];
        longer.push_back(atom);
        fits = fits && dims[d] % count(longer) == 0;
        if (fits) out.dims[d] = std::move(longer);
      }
    }
    if (c.eat("p")) {  // a priority: propagation's business
      int64_t priority = 0;
      c.number(priority);
    }
    c.eat(",");
  }
  out.unreduced = TRY(listed(c.rest, "unreduced={", *mesh));
  out.replicated = TRY(listed(c.rest, "replicated={", *mesh));
  return out;
}

// `replicated={"y", "z"}, unreduced={"x"}` behind the dims.
Result<Atoms> Meshes::listed(std::string_view text, std::string_view list, const Mesh& mesh) const {
  Atoms out;
  const size_t begin = text.find(list);
  if (begin == std::string_view::npos) return out;
  Cursor c{text.substr(begin + list.size())};
  while (!c.eat("}")) {
    AxisRef ref;
    if (!read_axis(c, ref) || ref.size) return unreadable(text);
    const auto axis = mesh.axes.find(ref.name);
    if (axis == mesh.axes.end()) return fail(Code::invalid, cat("the mesh has no axis \"", ref.name, "\""));
    for (int atom : TRY(atoms_of(axis->second))) out.push_back(atom);
    c.eat(",");
  }
  return out;
}

int64_t Meshes::count(const Atoms& atoms) const {
  int64_t out = 1;
  for (int a : atoms) out *= atoms_[size_t(a)].size;
  return out;
}

int64_t Meshes::index(const Atoms& atoms, int64_t device) const {
  int64_t out = 0;
  for (int a : atoms) {
    const Atom& atom = atoms_[size_t(a)];
    out = out * atom.size + device / atom.stride % atom.size;
  }
  return out;
}

std::vector<std::vector<int64_t>> Meshes::groups(const Atoms& atoms) const {
  std::map<int64_t, std::vector<int64_t>> by_rest;  // by the device whose digits of `atoms` are all zero
  const int64_t size = count(atoms);
  for (int64_t device = 0; device < devices_; ++device) {
    int64_t rest = device;
    for (int a : atoms) rest -= device / atoms_[size_t(a)].stride % atoms_[size_t(a)].size * atoms_[size_t(a)].stride;
    auto& group = by_rest[rest];
    group.resize(size_t(size));
    group[size_t(index(atoms, device))] = device;
  }
  std::vector<std::vector<int64_t>> out;
  for (auto& [rest, group] : by_rest) out.push_back(std::move(group));
  return out;
}

Dims Meshes::local(const Dims& dims, const Sharding& sharding) const {
  Dims out = dims;
  for (size_t d = 0; d < dims.size(); ++d) out[d] /= count(sharding[d]);
  return out;
}

std::string Meshes::hlo_text(const Sharding& sharding, Atoms unreduced, const std::vector<int64_t>& own) const {
  Atoms rest, order;
  for (const Atoms& dim : sharding) order.insert(order.end(), dim.begin(), dim.end());
  if (order.empty() && unreduced.empty()) return "{replicated}";
  if (count(unreduced) == devices_) return "{unreduced}";
  std::sort(unreduced.begin(), unreduced.end());
  order.insert(order.end(), unreduced.begin(), unreduced.end());
  for (int a = 0; a < int(atoms_.size()); ++a)
    if (std::find(order.begin(), order.end(), a) == order.end()) rest.push_back(a);
  order.insert(order.end(), rest.begin(), rest.end());
  std::string out = "{devices=[";
  for (size_t d = 0; d < sharding.size(); ++d) out += cat(d ? "," : "", count(sharding[d]));
  for (const Atoms& last : {unreduced, rest})
    if (count(last) > 1) out += cat(out.ends_with('[') ? "" : ",", count(last));
  out += "]";
  std::vector<int64_t> devices(static_cast<size_t>(devices_));
  for (int64_t device = 0; device < devices_; ++device)
    devices[size_t(index(order, device))] = own.empty() ? device : own[size_t(device)];
  for (size_t i = 0; i < devices.size(); ++i) out += cat(i ? "," : "", devices[i]);
  if (!unreduced.empty())
    return out + (count(rest) > 1 ? " last_tile_dims={unreduced, replicated}}" : " last_tile_dims={unreduced}}");
  return out + (count(rest) > 1 ? " last_tile_dim_replicate}" : "}");
}

Error own_order(std::string_view sharding) {
  return fail(Code::unsupported,
              cat("a program for one device over a mesh whose devices are in an order of their own: ", sharding));
}

Result<ShardingTexts> sharding_texts(const ir::Graph& graph) {
  ShardingTexts out;
  const int64_t devices = graph.attrs.integer("num_partitions", 1);
  if (devices <= 1) return out;
  const Meshes meshes = TRY(Meshes::make(graph.attrs, devices));
  const auto text_of = [&](const ir::Type& type, std::string_view sharding) -> Result<std::string> {
    // Types are of one device here; axes always fit, so any multiple of every count will do for a size.
    const Dims dims(type.dims.size(), devices);
    const Meshes::Parsed parsed = TRY(meshes.parse(sharding, dims));
    if (!parsed.order.empty()) return own_order(sharding);
    return meshes.hlo_text(parsed.dims, parsed.unreduced);
  };
  for (const ir::Value& v : graph.params) out.inputs.push_back(TRY(text_of(v.type(), v.type().sharding)));
  const ir::Strings& results = graph.attrs.strings("result_shardings");
  for (size_t i = 0; i < graph.results.size(); ++i)
    out.results.push_back(TRY(text_of(graph.results[i].type(), i < results.size() ? results[i] : "")));
  return out;
}

}  // namespace trine::compile
