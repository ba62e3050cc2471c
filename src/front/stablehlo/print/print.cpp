// Ops: "name"(operands)[successors] ({regions}) {attributes} : types. Values are numbered from 0 in each function.
#include "front/stablehlo/print/print.h"

#include "base/text.h"
#include "front/stablehlo/print/printer.h"

namespace trine::front::stablehlo {

void Printer::line(int indent) {
  out_ += '\n';
  out_.append(size_t(indent) * 2, ' ');
}

void Printer::define(uint32_t first, uint32_t count, bool arguments) {
  if (names_.size() < size_t(first) + count) names_.resize(size_t(first) + count);
  for (uint32_t i = 0; i < count; ++i) {
    const uint32_t number = arguments ? next_argument_++ : next_result_;
    names_[first + i] = {number, i, arguments, !arguments && count > 1};
  }
  if (!arguments && count > 0) ++next_result_;
}

void Printer::value(ValueId id) {
  const Name& n = names_[size_t(id)];
  out_ += cat("%", n.argument ? "arg" : "", n.number);
  if (n.grouped) out_ += cat("#", n.index);
}

void Printer::op(const Op& op, int indent) {
  line(indent);
  if (full()) return;
  // Names follow the text, numbers the definition: a result's line begins before its regions.
  if (op.results > 0) {
    define(op.first_result, op.results, false);
    out_ += cat("%", names_[op.first_result].number);
    if (op.results > 1) out_ += cat(":", op.results);
    out_ += " = ";
  }
  const bool function = op.name == "func.func";
  const uint32_t results = next_result_, arguments = next_argument_;
  if (function) next_result_ = next_argument_ = 0;
  quoted(op.name);
  out_ += '(';
  list(op.operands, [&](ValueId v) { value(v); });
  out_ += ')';
  if (!op.successors.empty()) {
    out_ += '[';
    list(op.successors, [&](uint32_t s) { out_ += cat("^bb", s); });
    out_ += ']';
  }
  if (!op.regions.empty()) {
    out_ += " (";
    list(op.regions, [&](const Region& r) { region(r, indent); });
    out_ += ')';
  }
  if (!op.attrs.empty()) {
    out_ += ' ';
    dictionary(op.attrs);
  }
  out_ += " : (";
  list(op.operands, [&](ValueId v) { type(module_.type_of(v)); });
  out_ += ") -> ";
  std::vector<TypeId> types;
  for (uint32_t i = 0; i < op.results; ++i) types.push_back(module_.type_of(op.result(i)));
  this->types(types, false);
  trailing_location(op.location);
  if (function) {
    next_result_ = results;
    next_argument_ = arguments;
  }
}

void Printer::region(const Region& region, int indent) {
  out_ += '{';
  for (size_t i = 0; i < region.blocks.size() && !full(); ++i) {
    const Block& b = region.blocks[i];
    block(b, i, i > 0 || b.arguments > 0 || b.ops.empty() || region.blocks.size() > 1, indent);
  }
  line(indent);
  out_ += '}';
}

void Printer::block(const Block& block, size_t number, bool labelled, int indent) {
  define(block.first_argument, block.arguments, true);
  if (labelled) {
    line(indent);
    out_ += cat("^bb", number);
    if (block.arguments > 0) {
      out_ += '(';
      for (uint32_t i = 0; i < block.arguments; ++i) {
        if (i > 0) out_ += ", ";
        value(block.argument(i));
        out_ += ": ";
        type(module_.type_of(block.argument(i)));
        trailing_location(block.locations.empty() ? AttrId::none : block.locations[i]);
      }
      out_ += ')';
    }
    out_ += ':';
  }
  for (const Op& o : block.ops) {
    op(o, indent + 1);
    if (full()) return;
  }
}

Result<std::string> print(const Module& module, PrintOptions options) {
  Printer printer(module, options);
  printer.op(module.top, 0);
  if (printer.full())
    return fail(Code::out_of_range, cat("the module's text is longer than ", options.bytes_max, " bytes"));
  return printer.take().substr(1) + "\n";
}

std::string type_text(const Module& module, TypeId type) {
  Printer printer(module, {.bytes_max = 1 << 20});
  printer.type(type);
  return printer.take();
}

std::string attr_text(const Module& module, AttrId attr) {
  Printer printer(module, {.bytes_max = 1 << 20});
  printer.attr(attr);
  return printer.take();
}

}  // namespace trine::front::stablehlo
