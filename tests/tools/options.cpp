// The option tables themselves: every row is whole and every example in a row is a command line its table takes; how
// values are checked and handed to Python.
#include "tools/options.h"

#include <algorithm>
#include <set>

#include "base/text.h"
#include "tools/cli.h"
#include "tools/complete.h"

#include "tests/testing.h"  // last: its CHECK replaces ours

using namespace trine;
using namespace trine::tools;

namespace {

// As a shell takes them apart, with single quotes.
std::vector<std::string> words_of(std::string_view line) {
  std::vector<std::string> out;
  std::string word;
  bool is_quoted = false, has_word = false;
  for (const char c : cat(line, " ")) {
    if (c == '\'') is_quoted = !is_quoted, has_word = true;
    if (c == '\'') continue;
    if (c != ' ' || is_quoted) word += c, has_word = true;
    if (c != ' ' || is_quoted || !has_word) continue;
    out.push_back(std::move(word));
    word.clear(), has_word = false;
  }
  return out;
}

constexpr Option kRows[] = {
    {"--count", "-c", "N", "how many", whole(1, 9).otherwise("2")},
    {"--rate", "", "X", "how fast", real()},
    {"--type", "", "T", "of what", one_of("f16=fp16=float16 f32")},
    {"--each", "", "K=V", "again", Values().repeated()},
    {"--long-name", "", "", "a switch"},
    {"--their-count", "", "N", "somebody's name of --count", {}, "--count"},
};
constexpr Command kCommand{.name = "c", .words = "[W...]", .words_max = 2, .options = kRows};

Result<Args> read(std::string_view line) { return parse_args(kCommand, words_of(line)); }

std::vector<std::string> completed(std::vector<std::string> line) {
  std::vector<std::string> out;
  for (const Candidate& c : complete(line).words) out.push_back(c.text);
  return out;
}

}  // namespace

TEST_CASE("every row is whole, and its examples are lines it takes") {
  std::set<std::string_view> names;
  for (const Command* c : commands()) {
    CAPTURE(std::string(c->name));
    CHECK(names.insert(c->name).second);
    CHECK(!c->summary.empty());
    CHECK((c->run != nullptr) != !c->python.empty());
    CHECK((c->words_max > 0) == !c->words.empty());
    std::set<std::string_view> options;
    for (const Option& o : c->options) {
      CAPTURE(std::string(o.name));
      CHECK(o.name.starts_with("--"));
      CHECK(!o.meaning.empty());
      CHECK(options.insert(o.name).second);
      if (!o.brief.empty()) CHECK(options.insert(o.brief).second);
      if (!o.values.initial.empty()) CHECK(check_value(o.values, o.name, o.values.initial).has_value());
      if (o.is_switch()) CHECK(o.values.kind == Values::Kind::text);
      if (o.same_as.empty()) continue;
      const Option* set = find_option(*c, o.same_as);
      REQUIRE(set);
      CHECK(set->same_as.empty());
      CHECK(set->is_switch() == o.is_switch());
    }
    for (std::string_view line : split(c->examples, '\n')) {
      CAPTURE(std::string(line));
      const std::string start = cat("trine ", c->name);
      const size_t at = line.find(start);
      REQUIRE(at != std::string_view::npos);
      line = line.substr(at + start.size());
      line = line.substr(0, std::min(line.find(" |"), line.find(')')));
      CHECK(parse_args(*c, words_of(line)).has_value());
    }
  }
}

TEST_CASE("values are checked by their row") {
  CHECK(read("-c 3")->integer("--count") == 3);
  CHECK(read("")->integer("--count") == 2);
  CHECK(read("--rate=0.5")->real("--rate") == 0.5);
  CHECK(read("--type float16")->get("--type") == "f16");
  CHECK(read("")->get("--type", "f32") == "f32");
  CHECK(read("--each a=1 --each=b=2")->all("--each") == std::vector<std::string>{"a=1", "b=2"});
  CHECK(read("--count 10").error().message == "found --count 10, expected a whole number from 1 to 9");
  CHECK(read("--count=2.5").error().message == "found --count 2.5, expected a whole number from 1 to 9");
  CHECK(read("--rate -1").error().message == "found --rate -1, expected a number, 0 or more");
  CHECK(read("--rate nan").error().message == "found --rate nan, expected a number, 0 or more");
  CHECK(read("--type i8").error().message == "found --type i8, expected f16 or f32");
  CHECK(read("a b c").error().message == "one argument too many: \"c\"");
}

TEST_CASE("Python gets every option of the table, typed") {
  const Json asked = read("x --count 3 --each a=1 --long-name")->json();
  CHECK(asked.text() ==
        R"({"words": ["x"], "options": {"count": 3, "rate": null, "type": null, "each": ["a=1"], "long-name": true}})");
  CHECK(read("")->json().find("options")->find("count")->integer() == 2);
  CHECK(read("--their-count 3")->json().find("options")->text() == read("--count 3")->json().find("options")->text());
  CHECK(read("--their-count 3 -c 3")->integer("--count") == 3);
  CHECK(read("--their-count 10").error().message == "found --their-count 10, expected a whole number from 1 to 9");
  CHECK(read("-c 3 --their-count 4").error().message == "--count 3 and --their-count 4 say the opposite; give one");
  CHECK(read("--long-name -c 1")->typed() == std::vector<std::string>{"--count=1", "--long-name"});
}

TEST_CASE("completion knows where on the line it is") {
  CHECK(completed({"trine", "est"}) == std::vector<std::string>{"estimate"});
  CHECK(completed({"trine", "estimate", "--auto-cast", ""}) == std::vector<std::string>{"none", "matmult", "all"});
  CHECK(completed({"trine", "estimate", "--recompute-granularity", "f"}) == std::vector<std::string>{"full"});
  CHECK(completed({"trine", "estimate", "--auto-cast=m"}) == std::vector<std::string>{"--auto-cast=matmult"});
  CHECK(completed({"trine", "estimate", "--compare", "inf1.xlarge,inf2.x"}) ==
        std::vector<std::string>{"inf1.xlarge,inf2.xlarge"});
  CHECK(completed({"trine", "chips", "trn2", "trn1"}) == std::vector<std::string>{"trn1"});
  CHECK(completed({"trine", "use", "trn1.2xlarge", "trn"}).empty());  // it takes one
  CHECK(completed({"trine", "ls", "--instance=x", "--json", "--json"}) == std::vector<std::string>{"--json-output"});
  CHECK(completed({"neuron-ls", "--to"}) == std::vector<std::string>{"--topology"});
  CHECK(completed({"trine", "nothing", "--"}).empty());
  CHECK(complete(std::vector<std::string>{"trine", "run", "--input", "x=da"}).endings == ".npy");
  CHECK(!complete(std::vector<std::string>{"trine", "run", "--input", "da"}).files);
  CHECK(complete(std::vector<std::string>{"trine", "cache", "--url", ""}).folders);
}
