// The Python module trine._torch: asks Python for a program the first time a call is met, and shows counters.
#include <torch/csrc/Dtype.h>
#include <torch/csrc/DynamicTypes.h>
#include <torch/csrc/Event.h>
#include <torch/csrc/utils/pybind.h>

#include "api/torch/aten.h"

#include "api/executable.h"
#include "api/recording.h"
#include "api/torch/backend.h"
#include "api/torch/devices.h"
#include "api/torch/eager/call.h"
#include "api/torch/eager/streams.h"
#include "api/torch/group/exchanged.h"
#include "api/torch/group/group_python.h"
#include "api/torch/history.h"
#include "api/torch/lazy/lazy.h"
#include "base/stop.h"
#include "run/profile/ran.h"

namespace py = pybind11;

namespace torch::jit {
py::object toPyObject(c10::IValue value);  // its header is most of torch's: ten seconds for one function
}

namespace trine::api::neuron {

namespace {

struct Handlers {
  py::object eager, recorded, step;
};
Handlers& handlers() {
  static auto* made = new Handlers;  // never dropped: Python may be gone first
  return *made;
}

Entry::Param read_param(const py::tuple& t) {
  const auto kind = t[0].cast<std::string>();
  return {kind == "seed"     ? Entry::Param::seed
          : kind == "number" ? Entry::Param::number
                             : Entry::Param::tensor,
          t[1].cast<int>()};
}

at::ScalarType read_dtype(const py::handle& dtype) { return reinterpret_cast<THPDtype*>(dtype.ptr())->scalar_type; }

std::shared_ptr<const run::DirectProgram> compiled_text(const std::string& text) {
  auto compiled = api::compile_with_flags(text);
  TORCH_CHECK(compiled, compiled ? "" : compiled.error().text());
  auto direct = run::DirectProgram::make((*compiled)->plan);
  TORCH_CHECK(direct, direct ? "" : direct.error().text());
  return *direct;
}

std::vector<Entry::Return> read_returns(const py::dict& fields) {
  std::vector<Entry::Return> out;
  for (const auto& r : fields["returns"].cast<py::list>()) {
    const auto t = r.cast<py::tuple>();
    out.push_back({t[0].cast<int>(), t[1].cast<bool>(), t[2].cast<std::vector<int>>()});
  }
  return out;
}

std::shared_ptr<const Entry> read_entry(const py::dict& fields, const std::string& op) {
  auto entry = std::make_shared<Entry>();
  entry->check = check_of(op);
  entry->program = compiled_text(fields["text"].cast<std::string>());
  for (const auto& p : fields["params"].cast<py::list>()) entry->params.push_back(read_param(p.cast<py::tuple>()));
  const auto& in_place = entry->program->plan().in_place;
  for (const auto& o : fields["outputs"].cast<py::list>()) {
    const auto t = o.cast<py::tuple>();
    Entry::Output output{
        .dims = t[0].cast<std::vector<int64_t>>(), .dtype = read_dtype(t[1]), .write = t[2].cast<int>()};
    const int over = t[3].cast<int>();  // the parameter that shares the target's memory, or -1
    const size_t at = entry->outputs.size();
    output.is_over = over >= 0 && at < in_place.size() && in_place[at] == over;
    entry->outputs.push_back(std::move(output));
  }
  entry->returns = read_returns(fields);
  return entry;
}

py::dict memory_stats(int index) {
  const auto found = device(index);
  TORCH_CHECK(found, found ? "" : found.error().text());
  const run::MemoryStats stats = (*found)->memory().stats();
  py::dict out;
  out["limit_bytes"] = stats.limit_bytes;
  out["in_use_bytes"] = stats.in_use_bytes;
  out["peak_bytes"] = stats.peak_bytes;
  out["allocations"] = stats.allocations;
  return out;
}

at::Tensor cpu_alias(const at::Tensor& tensor) {
  const at::Tensor alias = as_cpu(tensor, Use::write);
  return at::from_blob(alias.data_ptr(), alias.sizes(), alias.strides(), [tensor](void*) {}, alias.options());
}

// As trine._core.ran: this module has a record of its own. What was issued has run.
py::list ran() {
  synchronize_device(-1);
  py::list out;
  for (const run::Ran& r : run::RunRecord::process().all())
    out.append(py::make_tuple(r.source->name, py::bytes(r.source->artifact), r.runs, r.devices, r.weights));
  return out;
}

}  // namespace

namespace {

py::object ask(const py::object& handler, const Call& call, bool numbers_in_key) {
  py::list arguments;
  for (const c10::IValue& v : call.arguments) {  // toPyObject would make numbers of tensors that were numbers once
    const bool is_tensor = v.isTensor() && v.toTensor().defined();
    const bool is_number = is_tensor && numbers_in_key && is_part_of_key(v.toTensor());
    if (v.isGenerator())
      arguments.append(py::none());
    else
      arguments.append(is_tensor && !is_number ? py::cast(v.toTensor()) : torch::jit::toPyObject(v));
  }
  const auto& schema = call.op.schema();
  return handler(schema.name(), schema.overload_name(), arguments, py::cast(call.numbers));
}

}  // namespace

std::shared_ptr<const Entry> make_entry(const Call& call) {
  const py::gil_scoped_acquire locked;
  if (!handlers().eager) return std::make_shared<Entry>();
  const py::object fields = ask(handlers().eager, call, false);
  return fields.is_none() ? std::make_shared<const Entry>()
                          : read_entry(fields.cast<py::dict>(), call.op.schema().name());
}

std::shared_ptr<const Entry> make_recorded(const Call& call) {
  const py::gil_scoped_acquire locked;
  auto entry = std::make_shared<Entry>();
  const py::object answer = handlers().recorded ? ask(handlers().recorded, call, true) : py::none();
  if (answer.is_none()) return entry;
  const auto fields = answer.cast<py::dict>();
  entry->number = fields["number"].cast<int64_t>();
  entry->is_seeded = fields["seeded"].cast<bool>();
  for (const auto& o : fields["outputs"].cast<py::list>()) {
    const auto t = o.cast<py::tuple>();
    entry->outputs.push_back(
        {.dims = t[0].cast<std::vector<int64_t>>(), .dtype = read_dtype(t[1]), .write = t[2].cast<int>()});
  }
  entry->returns = read_returns(fields);
  return entry;
}

std::shared_ptr<const Step> make_step(const Trace& trace) {
  const py::gil_scoped_acquire locked;
  py::list slots;
  for (const Trace::Slot& s : trace.slots)
    slots.append(py::make_tuple(
        py::reinterpret_borrow<py::object>(reinterpret_cast<PyObject*>(torch::getTHPDtype(s.dtype))), s.elements,
        s.has_memory, s.is_given, s.layout ? py::object(py::make_tuple(s.layout->dims, s.layout->text)) : py::none()));
  const py::object mesh =
      trace.world ? py::object(py::make_tuple(trace.world->text, trace.world->devices.size())) : py::none();
  const py::dict fields = handlers().step(py::cast(trace.words), slots, mesh);
  auto step = std::make_shared<Step>();
  const auto text = fields["text"].cast<std::string>();
  if (trace.world) {
    auto spread = Spread::make(*trace.world, text);
    TORCH_CHECK(spread, spread ? "" : spread.error().text());
    step->spread = std::move(*spread);
  } else if (!text.empty()) {  // empty: graphs are only collected
    step->program = compiled_text(text);
  }
  for (const auto& p : fields["params"].cast<py::list>()) {
    const auto t = p.cast<py::tuple>();
    step->params.push_back({t[0].cast<std::string>() == "number", t[1].cast<int>()});
  }
  const auto in_place = step->program ? step->program->plan().in_place : std::vector<int>();
  for (const auto& o : fields["outputs"].cast<py::list>()) {
    const auto t = o.cast<py::tuple>();
    const int over = t[1].cast<int>();
    const size_t at = step->outputs.size();
    step->outputs.push_back({t[0].cast<int>(), over >= 0 && at < in_place.size() && in_place[at] == over ? over : -1});
  }
  return step;
}

namespace {

using Numbers = std::vector<int64_t>;

const World& world_for(const Numbers& ids, const Numbers& axes) {
  const auto found = World::find(ids, axes);
  TORCH_CHECK(found, found ? "" : found.error().text());
  return **found;
}

// `entries`: of each dim the axes that cut it.
compile::Sharding sharding_for(const World& world, const Numbers& axes, const std::vector<Numbers>& entries) {
  compile::Sharding out(entries.size());
  for (size_t d = 0; d < entries.size(); ++d)
    for (const int64_t axis : entries[d])
      for (const int digit : world.digits(axes, axis)) out[d].push_back(digit);
  return out;
}

void bind_streams(py::module_& m) {
  m.def("are_streams_busy", &is_busy);
  m.def("end_streams", &end_tasks, py::call_guard<py::gil_scoped_release>());
  py::class_<Moment, MomentPtr>(m, "Moment", "What a stream can wait for and Python decides: for tests.")
      .def(py::init<>())
      .def("come", &Moment::come, py::call_guard<py::gil_scoped_release>());
  m.def("hold_stream", [](int device, int64_t stream, const MomentPtr& until) {
    const c10::Device on(c10::DeviceType::PrivateUse1, c10::DeviceIndex(device));
    block(c10::Stream(c10::Stream::UNSAFE, on, stream), until);
  });
}

void bind_spread(py::module_& m) {
  const py::call_guard<py::gil_scoped_release> released;  // a step that holds the queue may wait for Python
  m.def(
      "deal",
      [](const at::Tensor& t, const Numbers& ids, const Numbers& axes, const Numbers& dims,
         const std::vector<Numbers>& entries) {
        const World& world = world_for(ids, axes);
        return deal(t, world, Dims(dims.begin(), dims.end()), sharding_for(world, axes, entries));
      },
      released);
  m.def("sharding_texts", [](const Numbers& ids, const Numbers& axes, const Numbers& dims,
                             const std::vector<Numbers>& entries) {
    const World& world = world_for(ids, axes);
    const Layout* layout = Layout::find(world, Dims(dims.begin(), dims.end()), sharding_for(world, axes, entries));
    return std::make_pair(world.text, layout ? layout->text : layout_text(compile::Sharding(dims.size())));
  });
  m.def("undeal", &undeal, released);
  m.def("sharding_spec", &sharding_spec, released);
  m.def(
      "shards",
      [](const at::Tensor& t) {
        std::vector<std::tuple<int, at::Tensor, Numbers>> out;
        for (const Shard& s : shards(t)) out.emplace_back(s.device, s.values, s.start);
        return out;
      },
      released);
}

}  // namespace

}  // namespace trine::api::neuron

PYBIND11_MODULE(_torch, m) {
  using namespace trine::api::neuron;
  register_hooks();
  trine::api::record_runs_from_environment("torch");
  const auto signals = py::module_::import("signal");
  if (signals.attr("getsignal")(signals.attr("SIGINT")).is(signals.attr("default_int_handler")))
    trine::take_interrupts();  // whoever has another handler decides what Ctrl-C does
  m.def("set_handlers", [](py::object eager, py::object recorded, py::object step) {
    handlers() = {std::move(eager), std::move(recorded), std::move(step)};
  });
  m.def("end_step", &end_step, "Runs what is recorded.", py::call_guard<py::gil_scoped_release>());
  m.def("recorded_words", &recorded_words, py::call_guard<py::gil_scoped_release>());
  m.def(
      "settle",
      [](const at::Tensor& t) {
        settle(t, Use::write);
        await_uses(t, Use::write);
      },
      "The tensor's bytes in memory: after it data_ptr() is theirs.", py::call_guard<py::gil_scoped_release>());
  m.def(
      "resize_storage", [](const at::Tensor& t, size_t bytes) { resize_lazily(t.storage(), bytes); },
      "The storage of a tensor of xla, made larger or smaller.", py::call_guard<py::gil_scoped_release>());
  m.def("cpu_alias", &cpu_alias, "The tensor's memory as a tensor of the CPU, which keeps it.",
        py::call_guard<py::gil_scoped_release>());
  m.def("empty_stored", [](const std::vector<int64_t>& dims, const py::object& dtype) {
    return empty_stored(dims, read_dtype(dtype));
  });
  m.def("clear_stored", &clear_stored);
  m.def("counters", &counters);
  m.def("metrics", [] {
    py::dict out;
    for (const auto& [name, m] : metrics()) out[py::str(name)] = py::make_tuple(m.count, m.total, m.last);
    return out;
  });
  m.def("clear_metrics", &clear_metrics);
  m.def("set_extracting", &set_extracting);
  m.def("device_count", &device_count);
  m.def("device_name", [](int index) {
    const auto found = device(index);
    TORCH_CHECK(found, found ? "" : found.error().text());
    return (*found)->name();
  });
  m.def("log_start", [](const std::string& folder) { trine::api::record_runs(folder, "torch"); });
  m.def("log_stop", [] { trine::api::stop_recording(); });
  m.def("ran_start", [] { trine::run::RunRecord::process().start(); });
  m.def("ran_stop", [] { trine::run::RunRecord::process().stop(); });
  m.def("ran", &ran);
  m.def("exchanged_start", &exchanged_start);
  m.def("exchanged_stop", &exchanged_stop);
  m.def("exchanged", [] {
    std::vector<std::tuple<std::string, std::string, int64_t, int64_t, int64_t>> out;
    for (const Exchanged& e : exchanged()) out.emplace_back(e.op, e.group, e.bytes, e.ranks, e.count);
    return out;
  });
  m.def("memory_stats", &memory_stats);
  m.def("reset_peak", [](int index) {
    if (const auto found = device(index)) (*found)->memory().reset_peak();
  });
  m.def(
      "elapsed_ms", [](const py::object& from, const py::object& to) {  // torch's own takes no class derived of its own
        return reinterpret_cast<THPEvent*>(from.ptr())->event.elapsedTime(reinterpret_cast<THPEvent*>(to.ptr())->event);
      });
  m.def("record_history", &record_history);
  m.def("history", [] { return history(device_count()); });
  m.def("fallbacks", &fallbacks, "Calls that torch's CPU ran, by op.");
  m.def("clear_cache", &clear_cache);
  m.def("cache_size", &cache_size);
  m.def("manual_seed", [](int index, uint64_t seed) { generator(index).set_current_seed(seed); });
  m.def("get_state",
        [](int index) { return std::make_pair(generator(index).current_seed(), generator(index).get_offset()); });
  m.def("set_state", [](int index, uint64_t seed, uint64_t offset) {
    generator(index).set_current_seed(seed);
    generator(index).set_offset(offset);
  });
  bind_group(m);
  bind_spread(m);
  bind_streams(m);
  m.def("next_seed", [](int index) { return next_seed(c10::DeviceIndex(index)); });
}
