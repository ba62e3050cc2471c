// Processes of a job call each other, on this machine and over TCP; who does not know the secret is sent away.
#include "run/devices/sockets.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <thread>

#include "base/text.h"
#include "tests/testing.h"

namespace trine::run {

namespace {

// The text of a listener as a process of another machine sees it.
std::string seen_from_elsewhere(const Listener& listener) {
  return cat("another-machine", listener.text().substr(listener.text().find('/')));
}

// Process 1 calls process 0, and what either sends arrives.
void check_talk(Listener& listener, const std::string& text) {
  int caller = -1;
  std::thread other([&] { caller = *call(text, 0, 1); });
  const auto taken = listener.accept(0, 2, 5'000);
  other.join();
  REQUIRE(taken);
  CHECK(taken->process == 1);
  const std::string sent = "over";
  std::string got(4, ' ');
  CHECK((send_all(caller, sent.data(), 4) && receive_all(taken->socket, got.data(), 4)));
  CHECK(got == sent);
  CHECK((send_all(taken->socket, "back", 4) && receive_all(caller, got.data(), 4)));
  CHECK(got == "back");
  close(caller);
  CHECK(!receive_all(taken->socket, got.data(), 4));
  close(taken->socket);
}

template <typename T>
bool fails(const Result<T>& result, std::string_view with) {
  return !result && result.error().message.find(with) != std::string::npos;
}

uint16_t port_of(const std::string& text) {
  const auto parts = split(text, '/');
  return uint16_t(std::atoi(std::string(parts[3]).c_str()));
}

}  // namespace

TEST_CASE("on one machine and over the network") {
  Listener listener = *Listener::open(0);
  check_talk(listener, listener.text());
  check_talk(listener, seen_from_elsewhere(listener));
}

TEST_CASE("strangers are sent away and do not hold up the others") {
  Listener listener = *Listener::open(0);
  std::vector<int> strangers;
  for (int i = 0; i < 3; ++i) {
    const int out = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(port_of(listener.text()));
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    REQUIRE(::connect(out, reinterpret_cast<const sockaddr*>(&to), sizeof(to)) == 0);
    const char guess[16] = {};
    send_all(out, guess, sizeof(guess));
    strangers.push_back(out);
  }
  check_talk(listener, seen_from_elsewhere(listener));
  char byte = 0;
  for (const int s : strangers) {
    CHECK(!receive_all(s, &byte, 1));
    close(s);
  }
}

TEST_CASE("an address that is given is tried before the others") {
  for (const char* address : {"127.0.0.1", "::1"}) {
    Listener listener = *Listener::open(0, address);
    CHECK(std::string(split(listener.text(), '/')[4]).starts_with(address));
    check_talk(listener, seen_from_elsewhere(listener));
  }
  CHECK(fails(Listener::open(0, "somewhere"), "expected an IP address"));
}

TEST_CASE("what cannot be reached or read is an error") {
  CHECK(fails(call("x", 0, 1), "cannot be read"));
  CHECK(fails(call("elsewhere/name/12/notaport/127.0.0.1", 0, 1), "cannot be read"));
  CHECK(fails(call("elsewhere/name/12/1/127.0.0.1", 3, 1),
              "cannot reach process 3 on another machine: 127.0.0.1 port 1"));
  CHECK(fails(call("elsewhere/name/12/1/", 3, 1), "it has no address"));
  CHECK(fails(call(cat(machine_identity(), "/nobody/12/1/127.0.0.1"), 3, 1), "cannot reach process 3 of this machine"));
  Listener listener = *Listener::open(0);
  CHECK(fails(listener.accept(0, 2, 50), "did not call"));
}

}  // namespace trine::run
