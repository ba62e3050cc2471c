// Ops in text: the generic form, names of values, regions, blocks; and the file around them.
#include "base/text.h"
#include "front/stablehlo/build.h"
#include "front/stablehlo/text/parser.h"
#include "front/stablehlo/text/text.h"

namespace trine::front::stablehlo {

// Aliases are defined at the beginning of a line, before or after their uses.
Result<void> TextParser::scan_lines() {
  const std::string_view text = cursor_.rest();
  for (size_t line = 0; line < text.size();
       line = text.find('\n', line) == std::string_view::npos ? text.size() : text.find('\n', line) + 1) {
    lines_.push_back(line);
    if (text[line] != '#' && text[line] != '!') continue;
    cursor_.go(line + 1);
    cursor_.suffix();
    const std::string_view name = cursor_.from(line);
    if (!cursor_.accept("=")) continue;
    if (!aliases_.emplace(name, Alias{.at = cursor_.at()}).second)
      return cursor_.error_at(line, cat(name, " is defined twice"));
  }
  cursor_.go(0);
  return {};
}

Result<void> TextParser::read_module() {
  TRY(scan_lines());
  scopes_.emplace_back();
  Block top;
  while (!cursor_.done()) {
    const size_t begin = cursor_.at();
    if (cursor_.accept("{-#")) {  // resources: the constants that name them are refused where they stand
      const size_t end = cursor_.rest().find("#-}");
      if (end == std::string_view::npos) return cursor_.error_at(begin, "{-# is not closed by #-}");
      cursor_.go(cursor_.at() + end + 3);
    } else if (cursor_.sees("#") || cursor_.sees("!")) {
      const bool is_type = cursor_.sees("!");
      cursor_.go(begin + 1);
      cursor_.suffix();
      TRY(cursor_.expect("="));
      if (is_type) {
        TRY(type());
      } else {
        TRY(attr());
      }
    } else {
      top.ops.push_back(TRY(op()));
    }
  }
  if (!scopes_.back().awaited.empty())
    return cursor_.error_at(scopes_.back().awaited[0].at, "a successor outside a region");
  if (top.ops.size() == 1 && top.ops[0].name == "builtin.module") {
    module_.top = std::move(top.ops[0]);
    return {};
  }
  if (top.ops.empty()) return cursor_.expected("a module");
  module_.top.name = "builtin.module";
  module_.top.first_result = uint32_t(module_.values.size());
  module_.top.regions.resize(1);
  module_.top.regions[0].blocks.push_back(std::move(top));
  return {};
}

Result<Op> TextParser::op() {
  if (depth_ >= kDepthMax) return cursor_.error(cat("regions nested more than ", kDepthMax, " deep"));
  const Nesting nesting(depth_);
  struct Name {
    std::string_view name;
    uint64_t count;
    size_t at;
  };
  std::vector<Name> names;
  uint64_t named = 0;
  if (cursor_.sees("%")) {
    do {
      const Operand o = TRY(operand());
      uint64_t count = 1;
      if (cursor_.accept(":")) count = uint64_t(TRY(cursor_.integer()));
      if (count == 0 || count > UINT32_MAX) return cursor_.error_at(o.at, "a name for no results, or too many");
      names.push_back({o.name, count, o.at});
      named += count;
    } while (cursor_.accept(","));
    TRY(cursor_.expect("="));
  }
  Draft draft;
  draft.at = (cursor_.peek(), cursor_.at());
  TRY(op_body(draft));
  TRY(finish(draft));
  if (!names.empty() && named != draft.op.results)
    return cursor_.error_at(draft.at, cat(draft.op.name, " has ", draft.op.results, " results, ", named, " are named"));
  uint32_t value = draft.op.first_result;
  for (const Name& n : names) {
    TRY(define(n.name, {value, uint32_t(n.count)}, n.at));
    value += uint32_t(n.count);
  }
  return std::move(draft.op);
}

Result<void> TextParser::op_body(Draft& draft) {
  if (cursor_.sees("\"")) return generic_op(draft);
  const std::string_view word = cursor_.word();
  if (word.empty()) return cursor_.expected("an op");
  std::string name(word);
  if (word == "module" || word == "unrealized_conversion_cast") name = cat("builtin.", word);
  if (word == "return" || word == "call" || word == "func") name = cat("func.", word);
  const OpInfo* info = op_by_name(name);
  if (info == nullptr || info->row->form.empty()) {
    cursor_.go(draft.at);
    Error error =
        cursor_.error(cat("op ", word, " has no short form here; the generic form \"", word, "\"(...) is read"));
    error.code = Code::unsupported;
    return error;
  }
  draft.op.name = info->row->name;
  return form(draft, info->row->form);
}

Result<void> TextParser::generic_op(Draft& draft) {
  const std::string name = TRY(cursor_.quoted());
  const OpInfo* info = op_by_name(name);
  draft.op.name = info != nullptr ? info->row->name : module_.keep(name);
  TRY(cursor_.expect("("));
  draft.operands = TRY(operand_list());
  TRY(cursor_.expect(")"));
  if (cursor_.accept("[")) {
    if (!cursor_.sees("]")) {
      do {
        const size_t at = (cursor_.peek(), cursor_.at());
        TRY(cursor_.expect("^"));
        draft.successors.push_back({cursor_.suffix(), at});
      } while (cursor_.accept(","));
    }
    TRY(cursor_.expect("]"));
  }
  if (cursor_.accept("<")) {
    draft.op.attrs = TRY(dictionary());
    TRY(cursor_.expect(">"));
  }
  if (cursor_.accept("(")) {
    do {
      draft.op.regions.emplace_back();
      TRY(region(draft, draft.op.regions.size() - 1, {}));
    } while (cursor_.accept(","));
    TRY(cursor_.expect(")"));
  }
  TRY(add_attrs(draft));
  TRY(cursor_.expect(":"));
  return from_function(draft, TRY(function_type()));
}

Result<void> TextParser::finish(Draft& draft) {
  draft.op.location = TRY(location_or(draft.at));
  TRY(with_position(sort_attrs(draft.op.attrs), draft.at));
  TRY(resolve_operands(draft));
  for (const Awaited& block : draft.successors) {  // numbered at the region's end, when all blocks are known
    draft.op.successors.push_back(uint32_t(scopes_.back().awaited.size()));
    scopes_.back().awaited.push_back(block);
  }
  draft.op.first_result = uint32_t(module_.values.size());
  draft.op.results = uint32_t(draft.result_types.size());
  module_.values.insert(module_.values.end(), draft.result_types.begin(), draft.result_types.end());
  return {};
}

Result<void> TextParser::resolve_operands(Draft& draft) {
  if (draft.operands.size() != draft.operand_types.size())
    return cursor_.error_at(draft.at, cat(draft.op.name, " has ", draft.operands.size(), " operands and types of ",
                                          draft.operand_types.size()));
  for (size_t i = 0; i < draft.operands.size(); ++i) {
    const ValueId id = TRY(value(draft.operands[i]));
    if (module_.type_of(id) != draft.operand_types[i])
      return cursor_.error_at(draft.operands[i].at, cat("%", draft.operands[i].name, " is of another type"));
    draft.op.operands.push_back(id);
  }
  return {};
}

Result<TextParser::Operand> TextParser::operand() {
  cursor_.peek();
  Operand out{.at = cursor_.at()};
  TRY(cursor_.expect("%"));
  out.name = cursor_.suffix();
  if (out.name.empty()) return cursor_.expected("a name after %");
  if (cursor_.rest().starts_with("#")) {
    cursor_.go(cursor_.at() + 1);
    const std::string_view digits = cursor_.suffix();
    out.number = 0;
    for (char c : digits) {
      if (c < '0' || c > '9' || out.number > UINT32_MAX) return cursor_.error_at(out.at, "expected a result's number");
      out.number = out.number * 10 + uint64_t(c - '0');
    }
    if (digits.empty()) return cursor_.expected("a result's number");
  }
  return out;
}

Result<std::vector<TextParser::Operand>> TextParser::operand_list() {
  std::vector<Operand> out;
  if (!cursor_.sees("%")) return out;
  do {
    out.push_back(TRY(operand()));
  } while (cursor_.accept(","));
  return out;
}

Result<ValueId> TextParser::value(const Operand& operand) {
  for (size_t i = scopes_.size(); i-- > 0;) {
    const auto found = scopes_[i].values.find(operand.name);
    if (found == scopes_[i].values.end()) {
      if (scopes_[i].isolated) break;
      continue;
    }
    if (operand.number >= found->second.count)
      return cursor_.error_at(operand.at, cat("%", operand.name, " has only ", found->second.count, " results"));
    return ValueId(found->second.first + operand.number);
  }
  return cursor_.error_at(operand.at, cat("%", operand.name, " is used before it is defined"));
}

Result<void> TextParser::define(std::string_view name, Values values, size_t at) {
  if (!scopes_.back().values.emplace(name, values).second)
    return cursor_.error_at(at, cat("%", name, " is defined twice"));
  return {};
}

Result<void> TextParser::define_argument(Block& block, const Argument& argument) {
  const auto id = uint32_t(module_.values.size());
  module_.values.push_back(argument.type);
  ++block.arguments;
  block.locations.push_back(argument.location);
  return define(argument.name, {id, 1}, argument.at);
}

Result<TextParser::Argument> TextParser::argument(bool attributes) {
  const Operand name = TRY(operand());
  Argument out{.name = name.name, .at = name.at};
  TRY(cursor_.expect(":"));
  out.type = TRY(type());
  if (attributes && cursor_.sees("{")) out.attrs = TRY(dictionary_attr());
  out.location = TRY(location_or(name.at));
  return out;
}

Result<std::vector<TextParser::Argument>> TextParser::argument_list(bool attributes) {
  std::vector<Argument> out;
  TRY(cursor_.expect("("));
  if (!cursor_.sees(")")) {
    do {
      out.push_back(TRY(argument(attributes)));
    } while (cursor_.accept(","));
  }
  TRY(cursor_.expect(")"));
  return out;
}

Result<void> TextParser::region(Draft& draft, size_t number, std::vector<Argument> arguments) {
  Region& region = draft.op.regions[number];
  TRY(cursor_.expect("{"));
  scopes_.push_back({.isolated = is_isolated(draft.op.name)});
  if (!cursor_.sees("}") || !arguments.empty()) TRY(blocks(region, arguments));
  TRY(cursor_.expect("}"));
  const Scope& scope = scopes_.back();
  for (Block& block : region.blocks) {
    for (Op& op : block.ops) {
      for (uint32_t& successor : op.successors) {
        const Awaited& wanted = scope.awaited[successor];
        const auto found = scope.blocks.find(wanted.name);
        if (found == scope.blocks.end())
          return cursor_.error_at(wanted.at, cat("block ^", wanted.name, " is not defined"));
        successor = found->second;
        if (successor == 0) return cursor_.error_at(wanted.at, "a region's first block as a successor");
      }
    }
  }
  scopes_.pop_back();
  return {};
}

Result<void> TextParser::blocks(Region& region, const std::vector<Argument>& arguments) {
  if (!cursor_.sees("^") || !arguments.empty()) {
    region.blocks.emplace_back();
    region.blocks.back().first_argument = uint32_t(module_.values.size());
    for (const Argument& a : arguments) TRY(define_argument(region.blocks.back(), a));
  }
  while (!cursor_.sees("}")) {
    if (cursor_.sees("^")) {
      TRY(block_label(region));
    } else {
      Op read = TRY(op());
      region.blocks.back().ops.push_back(std::move(read));
    }
  }
  for (Block& block : region.blocks) {
    bool located = false;
    for (AttrId location : block.locations) located = located || location != AttrId::none;
    if (!located) block.locations.clear();
  }
  return {};
}

// ^name(%a: type, ...):
Result<void> TextParser::block_label(Region& region) {
  const size_t at = cursor_.at();
  TRY(cursor_.expect("^"));
  const std::string_view name = cursor_.suffix();
  if (!scopes_.back().blocks.emplace(name, uint32_t(region.blocks.size())).second)
    return cursor_.error_at(at, cat("block ^", name, " is defined twice"));
  region.blocks.emplace_back();
  Block& block = region.blocks.back();
  block.first_argument = uint32_t(module_.values.size());
  if (cursor_.sees("(")) {
    for (const Argument& a : TRY(argument_list(false))) TRY(define_argument(block, a));
  }
  return cursor_.expect(":");
}

Result<AttrId> TextParser::only_attr() {
  const AttrId id = TRY(attr());
  if (!cursor_.done()) return cursor_.expected("the end");
  return id;
}

Result<TypeId> TextParser::only_type() {
  const TypeId id = TRY(type());
  if (!cursor_.done()) return cursor_.expected("the end");
  return id;
}

Result<void> read_text(std::string_view text, std::string_view name, Module& module) {
  return TextParser(module, text, module.keep(std::string(name))).read_module();
}
Result<AttrId> parse_attr(Module& module, std::string_view text) { return TextParser(module, text, "").only_attr(); }
Result<TypeId> parse_type(Module& module, std::string_view text) { return TextParser(module, text, "").only_type(); }

}  // namespace trine::front::stablehlo
