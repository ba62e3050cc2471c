// base/text: what people read must not depend on locale, and must read back.
#include "base/text.h"

#include <cstdlib>

#include "tests/testing.h"

using namespace trine;

TEST_CASE("cat joins text and numbers") {
  CHECK_EQ(cat("version ", 7, " of ", 2.5, ' ', true), "version 7 of 2.5 true");
}

TEST_CASE("shortest reads back to the same double") {
  for (double v : {0.0, 0.1, 1e300, 5e-324, -3.0, 1.0 / 3}) CHECK_EQ(std::strtod(shortest(v).c_str(), nullptr), v);
}

TEST_CASE("split keeps empty fields, trim drops space at both ends") {
  CHECK_EQ(split("a,,b", ',').size(), 3);
  CHECK_EQ(trim("  x y\t\n"), "x y");
}

TEST_CASE("nearest finds what was meant") {
  std::vector<std::string> names{"trn1.2xlarge", "trn2.48xlarge", "inf2.xlarge"};
  CHECK_EQ(nearest("trn1.2xlrage", names).front(), "trn1.2xlarge");
}

TEST_CASE("columns line up by code point") {
  CHECK_EQ(display_width("4×8 µs"), 6);
  CHECK_EQ(columns({{"a", "1"}, {"µµ", "22"}}, "01"), "a    1\nµµ  22\n");
}
