// Errors, events, named values and number formats: what every group of calls uses.
#include <algorithm>

#include "api/pjrt/calls.h"
#include "base/text.h"

namespace trine::api::pjrt {

namespace {

struct CodeRow {
  Code ours;
  ErrorCode theirs;
};
constexpr CodeRow kCodes[] = {
    {Code::invalid, ErrorCode::invalid_argument},  {Code::not_found, ErrorCode::not_found},
    {Code::unsupported, ErrorCode::unimplemented}, {Code::out_of_memory, ErrorCode::resource_exhausted},
    {Code::out_of_range, ErrorCode::out_of_range}, {Code::io, ErrorCode::unavailable},
    {Code::cancelled, ErrorCode::cancelled},       {Code::internal, ErrorCode::internal},
};

struct TypeRow {
  Dtype ours;
  BufferType theirs;
};
constexpr TypeRow kTypes[] = {
    {Dtype::boolean, BufferType::pred},
    {Dtype::s2, BufferType::s2},
    {Dtype::s4, BufferType::s4},
    {Dtype::s8, BufferType::s8},
    {Dtype::s16, BufferType::s16},
    {Dtype::s32, BufferType::s32},
    {Dtype::s64, BufferType::s64},
    {Dtype::u2, BufferType::u2},
    {Dtype::u4, BufferType::u4},
    {Dtype::u8, BufferType::u8},
    {Dtype::u16, BufferType::u16},
    {Dtype::u32, BufferType::u32},
    {Dtype::u64, BufferType::u64},
    {Dtype::f16, BufferType::f16},
    {Dtype::bf16, BufferType::bf16},
    {Dtype::f32, BufferType::f32},
    {Dtype::f64, BufferType::f64},
    {Dtype::c64, BufferType::c64},
    {Dtype::c128, BufferType::c128},
    {Dtype::f8e5m2, BufferType::f8e5m2},
    {Dtype::f8e4m3fn, BufferType::f8e4m3fn},
    {Dtype::f8e4m3b11fnuz, BufferType::f8e4m3b11fnuz},
    {Dtype::f8e5m2fnuz, BufferType::f8e5m2fnuz},
    {Dtype::f8e4m3fnuz, BufferType::f8e4m3fnuz},
    {Dtype::f8e4m3, BufferType::f8e4m3},
    {Dtype::f8e3m4, BufferType::f8e3m4},
    {Dtype::f8e8m0, BufferType::f8e8m0fnu},
    {Dtype::f4e2m1, BufferType::f4e2m1fn},
};

}  // namespace

ErrorCode code_of(Code code) {
  return std::find_if(std::begin(kCodes), std::end(kCodes), [&](const CodeRow& r) { return r.ours == code; })->theirs;
}

Code code_from(ErrorCode code) {
  const auto row = std::find_if(std::begin(kCodes), std::end(kCodes), [&](auto& r) { return r.theirs == code; });
  return row == std::end(kCodes) ? Code::internal : row->ours;
}

Result<run::MemoryKind> memory_kind_of(std::string_view name) {
  if (name.empty()) return run::MemoryKind::device;
  for (size_t k = 0; k < size_t(run::MemoryKind::count); ++k)
    if (run::name(run::MemoryKind(k)) == name) return run::MemoryKind(k);
  return fail(Code::unsupported,
              cat("memory of the kind \"", name, "\"; there are device, pinned_host and unpinned_host"));
}

std::optional<Dtype> dtype_of(BufferType type) {
  const auto row = std::find_if(std::begin(kTypes), std::end(kTypes), [&](auto& r) { return r.theirs == type; });
  if (row == std::end(kTypes)) return std::nullopt;
  return row->ours;
}

BufferType type_of(Dtype dtype) {
  const auto row = std::find_if(std::begin(kTypes), std::end(kTypes), [&](auto& r) { return r.ours == dtype; });
  return row == std::end(kTypes) ? BufferType::invalid : row->theirs;
}

ErrorHandle* make_error(Error error) { return new ErrorHandle{std::move(error)}; }
ErrorHandle* answer(const Result<void>& result) { return result ? nullptr : make_error(result.error()); }
// What is done already has one event for all.
static Event* done_event() {
  static auto* const kDone = new Event;  // outlives every caller
  return kDone;
}
Event* make_event(run::Future future) { return future.is_plain() ? done_event() : new Event{std::move(future)}; }

Text* make_text(std::string bytes) { return new Text{std::move(bytes)}; }
void free_text(Text* text) { delete text; }

NamedValue& NamedValues::add_one(std::string_view name, NamedValueType type, size_t size) {
  texts_.emplace_back(name);
  NamedValue& value = values_.emplace_back();
  value.struct_size = sizeof value;
  value.extension_start = nullptr;
  value.name = texts_.back().data();
  value.name_size = texts_.back().size();
  value.type = type;
  value.value_size = size;
  return value;
}
void NamedValues::add(std::string_view name, std::string_view value) {
  NamedValue& added = add_one(name, NamedValueType::string, value.size());
  texts_.emplace_back(value);
  added.string_value = texts_.back().data();
}
void NamedValues::add(std::string_view name, int64_t value) {
  add_one(name, NamedValueType::int64, 1).int64_value = value;
}
void NamedValues::add(std::string_view name, float value) {
  add_one(name, NamedValueType::floating, 1).float_value = value;
}
void NamedValues::add(std::string_view name, std::vector<int64_t> value) {
  NamedValue& added = add_one(name, NamedValueType::int64_list, value.size());
  lists_.push_back(std::move(value));
  added.int64_array_value = lists_.back().data();
}

ErrorHandle* error_destroy(ErrorDestroyArgs* args) {
  delete args->error;
  return nullptr;
}
ErrorHandle* error_message(ErrorMessageArgs* args) {
  const std::string& message = args->error->error.message;
  args->message = message.data();
  args->message_size = message.size();
  return nullptr;
}
ErrorHandle* error_get_code(ErrorGetCodeArgs* args) {
  args->code = code_of(args->error->error.code);
  return nullptr;
}

ErrorHandle* plugin_initialize(PluginInitializeArgs*) { return nullptr; }

// The version pins the language JAX writes: a portable artifact of StableHLO 1.10.
ErrorHandle* plugin_attributes(PluginAttributesArgs* args) {
  static const NamedValues attributes = [] {
    NamedValues values;
    values.add("stablehlo_current_version", std::vector<int64_t>{1, 10, 0});
    values.add("stablehlo_minimum_version", std::vector<int64_t>{1, 0, 0});
    return values;
  }();
  args->attributes = attributes.data();
  args->num_attributes = attributes.size();
  return nullptr;
}

ErrorHandle* event_destroy(EventDestroyArgs* args) {
  if (args->event != done_event()) delete args->event;
  return nullptr;
}
ErrorHandle* event_is_ready(EventIsReadyArgs* args) {
  args->is_ready = args->event->future.is_ready();
  return nullptr;
}
ErrorHandle* event_error(EventErrorArgs* args) { return answer(args->event->future.wait()); }
ErrorHandle* event_await(EventAwaitArgs* args) { return answer(args->event->future.wait()); }
ErrorHandle* event_on_ready(EventOnReadyArgs* args) {
  if (args->event == done_event()) {
    args->callback(nullptr, args->user_arg);
    return nullptr;
  }
  args->event->future.on_ready([callback = args->callback, user = args->user_arg](const Error* error) {
    callback(error ? make_error(*error) : nullptr, user);
  });
  return nullptr;
}
ErrorHandle* event_create(EventCreateArgs* args) {
  auto promise = std::make_unique<run::Promise>();
  args->event = new Event{promise->future(), std::move(promise)};
  return nullptr;
}
ErrorHandle* event_set(EventSetArgs* args) {
  Event& event = *args->event;
  if (!event.promise || event.future.is_ready())
    return make_error(fail(Code::invalid, "this event is not one the caller may set, or is set already"));
  if (args->error_code == ErrorCode::ok)
    event.promise->set();
  else
    event.promise->fail(fail(code_from(args->error_code), {args->error_message, args->error_message_size}));
  return nullptr;
}

}  // namespace trine::api::pjrt
