// What the serving engine is given from Python: dictionaries into requests, shapes, weights and tables of times.
#pragma once

#include <nanobind/nanobind.h>

#include "run/decoder/decoder.h"
#include "serve/engine.h"

namespace trine::api {

run::DecoderShape decoder_shape(const nanobind::dict& d);
run::DecoderWeights decoder_weights(const nanobind::dict& matrices, const nanobind::dict& vectors);
run::Adapter adapter(const nanobind::dict& tensors, float scale);
serve::CostTable cost_table(nanobind::handle d);
serve::SchedulerOptions scheduler_options(const nanobind::dict& d);
serve::Request request(const nanobind::dict& d);
std::vector<int32_t> token_list(nanobind::handle tokens);  // a list of numbers, or the bytes of int32s

template <class T>
void take(const nanobind::dict& d, const char* name, T& to) {
  if (d.contains(name) && !nanobind::object(d[name]).is_none()) to = nanobind::cast<T>(d[name]);
}

}  // namespace trine::api
