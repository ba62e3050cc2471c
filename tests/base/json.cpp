// base/json: strict reading with a position for every mistake; what is written reads back equal.
#include "base/format/json.h"

#include <cmath>
#include <limits>
#include <random>

#include "base/text.h"
#include "tests/testing.h"

using namespace trine;

static std::string error_of(std::string_view text) {
  const auto v = parse_json(text, "x.json");
  return v ? "no error" : v.error().text();
}

TEST_CASE("values read as what they are") {
  const Json v = *parse_json(R"( {"a": [1, -2.5e3, true, null, "x"], "b": {"c": {}}, "": [] } )");
  CHECK_EQ(v.members().size(), 3);
  CHECK_EQ(v.find("a")->items()[0].integer(), 1);
  CHECK_EQ(v.find("a")->items()[1].number(), -2500);
  CHECK(v.find("a")->items()[2].boolean());
  CHECK(v.find("a")->items()[3].is_null());
  CHECK_EQ(v.find("a")->items()[4].string(), "x");
  CHECK(v.find("b")->find("c")->is_object());
  CHECK(v.find("")->is_array());
  CHECK_FALSE(v.find("z"));
  CHECK_FALSE(v.find("a")->find("b"));
}

TEST_CASE("readers of another kind answer with nothing") {
  const Json v("text");
  CHECK_EQ(v.number(), 0);
  CHECK_EQ(v.integer(), 0);
  CHECK(v.items().empty());
  CHECK(v.members().empty());
  CHECK(Json(3).string().empty());
  CHECK_EQ(Json(1e300).integer(), INT64_MAX);
  CHECK_EQ(Json(-1e300).integer(), INT64_MIN);
  CHECK_EQ(Json(std::nan("")).integer(), 0);
}

TEST_CASE("integers stay exact") {
  CHECK_EQ(parse_json("9007199254740993")->integer(), 9007199254740993);
  CHECK_EQ(Json(INT64_MIN).text(), "-9223372036854775808");
  CHECK_EQ(parse_json("-9223372036854775808")->integer(), INT64_MIN);
  CHECK_EQ(parse_json("9223372036854775808")->number(), 0x1p63);
  CHECK(std::signbit(parse_json("-0")->number()));
  CHECK(*parse_json("2") == *parse_json("2.0"));
}

TEST_CASE("escapes and code points") {
  CHECK_EQ(parse_json(R"("\u00e9\u20ac\ud83d\ude00\/\b\f\n\r\t\\\"")")->string(), "é€😀/\b\f\n\r\t\\\"");
  CHECK_EQ(Json("a\"\\\n\x01é").text(), "\"a\\\"\\\\\\n\\u0001é\"");
  CHECK_FALSE(is_utf8("\xC0\x80"));          // too long a form
  CHECK_FALSE(is_utf8("\xED\xA0\x80"));      // half a surrogate pair
  CHECK_FALSE(is_utf8("\xF4\x90\x80\x80"));  // past the last code point
  CHECK_FALSE(is_utf8("\xE2\x82"));
  CHECK(is_utf8("é€😀"));
}

TEST_CASE("mistakes have a place") {
  CHECK_EQ(error_of(""), "x.json:1:1: found the end, expected a value");
  CHECK_EQ(error_of("{\n \"a\": 1,\n}"), "x.json:3:1: found '}', expected a key in quotes");
  CHECK_EQ(error_of("[1 2]"), "x.json:1:4: found '2', expected ',' or ']'");
  CHECK_EQ(error_of("01"), "x.json:1:2: found '1', expected end of input");
  CHECK_EQ(error_of("[1.]"), "x.json:1:4: found ']', expected a digit after '.'");
  CHECK_EQ(error_of("1e999"), "x.json:1:1: number 1e999 is past what a double holds");
  CHECK_EQ(error_of("{\"a\":1,\"a\":2}"), "x.json:1:14: key \"a\" twice in the object that ends here");
  CHECK_EQ(error_of("\"\\x\""), "x.json:1:3: found 'x', expected one of \" \\ / b f n r t u after '\\'");
  CHECK_EQ(error_of("\"\\ud800\""), "x.json:1:8: found '\"', expected the second half of a surrogate pair");
  CHECK_EQ(error_of("\"a\tb\""), "x.json:1:3: raw control character 9 in a string; write it as an escape");
  CHECK_EQ(error_of("\"\xFF\""), "x.json:1:1: string is not valid UTF-8");
  CHECK_EQ(error_of("nul"), "x.json:1:1: found 'n', expected a value");
  CHECK_EQ(error_of(std::string(100000, '[')), "x.json:1:202: nested deeper than 200");
  CHECK_EQ(error_of(std::string("[1,\0]", 5)), "x.json:1:4: found byte 0, expected a value");
}

TEST_CASE("written compact and indented") {
  const Json v = Json::object().set("a", Json::array().push(1).push(2.5)).set("b", Json::object()).set("a", true);
  CHECK_EQ(v.text(), R"({"a": true, "b": {}})");
  CHECK_EQ(Json::object().set("x", Json::array().push(1).push("y")).text(2),
           "{\n  \"x\": [\n    1,\n    \"y\"\n  ]\n}");
  CHECK_EQ(Json(std::numeric_limits<double>::infinity()).text(), "null");
}

static Json random_value(std::mt19937& random, int depth) {
  switch (random() % (depth > 4 ? 5 : 7)) {
    case 0:
      return nullptr;
    case 1:
      return random() % 2 == 0;
    case 2:
      return static_cast<int64_t>(random()) * (random() % 2 ? -1 : 1) << random() % 20;
    case 3:
      return std::ldexp(static_cast<double>(random()), static_cast<int>(random() % 200) - 100);
    case 4: {
      std::string s;
      for (auto n = random() % 9; n > 0; --n) s += random() % 5 ? static_cast<char>(random() % 128) : '\\';
      return s;
    }
    case 5: {
      Json v = Json::array();
      for (auto n = random() % 4; n > 0; --n) v.push(random_value(random, depth + 1));
      return v;
    }
    default: {
      Json v = Json::object();
      for (auto n = random() % 4; n > 0; --n) v.set(cat("k", random() % 5), random_value(random, depth + 1));
      return v;
    }
  }
}

TEST_CASE("any value reads back equal") {
  for (uint32_t seed = 0; seed < 2000; ++seed) {
    std::mt19937 random(seed);
    const Json v = random_value(random, 0);
    INFO("seed " << seed << ": " << v.text());
    const auto compact = parse_json(v.text()), indented = parse_json(v.text(3));
    REQUIRE(compact);
    REQUIRE(indented);
    CHECK(*compact == v);
    CHECK(*indented == v);
  }
}
