// .npy files: what NumPy writes is read, what is written NumPy's way reads back, and errors say what was found.
#include "base/format/npy.h"

#include <doctest/doctest.h>

#include <cstring>

using namespace trine;

namespace {

std::string file_of(std::string dict, size_t data_bytes) {
  dict += '\n';
  std::string out = "\x93NUMPY";
  out += std::string("\x01\x00", 2);
  out += static_cast<char>(dict.size() & 0xff);
  out += static_cast<char>(dict.size() >> 8);
  return out + dict + std::string(data_bytes, 'x');
}

}  // namespace

TEST_CASE("round trip of every dtype and rank") {
  for (const Dtype d :
       {Dtype::f32, Dtype::bf16, Dtype::f16, Dtype::f8e4m3, Dtype::s8, Dtype::u32, Dtype::s64, Dtype::boolean})
    for (const std::vector<int64_t>& shape : {std::vector<int64_t>{}, {3}, {2, 3}, {0, 5}, {2, 1, 2}}) {
      size_t n = 1;
      for (int64_t s : shape) n *= static_cast<size_t>(s);
      std::vector<std::byte> data(n * static_cast<size_t>(bytes(d)));
      for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<std::byte>(i * 7);
      const std::string text = npy_text(d, shape, data);
      CHECK((text.size() - data.size()) % 64 == 0);
      const auto back = parse_npy(text, d, "x.npy");
      REQUIRE(back);
      CHECK(back->shape == shape);
      CHECK(back->bytes == data);
    }
}

TEST_CASE("errors name what was found") {
  const struct {
    std::string file, message;
  } cases[] = {
      {"hello", "not a .npy file"},
      {file_of("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }", 23),
       "shape [2,3] of f32 does not fit the 23 bytes"},
      {file_of("{'descr': '<f8', 'fortran_order': False, 'shape': (1,), }", 8), "dtype is <f8; expected <f4 for f32"},
      {file_of("{'descr': '<f4', 'fortran_order': True, 'shape': (1,), }", 4), "Fortran order"},
      {file_of("{'descr': '<f4', 'fortran_order': False, 'shape': (-1,), }", 4), "expected non-negative integers"},
      {file_of("{'descr': '<f4', 'fortran_order': False}", 4), "no shape"},
      {file_of("{'descr': '<f4', 'fortran_order': False, 'shape': (9223372036854775807, 4), }", 4),
       "expected non-negative integers"},
  };
  for (const auto& c : cases) {
    const auto r = parse_npy(c.file, Dtype::f32, "x.npy");
    REQUIRE(!r);
    CHECK(r.error().text().find(c.message) != std::string::npos);
    CHECK(r.error().where == "x.npy");
  }
}
