// The machine for Python, as plain dicts: instruction rows, chips, instances. What the NKI dialect checks against and
// what docs/nki.md is generated from. Read only.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include "api/python/raise.h"
#include "arch/chips/chip.h"
#include "arch/instances/instance.h"
#include "arch/row.h"

namespace nb = nanobind;
using namespace trine;
using trine::api::or_raise;

namespace {

nb::str text(std::string_view s) { return nb::str(s.data(), s.size()); }

nb::list names_of_engines(arch::EngineMask mask) {
  nb::list out;
  for (int e = 0; e < arch::kEngineCount; ++e)
    if (mask & arch::bit(static_cast<arch::Engine>(e))) out.append(text(name(static_cast<arch::Engine>(e))));
  return out;
}

nb::list names_of_kinds(uint8_t kinds) {
  static constexpr std::pair<uint8_t, std::string_view> kKinds[] = {
      {arch::kHbm, "hbm"}, {arch::kSbuf, "sbuf"}, {arch::kPsum, "psum"}, {arch::kImm, "imm"}, {arch::kReg, "reg"}};
  nb::list out;
  for (auto [bit, kind] : kKinds)
    if (kinds & bit) out.append(text(kind));
  return out;
}

nb::dict operand(const arch::OperandSlot& s) {
  static constexpr std::string_view kModes[] = {"r", "w", "rw", "m"};
  nb::dict d;
  d["name"] = text(s.name);
  d["mode"] = text(kModes[static_cast<size_t>(s.mode)]);
  d["kinds"] = names_of_kinds(s.kinds);
  d["optional"] = s.optional;
  return d;
}

// An attribute's value where none is given.
nb::object initial(const arch::AttrSlot& a) {
  if (a.required || a.type == arch::AttrType::ints || a.type == arch::AttrType::string) return nb::none();
  if (a.type == arch::AttrType::real) return nb::float_(std::bit_cast<double>(a.initial));
  if (a.type == arch::AttrType::boolean) return nb::bool_(a.initial != 0);
  if (a.type == arch::AttrType::enumeration) return text(a.set->members[static_cast<size_t>(a.initial)]);
  return nb::int_(a.initial);
}

nb::dict attribute(const arch::AttrSlot& a) {
  static constexpr std::string_view kTypes[] = {"int", "float", "bool", "enum", "ints", "string", "label"};
  nb::dict d;
  d["name"] = text(a.name);
  d["type"] = text(kTypes[static_cast<size_t>(a.type)]);
  d["required"] = a.required;
  nb::list members;
  if (a.set)
    for (std::string_view m : a.set->members) members.append(text(m));
  d["members"] = members;
  d["set"] = text(a.set ? a.set->name : "");
  d["initial"] = initial(a);
  return d;
}

nb::list rows() {
  static constexpr std::string_view kUnits[] = {"engine", "queue", "meeting", "control"};
  nb::list out;
  for (const arch::RowInfo& r : arch::rows()) {
    nb::dict d;
    d["name"] = text(r.row->name);
    d["engines"] = names_of_engines(r.row->engines);
    d["unit"] = text(kUnits[static_cast<size_t>(r.row->unit)]);
    d["needs"] = text(arch::feature_name(r.row->needs));
    nb::list operands, attrs;
    for (const arch::OperandSlot& s : r.slots) operands.append(operand(s));
    for (const arch::AttrSlot& a : r.attrs) attrs.append(attribute(a));
    d["operands"] = operands;
    d["attrs"] = attrs;
    nb::dict call;
    call["takes"] = text(r.row->nki.takes);
    call["old"] = text(r.row->nki.old);
    call["returns"] = text(r.row->nki.returns);
    d["nki"] = call;
    d["says"] = text(r.row->summary);
    d["source"] = text(r.row->source);
    out.append(d);
  }
  return out;
}

nb::dict chip_dict(const arch::Chip& c) {
  nb::dict d;
  d["name"] = c.name;
  d["title"] = c.title;
  nb::list features;
  for (const arch::FeatureRow& f : arch::kFeatureRows)
    if (c.has(f.feature)) features.append(text(f.name));
  d["features"] = features;
  for (const arch::NumberRow& n : arch::number_rows()) {
    if (n.whole)
      d[text(n.path)] = static_cast<int64_t>(arch::read_number(c, n));
    else
      d[text(n.path)] = arch::read_number(c, n);
  }
  return d;
}

nb::dict instance_dict(const arch::Instance& i) {
  nb::dict d;
  d["name"] = i.name;
  d["title"] = i.title;
  d["chip"] = i.chip->name;
  d["chips"] = i.chips;
  d["cores"] = i.cores();
  d["network.efa_gbps"] = i.network.efa_gbps;
  d["hosts"] = i.hosts;
  d["logical"] = i.chip->lnc_default;
  d["host.vcpus"] = i.host.vcpus;
  d["host.memory_bytes"] = i.host.memory_bytes;
  return d;
}

nb::list instances() {
  nb::list out;
  for (const arch::Instance& i : arch::all_instances()) out.append(instance_dict(i));
  return out;
}

}  // namespace

void bind_machine(nb::module_& m) {
  using namespace nb::literals;
  m.def("rows", rows, "One dict per instruction row.");
  m.def(
      "chip", [](const std::string& name) { return chip_dict(*or_raise(arch::find_chip(name))); }, "name"_a,
      "A chip's numbers by their path, its name and features.");
  m.def(
      "instance", [](const std::string& name) { return instance_dict(*or_raise(arch::find_instance(name))); }, "name"_a,
      "Name, chip, size and hosts of an instance; host.* are of all hosts together.");
  m.def("instances", instances, "Every built-in instance.");
}
