// One walk over the numbers of a report; how two or more become one is the caller's; see sum.h.
#include "run/report/sum.h"

#include <algorithm>
#include <numeric>

namespace trine::run {

namespace {

// `total` makes one number of those of all parts: of doubles a double, of whole numbers a whole one.
template <class Total>
class Sum {
 public:
  Sum(std::span<const Report> parts, const Total& total) : parts_(parts), total_(total) {}

  void into(Report& out, const arch::Instance& instance) const {
    for (double Report::* of :
         {&Report::time_ns, &Report::launch_ns, &Report::band_low_ns, &Report::band_high_ns, &Report::throttled_ns})
      out.*of = total([&](const Report& r) { return r.*of; });
    for (int64_t Report::* of : {&Report::instructions, &Report::transfers, &Report::flops, &Report::table_loads})
      out.*of = total([&](const Report& r) { return r.*of; });
    using sim::Traffic;
    for (int64_t Traffic::* of :
         {&Traffic::hbm_read, &Traffic::hbm_write, &Traffic::sbuf_read, &Traffic::sbuf_write, &Traffic::psum_read,
          &Traffic::psum_write, &Traffic::spill_save, &Traffic::spill_reload})
      out.traffic.*of = total([&](const Report& r) { return r.traffic.*of; });
    for (int64_t Report::* of : {&Report::sbuf_peak_bytes, &Report::psum_banks_used, &Report::hbm_used_bytes})
      for (const Report& r : parts_) out.*of = std::max(out.*of, r.*of);
    for (double Report::* share : {&Report::mfu, &Report::mbu})
      out.*share = out.time_ns > 0 ? total([&](const Report& r) { return r.*share * r.time_ns; }) / out.time_ns : 0;
    for (size_t e = 0; e < out.engines.size(); ++e) engine(out, e);
    const double joules = total([](const Report& r) { return r.cost.chip_joules; });
    out.cost = cost_of(instance, {.ns = out.time_ns, .cores = double(out.cores), .chip_joules = joules});
  }

 private:
  template <class F>
  auto total(F&& of) const {
    std::vector<decltype(of(parts_[0]))> values;
    for (const Report& r : parts_) values.push_back(of(r));
    return total_(values);
  }

  void engine(Report& out, size_t e) const {
    Report::Engine& to = out.engines[e];
    to.busy_ns = total([&](const Report& r) { return r.engines[e].busy_ns; });
    to.busy_share = out.time_ns > 0 ? to.busy_ns / (out.time_ns * out.cores) : 0;
    to.instructions = total([&](const Report& r) { return r.engines[e].instructions; });
    const auto waited = [&](const Report& r, const std::string& what) {
      for (const auto& [name, ns] : r.engines[e].waits_ns)
        if (name == what) return ns;
      return 0.0;
    };
    std::vector<std::string> names;
    for (const Report& r : parts_)
      for (const auto& [name, ns] : r.engines[e].waits_ns)
        if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
    to.waits_ns.clear();
    for (const std::string& name : names)
      if (const double ns = total([&](const Report& r) { return waited(r, name); }); ns > 0)
        to.waits_ns.emplace_back(name, ns);
    std::stable_sort(to.waits_ns.begin(), to.waits_ns.end(), [](auto& a, auto& b) { return a.second > b.second; });
  }

  std::span<const Report> parts_;
  const Total& total_;
};

template <class Total>
Report of_two(const Report& a, const Report& b, const arch::Instance& instance, const Total& total) {
  const Report both[] = {a, b};
  Report out = b;
  Sum(both, total).into(out, instance);
  return out;
}

}  // namespace

Report added(std::span<const Report> parts, const arch::Instance& instance) {
  const auto longest = std::max_element(parts.begin(), parts.end(),
                                        [](const Report& a, const Report& b) { return a.time_ns < b.time_ns; });
  Report out = *longest;
  if (parts.size() == 1) return out;
  const auto sum = []<class T>(const std::vector<T>& v) { return std::accumulate(v.begin(), v.end(), T{}); };
  Sum(parts, sum).into(out, instance);
  out.notes.clear();
  for (const Report& r : parts) out.notes.insert(out.notes.end(), r.notes.begin(), r.notes.end());
  return out;
}

Report extended(const Report& few, const Report& more, double times, const arch::Instance& instance) {
  return of_two(few, more, instance, [&]<class T>(const std::vector<T>& v) {
    return T(static_cast<double>(v[0]) + times * static_cast<double>(v[1] - v[0]));
  });
}

Report between(const Report& first, const Report& last, double count, const arch::Instance& instance) {
  return of_two(first, last, instance,
                [&]<class T>(const std::vector<T>& v) { return T(static_cast<double>(v[0] + v[1]) / 2 * count); });
}

}  // namespace trine::run
