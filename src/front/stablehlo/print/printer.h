// The printer of attributes, types and ops, spread over print*.cpp. Not an interface: print.h is.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "front/stablehlo/module.h"
#include "front/stablehlo/print/print.h"
#include "front/stablehlo/records.h"

namespace trine::front::stablehlo {

class Printer {
 public:
  Printer(const Module& module, PrintOptions options) : module_(module), options_(options) {}

  void type(TypeId id);
  void attr(AttrId id);
  void op(const Op& op, int indent);
  bool full() const { return out_.size() > options_.bytes_max; }
  std::string take() { return std::move(out_); }

 private:
  template <class List, class F>
  void list(const List& items, F each) {
    bool first = true;
    for (const auto& item : items) {
      if (!first) out_ += ", ";
      first = false;
      each(item);
      if (full()) return;
    }
  }
  void types(const std::vector<TypeId>& ids, bool brackets_for_one);
  void shape(const Type& type);
  void quantized(const Quantization& q);
  void name(std::string_view name);  // bare where it can be
  void quoted(std::string_view text);
  void symbol(std::string_view name);
  void number(Scalar scalar, uint64_t bits);
  void element(TypeId type, std::string_view bytes);
  void dense(const Attr& attr);
  void dense_list(const Attr& attr, const Type& tensor, size_t dimension, size_t& at);
  void packed(const Attr& attr);
  void integers(const Attr& packed, std::string_view dynamic = {});
  void dictionary(const std::vector<NamedAttr>& attrs);
  void symbol_attr(const Attr& attr);
  void enumeration(const Attr& attr);
  void record(const Attr& attr);  // with its #dialect.name
  void record_body(const Attr& attr, const RecordRow& row);
  void record_fields(const Attr& attr, const RecordRow& row);
  void record_pattern(const Attr& attr, const RecordRow& row);
  void record_custom(const Attr& attr, const RecordRow& row);
  void field(const Field& field, AttrId id);
  void pattern_field(const Field& field, AttrId id);
  bool conv_numbers(const Attr& attr, const RecordRow& row);
  void sharding(const Attr& attr);
  void dimension_sharding(const Attr& attr);
  void sharding_rule(const Attr& attr);
  void factor(int64_t number);
  void location(const Attr& attr);  // inside loc(...)
  void trailing_location(AttrId id);
  const Attr& field_of(const Attr& attr, std::string_view name) const;

  void region(const Region& region, int indent);
  void block(const Block& block, size_t number, bool labelled, int indent);
  void define(uint32_t first, uint32_t count, bool arguments);
  void value(ValueId id);
  void line(int indent);

  struct Name {
    uint32_t number = 0, index = 0;
    bool argument = false, grouped = false;
  };

  const Module& module_;
  PrintOptions options_;
  std::string out_;
  std::vector<Name> names_;
  uint32_t next_result_ = 0, next_argument_ = 0;
};

}  // namespace trine::front::stablehlo
