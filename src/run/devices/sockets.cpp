// A listener's text is "identity/name/secret/port/address,address": everything but the secret may be known to others.
#include "run/devices/sockets.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "base/file.h"
#include "base/text.h"

namespace trine::run {

namespace {

using Clock = std::chrono::steady_clock;

constexpr int kHelloMs = 5'000;     // a caller says at once who it is
constexpr int kCallMs = 5'000;      // an address that does not answer is not the one
constexpr int kSilenceMs = 20'000;  // a cable that is pulled: data without an answer, or no answer to a probe
constexpr int kProbeAfterSeconds = 5, kProbeEverySeconds = 5, kProbes = 3;

struct Hello {
  uint64_t secret = 0;
  int64_t process = 0;
};

std::string system_text() { return std::strerror(errno); }

uint64_t random_number() {
  uint64_t out = 0;
  while (getrandom(&out, sizeof(out), 0) != ssize_t(sizeof(out))) {
  }
  return out;
}

void set_timeout(int socket, int ms) {
  const timeval wait{ms / 1000, ms % 1000 * 1000};
  setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait));
  setsockopt(socket, SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof(wait));
}

// A name that begins with a zero byte is in no folder and goes with its socket.
std::pair<sockaddr_un, socklen_t> local_address(const std::string& name) {
  sockaddr_un out{};
  out.sun_family = AF_UNIX;
  const size_t size = std::min(name.size(), sizeof(out.sun_path) - 1);
  std::memcpy(out.sun_path + 1, name.data(), size);
  return {out, socklen_t(offsetof(sockaddr_un, sun_path) + 1 + size)};
}

// Small messages go at once; a peer that no packet reaches any more is found out.
void prepare_network(int socket) {
  const int on = 1;
  setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  setsockopt(socket, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
  setsockopt(socket, IPPROTO_TCP, TCP_KEEPIDLE, &kProbeAfterSeconds, sizeof(int));
  setsockopt(socket, IPPROTO_TCP, TCP_KEEPINTVL, &kProbeEverySeconds, sizeof(int));
  setsockopt(socket, IPPROTO_TCP, TCP_KEEPCNT, &kProbes, sizeof(int));
  setsockopt(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, &kSilenceMs, sizeof(int));
}

// IPv4 or IPv6, by the text; 0 where it is neither.
socklen_t read_address(const std::string& text, uint16_t port, sockaddr_storage& out) {
  auto* four = reinterpret_cast<sockaddr_in*>(&out);
  auto* six = reinterpret_cast<sockaddr_in6*>(&out);
  if (inet_pton(AF_INET, text.c_str(), &four->sin_addr) == 1) {
    four->sin_family = AF_INET;
    four->sin_port = htons(port);
    return sizeof(sockaddr_in);
  }
  if (inet_pton(AF_INET6, text.c_str(), &six->sin6_addr) != 1) return 0;
  six->sin6_family = AF_INET6;
  six->sin6_port = htons(port);
  return sizeof(sockaddr_in6);
}

// A socket that takes calls over both kinds of network, or over IPv4 where there is no IPv6; -1 where it cannot be.
int listen_to_network(uint16_t& port) {
  for (const char* any : {"::", "0.0.0.0"}) {
    sockaddr_storage at{};
    socklen_t size = read_address(any, 0, at);
    const int out = ::socket(at.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const int off = 0;
    if (out >= 0 && at.ss_family == AF_INET6) setsockopt(out, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
    if (out >= 0 && bind(out, reinterpret_cast<const sockaddr*>(&at), size) == 0 && listen(out, SOMAXCONN) == 0 &&
        getsockname(out, reinterpret_cast<sockaddr*>(&at), &size) == 0) {
      port = ntohs(reinterpret_cast<const sockaddr_in*>(&at)->sin_port);  // at the same place in both kinds
      return out;
    }
    if (out >= 0) close(out);
  }
  return -1;
}

// Addresses of this machine, loopback last; of one interface alone where CCOM_SOCKET_IFNAME names it.
std::vector<std::string> own_addresses() {
  const char* only = std::getenv("CCOM_SOCKET_IFNAME");
  std::vector<std::string> out, loopback;
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) return out;
  for (const ifaddrs* i = all; i; i = i->ifa_next) {
    if (!i->ifa_addr || !(i->ifa_flags & IFF_UP) || i->ifa_addr->sa_family != AF_INET) continue;
    const bool is_loopback = i->ifa_flags & IFF_LOOPBACK;
    if (only && *only && !is_loopback && std::string_view(i->ifa_name) != only) continue;
    char text[INET_ADDRSTRLEN] = {};
    inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(i->ifa_addr)->sin_addr, text, sizeof(text));
    (is_loopback ? loopback : out).push_back(text);
  }
  freeifaddrs(all);
  out.insert(out.end(), loopback.begin(), loopback.end());
  return out;
}

// Connected within the time, or closed.
bool connect_within(int socket, const sockaddr* address, socklen_t size, int ms) {
  fcntl(socket, F_SETFL, fcntl(socket, F_GETFL) | O_NONBLOCK);
  if (::connect(socket, address, size) != 0) {
    if (errno != EINPROGRESS) return false;
    pollfd wait{socket, POLLOUT, 0};
    if (poll(&wait, 1, ms) != 1) {
      errno = ETIMEDOUT;
      return false;
    }
    int error = 0;
    socklen_t length = sizeof(error);
    getsockopt(socket, SOL_SOCKET, SO_ERROR, &error, &length);
    if (error != 0) {
      errno = error;
      return false;
    }
  }
  fcntl(socket, F_SETFL, fcntl(socket, F_GETFL) & ~O_NONBLOCK);
  return true;
}

// What the caller's end of the handshake is: it shows the secret, and is shown that it was understood.
bool introduce(int socket, uint64_t secret, int process, int self, int answer_ms) {
  set_timeout(socket, std::max(answer_ms, 1));
  const Hello mine{secret, self};
  Hello theirs;
  const bool is_known = send_all(socket, &mine, sizeof(mine)) && receive_all(socket, &theirs, sizeof(theirs)) &&
                        theirs.secret == ~secret && theirs.process == process;
  set_timeout(socket, 0);
  return is_known;
}

struct Named {
  std::string_view identity, name, addresses;
  uint64_t secret = 0;
  uint16_t port = 0;
};

Result<Named> read_named(std::string_view text) {
  const auto parts = split(text, '/');
  if (parts.size() != 5) return fail(Code::io, "another process names itself in a way that cannot be read");
  Named out{.identity = parts[0], .name = parts[1], .addresses = parts[4]};
  const auto number = [](std::string_view digits, auto& into) {
    const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), into);
    return read.ec == std::errc{} && read.ptr == digits.data() + digits.size();
  };
  if (!number(parts[2], out.secret) || !number(parts[3], out.port))
    return fail(Code::io, "another process names itself in a way that cannot be read");
  return out;
}

}  // namespace

bool send_all(int socket, const void* data, size_t size) {
  const auto* at = static_cast<const char*>(data);
  while (size > 0) {
    const ssize_t sent = ::send(socket, at, size, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return false;
    at += sent;
    size -= size_t(sent);
  }
  return true;
}

bool receive_all(int socket, void* data, size_t size) {
  auto* at = static_cast<char*>(data);
  while (size > 0) {
    const ssize_t got = ::recv(socket, at, size, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got == 0) errno = ECONNRESET;
    if (got <= 0) return false;
    at += got;
    size -= size_t(got);
  }
  return true;
}

std::string machine_identity() {
  const auto boot = read_file("/proc/sys/kernel/random/boot_id");
  struct stat network{};
  const bool has_namespace = stat("/proc/self/ns/net", &network) == 0;
  char host[256] = {};
  gethostname(host, sizeof(host) - 1);
  std::string out = cat(boot ? std::string(trim(*boot)) : std::string(host), "-", has_namespace ? network.st_ino : 0);
  std::replace(out.begin(), out.end(), '/', '-');
  std::replace(out.begin(), out.end(), ' ', '-');
  return out;
}

Result<Listener> Listener::open(int process, const std::string& address) {
  if (sockaddr_storage read{}; !address.empty() && read_address(address, 0, read) == 0)
    return fail(Code::invalid, cat("\"", address, "\" is not the address of a host; expected an IP address"));
  Listener out;
  out.process_ = process;
  out.secret_ = random_number();
  const std::string name = cat("trine-", getpid(), "-", random_number());
  const auto refused = [](const char* what) {
    return fail(Code::io, cat("cannot listen for other processes ", what, ": ", system_text()));
  };
  out.local_ = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const auto [local, size] = local_address(name);
  if (out.local_ < 0 || bind(out.local_, reinterpret_cast<const sockaddr*>(&local), size) != 0 ||
      listen(out.local_, SOMAXCONN) != 0)
    return refused("of this machine");
  uint16_t port = 0;
  if ((out.network_ = listen_to_network(port)) < 0) return refused("of other machines");
  std::string addresses = address;
  for (const std::string& a : own_addresses())
    if (a != address) addresses += cat(addresses.empty() ? "" : ",", a);
  out.text_ = cat(machine_identity(), "/", name, "/", out.secret_, "/", port, "/", addresses);
  return out;
}

Listener::Listener(Listener&& from) noexcept
    : process_(from.process_),
      local_(std::exchange(from.local_, -1)),
      network_(std::exchange(from.network_, -1)),
      secret_(from.secret_),
      text_(std::move(from.text_)) {}

Listener::~Listener() {
  if (local_ >= 0) close(local_);
  if (network_ >= 0) close(network_);
}

Result<Listener::Caller> Listener::accept(int after, int count, int timeout_ms) {
  const auto until = Clock::now() + std::chrono::milliseconds(timeout_ms);
  while (true) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - Clock::now()).count();
    pollfd waits[] = {{local_, POLLIN, 0}, {network_, POLLIN, 0}};
    const int ready = left > 0 ? poll(waits, 2, int(left)) : 0;
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) return fail(Code::io, cat("other processes did not call in ", timeout_ms / 1000, " s"));
    for (const pollfd& wait : waits) {
      if (!(wait.revents & POLLIN)) continue;
      const int caller = accept4(wait.fd, nullptr, nullptr, SOCK_CLOEXEC);
      if (caller < 0) continue;
      set_timeout(caller, kHelloMs);
      Hello theirs;
      const Hello mine{~secret_, process_};
      if (receive_all(caller, &theirs, sizeof(theirs)) && theirs.secret == secret_ && theirs.process > after &&
          theirs.process < count && send_all(caller, &mine, sizeof(mine))) {
        set_timeout(caller, 0);
        if (wait.fd == network_) prepare_network(caller);
        return Caller{caller, int(theirs.process)};
      }
      close(caller);
    }
  }
}

Result<int> call(const std::string& listener, int process, int self, int answer_ms) {
  const Named to = TRY(read_named(listener));
  if (to.identity == machine_identity()) {
    const int out = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const auto [address, size] = local_address(std::string(to.name));
    if (out >= 0 && ::connect(out, reinterpret_cast<const sockaddr*>(&address), size) == 0 &&
        introduce(out, to.secret, process, self, answer_ms))
      return out;
    const Error error = fail(Code::io, cat("cannot reach process ", process, " of this machine: ", system_text()));
    if (out >= 0) close(out);
    return error;
  }
  std::string tried;
  for (const std::string_view text : split(to.addresses, ',')) {
    sockaddr_storage address{};
    const socklen_t size = read_address(std::string(text), to.port, address);
    if (size == 0) continue;
    const int out = ::socket(address.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (out >= 0 && connect_within(out, reinterpret_cast<const sockaddr*>(&address), size, kCallMs) &&
        introduce(out, to.secret, process, self, answer_ms)) {
      prepare_network(out);
      return out;
    }
    tried += cat(tried.empty() ? "" : "; ", text, " port ", to.port, ": ", system_text());
    if (out >= 0) close(out);
  }
  return fail(Code::io, cat("cannot reach process ", process,
                            " on another machine: ", tried.empty() ? "it has no address" : tried));
}

}  // namespace trine::run
