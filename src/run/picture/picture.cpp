// Where lanes, axis and legend go; see picture.h.
#include "run/picture/picture.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "arch/asm/asm.h"
#include "arch/row.h"
#include "base/file.h"
#include "base/text.h"
#include "run/profile/trace.h"

namespace trine::run {

namespace {

using sim::Event;
using sim::Part;

constexpr double kWidth = 1180, kLeft = 92, kPlot = static_cast<double>(kPictureBins), kMargin = 20;
constexpr double kEngineHeight = 26, kQueueHeight = 13, kWaitHeight = 4, kGap = 9, kQueueGap = 7;
constexpr size_t kQueuesMax = 6, kStackMax = 4;
// Drawn one by one when they are this few, or this wide on average.
constexpr int64_t kFewEvents = 40;
constexpr double kEventWidth = 2;

Ink ink_of(Part p) {
  return p <= Part::dma ? static_cast<Ink>(static_cast<size_t>(Ink::tensor) + static_cast<size_t>(p)) : Ink::other;
}
static_assert(static_cast<int>(Ink::dma) - static_cast<int>(Ink::tensor) == static_cast<int>(Part::dma));

std::string percent(double share) { return cat(fixed(100 * share, 1), " %"); }

struct LaneBox {
  const Lane* lane;
  double top, height;
};

class Drawing {
 public:
  Drawing(const arch::Program& program, const Report& report, const sim::Timing& timing, const Occupancy& seen)
      : program_(program), report_(report), timing_(timing), seen_(seen), canvas_(kWidth, lay_out()) {}

  Canvas run() {
    heading();
    for (const LaneBox& p : boxes_) canvas_.rect(kLeft, p.top, kPlot, p.height, Ink::band);
    axis();
    launch();
    for (const LaneBox& p : boxes_) draw_lane(p);
    legend();
    return std::move(canvas_);
  }

 private:
  // Lanes from top to bottom; the height that all of it takes.
  double lay_out() {
    double y = 84;
    for (int core = 0; core < program_.cores; ++core) {
      if (program_.cores > 1) {
        captions_.push_back({y + 11, cat("core ", core)});
        y += 20;
      }
      std::vector<const Lane*> queues;
      for (const Lane& l : seen_.lanes) {
        if (l.core != core) continue;
        if (l.part == Part::dma) {
          queues.push_back(&l);
          continue;
        }
        boxes_.push_back({&l, y, kEngineHeight});
        y += kEngineHeight + kWaitHeight + kGap;
      }
      std::stable_sort(queues.begin(), queues.end(), [](auto a, auto b) { return a->total > b->total; });
      const size_t shown = std::min(queues.size(), kQueuesMax);
      std::sort(queues.begin(), queues.begin() + static_cast<std::ptrdiff_t>(shown),
                [](auto a, auto b) { return a->queue < b->queue; });
      for (size_t i = 0; i < shown; ++i, y += kQueueHeight + kQueueGap) boxes_.push_back({queues[i], y, kQueueHeight});
      if (queues.size() > shown) {
        captions_.push_back({y + 9, cat("and ", queues.size() - shown, " queues more, less busy")});
        y += 18;
      }
      y += program_.cores > 1 ? 8 : 0;
    }
    bottom_ = y;
    return y + 66;
  }

  double x_of(double ns) const { return kLeft + kPlot * (ns - seen_.begin_ns) / (seen_.end_ns - seen_.begin_ns); }

  void heading() {
    canvas_.text(kMargin, 34, cat(report_.program, " on ", report_.instance), 18, Ink::text, Anchor::start, true);
    std::string line = cat(with_unit_ns(report_.time_ns), " · bound by ", report_.bound < Bound::dma ? "the " : "",
                           bound_text(report_.bound));
    if (report_.bound != Bound::launch)
      line += cat(
          ", ",
          percent(report_
                      .engines[static_cast<size_t>(report_.bound == Bound::dma ? report_.engines.size() - 1
                                                                               : static_cast<size_t>(report_.bound))]
                      .busy_share),
          " busy");
    if (report_.flops) line += cat(" · MFU ", percent(report_.mfu));
    line += cat(" · MBU ", percent(report_.mbu));
    if (seen_.begin_ns > 0 || seen_.end_ns < report_.time_ns)
      line += cat(" · shown: ", with_unit_ns(seen_.begin_ns), " to ", with_unit_ns(seen_.end_ns));
    canvas_.text(kMargin, 56, line, 13, Ink::faint);
    canvas_.text(kWidth - kMargin, 76, "busy", 12, Ink::faint, Anchor::end);
    for (const auto& [y, words] : captions_) canvas_.text(kMargin, y, words, 12, Ink::faint);
  }

  // Ticks at 1, 2 or 5 times a power of ten, ten at most.
  void axis() {
    const double range = seen_.end_ns - seen_.begin_ns, power = std::pow(10, std::floor(std::log10(range / 10)));
    double step = 10 * power;
    for (const double s : {5, 2, 1})
      if (range / (s * power) <= 10) step = s * power;
    const double top = boxes_.front().top;
    for (double t = std::ceil(seen_.begin_ns / step) * step; t <= seen_.end_ns * (1 + 1e-12); t += step) {
      canvas_.rect(x_of(t) - 0.5, top, 1, bottom_ - top, Ink::grid);
      canvas_.text(x_of(t), bottom_ + 14, tick(t), 11, Ink::faint, Anchor::middle);
    }
  }

  std::string tick(double ns) const {
    static constexpr std::pair<double, std::string_view> kUnits[] = {{1e9, " s"}, {1e6, " ms"}, {1e3, " µs"}};
    for (const auto& [size, name] : kUnits)
      if (seen_.end_ns >= 2 * size) return cat(shortest(std::round(ns / size * 1e6) / 1e6), name);
    return cat(shortest(std::round(ns * 1e6) / 1e6), " ns");
  }

  void launch() {
    const std::pair<double, double> ends[] = {{0, sim::to_ns(timing_.preamble)},
                                              {sim::to_ns(timing_.end - timing_.teardown), sim::to_ns(timing_.end)}};
    for (const auto& [from, to] : ends) {
      const double a = std::max(kLeft, x_of(from)), b = std::min(kLeft + kPlot, x_of(to));
      if (b - a < 2) continue;
      const double top = boxes_.front().top;
      canvas_.rect(a, top, b - a, bottom_ - kGap - top, Ink::shade, "launch: the runtime starts and ends the program");
      if (b - a > 50) canvas_.text((a + b) / 2, top + 17, "launch", 11, Ink::faint, Anchor::middle);
    }
  }

  void draw_lane(const LaneBox& p) {
    const Lane& l = *p.lane;
    const bool queue = l.part == Part::dma;
    const std::string name = queue ? cat("queue ", l.queue) : std::string(sim::name(l.part));
    canvas_.text(kLeft - 10, p.top + p.height / 2 + 4.5, name, queue ? 11 : 13, queue ? Ink::faint : Ink::text,
                 Anchor::end);
    const double sum = std::accumulate(l.busy.begin(), l.busy.end(), 0.0);
    canvas_.text(kWidth - kMargin, p.top + p.height / 2 + 4.5, percent(sum / (seen_.end_ns - seen_.begin_ns)),
                 queue ? 11 : 13, queue ? Ink::faint : Ink::text, Anchor::end);
    if (!draw_events(p)) draw_bins(p);
    if (!queue) draw_waits(p);
  }

  double bin_ns() const { return (seen_.end_ns - seen_.begin_ns) / static_cast<double>(seen_.bins); }
  double bin_width() const { return kPlot / static_cast<double>(seen_.bins); }

  void draw_bins(const LaneBox& p) {
    std::vector<float> heights;
    for (const float ns : p.lane->busy)
      heights.push_back(ns > 0 ? std::max(1.0f, static_cast<float>(p.height * ns / bin_ns())) : 0);
    canvas_.columns(kLeft, p.top + p.height, bin_width(), std::move(heights), ink_of(p.lane->part));
  }

  // Few enough to be told apart: each by itself, transfers that overlap one above the other.
  bool draw_events(const LaneBox& p) {
    const Lane& l = *p.lane;
    if (l.events > kLaneEventsMax) return false;
    const double width = kPlot * sim::to_ns(l.total) / (seen_.end_ns - seen_.begin_ns);
    if (l.events > kFewEvents && width < kEventWidth * static_cast<double>(l.events)) return false;
    std::vector<sim::Fs> free;
    std::vector<size_t> level;
    for (const Event& e : l.first) {
      size_t at = 0;
      while (at < free.size() && free[at] > e.start) ++at;
      if (at == free.size()) free.push_back(0);
      free[at] = e.end;
      level.push_back(at);
    }
    if (free.size() > kStackMax) return false;
    for (size_t i = 0; i < l.first.size(); ++i) {
      const Event& e = l.first[i];
      const double height = p.height / static_cast<double>(free.size()),
                   y = p.top + height * static_cast<double>(level[i]);
      const double a = std::max(kLeft, x_of(sim::to_ns(e.start)));
      const double b = std::min(kLeft + kPlot, x_of(sim::to_ns(e.end))), w = std::max(1.0, b - a);
      if (b <= a) continue;
      const double seam = w > 3 ? 0.75 : 0;  // neighbours stay two
      canvas_.rect(a, y, w - seam, height - (free.size() > 1 ? 0.5 : 0), ink_of(l.part), words(e));
      const std::string name(label(e));
      if (height > 20 && w > text_width(name, 11) + 8)
        canvas_.text(a + w / 2, y + height / 2 + 4, name, 11, dark_label(l.part) ? Ink::on_light : Ink::on_dark,
                     Anchor::middle);
    }
    return true;
  }

  static bool dark_label(Part p) { return p == Part::vector || p == Part::gpsimd; }

  std::string_view label(const Event& e) const {
    if (e.doing == sim::Doing::table) return "table";
    const arch::Row& row = *arch::row_by_opcode(program_.streams[e.stream].insns[e.insn].opcode)->row;
    return row.label.empty() ? row.name : row.label;
  }

  std::string words(const Event& e) const {
    return cat(arch::describe_insn(program_, program_.streams[e.stream], e.insn), "\n",
               with_unit_ns(sim::to_ns(e.start)), " for ", with_unit_ns(sim::to_ns(e.end - e.start)));
  }

  // Below the lane, in the colour of what the longest wait of each bin is for.
  void draw_waits(const LaneBox& p) {
    std::array<std::vector<float>, static_cast<size_t>(Ink::count)> heights;
    for (size_t b = 0; b < seen_.bins; ++b) {
      float sum = 0, most = 0;
      Ink ink = Ink::other;
      for (size_t c = 0; c < sim::kParts; ++c) {
        if (p.lane->waited[c].empty()) continue;
        const float ns = p.lane->waited[c][b];
        sum += ns;
        if (ns > most) most = ns, ink = ink_of(static_cast<Part>(c));
      }
      if (!(sum > 0)) continue;
      auto& row = heights[static_cast<size_t>(ink)];
      row.resize(seen_.bins);
      row[b] = static_cast<float>(kWaitHeight * std::min(1.0, sum / bin_ns()));
      waits_[static_cast<size_t>(ink)] = true;
    }
    for (size_t i = 0; i < heights.size(); ++i)
      if (!heights[i].empty())
        canvas_.columns(kLeft, p.top + p.height + 1 + kWaitHeight, bin_width(), heights[i], static_cast<Ink>(i));
  }

  void legend() {
    double x = kLeft;
    const double y = bottom_ + 44;
    const auto write_label = [&](std::string_view s) {
      canvas_.text(x, y, s, 12, Ink::faint);
      x += text_width(s, 12) + 14;
    };
    write_label("height: share of the time busy");
    if (std::none_of(waits_.begin(), waits_.end(), [](bool b) { return b; })) return;
    write_label("·   thin line below: waiting for");
    for (size_t i = 0; i < waits_.size(); ++i) {
      if (!waits_[i]) continue;
      canvas_.rect(x, y - 9, 10, 10, static_cast<Ink>(i));
      x += 15;
      write_label(static_cast<Ink>(i) == Ink::other
                      ? std::string_view("a signal, port or pipeline")
                      : sim::name(static_cast<Part>(i - static_cast<size_t>(Ink::tensor))));
    }
  }

  const arch::Program& program_;
  const Report& report_;
  const sim::Timing& timing_;
  const Occupancy& seen_;
  std::vector<LaneBox> boxes_;
  std::vector<std::pair<double, std::string>> captions_;
  double bottom_ = 0;
  Canvas canvas_;
  std::array<bool, static_cast<size_t>(Ink::count)> waits_{};
};

}  // namespace

Canvas draw(const arch::Program& program, const Report& report, const sim::Timing& timing, const Occupancy& seen) {
  return Drawing(program, report, timing, seen).run();
}

Result<SavedPicture> save_picture(const std::string& path, const arch::Program& program, const arch::Instance& instance,
                                  sim::TimeOptions options, const sim::Timing& timed, const Report& report) {
  if (!path.ends_with(".svg") && !path.ends_with(".png"))
    return fail(Code::invalid, cat("found --picture ", path, ", expected a name that ends in .svg or .png"));
  options = recording(options, timed, kPictureEventsMax);
  const bool window = options.window_end_ns > options.window_begin_ns;
  SavedPicture saved{!window, 0, sim::to_ns(timed.end)};
  if (window) {
    saved.begin_ns = std::min(options.window_begin_ns, saved.end_ns);
    saved.end_ns = std::min(options.window_end_ns, saved.end_ns);
    if (!(saved.end_ns > saved.begin_ns))
      return fail(Code::out_of_range, cat("the window begins at ", with_unit_ns(options.window_begin_ns),
                                          ", after the program's end at ", with_unit_ns(saved.end_ns)));
  }
  Occupancy seen(program, saved.begin_ns, saved.end_ns, kPictureBins);
  options.events_max = 0;
  options.observer = &seen;
  const sim::Timing timing = TRY(sim::time_program(program, *instance.chip, options));
  const Canvas canvas = draw(program, report, timing, seen);
  TRY(write_file(path, path.ends_with(".svg") ? canvas.svg() : canvas.png()));
  return saved;
}

}  // namespace trine::run
