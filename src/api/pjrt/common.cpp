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
  const auto row =
      std::find_if(kDtypes.begin(), kDtypes.end(), [&](auto& r) { return r.abroad.codes.pjrt == int(type); });
  if (type == BufferType::invalid || row == kDtypes.end()) return std::nullopt;
  return row->dtype;
}

BufferType type_of(Dtype dtype) { return BufferType(row(dtype).abroad.codes.pjrt); }

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
