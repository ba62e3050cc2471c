// Writes the text of a graph line by line: values have names that the next line can use.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "base/number/scalar.h"
#include "base/text.h"

namespace trine::compile {

class GraphWriter {
 public:
  using Names = std::vector<std::string>;

  std::string in(std::string_view type) {
    const std::string name = fresh();
    append_text(params_, cat(params_.empty() ? "" : ", ", name, ": ", type));
    return name;
  }
  // rest: attributes, and regions after them.
  std::string op(std::string_view op, const Names& inputs, std::string_view type, std::string_view rest = {}) {
    const std::string name = fresh();
    append_text(body_,
                cat("  ", name, " = ", op, " ", join(inputs, ", "), rest.empty() ? "" : " ", rest, " : ", type, "\n"));
    return name;
  }
  std::string number(Dtype dtype, double value) {
    constexpr std::string_view kDigits = "0123456789abcdef";
    const Tensor t = scalar(dtype, value);
    std::string hex;
    for (size_t i = 0; i < t.bytes(); ++i) {
      const auto b = size_t(t.data.get()[i]);
      hex += kDigits[b >> 4];
      hex += kDigits[b & 15];
    }
    return op("constant", {}, cat(row(dtype).name, "[]"), cat("{value = ", row(dtype).name, "[] x", hex, "}"));
  }
  // A scalar everywhere, or a value along dims of the type.
  std::string spread(const std::string& x, std::string_view type, std::string_view dims = {}) {
    return op("broadcast_in_dim", {x}, type, cat("{broadcast_dimensions = [", dims, "]}"));
  }
  std::string reduce(const std::string& x, std::string_view kind, std::string_view dims, std::string_view type,
                     Dtype dtype = Dtype::f32, double init = 0) {
    return op("reduce", {x, number(dtype, init)}, type, cat("{dimensions = [", dims, "], kind = \"", kind, "\"}"));
  }
  std::string text(const Names& results) const {
    return cat("graph \"g\" (", params_, ") {\n", body_, "  return ", join(results, ", "), "\n}");
  }

 private:
  std::string fresh() { return cat("%", next_++); }

  std::string params_, body_;
  int next_ = 0;
};

}  // namespace trine::compile
