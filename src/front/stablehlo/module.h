// A StableHLO module as it was read, from bytecode or text: ops with operands, attributes and regions, and the types
// and attributes they name. A front-end structure: the tensor graph is built from it elsewhere, nothing is inferred.
// Invariants: values are numbered in the order they are defined (an op's results after its regions) and used only
// after that; types and attributes are interned, so that equal ids mean equal things; dictionaries are sorted by key.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "front/stablehlo/scalar.h"

namespace trine::front::stablehlo {

enum class TypeId : uint32_t { none = UINT32_MAX };
enum class AttrId : uint32_t { none = UINT32_MAX };
enum class ValueId : uint32_t { none = UINT32_MAX };

inline constexpr int64_t kDynamic = INT64_MIN;  // a dimension of unknown size, as MLIR stores it
inline constexpr int kDepthMax = 250;           // of nested types, attributes and regions

enum class TypeKind : uint8_t {
  scalar,
  complex,
  tensor,
  unranked_tensor,
  buffer,  // memref
  tuple,
  token,
  future,
  function,
  quantized,
  none,
  witness,
  opaque,  // of a dialect not known here, kept as text
};

struct Quantization {
  TypeId storage = TypeId::none, expressed = TypeId::none;
  uint32_t flags = 0;  // 1: storage is signed
  int64_t axis = -1;   // -1: one scale for the whole tensor
  std::vector<double> scales = {};
  std::vector<int64_t> zero_points = {};
  int64_t min = 0, max = 0;  // of the storage

  bool operator==(const Quantization&) const = default;
};

struct Type {
  TypeKind kind = TypeKind::none;
  Scalar scalar = Scalar::count;
  TypeId element = TypeId::none;     // complex, tensors, buffer
  AttrId encoding = AttrId::none;    // tensor: #stablehlo.bounds
  std::vector<int64_t> shape = {};   // tensor, buffer
  std::vector<TypeId> inputs = {};   // function; the elements of tuple and future
  std::vector<TypeId> results = {};  // function
  std::optional<Quantization> quantization = {};
  std::string_view text = {};  // opaque

  bool operator==(const Type&) const = default;
};

enum class AttrKind : uint8_t {
  unit,
  boolean,
  integer,
  floating,
  string,
  symbol,
  type,
  array,
  dictionary,
  dense,        // elements of a tensor
  packed,       // array<i64: ...>
  enumeration,  // #stablehlo<precision HIGH>
  record,       // #stablehlo.dot<...>, #sdy.sharding<...>, locations: fields in the order of its row in records.h
  opaque,       // of a dialect not known here, kept as text
};

struct Attr {
  AttrKind kind = AttrKind::unit;
  TypeId type = TypeId::none;  // integer, floating, dense: its type; packed: of an element; type: the type itself
  uint64_t bits = 0;           // boolean; integer, sign-extended; floating, in its own format
  std::string_view name = {};  // enumeration, record: "stablehlo.dot"
  std::string_view text = {};  // string, symbol, enumeration, opaque; of dense and packed the bytes, see below
  std::vector<AttrId> elements = {};        // array, record (none where a field is absent), dictionary, nested symbol
  std::vector<std::string_view> keys = {};  // dictionary

  bool operator==(const Attr&) const = default;
};
// Bytes of dense and packed: little-endian elements in row-major order, each in whole bytes (i1 and i4 one each,
// complex two parts). A dense constant whose elements are all equal holds one of them.

struct NamedAttr {
  std::string_view name = {};
  AttrId value = AttrId::none;

  bool operator==(const NamedAttr&) const = default;
};

struct Region;

struct Op {
  std::string_view name = {};  // "stablehlo.add"
  std::vector<ValueId> operands = {};
  uint32_t first_result = 0, results = 0;  // values first_result ... + results
  std::vector<NamedAttr> attrs = {};       // sorted by name
  std::vector<Region> regions;
  std::vector<uint32_t> successors = {};  // blocks of the region the op lies in
  AttrId location = AttrId::none;         // none: unknown

  ValueId result(uint32_t i) const { return ValueId(first_result + i); }
};

struct Block {
  uint32_t first_argument = 0, arguments = 0;  // values, as an op's results
  std::vector<AttrId> locations = {};          // of the arguments; empty: all unknown
  std::vector<Op> ops = {};

  ValueId argument(uint32_t i) const { return ValueId(first_argument + i); }
};

struct Region {
  std::vector<Block> blocks = {};
};

class Module {
 public:
  std::string producer;        // "StableHLO_v1.10.0" of a portable artifact; empty of text
  Op top;                      // the builtin.module
  std::vector<TypeId> values;  // the type of each value

  const Type& type(TypeId id) const { return types_.items[size_t(id)]; }
  const Attr& attr(AttrId id) const { return attrs_.items[size_t(id)]; }
  TypeId type_of(ValueId value) const { return values[size_t(value)]; }
  size_t type_count() const { return types_.items.size(); }
  size_t attr_count() const { return attrs_.items.size(); }

  const Attr* find(const Op& op, std::string_view name) const;         // null where the op has no such attribute
  const Attr* field(const Attr& record, std::string_view name) const;  // null where it is absent
  // Of packed or dense integers, splats expanded; an error where it is neither, or past 65,536 elements.
  Result<std::vector<int64_t>> integers(const Attr& attr) const;
  int64_t elements(const Type& tensor) const;         // -1: of unknown number, or past 2^62
  int element_bytes(TypeId scalar_or_complex) const;  // in a dense constant; 0: not such a type

  // For the readers. The error is that of nesting past kDepthMax.
  Result<TypeId> intern(Type type);
  Result<AttrId> intern(Attr attr);
  std::string_view keep(std::string text);  // lives as long as the module

 private:
  template <class T>
  struct Pool {
    std::vector<T> items;
    std::vector<uint8_t> depths;
    std::unordered_multimap<size_t, uint32_t> by_hash;
  };
  int depth(TypeId id) const { return id == TypeId::none ? 0 : types_.depths[size_t(id)]; }
  int depth(AttrId id) const { return id == AttrId::none ? 0 : attrs_.depths[size_t(id)]; }
  int depth_of(const Type& type) const;
  int depth_of(const Attr& attr) const;
  template <class Id, class T>
  Result<Id> add(Pool<T>& pool, T item, size_t hash);

  Pool<Type> types_;
  Pool<Attr> attrs_;
  std::deque<std::string> texts_;
};

// Where two modules first differ, or empty: names, types, attributes, values, regions; locations too when asked.
std::string difference(const Module& a, const Module& b, bool locations);

}  // namespace trine::front::stablehlo
