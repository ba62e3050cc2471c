// Instance files: totals agree with the published tables and with the chip; a wrong file is told what and where.
#include "arch/instances/instance.h"

#include <algorithm>

#include "base/text.h"
#include "tests/testing.h"

using namespace trine;
using namespace trine::arch;

static std::string error_of(std::string_view rest) {
  const auto i = parse_instance(cat(R"({"name": "m", "title": "M", "like": "trn1.32xlarge")", rest, "}"), "x.json");
  return i ? "no error" : i.error().text();
}

TEST_CASE("published totals") {
  struct Total {
    std::string_view name;
    int64_t chips, cores, device_gib, host_gib, vcpus;
    double memory_tb_per_s;
  };
  // Neuron SDK, instance pages; bandwidth in TB/s as printed (GiB/s there for the first generations).
  constexpr Total totals[] = {
      {"inf1.24xlarge", 16, 64, 128, 192, 96, 0.859},
      {"inf2.48xlarge", 12, 24, 384, 768, 192, 10.57},
      {"trn1.32xlarge", 16, 32, 512, 512, 128, 14.09},
      {"trn2.48xlarge", 16, 128, 1536, 2048, 192, 46.4},
      {"trn2-ultraserver", 64, 512, 6144, 8192, 768, 185.6},
      {"trn3-gen1-ultraserver", 64, 512, 9216, 8192, 768, 313.6},
      {"trn3-gen2-ultraserver", 144, 1152, 20736, 27648, 2304, 705.6},
  };
  for (const Total& t : totals) {
    INFO(t.name);
    const Instance& i = **find_instance(t.name);
    CHECK(i.chips == t.chips);
    CHECK(i.cores() == t.cores);
    CHECK((i.chips * i.chip->hbm.bytes >> 30) == t.device_gib);
    CHECK((i.host.memory_bytes >> 30) == t.host_gib);
    CHECK(i.host.vcpus == t.vcpus);
    const double ours = static_cast<double>(i.chips) * i.chip->hbm.bandwidth_bytes_per_ns / 1e3;
    CHECK(ours / t.memory_tb_per_s == doctest::Approx(1).epsilon(0.075));  // headline against parts, see the chips
  }
}

TEST_CASE("links do not exceed what the chip has") {
  for (const Instance& i : all_instances()) {
    double both_directions = 0;
    for (const Level& level : i.levels) {
      const double links = level.wiring == Wiring::torus ? 4 : level.wiring == Wiring::all_to_all ? 1 : 2;
      both_directions += 2 * links * level.link_bytes_per_ns;
    }
    INFO(i.name);
    const double headline = i.chip->link.bandwidth_bytes_per_ns * (i.name.starts_with("trn1n") ? 2 : 1);
    CHECK(both_directions <= headline * 1.001);
  }
}

TEST_CASE("prices are dated, and dearer on demand than reserved") {
  for (const Instance& i : all_instances()) {
    INFO(i.name);
    for (const Price& p : i.prices) {
      CHECK(known_number(i, rent_path(p.rent)) == p.usd_per_hour);
      CHECK((p.date.starts_with("2026-") || p.rent == Rent::reserved_3y));
    }
    const auto now = known_number(i, "price.on_demand_usd_per_hour"),
               year = known_number(i, "price.reserved_usd_per_hour"),
               three = known_number(i, "price.reserved_3y_usd_per_hour");
    if (now && year) CHECK(*now > *year);
    if (year && three) CHECK(*year > *three);
  }
  CHECK_FALSE(known_number(**find_instance("trn3-gen2-ultraserver"), "price.on_demand_usd_per_hour"));
  CHECK(known_number(**find_instance("trn2.48xlarge"), "price.capacity_block_usd_per_hour") == 35.7608);
}

TEST_CASE("prices as the price data has them") {
  struct Row {
    const char* name;
    Rent rent;
    double usd_per_hour;
    const char *region, *date;
  };
  static constexpr Row kRows[] = {
      {"trn1.2xlarge", Rent::on_demand, 1.34375, "us-east-1", "2026-01-21"},
      {"trn1.32xlarge", Rent::capacity_block, 9.532, "not stated", "2026-01-31"},
      {"trn1n.32xlarge", Rent::reserved, 15.247, "us-east-1", "2026-01-21"},
      {"trn2.3xlarge", Rent::capacity_block, 2.235, "ap-southeast-4", "2026-01-31"},
      {"trn2.48xlarge", Rent::capacity_block, 35.7608, "us-east-2", "2026-01-31"},
      {"inf1.24xlarge", Rent::on_demand, 4.721, "us-east-1", "2026-01-21"},
      {"inf2.xlarge", Rent::reserved_3y, 0.328, "not stated", "not stated"},
      {"inf2.48xlarge", Rent::reserved, 8.178, "us-east-1", "2026-01-21"},
      {"p5.48xlarge", Rent::on_demand, 55.04, "us-east-1", "2026-01-21"},
      {"p6-b300.48xlarge", Rent::on_demand, 142.416, "us-west-2", "2026-01-21"},
      {"g6e.48xlarge", Rent::reserved, 18.983, "us-east-1", "2026-01-21"},
      {"u-p6e-gb200x72", Rent::capacity_block, 761.904, "not stated", "2026-01-31"},
  };
  for (const Row& row : kRows) {
    INFO(row.name);
    std::vector<Price> prices;
    for (const Instance& i : all_instances())
      if (i.name == row.name) prices = i.prices;
    for (const OtherMachine& m : other_machines())
      if (m.name == row.name) prices = m.prices;
    const auto found = std::find_if(prices.begin(), prices.end(), [&](const Price& p) { return p.rent == row.rent; });
    REQUIRE(found != prices.end());
    CHECK(found->usd_per_hour == row.usd_per_hour);
    CHECK_EQ(found->region, row.region);
    CHECK_EQ(found->date, row.date);
  }
}

TEST_CASE("a price without place or day is an error, and so is a machine without chips") {
  const auto machine = [](const char* more) {
    const auto read =
        parse_machines(cat(R"({"machines": [{"name": "a", "chip": "b", "chips": 1)", more, "}]}"), "x.json");
    return read ? std::string("no error") : read.error().text();
  };
  CHECK_EQ(machine(""), "no error");
  CHECK(machine(R"(, "price": {"on_demand_usd_per_hour": {"is": 1, "from": "doc: x"}})").find("no region") !=
        std::string::npos);
  CHECK(machine(R"(, "price": {"on_demand_usd_per_hour": {"is": 1, "from": "doc: x", "region": "y", "date": "May"}})")
            .find("write a day as 2026-01-21") != std::string::npos);
  CHECK(machine(R"(, "chip_watts": 3)").find("a bare number") != std::string::npos);
  CHECK(machine(R"(, "cost": 3)").find("no such key") != std::string::npos);
  CHECK_FALSE(parse_machines(R"({"machines": [{"name": "a"}]})", "x.json").has_value());
  CHECK_FALSE(parse_machines("{}", "x.json").has_value());
}

TEST_CASE("all of a projected instance says so") {
  for (const Instance& i : all_instances())
    if (i.chip->name == "trn4")
      for (const auto& [path, from] : i.sources) CHECK_MESSAGE(from.starts_with("projected"), path);
}

TEST_CASE("an unknown name lists the nearest") {
  CHECK(find_instance("trn1.23xlarge").error().message.find("trn1.32xlarge") != std::string::npos);
  CHECK((*find_instance("TRN2.48xlarge"))->name == "trn2.48xlarge");
}

TEST_CASE("errors name the file, the path and the expectation") {
  CHECK_EQ(error_of(""), "no error");
  CHECK_EQ(error_of(R"(, "chips": {"is": 8, "from": "doc: x"})"), "x.json: chips: found 8, but the topology has 16");
  CHECK_EQ(error_of(R"(, "chip": "trn7")"),
           "x.json: chip: no chip \"trn7\"; there are inf1, inf2, trn1, trn2, trn3, trn4");
  CHECK_EQ(error_of(R"(, "hosts": {"is": 3, "from": "doc: x"})"),
           "x.json: hosts: found 3, expected a divisor of 16 chips");
  CHECK(error_of(R"(, "topology": [{"wiring": "star"}])").starts_with("x.json: topology[0].wiring: found \"star\""));
  CHECK(error_of(R"(, "topology": [{"wiring": "torus", "sides": [4]}])") ==
        "x.json: topology[0].sides: expected 2 numbers");
  CHECK(error_of(R"(, "topology": [{"wiring": "ring", "sides": [4], "from": "x", "hops": 1}])")
            .starts_with("x.json: topology[0].hops: no such key"));
  CHECK(error_of(R"(, "topology": [{"wiring": "ring", "sides": [4], "from": "x"}])") ==
        "x.json: topology[0].link_bytes_per_ns: missing");
  CHECK(error_of(R"(, "price": {"on_demand": {"is": 1, "from": "x"}})").find("nearest: price.on_demand_usd_per_hour") !=
        std::string::npos);
}
