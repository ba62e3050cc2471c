// trine isa: the instructions as their rows say them; docs/instructions.md is its --markdown.
#include <set>

#include "arch/chips/chip.h"
#include "arch/row.h"
#include "base/text.h"
#include "tools/cli.h"

namespace trine::tools {

namespace {

using arch::AttrSlot;
using arch::AttrType;
using arch::OperandSlot;
using arch::Row;
using arch::RowInfo;
using Names = std::vector<std::string>;

Names engines_of(const Row& row) {
  Names names;
  for (int e = 0; e < arch::kEngineCount; ++e)
    if (row.engines & bit(static_cast<arch::Engine>(e))) names.emplace_back(name(static_cast<arch::Engine>(e)));
  return names;
}

// A row's `check` may be finer; this is what its feature alone says.
Names chips_of(const Row& row) {
  Names names;
  for (const arch::Chip& chip : arch::all_chips())
    if (chip.has(row.needs)) names.push_back(chip.name);
  return names;
}

Names kinds_of(const OperandSlot& slot) {
  constexpr std::string_view kNames[] = {"hbm", "sbuf", "psum", "imm", "reg"};
  Names names;
  for (size_t i = 0; i < std::size(kNames); ++i)
    if (slot.kinds & (1u << i)) names.emplace_back(kNames[i]);
  return names;
}

std::string_view mode_of(const OperandSlot& slot) {
  constexpr std::string_view kNames[] = {"read", "write", "read, write", "may write"};
  return kNames[static_cast<int>(slot.mode)];
}

std::string_view unit_of(const Row& row) {
  constexpr std::string_view kNames[] = {"engine", "DMA queue", "all cores together", "sequencer"};
  static_assert(std::size(kNames) == static_cast<size_t>(arch::Unit::control) + 1);
  return kNames[static_cast<int>(row.unit)];
}

std::string type_of(const AttrSlot& a) {
  constexpr std::string_view kNames[] = {"int", "float", "bool", "", "list of int", "string", "label"};
  return std::string(a.type == AttrType::enumeration ? a.set->name : kNames[static_cast<int>(a.type)]);
}

std::string default_of(const AttrSlot& a) {
  if (a.required) return "required";
  switch (a.type) {
    case AttrType::real:
      return shortest(std::bit_cast<double>(a.initial));
    case AttrType::boolean:
      return a.initial ? "true" : "false";
    case AttrType::enumeration:
      return std::string(a.set->members[static_cast<size_t>(a.initial)]);
    case AttrType::ints:
      return "[]";
    case AttrType::string:
      return "\"\"";
    default:
      return cat(a.initial);
  }
}

std::string engines_text(const Row& row) {
  return row.engines == arch::kAnyEngine ? "any" : join(engines_of(row), ", ");
}

Json names_json(const Names& names) {
  Json list = Json::array();
  for (const auto& n : names) list.push(n);
  return list;
}

Json row_json(const RowInfo& info) {
  const Row& row = *info.row;
  Json operands = Json::array(), attrs = Json::array();
  for (const OperandSlot& s : info.slots)
    operands.push(Json::object()
                      .set("name", s.name)
                      .set("mode", mode_of(s))
                      .set("kinds", names_json(kinds_of(s)))
                      .set("optional", s.optional));
  for (const AttrSlot& a : info.attrs) {
    Json attr = Json::object().set("name", a.name).set("type", type_of(a)).set("required", a.required);
    if (!a.required) attr.set("default", default_of(a));
    attrs.push(std::move(attr));
  }
  return Json::object()
      .set("name", row.name)
      .set("opcode", row.opcode)
      .set("says", row.summary)
      .set("runs_on", unit_of(row))
      .set("engines", names_json(engines_of(row)))
      .set("needs", feature_name(row.needs))
      .set("chips", names_json(chips_of(row)))
      .set("operands", std::move(operands))
      .set("attributes", std::move(attrs))
      .set("cost_source", row.source)
      .set("label", row.label);
}

std::string list_text(std::span<const RowInfo> rows) {
  std::vector<std::vector<std::string>> table(1, {"opcode", "instruction", "engines", "needs", "meaning"});
  constexpr char kHex[] = "0123456789abcdef";
  for (const RowInfo& info : rows) {
    const Row& row = *info.row;
    table.push_back({cat("0x", kHex[row.opcode >> 4 & 15], kHex[row.opcode & 15]), std::string(row.name),
                     engines_text(row), std::string(feature_name(row.needs)), std::string(row.summary)});
  }
  return columns(table, "00000");
}

std::string row_text(const RowInfo& info) {
  const Row& row = *info.row;
  std::vector<std::vector<std::string>> operands, attrs;
  for (const OperandSlot& s : info.slots)
    operands.push_back(
        {"  " + std::string(s.name), std::string(mode_of(s)), join(kinds_of(s), " or "), s.optional ? "optional" : ""});
  for (const AttrSlot& a : info.attrs) attrs.push_back({"  " + std::string(a.name), type_of(a), default_of(a)});
  std::string out = cat(bold(row.name), ": ", row.summary, "\n\n");
  out += columns({{"  engines", engines_text(row)},
                  {"  runs on", std::string(unit_of(row))},
                  {"  chips", join(chips_of(row), ", ")},
                  {"  cost", std::string(row.source)}},
                 "00");
  if (!operands.empty()) out += "\noperands\n" + columns(operands, "0000");
  if (!attrs.empty()) out += "\nattributes\n" + columns(attrs, "000");
  std::set<std::string_view> shown;
  for (const AttrSlot& a : info.attrs) {
    if (a.type != AttrType::enumeration || !shown.insert(a.set->name).second) continue;
    Names members(a.set->members.begin(), a.set->members.end());
    out += cat("\n", a.set->name, ": ", join(members, " "), "\n");
  }
  return out;
}

std::string code(std::string_view text) { return text.empty() ? std::string("–") : cat("`", text, "`"); }

// Bars would end a table's cell.
std::string cell(std::string_view text) {
  std::string out;
  for (char c : text) out += c == '|' ? std::string("\\|") : std::string(1, c);
  return out;
}

std::string markdown(std::span<const RowInfo> rows) {
  std::string out =
      "# Instructions\n\n"
      "Printed by `trine isa --markdown` from the rows in `src/arch/insns`; edit the rows. `trine isa NAME` explains "
      "one,\n"
      "docs/assembly.md how they are written. In operands `?` is optional, `w` written, `rw` read and written, `m` may "
      "be\n"
      "written; in attributes `=` is the default. \"Cost\" says what the initiation interval rests on; \"needs\" is "
      "the chip\n"
      "feature without which the instruction is refused (`trine chips --all` lists who has it).\n";
  constexpr std::pair<std::string_view, uint16_t> kGroups[] = {
      {"Control", 0x10}, {"Tensor", 0x20}, {"Vector", 0x50},         {"Scalar", 0x60},
      {"GpSimd", 0x80},  {"DMA", 0x90},    {"Between cores", 0xffff}};
  size_t next = 0;
  for (const auto& [title, end] : kGroups) {
    out += cat("\n## ", title, "\n\n| instruction | operands | attributes | engines | needs | meaning | cost |\n",
               "|---|---|---|---|---|---|---|\n");
    for (; next < rows.size() && rows[next].row->opcode < end; ++next) {
      const Row& row = *rows[next].row;
      out += cat("| `", row.name, "` | ", cell(code(row.operands)), " | ", cell(code(row.attrs)), " | ",
                 engines_text(row), " | ", row.needs == arch::Feature::base ? "–" : feature_name(row.needs), " | ",
                 cell(row.summary), " | ", cell(row.source), " |\n");
    }
  }
  out += "\n## Sets\n\n| set | members |\n|---|---|\n";
  for (const auto& set : arch::enum_rows()) {
    const Names members(set.members.begin(), set.members.end());
    out += cat("| `", set.name, "` | ", join(members, ", "), " |\n");
  }
  return out;
}

Result<Exit> run(const Args& args) {
  if (args.has("--markdown")) {
    print(markdown(arch::rows()));
    return Exit::ok;
  }
  std::vector<const RowInfo*> chosen;
  for (const auto& word : args.words) {
    const RowInfo* info = arch::row_by_name(word);
    if (!info) {
      Names names;
      for (const RowInfo& r : arch::rows()) names.emplace_back(r.row->name);
      return fail(Code::not_found,
                  cat("no instruction is named `", word, "`; nearest: ", join(nearest(word, names), ", ")));
    }
    chosen.push_back(info);
  }
  if (args.has("--json")) {
    Json list = Json::array();
    if (chosen.empty())
      for (const RowInfo& r : arch::rows()) list.push(row_json(r));
    for (const RowInfo* r : chosen) list.push(row_json(*r));
    print(report("instructions").set("instructions", std::move(list)).text(2) + "\n");
  } else if (chosen.empty()) {
    print(list_text(arch::rows()));
    print("\n`trine isa NAME` explains one\n");
  } else {
    for (size_t i = 0; i < chosen.size(); ++i) print((i ? "\n" : "") + row_text(*chosen[i]));
  }
  return Exit::ok;
}

constexpr Option kOptions[] = {kJson, {"--markdown", "", "", "the page docs/instructions.md"}};

}  // namespace

extern const Command command_isa{
    .name = "isa",
    .summary = "the instructions: operands, attributes, engines, chips, cost",
    .words = "[NAME...]",
    .words_max = 64,
    .word = text_like(instruction_names),
    .examples =
        "trine isa nc_matmul\n"
        "trine isa --json",
    .options = kOptions,
    .run = run,
};

}  // namespace trine::tools
