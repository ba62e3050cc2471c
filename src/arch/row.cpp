// Gathers the six tables and parses their operand and attribute specs once. A malformed spec is our bug, so CHECK.
#include "arch/row.h"

#include <algorithm>
#include <charconv>
#include <unordered_map>

#include "base/text.h"

namespace trine::arch {

namespace {

uint8_t kind_by_name(std::string_view s) {
  if (s == "hbm") return kHbm;
  if (s == "sbuf") return kSbuf;
  if (s == "psum") return kPsum;
  if (s == "imm") return kImm;
  if (s == "reg") return kReg;
  CHECK(false, "an operand kind that no row may use");
  return 0;
}

Mode mode_by_name(std::string_view s) {
  if (s == "r") return Mode::read;
  if (s == "w") return Mode::write;
  if (s == "rw") return Mode::read_write;
  CHECK(s == "m", "an operand mode other than r, w, rw, m");
  return Mode::may_write;
}

OperandSlot parse_slot(std::string_view text) {
  const auto parts = split(text, ':');
  CHECK(parts.size() == 3, "operand spec is name:mode:kinds");
  OperandSlot slot;
  slot.name = parts[0];
  if (slot.name.ends_with('?')) {
    slot.optional = true;
    slot.name.remove_suffix(1);
  }
  slot.mode = mode_by_name(parts[1]);
  for (auto kind : split(parts[2], '|')) slot.kinds |= kind_by_name(kind);
  return slot;
}

int64_t parse_initial(const AttrSlot& slot, std::string_view text) {
  if (slot.type == AttrType::boolean) return text == "true";
  if (slot.type == AttrType::real) {
    double v = 0;
    CHECK(std::from_chars(text.data(), text.data() + text.size(), v).ec == std::errc{}, "a default that is a number");
    return std::bit_cast<int64_t>(v);
  }
  if (slot.type == AttrType::enumeration) {
    const auto it = std::find(slot.set->members.begin(), slot.set->members.end(), text);
    CHECK(it != slot.set->members.end(), "a default that is a member of its set");
    return it - slot.set->members.begin();
  }
  int64_t v = 0;
  CHECK(std::from_chars(text.data(), text.data() + text.size(), v).ec == std::errc{}, "a default that is an integer");
  return v;
}

AttrSlot parse_attr(std::string_view text) {
  AttrSlot slot;
  const auto colon = text.find(':');
  CHECK(colon != std::string_view::npos, "attribute spec is name:type[=default]");
  slot.name = text.substr(0, colon);
  auto type = text.substr(colon + 1);
  std::string_view initial;
  if (const auto eq = type.find('='); eq != std::string_view::npos) {
    initial = type.substr(eq + 1);
    type = type.substr(0, eq);
    slot.required = false;
  }
  if (type == "int")
    slot.type = AttrType::integer;
  else if (type == "float")
    slot.type = AttrType::real;
  else if (type == "bool")
    slot.type = AttrType::boolean;
  else if (type == "ints")
    slot.type = AttrType::ints;
  else if (type == "string")
    slot.type = AttrType::string;
  else if (type == "label")
    slot.type = AttrType::label;
  else {
    slot.type = AttrType::enumeration;
    slot.set = enum_by_name(type);
    CHECK(slot.set, "an attribute type that exists");
  }
  if (slot.type == AttrType::ints || slot.type == AttrType::string)
    slot.initial = -1;
  else if (!initial.empty())
    slot.initial = parse_initial(slot, initial);
  return slot;
}

RowInfo parse(const Row& row) {
  RowInfo info;
  info.row = &row;
  for (auto word : split(row.operands, ' '))
    if (!word.empty()) info.slots.push_back(parse_slot(word));
  for (auto word : split(row.attrs, ' '))
    if (!word.empty()) info.attrs.push_back(parse_attr(word));
  return info;
}

std::vector<RowInfo> gather() {
  std::vector<RowInfo> all;
  for (auto table : {tensor_rows(), vector_rows(), scalar_rows(), gpsimd_rows(), dma_rows(), sync_rows()})
    for (const Row& row : table) all.push_back(parse(row));
  std::sort(all.begin(), all.end(), [](auto& a, auto& b) { return a.row->opcode < b.row->opcode; });
  for (size_t i = 1; i < all.size(); ++i) CHECK(all[i].row->opcode != all[i - 1].row->opcode, "opcodes are unique");
  return all;
}

const std::vector<RowInfo>& table() {
  static const std::vector<RowInfo> all = gather();
  return all;
}

}  // namespace

// Asked for at every execution: most names differ in length or in their ends.
template <class Named>
static int find_named(const std::vector<Named>& all, std::string_view name) {
  for (size_t i = 0; i < all.size(); ++i) {
    const std::string_view other = all[i].name;
    if (other.size() == name.size() && other.front() == name.front() && other.back() == name.back() && other == name)
      return static_cast<int>(i);
  }
  return -1;
}

int RowInfo::slot(std::string_view name) const { return find_named(slots, name); }
int RowInfo::attr(std::string_view name) const { return find_named(attrs, name); }

std::span<const RowInfo> rows() { return table(); }

const RowInfo* row_by_opcode(uint16_t opcode) {
  static const std::vector<const RowInfo*> by_opcode = [] {
    std::vector<const RowInfo*> out(table().back().row->opcode + size_t{1});
    for (const RowInfo& info : table()) out[info.row->opcode] = &info;
    return out;
  }();
  return opcode < by_opcode.size() ? by_opcode[opcode] : nullptr;
}

const RowInfo* row_by_name(std::string_view name) {
  static const std::unordered_map<std::string_view, const RowInfo*> by_name = [] {
    std::unordered_map<std::string_view, const RowInfo*> out;
    for (const RowInfo& info : table()) out.emplace(info.row->name, &info);
    return out;
  }();
  const auto found = by_name.find(name);
  return found == by_name.end() ? nullptr : found->second;
}

}  // namespace trine::arch
