// Namespaces, interfaces and routes; see group_host.h.
#include "api/torch/group/group_host.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <unistd.h>

#include <array>
#include <memory>

#include "api/machine.h"
#include "base/file.h"
#include "base/text.h"

namespace trine::api::neuron {

namespace {

std::string link_text(const char* path) {
  std::array<char, 128> out{};
  const ssize_t size = readlink(path, out.data(), out.size());
  return {out.data(), size_t(std::max<ssize_t>(size, 0))};
}

std::string address_text(const sockaddr* address) {
  std::array<char, INET6_ADDRSTRLEN> out{};
  const void* bytes = address->sa_family == AF_INET
                          ? static_cast<const void*>(&reinterpret_cast<const sockaddr_in*>(address)->sin_addr)
                          : &reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr;
  return inet_ntop(address->sa_family, bytes, out.data(), out.size()) ? out.data() : "";
}

Result<std::string> address_of_interface(const std::string& name) {
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) return fail(Code::io, "cannot list this host's network interfaces");
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> held(all, freeifaddrs);
  for (const ifaddrs* i = all; i; i = i->ifa_next)
    if (i->ifa_addr && i->ifa_addr->sa_family == AF_INET && std::string_view(i->ifa_name).starts_with(name))
      return address_text(i->ifa_addr);
  return fail(Code::not_found, cat("no network interface with an address is called \"", name,
                                   "\", as CCOM_SOCKET_IFNAME or GLOO_SOCKET_IFNAME wants"));
}

// A datagram socket that is connected sends nothing, but knows which of this host's addresses it would send from.
Result<std::string> address_towards(const std::string& name) {
  addrinfo* found = nullptr;
  addrinfo wanted{};
  wanted.ai_socktype = SOCK_DGRAM;
  if (getaddrinfo(name.c_str(), "9", &wanted, &found) != 0)
    return fail(Code::not_found, cat("MASTER_ADDR \"", name, "\" has no address"));
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> held(found, freeaddrinfo);
  sockaddr_storage out{};
  socklen_t size = sizeof(out);
  const int socket = ::socket(found->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  const bool is_there = socket >= 0 && connect(socket, found->ai_addr, found->ai_addrlen) == 0 &&
                        getsockname(socket, reinterpret_cast<sockaddr*>(&out), &size) == 0;
  if (socket >= 0) close(socket);
  if (!is_there) return fail(Code::io, cat("no route to MASTER_ADDR \"", name, "\""));
  return address_text(reinterpret_cast<const sockaddr*>(&out));
}

}  // namespace

std::string host_name() {
  const auto boot = read_file("/proc/sys/kernel/random/boot_id");
  return cat(boot ? trim(*boot) : "", " ", link_text("/proc/self/ns/pid"), " ", link_text("/proc/self/ns/net"));
}

Result<std::string> host_address() {
  const std::string interface = getenv_or("CCOM_SOCKET_IFNAME", getenv_or("GLOO_SOCKET_IFNAME"));
  if (!interface.empty()) return address_of_interface(interface);
  const std::string master = getenv_or("MASTER_ADDR");
  return master.empty() ? Result<std::string>(std::string("127.0.0.1")) : address_towards(master);
}

}  // namespace trine::api::neuron
