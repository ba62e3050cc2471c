// Interning of types and attributes, and the few questions every consumer of a module asks.
#include "front/stablehlo/module.h"

#include <algorithm>
#include <cstring>

#include "base/text.h"
#include "front/stablehlo/records.h"

namespace trine::front::stablehlo {

namespace {

constexpr int64_t kListMax = 65536;

struct Hash {
  size_t value = 0;

  void add(uint64_t x) { value = (value ^ x) * 0x9e3779b97f4a7c15 + (value >> 29); }
  void add(std::string_view s) {
    add(s.size());
    add(std::hash<std::string_view>{}(s));
  }
  template <class T>
  void add_all(const std::vector<T>& list) {
    add(list.size());
    for (const T& x : list) add(uint64_t(x));
  }
};

size_t hash_of(const Type& t) {
  Hash h;
  h.add(uint64_t(t.kind) << 8 | uint64_t(t.scalar));
  h.add(uint64_t(t.element) << 32 | uint64_t(t.encoding));
  h.add_all(t.shape);
  h.add_all(t.inputs);
  h.add_all(t.results);
  h.add(t.text);
  return h.value;
}

size_t hash_of(const Attr& a) {
  Hash h;
  h.add(uint64_t(a.kind) << 32 | uint64_t(a.type));
  h.add(a.bits);
  h.add(a.name);
  h.add(a.text);
  h.add_all(a.elements);
  for (std::string_view key : a.keys) h.add(key);
  return h.value;
}

}  // namespace

int Module::depth_of(const Type& t) const {
  int deepest = std::max(depth(t.element), depth(t.encoding));
  for (TypeId id : t.inputs) deepest = std::max(deepest, depth(id));
  for (TypeId id : t.results) deepest = std::max(deepest, depth(id));
  if (t.quantization) deepest = std::max({deepest, depth(t.quantization->storage), depth(t.quantization->expressed)});
  return deepest + 1;
}

int Module::depth_of(const Attr& a) const {
  int deepest = depth(a.type);
  for (AttrId id : a.elements) deepest = std::max(deepest, depth(id));
  return deepest + 1;
}

template <class Id, class T>
Result<Id> Module::add(Pool<T>& pool, T item, size_t hash) {
  for (auto [at, end] = pool.by_hash.equal_range(hash); at != end; ++at)
    if (pool.items[at->second] == item) return Id(at->second);
  const int depth = depth_of(item);
  if (depth > kDepthMax)
    return fail(Code::unsupported, cat("types or attributes nested more than ", kDepthMax, " deep"));
  const auto id = uint32_t(pool.items.size());
  pool.items.push_back(std::move(item));
  pool.depths.push_back(uint8_t(depth));
  pool.by_hash.emplace(hash, id);
  return Id(id);
}

Result<TypeId> Module::intern(Type type) {
  const size_t hash = hash_of(type);
  return add<TypeId>(types_, std::move(type), hash);
}

Result<AttrId> Module::intern(Attr attr) {
  const size_t hash = hash_of(attr);
  return add<AttrId>(attrs_, std::move(attr), hash);
}

std::string_view Module::keep(std::string text) {
  texts_.push_back(std::move(text));
  return texts_.back();
}

const Attr* Module::find(const Op& op, std::string_view name) const {
  for (const NamedAttr& a : op.attrs)
    if (a.name == name) return &attr(a.value);
  return nullptr;
}

const Attr* Module::field(const Attr& record, std::string_view name) const {
  const RecordRow* row = record.kind == AttrKind::record ? record_by_name(record.name) : nullptr;
  if (row == nullptr) return nullptr;
  for (size_t i = 0; i < row->fields.size(); ++i)
    if (row->fields[i].name == name) return record.elements[i] == AttrId::none ? nullptr : &attr(record.elements[i]);
  return nullptr;
}

int64_t Module::elements(const Type& tensor) const {
  int64_t n = 1;
  for (int64_t d : tensor.shape) {
    if (d < 0) return -1;
    if (d != 0 && n > (int64_t{1} << 62) / d) return -1;
    n *= d;
  }
  return n;
}

int Module::element_bytes(TypeId id) const {
  const Type& t = type(id);
  if (t.kind == TypeKind::scalar) return bytes(t.scalar);
  if (t.kind == TypeKind::quantized) return element_bytes(t.quantization->storage);
  return t.kind == TypeKind::complex ? 2 * element_bytes(t.element) : 0;
}

Result<std::vector<int64_t>> Module::integers(const Attr& a) const {
  const bool dense = a.kind == AttrKind::dense;
  if (!dense && a.kind != AttrKind::packed) return fail(Code::invalid, "expected a list of integers");
  const Type& scalar = type(dense ? type(a.type).element : a.type);
  if (scalar.kind != TypeKind::scalar || is_floating(scalar.scalar))
    return fail(Code::invalid, "expected a list of integers");
  const int width = bytes(scalar.scalar);
  const int64_t count = dense ? elements(type(a.type)) : int64_t(a.text.size()) / width;
  if (count < 0 || count > kListMax)
    return fail(Code::out_of_range, cat("a list of more than ", kListMax, " integers"));
  const bool splat = dense && int64_t(a.text.size()) == width;
  const int unused = 64 - 8 * width;
  std::vector<int64_t> out(size_t(count), 0);
  for (size_t i = 0; i < out.size(); ++i) {
    std::memcpy(&out[i], a.text.data() + (splat ? 0 : i * size_t(width)), size_t(width));
    if (row(scalar.scalar).kind == ScalarKind::signed_integer) out[i] = int64_t(uint64_t(out[i]) << unused) >> unused;
  }
  return out;
}

}  // namespace trine::front::stablehlo
