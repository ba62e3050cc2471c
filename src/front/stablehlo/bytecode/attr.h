// Attributes and types of a bytecode file, read on demand by number and brought to StableHLO's own form: VHLO's and
// the builtin dialect's spellings of a thing become one. Not the ops' attributes as a whole: vhlo.h converts those.
#pragma once

#include <string_view>
#include <vector>

#include "base/result.h"
#include "front/stablehlo/bytecode/bytes.h"
#include "front/stablehlo/bytecode/container.h"
#include "front/stablehlo/module.h"
#include "front/stablehlo/records.h"

namespace trine::front::stablehlo {

class AttrReader {
 public:
  AttrReader(const Container& container, Module& module);

  // Each reads a number at the cursor and gives what it stands for.
  Result<AttrId> attr(Bytes& from);
  Result<AttrId> optional_attr(Bytes& from);  // AttrId::none where the flag is not set
  Result<AttrId> attr_by_number(uint64_t number, const Bytes& from);
  Result<TypeId> type(Bytes& from);
  Result<TypeId> type_by_number(uint64_t number, const Bytes& from);
  Result<AttrId> location(Bytes& from);  // none: unknown
  Result<AttrId> location_by_number(uint64_t number, const Bytes& from);

 private:
  template <class Id>
  struct Slot {
    Id id = Id::none;
    bool reading = false;
  };

  Result<AttrId> read_attr(const Entry& entry);
  Result<AttrId> read_builtin(uint64_t code, Bytes& from);
  Result<AttrId> read_builtin_dense(uint64_t code, Bytes& from);
  Result<AttrId> read_vhlo(uint64_t code, Bytes& from);
  Result<AttrId> read_dialect(std::string_view dialect, uint64_t code, Bytes& from);
  Result<AttrId> read_record(const RecordRow& row, size_t fields, Bytes& from);
  Result<AttrId> read_field(FieldKind kind, Bytes& from);
  Result<AttrId> read_range_location(Bytes& from);
  Result<AttrId> read_dictionary(Bytes& from);
  Result<AttrId> read_number(Bytes& from, bool floating);
  Result<std::vector<AttrId>> read_attrs(Bytes& from);

  Result<TypeId> read_type(const Entry& entry);
  Result<TypeId> read_builtin_type(uint64_t code, Bytes& from);
  Result<TypeId> read_vhlo_type(uint64_t code, Bytes& from);
  Result<TypeId> read_quantized(bool per_axis, Bytes& from);
  Result<Type> read_shaped(TypeKind kind, bool encoded, Bytes& from);
  Result<std::vector<TypeId>> read_types(Bytes& from);
  Result<std::vector<int64_t>> read_integers(Bytes& from);
  Result<uint64_t> read_bits(int width, Bytes& from);
  Result<std::string_view> read_string(Bytes& from);
  Result<std::string_view> read_string_attr(Bytes& from);

  const Container& container_;
  Module& module_;
  std::vector<Slot<AttrId>> attrs_;
  std::vector<Slot<TypeId>> types_;
  int depth_ = 0;
};

}  // namespace trine::front::stablehlo
