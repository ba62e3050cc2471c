// trine._core.serve: the engine of the model server. Events leave as dictionaries.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include "api/python/raise.h"
#include "api/python/serve_read.h"

namespace nb = nanobind;
using namespace trine;
using trine::api::or_raise;

namespace {

nb::list pairs(const std::vector<std::pair<int32_t, float>>& top) {
  nb::list out;
  for (const auto& [token, logprob] : top) out.append(nb::make_tuple(token, logprob));
  return out;
}

nb::dict times(const serve::Times& t) {
  nb::dict d;
  d["queue"] = t.queue, d["ttft"] = t.ttft, d["total"] = t.total, d["per_token"] = t.per_token;
  return d;
}

nb::dict usage(const serve::Usage& u) {
  nb::dict d;
  d["prompt_tokens"] = u.prompt, d["completion_tokens"] = u.completion, d["cached_tokens"] = u.cached;
  d["drafted_tokens"] = u.drafted, d["accepted_tokens"] = u.accepted;
  return d;
}

nb::object floats(const std::vector<float>& values) {
  auto* owned = new std::vector<float>(values);
  const nb::capsule owner(owned, [](void* p) noexcept { delete static_cast<std::vector<float>*>(p); });
  return nb::cast(nb::ndarray<nb::numpy, float>(owned->data(), {owned->size()}, owner));
}

nb::dict event(const serve::Event& e) {
  constexpr const char* kinds[] = {"token", "prompt", "mask", "finished", "embedding", "error"};
  nb::dict d;
  d["kind"] = kinds[size_t(e.kind)];
  d["id"] = e.id, d["choice"] = e.choice;
  using K = serve::Event::Kind;
  if (e.kind == K::token) {
    d["token"] = e.sampled.token, d["logprob"] = e.sampled.logprob, d["top"] = pairs(e.sampled.top);
    d["host_s"] = e.host_s, d["chip_s"] = e.chip_s;
  } else if (e.kind == K::prompt) {
    d["cached_tokens"] = e.usage.cached;
    nb::list all;
    for (const serve::Sampled& s : e.logprobs) {
      nb::dict one;
      one["token"] = s.token, one["logprob"] = s.logprob, one["top"] = pairs(s.top);
      all.append(one);
    }
    d["logprobs"] = all;
  } else if (e.kind == K::mask) {
    d["tokens"] = e.tokens;
  } else if (e.kind == K::finished) {
    d["reason"] = serve::name(e.reason);
    d["usage"] = usage(e.usage);
    nb::dict both;
    both["host"] = times(e.host), both["chip"] = times(e.chip);
    d["times"] = both, d["joules"] = e.joules, d["usd"] = e.usd;
  } else if (e.kind == K::embedding) {
    d["values"] = floats(e.values);
  } else {
    d["message"] = e.message;
  }
  return d;
}

nb::dict stats(serve::Engine& engine) {
  const serve::Stats s = [&] {
    const nb::gil_scoped_release unlocked;
    return engine.stats();
  }();
  nb::dict d;
  d["running"] = s.running, d["waiting"] = s.waiting;
  d["kv_pages_used"] = s.pages_used, d["kv_pages_total"] = s.pages_total, d["kv_pages_cached"] = s.pages_cached;
  d["prefix_queries"] = s.prefix_queries, d["prefix_hits"] = s.prefix_hits, d["preemptions"] = s.preemptions;
  d["prompt_tokens"] = s.prompt_tokens, d["tokens"] = s.tokens, d["steps"] = s.steps;
  d["drafted_tokens"] = s.drafted, d["accepted_tokens"] = s.accepted, d["padded_tokens"] = s.padded;
  d["sessions"] = s.sessions, d["session_bytes"] = s.session_bytes, d["weight_bytes"] = s.weight_bytes;
  d["host_s"] = s.host_s, d["chip_s"] = s.chip_s, d["joules"] = s.joules, d["usd"] = s.usd;
  d["decisions"] = s.decisions;
  return d;
}

std::unique_ptr<serve::Engine> engine(nb::object model, const nb::dict& options) {
  serve::EngineOptions o;
  o.scheduler = api::scheduler_options(options);
  o.eos = nb::cast<std::vector<int32_t>>(model.attr("eos"));
  o.cost = api::cost_table(model.attr("cost"));
  o.model_id = nb::cast<uint64_t>(model.attr("id"));
  std::string clock = "host";
  api::take(options, "clock", clock), api::take(options, "drafts", o.drafts), api::take(options, "ngram", o.ngram);
  api::take(options, "page_store", o.page_store);
  if (clock != "host" && clock != "chip") throw nb::value_error("a clock is host or chip");
  o.chip_clock = clock == "chip";
  api::take(options, "hash", o.hash);
  if (o.chip_clock && !o.cost)
    throw nb::value_error("the chip's clock needs a model prepared with an instance's times");
  api::take(options, "pace", o.pace), api::take(options, "answer_tokens", o.answer_tokens);
  api::take(options, "stand_in", o.stand_in);
  api::take(options, "about", o.about), api::take(options, "device", o.device);
  if (o.pace > 0) {  // no weights: a shape is three numbers
    const auto d = nb::cast<nb::dict>(model.attr("shape"));
    run::DecoderShape shape;
    api::take(d, "vocab", shape.vocab), api::take(d, "context", shape.context), api::take(d, "width", shape.width);
    return or_raise(serve::Engine::make(run::Decoder::of_shape(std::move(shape)), std::move(o)));
  }
  run::DecoderShape shape = api::decoder_shape(nb::cast<nb::dict>(model.attr("shape")));
  if (!options.contains("context")) o.scheduler.context = shape.context;
  run::Decoder decoder =
      or_raise(run::Decoder::make(std::move(shape), api::decoder_weights(nb::cast<nb::dict>(model.attr("matrices")),
                                                                         nb::cast<nb::dict>(model.attr("vectors")))));
  std::unique_ptr<run::Decoder> draft;
  if (options.contains("draft") && !nb::object(options["draft"]).is_none()) {
    const nb::object given = options["draft"];
    o.draft_cost = api::cost_table(given.attr("cost"));
    api::take(options, "draft_about", o.draft_about);
    draft = std::make_unique<run::Decoder>(or_raise(run::Decoder::make(
        api::decoder_shape(nb::cast<nb::dict>(given.attr("shape"))),
        api::decoder_weights(nb::cast<nb::dict>(given.attr("matrices")), nb::cast<nb::dict>(given.attr("vectors"))))));
  }
  return or_raise(serve::Engine::make(std::move(decoder), std::move(o), std::move(draft)));
}

nb::dict saved(serve::Engine& e, const std::string& name) {
  Result<serve::SavedSession> s = [&] {
    const nb::gil_scoped_release unlocked;
    return e.save_session(name);
  }();
  const serve::SavedSession out = or_raise(std::move(s));
  nb::dict d;
  d["adapter"] = out.adapter, d["tokens"] = out.tokens, d["pages"] = out.pages;
  return d;
}

int32_t restore(serve::Engine& e, const std::string& name, const nb::dict& d) {
  serve::SavedSession s;
  api::take(d, "adapter", s.adapter), api::take(d, "pages", s.pages);
  s.tokens = api::token_list(d["tokens"]);
  Result<int32_t> r = [&] {
    const nb::gil_scoped_release unlocked;
    return e.restore_session(name, s);
  }();
  return or_raise(std::move(r));
}

}  // namespace

void bind_serve(nb::module_& top) {
  nb::module_ m = top.def_submodule("serve", "the engine of the model server");
  nb::class_<serve::Engine>(m, "Engine")
      .def(nb::new_(&engine), nb::arg("model"), nb::arg("options") = nb::dict(),
           "model: what trine.serve.model prepared. options: pages, running_most, chunk, mixed_chunk, context, "
           "prefix_cache, part_pages, mixed, clock, "
           "drafts, ngram, draft (a smaller prepared model), page_store. Without weights: pace (chip seconds in one of "
           "the host's), answer_tokens, stand_in; the shape is vocab, context and width.")
      .def(
          "add", [](serve::Engine& e, const nb::dict& d) { return or_raise(e.add(api::request(d))); },
          nb::arg("request"), "The request's number.")
      .def("cancel", &serve::Engine::cancel, nb::arg("id"))
      .def(
          "mask",
          [](serve::Engine& e, int64_t id, int32_t choice, const nb::bytes& bits) {
            const auto* p = reinterpret_cast<const uint8_t*>(bits.c_str());
            e.mask(id, choice, {p, p + bits.size()});
          },
          nb::arg("id"), nb::arg("choice"), nb::arg("bits"),
          "A bit for each token that may come next, the lowest first.")
      .def(
          "wait",
          [](serve::Engine& e, double timeout_s) {
            std::vector<serve::Event> events = [&] {
              const nb::gil_scoped_release unlocked;
              return e.wait(timeout_s);
            }();
            nb::list out;
            for (const serve::Event& one : events) out.append(event(one));
            return out;
          },
          nb::arg("timeout_s"), "Events since the last call; waits for the first.")
      .def(
          "load_adapter",
          [](serve::Engine& e, const std::string& name, const nb::dict& tensors, float scale) {
            run::Adapter made = api::adapter(tensors, scale);
            or_raise([&] {
              const nb::gil_scoped_release unlocked;  // it is read once more, for its label
              return e.load_adapter(name, std::move(made));
            }());
          },
          nb::arg("name"), nb::arg("tensors"), nb::arg("scale") = 1.0f,
          "tensors: f32 arrays, layers.0.q.a [rank, inputs] and layers.0.q.b [outputs, rank].")
      .def(
          "drop_adapter", [](serve::Engine& e, const std::string& name) { or_raise(e.drop_adapter(name)); },
          nb::arg("name"))
      .def("save_session", saved, nb::arg("name"),
           "Its tokens, and the names of its pages, which are in the page store now.")
      .def("restore_session", restore, nb::arg("name"), nb::arg("saved"),
           "How many of its tokens need not be computed again.")
      .def(
          "drop_session",
          [](serve::Engine& e, const std::string& name) {
            const nb::gil_scoped_release unlocked;
            e.drop_session(name);
          },
          nb::arg("name"))
      .def("stats", stats)
      .def("stop", &serve::Engine::stop, nb::call_guard<nb::gil_scoped_release>());
}
