// base/base64: the vectors of RFC 4648, and what is no base64.
#include "base/format/base64.h"

#include "tests/testing.h"

using namespace trine;

TEST_CASE("base64 as RFC 4648 has it") {
  constexpr std::pair<std::string_view, std::string_view> kPairs[] = {{"", ""},
                                                                      {"f", "Zg=="},
                                                                      {"fo", "Zm8="},
                                                                      {"foo", "Zm9v"},
                                                                      {"foob", "Zm9vYg=="},
                                                                      {"fooba", "Zm9vYmE="},
                                                                      {"foobar", "Zm9vYmFy"}};
  for (const auto& [plain, text] : kPairs) {
    CHECK_EQ(to_base64(std::as_bytes(std::span(plain))), text);
    const auto back = from_base64(text);
    REQUIRE(back);
    CHECK_EQ(std::string_view(reinterpret_cast<const char*>(back->data()), back->size()), plain);
  }
  for (std::string_view bad : {"Z", "Zg=", "Zg==Zg==", "Z===", "Zm9%", "=m9v"}) CHECK_FALSE(from_base64(bad));
}
