// The IR section: ops, regions, blocks. A value's number counts the definitions since the innermost isolated region;
// each region owns a range of numbers, handed out in order, and an op's results follow its regions here.
#include "front/stablehlo/bytecode/bytecode.h"

#include <algorithm>
#include <charconv>

#include "base/text.h"
#include "front/stablehlo/build.h"
#include "front/stablehlo/bytecode/attr.h"
#include "front/stablehlo/bytecode/bytes.h"
#include "front/stablehlo/bytecode/container.h"
#include "front/stablehlo/bytecode/vhlo.h"
#include "front/stablehlo/ops.h"

namespace trine::front::stablehlo {

namespace {

constexpr uint64_t kLazyRegions = 2;   // version from which isolated regions are sections
constexpr uint64_t kUseOrders = 3;     // version from which block arguments tell their use lists' order
constexpr uint64_t kArgLocations = 4;  // version from which unknown locations of arguments are left out

enum : uint8_t {
  kHasAttrs = 1,
  kHasResults = 2,
  kHasOperands = 4,
  kHasSuccessors = 8,
  kHasRegions = 16,
  kHasUseOrders = 32,
  kHasProperties = 64,
  kKnownMask = 127,
};

constexpr std::string_view kCast = "builtin.unrealized_conversion_cast";

// What is known of an op name before any op is read.
struct Known {
  std::string_view name = {};                // StableHLO's
  const OpInfo* info = nullptr;              // null: no row
  int vhlo = 0;                              // the version of a VHLO op; 0: another dialect's
  std::vector<std::string_view> names = {};  // of a VHLO op's attributes, in order
  std::string problem = {};                  // why it cannot be read
};

// The values of one region; `defined` grows up to `count`.
struct Frame {
  uint64_t first = 0, count = 0;
  bool isolated = false;
  std::vector<ValueId> defined = {};
};

class IrReader {
 public:
  IrReader(const Container& container, Module& module)
      : container_(container), module_(module), attrs_(container, module), vhlo_(container.has_dialect("vhlo")) {
    for (const OpName& op : container.ops) known_.push_back(know(op));
  }

  Result<void> read();

 private:
  Known know(const OpName& op);
  Result<void> read_region(Bytes& from, Region& region, std::string_view parent, bool isolated);
  Result<void> read_block(Bytes& from, Block& block, std::string_view parent, size_t blocks);
  Result<void> read_arguments(Bytes& from, Block& block);
  Result<bool> read_op(Bytes& from, Op& op, std::string_view parent, size_t blocks);  // false: a cast that vanishes
  Result<void> read_attributes(Bytes& from, Op& op, const Known& known, uint8_t mask);
  Result<void> read_properties(Bytes set, const Known& known, std::vector<NamedAttr>& attrs);
  Result<void> read_operands(Bytes& from, Op& op);
  Result<void> read_regions(Bytes& from, Op& op);
  Result<void> skip_use_orders(Bytes& from, uint64_t values);
  Result<ValueId> value(uint64_t number, const Bytes& from) const;
  Result<size_t> reserve(uint64_t n, const Bytes& from);  // slots of the current region
  ValueId define(TypeId type);

  const Container& container_;
  Module& module_;
  AttrReader attrs_;
  std::vector<Known> known_;
  std::vector<Frame> frames_;
  bool vhlo_ = false;
};

Known IrReader::know(const OpName& op) {
  Known out;
  if (op.dialect != "vhlo") {
    out.name = module_.keep(cat(op.dialect, ".", op.name));
    out.info = op_by_name(out.name);
    if (out.info != nullptr) out.name = out.info->row->name;
    return out;
  }
  const size_t mark = op.name.rfind("_v");
  const std::string_view digits = mark == std::string_view::npos ? "" : op.name.substr(mark + 2);
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), out.vhlo);
  out.name = op.name == "return_v1" ? "stablehlo.return" : name_from_vhlo(op.name.substr(0, mark));
  out.info = op_by_name(out.name);
  const OpRow* row = out.info != nullptr ? out.info->row : nullptr;
  const bool whole = error == std::errc{} && end == digits.data() + digits.size();
  if (row == nullptr || !whole || out.vhlo < row->first || out.vhlo > row->last) {
    out.problem = cat("op vhlo.", op.name, " of ", container_.producer, "; this reader knows the ops of 1.6 to 1.17");
    return out;
  }
  out.names = out.info->vhlo_names(out.vhlo);
  return out;
}

Result<void> IrReader::read() {
  Bytes from = container_.ir;
  frames_.push_back({});
  Block top;
  TRY(read_block(from, top, "", 0));
  if (from.left() > 0) return from.error(cat(from.left(), " bytes after the module"));
  if (top.ops.size() != 1 || top.ops[0].name != "builtin.module")
    return container_.ir.error("the IR section holds other than one module");
  module_.top = std::move(top.ops[0]);
  return {};
}

Result<ValueId> IrReader::value(uint64_t number, const Bytes& from) const {
  for (size_t i = frames_.size(); i-- > 0;) {
    const Frame& f = frames_[i];
    if (number >= f.first) {
      const uint64_t at = number - f.first;
      if (at < f.defined.size() && f.defined[at] != ValueId::none) return f.defined[at];
      break;
    }
    if (f.isolated) break;
  }
  return from.error(cat("value ", number, " is used before it is defined"));
}

Result<size_t> IrReader::reserve(uint64_t n, const Bytes& from) {
  Frame& f = frames_.back();
  if (n > f.count - f.defined.size()) return from.error(cat("a region of ", f.count, " values defines more"));
  if (n >= UINT32_MAX - module_.values.size()) return from.error("more than 2^32 values");
  const size_t at = f.defined.size();
  f.defined.resize(at + n, ValueId::none);
  return at;
}

ValueId IrReader::define(TypeId type) {
  module_.values.push_back(type);
  return ValueId(module_.values.size() - 1);
}

Result<void> IrReader::read_region(Bytes& from, Region& region, std::string_view parent, bool isolated) {
  if (frames_.size() > size_t(kDepthMax)) return from.error(cat("regions nested more than ", kDepthMax, " deep"));
  const uint64_t blocks = TRY(from.count("the number of blocks"));
  if (blocks == 0) return {};
  const uint64_t values = TRY(from.count("the number of values"));
  const uint64_t first = isolated ? 0 : frames_.back().first + frames_.back().count;
  frames_.push_back({.first = first, .count = values, .isolated = isolated});
  for (uint64_t i = 0; i < blocks; ++i) {
    region.blocks.emplace_back();
    TRY(read_block(from, region.blocks.back(), parent, blocks));
  }
  if (frames_.back().defined.size() != values)
    return from.error(cat("a region of ", values, " values defines ", frames_.back().defined.size()));
  frames_.pop_back();
  return {};
}

Result<void> IrReader::read_block(Bytes& from, Block& block, std::string_view parent, size_t blocks) {
  const Flagged head = TRY(from.flagged("a block's size"));
  if (head.value > from.left())
    return from.error(cat("a block of ", head.value, " ops, but only ", from.left(), " bytes are left"));
  block.first_argument = uint32_t(module_.values.size());
  if (head.flag) TRY(read_arguments(from, block));
  for (uint64_t i = 0; i < head.value; ++i) {
    Op op;
    if (TRY(read_op(from, op, parent, blocks))) block.ops.push_back(std::move(op));
  }
  return {};
}

Result<void> IrReader::read_arguments(Bytes& from, Block& block) {
  const uint64_t n = TRY(from.count("the number of arguments"));
  const size_t at = TRY(reserve(n, from));
  block.arguments = uint32_t(n);
  bool located = false;
  for (uint64_t i = 0; i < n; ++i) {
    Flagged type = {.flag = true};
    if (container_.version >= kArgLocations) {
      type = TRY(from.flagged("an argument's type"));
    } else {
      type.value = TRY(from.varint("an argument's type"));
    }
    frames_.back().defined[at + i] = define(TRY(attrs_.type_by_number(type.value, from)));
    block.locations.push_back(type.flag ? TRY(attrs_.location(from)) : AttrId::none);
    located = located || block.locations.back() != AttrId::none;
  }
  if (!located) block.locations.clear();
  if (container_.version >= kUseOrders && TRY(from.byte("whether use lists are ordered")) != 0)
    TRY(skip_use_orders(from, n));
  return {};
}

// The order of a value's uses means nothing to us.
Result<void> IrReader::skip_use_orders(Bytes& from, uint64_t values) {
  const uint64_t lists = values > 1 ? TRY(from.count("the number of use lists")) : 1;
  for (uint64_t i = 0; i < lists; ++i) {
    if (values > 1) TRY(from.below(values, "a use list's value"));
    const Flagged n = TRY(from.flagged("the length of a use list"));
    if (n.value > from.left()) return from.error(cat("a use list of ", n.value, " entries"));
    for (uint64_t j = 0; j < n.value; ++j) TRY(from.varint("a use list's entry"));
  }
  return {};
}

Result<bool> IrReader::read_op(Bytes& from, Op& op, std::string_view parent, size_t blocks) {
  const Bytes before = from;
  const Known& known = known_[TRY(from.below(known_.size(), "an op's name"))];
  if (!known.problem.empty()) {
    Error error = before.error(known.problem);
    error.code = Code::unsupported;
    return error;
  }
  op.name = known.vhlo != 0 && known.name == "stablehlo.return" && parent == "func.func" ? "func.return" : known.name;
  const uint8_t mask = TRY(from.byte("an op's parts"));
  if (mask > kKnownMask) return from.error(cat("an op with parts ", mask));
  op.location = TRY(attrs_.location(from));
  TRY(read_attributes(from, op, known, mask));
  std::vector<TypeId> types;
  if ((mask & kHasResults) != 0) {
    const uint64_t n = TRY(from.count("the number of results"));
    for (uint64_t i = 0; i < n; ++i) types.push_back(TRY(attrs_.type(from)));
  }
  const size_t slots = TRY(reserve(types.size(), from));
  if ((mask & kHasOperands) != 0) TRY(read_operands(from, op));
  if ((mask & kHasSuccessors) != 0) {
    const uint64_t n = TRY(from.count("the number of successors"));
    for (uint64_t i = 0; i < n; ++i) {
      op.successors.push_back(uint32_t(TRY(from.below(blocks, "a successor"))));
      if (op.successors.back() == 0) return from.error("a region's first block as a successor");
    }
  }
  if ((mask & kHasUseOrders) != 0) TRY(skip_use_orders(from, types.size()));
  if ((mask & kHasRegions) != 0) TRY(read_regions(from, op));

  // Between VHLO's types and the builtin ones lie casts; here both are one type, and the cast is nothing.
  bool cast = vhlo_ && op.name == kCast && op.operands.size() == types.size();
  for (size_t i = 0; cast && i < types.size(); ++i) cast = module_.type_of(op.operands[i]) == types[i];
  op.first_result = uint32_t(module_.values.size());
  op.results = uint32_t(types.size());
  for (size_t i = 0; i < types.size(); ++i)
    frames_.back().defined[slots + i] = cast ? op.operands[i] : define(types[i]);
  return !cast;
}

Result<void> IrReader::read_attributes(Bytes& from, Op& op, const Known& known, uint8_t mask) {
  const Bytes before = from;
  if ((mask & kHasAttrs) != 0) {
    const Attr& dictionary = module_.attr(TRY(attrs_.attr(from)));
    if (dictionary.kind != AttrKind::dictionary) return before.error("an op's attributes are not a dictionary");
    for (size_t i = 0; i < dictionary.keys.size(); ++i)
      op.attrs.push_back({dictionary.keys[i], dictionary.elements[i]});
  }
  if ((mask & kHasProperties) != 0) {
    const uint64_t set = TRY(from.below(container_.properties.size(), "a property set's number"));
    TRY(read_properties(container_.properties[set], known, op.attrs));
  }
  auto result = known.vhlo != 0 ? convert_from_vhlo(module_, *known.info, op.attrs) : Result<void>();
  if (result) result = sort_attrs(op.attrs);
  if (!result) return before.error(cat(known.name, ": ", result.error().message));
  return {};
}

Result<void> IrReader::read_properties(Bytes set, const Known& known, std::vector<NamedAttr>& attrs) {
  if (known.info == nullptr) {
    Error error = set.error(cat("op ", known.name, " has attributes this reader has no names for"));
    error.code = Code::unsupported;
    return error;
  }
  for (std::string_view name : known.names) attrs.push_back({name, TRY(attrs_.attr(set))});
  if (known.vhlo == 0) {
    for (const AttrRow& row : known.info->attrs) {
      const AttrId value = row.optional ? TRY(attrs_.optional_attr(set)) : TRY(attrs_.attr(set));
      if (value != AttrId::none) attrs.push_back({row.name, value});
    }
  }
  if (set.left() > 0) return set.error(cat(set.left(), " bytes after the attributes of ", known.name));
  return {};
}

Result<void> IrReader::read_operands(Bytes& from, Op& op) {
  const uint64_t n = TRY(from.count("the number of operands"));
  for (uint64_t i = 0; i < n; ++i) {
    const Bytes before = from;
    const uint64_t number = TRY(from.varint("an operand"));
    op.operands.push_back(TRY(value(number, before)));
  }
  return {};
}

// Regions that use no value from outside lie in one section of their own.
Result<void> IrReader::read_regions(Bytes& from, Op& op) {
  const Flagged head = TRY(from.flagged("the number of regions"));
  const bool apart = head.flag && container_.version >= kLazyRegions;
  if (!head.flag && head.value > 0 && is_isolated(op.name)) return from.error(cat(op.name, " may use outer values"));
  Bytes inner = from;
  if (apart) {
    const Section section = TRY(read_section(from));
    if (section.id != kIrSection) return from.error("expected the section of isolated regions");
    inner = section.bytes;
  }
  if (head.value > inner.left()) return from.error(cat("an op of ", head.value, " regions"));
  for (uint64_t i = 0; i < head.value; ++i) {
    op.regions.emplace_back();
    TRY(read_region(inner, op.regions.back(), op.name, head.flag));
  }
  if (!apart) {
    from = inner;
  } else if (inner.left() > 0) {
    return inner.error("bytes after the end of a region");
  }
  return {};
}

}  // namespace

Result<void> read_bytecode(std::string_view bytes, Module& module) {
  const Container container = TRY(read_container(bytes));
  module.producer = std::string(container.producer);
  return IrReader(container, module).read();
}

}  // namespace trine::front::stablehlo
