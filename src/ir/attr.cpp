// Attributes: sorted by name, so that equal dictionaries are equal lists.
#include "ir/attr.h"

#include <algorithm>
#include <bit>
#include <functional>

#include "base/text.h"

namespace trine::ir {

namespace {

auto find_item(auto& items, std::string_view name) {
  return std::lower_bound(items.begin(), items.end(), name,
                          [](const Attrs::Item& item, std::string_view n) { return item.first < n; });
}

template <class T>
const T* get(const Attrs& attrs, std::string_view name) {
  const Attr* found = attrs.find(name);
  return found ? std::get_if<T>(found) : nullptr;
}

size_t mix(size_t h, size_t v) { return (h ^ v) * 0x9e3779b97f4a7c15u + (h >> 29); }

size_t hash_tensor(const Tensor& t) {
  size_t h = mix(size_t(t.dtype), t.dims.size());
  for (int64_t d : t.dims) h = mix(h, size_t(d));
  const size_t size = std::min<size_t>(t.bytes(), 4096);  // equality decides; large constants rarely share a start
  return mix(h, std::hash<std::string_view>{}({reinterpret_cast<const char*>(t.data.get()), size}));
}

struct HashOne {
  size_t operator()(bool v) const { return v; }
  size_t operator()(int64_t v) const { return size_t(v); }
  size_t operator()(double v) const { return std::bit_cast<uint64_t>(v); }
  size_t operator()(const std::string& v) const { return std::hash<std::string>{}(v); }
  size_t operator()(const Ints& v) const {
    size_t h = v.size();
    for (int64_t i : v) h = mix(h, size_t(i));
    return h;
  }
  size_t operator()(const Strings& v) const {
    size_t h = v.size();
    for (const std::string& s : v) h = mix(h, (*this)(s));
    return h;
  }
  size_t operator()(Dtype v) const { return size_t(v); }
  size_t operator()(const Tensor& v) const { return hash_tensor(v); }
};

}  // namespace

Attrs::Attrs(const Attrs& other) = default;
Attrs::Attrs(Attrs&& other) noexcept = default;
Attrs& Attrs::operator=(const Attrs& other) = default;
Attrs& Attrs::operator=(Attrs&& other) noexcept = default;
Attrs::~Attrs() = default;
bool Attrs::operator==(const Attrs& other) const { return items_ == other.items_; }

Attrs::Attrs(std::initializer_list<Item> items) {
  for (const Item& item : items) set(item.first, item.second);
}

void Attrs::set(std::string_view name, Attr value) {
  auto at = find_item(items_, name);
  if (at != items_.end() && at->first == name) {
    at->second = std::move(value);
  } else {
    items_.insert(at, {std::string(name), std::move(value)});
  }
}

void Attrs::remove(std::string_view name) {
  auto at = find_item(items_, name);
  if (at != items_.end() && at->first == name) items_.erase(at);
}

const Attr* Attrs::find(std::string_view name) const {
  auto at = find_item(items_, name);
  return at != items_.end() && at->first == name ? &at->second : nullptr;
}

bool Attrs::flag(std::string_view name, bool otherwise) const {
  const bool* v = get<bool>(*this, name);
  return v ? *v : otherwise;
}

int64_t Attrs::integer(std::string_view name, int64_t otherwise) const {
  const int64_t* v = get<int64_t>(*this, name);
  return v ? *v : otherwise;
}

double Attrs::real(std::string_view name, double otherwise) const {
  const double* v = get<double>(*this, name);
  return v ? *v : otherwise;
}

std::string_view Attrs::text(std::string_view name, std::string_view otherwise) const {
  const std::string* v = get<std::string>(*this, name);
  return v ? std::string_view(*v) : otherwise;
}

const Ints& Attrs::ints(std::string_view name) const {
  static const Ints none;
  const Ints* v = get<Ints>(*this, name);
  return v ? *v : none;
}

const Strings& Attrs::strings(std::string_view name) const {
  static const Strings none;
  const Strings* v = get<Strings>(*this, name);
  return v ? *v : none;
}

const Tensor* Attrs::tensor(std::string_view name) const { return get<Tensor>(*this, name); }

size_t hash(const Attrs& attrs) {
  size_t h = attrs.items().size();
  for (const auto& [name, value] : attrs.items()) {
    h = mix(h, std::hash<std::string>{}(name));
    h = mix(h, mix(value.index(), std::visit(HashOne{}, value)));
  }
  return h;
}

}  // namespace trine::ir
