// Profiles for Python: the writer, and the reader with its tables as NumPy arrays that lie in the file.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include <cstring>

#include "api/python/raise.h"
#include "api/recording.h"
#include "arch/program/container.h"
#include "arch/program/verify.h"
#include "base/format/json.h"
#include "base/text.h"
#include "compile/aot/trn.h"
#include "run/profile/ran.h"
#include "run/profile/window.h"
#include "run/profile/write.h"

namespace nb = nanobind;
using namespace trine;
using trine::api::or_raise;

namespace {

nb::object loads(const std::string& text) { return nb::module_::import_("json").attr("loads")(text); }

run::ProfileView* open_profile(const std::string& path) {
  return new run::ProfileView(or_raise(run::ProfileFile::open(path)));  // Python owns it
}

nb::list tracks(const run::ProfileView& v) {
  static constexpr const char* kKinds[] = {"engine", "dma", "collective", "host", "semaphore"};
  nb::list out;
  for (size_t i = 0; i < v.tracks().size(); ++i) {
    const run::TimelineTrack& t = v.tracks()[i];
    nb::dict d;
    d["id"] = i, d["rank"] = t.rank, d["device"] = t.device, d["core"] = t.core;
    d["kind"] = kKinds[size_t(t.kind)], d["name"] = t.name;
    out.append(d);
  }
  return out;
}

template <class T>
nb::bytes as_bytes(const std::vector<T>& rows) {
  return nb::bytes(reinterpret_cast<const char*>(rows.data()), rows.size() * sizeof(T));
}

nb::bytes window(const run::ProfileView& v, size_t track, int64_t begin_ns, int64_t end_ns, int64_t columns) {
  std::vector<run::WindowRow> rows;
  {
    const api::Unlocked unlocked;
    rows = v.window(track, begin_ns, end_ns, columns);
  }
  return as_bytes(rows);
}

// Bytes of the file itself, which stays open as long as somebody holds them.
using Bytes = nb::ndarray<nb::numpy, const uint8_t, nb::ndim<1>>;
template <class T>
nb::object table(nb::handle self, std::span<const T> rows) {
  const size_t size = rows.size_bytes();
  return nb::cast(Bytes(reinterpret_cast<const uint8_t*>(rows.data()), {size}, self));
}

nb::object program_table(nb::handle self, uint32_t number, const std::string& kind) {
  const auto& v = nb::cast<const run::ProfileView&>(self);
  if (number >= v.file().programs().size()) throw nb::index_error("no such program in the profile");
  const run::ProgramProfile& p = v.file().programs()[number];
  if (kind == "tracks") return table(self, p.tracks);
  if (kind == "events") return table(self, p.events);
  if (kind == "insns") return table(self, p.insns);
  if (kind == "memory") return table(self, p.memory);
  if (kind == "semaphores") return table(self, p.semaphores);
  throw nb::value_error("expected tracks, events, insns, memory or semaphores");
}

arch::Program program_of(const run::ProfileView& v, uint32_t number) {
  if (number >= v.file().programs().size()) throw nb::index_error("no such program in the profile");
  const std::string_view image = v.file().programs()[number].image;
  if (image.empty()) throw nb::value_error("the profile does not hold this program, only its times");
  return or_raise(arch::parse_program(std::as_bytes(std::span(image)), cat("program ", number)));
}

nb::dict add_program(run::ProfileWriter& w, const arch::Program& program, const std::string& instance_name,
                     int64_t events_max, int cores_on_stack) {
  const arch::Instance& instance = *or_raise(arch::find_instance(instance_name));
  or_raise(arch::first_error(arch::verify(program, *instance.chip)));
  sim::TimeOptions options;
  options.cores_on_stack = cores_on_stack;
  auto result = [&] {
    const api::Unlocked unlocked;
    return w.add(program, instance, options, events_max);
  }();
  const run::AddedProgram added = or_raise(std::move(result));
  nb::dict out;
  out["number"] = added.number, out["whole"] = added.whole, out["events"] = added.events;
  out["time_fs"] = added.timing.end, out["preamble_fs"] = added.timing.preamble;
  out["teardown_fs"] = added.timing.teardown;
  out["instructions"] = added.timing.instructions, out["transfers"] = added.timing.transfers;
  out["dma_active_ns"] = sim::to_ns(added.timing.dma_active);
  out["dma_packet_ns"] = sim::to_ns(added.timing.dma_packets);
  out["throttled_ns"] = sim::to_ns(added.timing.throttled);
  out["report"] = loads(added.report.json().text());
  out["counted"] = added.report;
  return out;
}

// A kernel that ran by itself goes to the log of runs, where there is one.
void log_kernel(const arch::Program& program, const std::string& key, int64_t took_ns) {
  run::RunLog* const log = run::RunRecord::process().log();
  if (!log) return;
  const uint32_t what = log->what(cat("kernel ", key), [&] {
    const auto bytes = arch::program_bytes(program);
    const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    return Json::object().set("kernel", program.name).set("source", log->keep(text, ".tprog")).text();
  });
  log->add({.begin_ns = run::wall_ns() - took_ns,
            .took_ns = took_ns,
            .kind = 2,
            .what = what,
            .device = 0,
            .devices = 1,
            .bytes = 0});
}

// A compiled model's programs, without what the host runs between them.
nb::list trn_programs(const std::string& path) {
  compile::Trn trn = or_raise(compile::read_trn(path));
  nb::list out;
  for (compile::DevicePart& part : trn.made.parts)
    if (!part.on_host) out.append(nb::cast(std::move(part.device.program)));
  return out;
}

template <class T>
std::vector<T> rows_of(const nb::bytes& bytes, const char* what) {
  if (bytes.size() % sizeof(T)) throw nb::value_error(what);
  std::vector<T> rows(bytes.size() / sizeof(T));
  std::memcpy(rows.data(), bytes.c_str(), bytes.size());
  return rows;
}

void finish(run::ProfileWriter& w, const std::string& info, const nb::bytes& runs, const nb::bytes& transfers) {
  or_raise(w.finish(info, rows_of<run::ProfileRun>(runs, "runs are not whole rows"),
                    rows_of<run::ProfileTransfer>(transfers, "transfers are not whole rows")));
}

}  // namespace

void bind_profile(nb::module_& m) {
  using namespace nb::literals;
  m.def("is_logging", [] { return run::RunRecord::process().log() != nullptr; }, "Runs go to a log.");
  m.def("log_start", [](const std::string& folder) { api::record_runs(folder, "python"); }, "folder"_a);
  m.def("log_stop", [] { api::stop_recording(); });
  m.def("trn_programs", trn_programs, "path"_a, "The programs of a .trn file.");
  m.def("log_kernel", log_kernel, "program"_a, "key"_a, "took_ns"_a = 0);
  nb::class_<run::ProfileWriter>(m, "ProfileWriter", "Writes a profile; see python/trine/profile/assemble.py.")
      .def(nb::new_([](const std::string& path) { return or_raise(run::ProfileWriter::create(path)).release(); }))
      .def("intern", &run::ProfileWriter::intern, "name"_a, "Its number among the file's names.")
      .def("add", add_program, "program"_a, "instance"_a, "events"_a, "cores_on_stack"_a = 0,
           "Times a program and writes every instruction's times, up to so many.")
      .def("finish", finish, "info"_a, "runs"_a, "transfers"_a = nb::bytes("", 0),
           "JSON text, rows of runs and of transfers; the file is there afterwards.");
  nb::class_<run::ProfileView>(m, "ProfileView", "A profile that is open.")
      .def(nb::new_(&open_profile), "path"_a)
      .def_prop_ro("info", [](const run::ProfileView& v) { return std::string(v.file().info()); })
      .def_prop_ro("end_ps", &run::ProfileView::end_ps)
      .def_prop_ro("program_count", [](const run::ProfileView& v) { return v.file().programs().size(); })
      .def("names",
           [](const run::ProfileView& v) {
             nb::list out;
             for (uint32_t i = 0; i < v.file().name_count(); ++i) {
               const auto name = v.file().name(i);
               out.append(nb::steal(PyUnicode_DecodeUTF8(name.data(), Py_ssize_t(name.size()), "replace")));
             }
             return out;
           })
      .def(
          "name",
          [](const run::ProfileView& v, uint32_t n) {
            const auto name = v.file().name(n);
            return nb::steal(PyUnicode_DecodeUTF8(name.data(), Py_ssize_t(name.size()), "replace"));
          },
          "number"_a)
      .def("tracks", tracks)
      .def("window", window, "track"_a, "begin_ns"_a, "end_ns"_a, "columns"_a)
      .def("has", [](const run::ProfileView& v, int64_t id) { return id >= 0 && v.has(run::EventNumber::of(id)); })
      .def("track_of",
           [](const run::ProfileView& v, int64_t id, uint32_t device) -> nb::object {
             const auto found = v.track_of(run::EventNumber::of(id), device);
             return found ? nb::cast(*found) : nb::none();
           })
      .def("runs", [](nb::handle self) { return table(self, nb::cast<const run::ProfileView&>(self).file().runs()); })
      .def("transfers",
           [](nb::handle self) { return table(self, nb::cast<const run::ProfileView&>(self).file().transfers()); })
      .def("table", program_table, "program"_a, "kind"_a, "Rows of one program, as they lie in the file.")
      .def("program", program_of, "number"_a);
}
