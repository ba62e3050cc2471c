// The store of memory: sizes met again are served from it, and it never makes the process larger than it was.
#include "host/scratch.h"

#include <cstdint>

#include "tests/testing.h"

using namespace trine;
using host::Memory;
using host::Scratch;

TEST_CASE("memory given back is used again") {
  Memory::clear_store();
  std::byte* first = nullptr;
  {
    const Memory m(size_t{3} << 20);
    first = m.data();
    CHECK(reinterpret_cast<uintptr_t>(first) % (size_t{2} << 20) == 0);
  }
  const Memory again(size_t{3} << 20);
  CHECK(again.data() == first);
}

TEST_CASE("what lies unused goes before the system is asked for more") {
  Memory::clear_store();
  constexpr size_t kLarge = size_t{256} << 20;
  {
    const Memory first(kLarge);
  }
  CHECK(Memory::stored_bytes() == kLarge);
  const Memory other(kLarge / 2);  // of another size: the stored one makes room
  CHECK(Memory::stored_bytes() == 0);
}

TEST_CASE("a short use takes what is somewhat larger") {
  Memory::clear_store();
  std::byte* larger = nullptr;
  {
    const Memory m(size_t{15} << 10);
    larger = m.data();
  }
  CHECK(Scratch(size_t{9} << 10).as<>() == larger);
  CHECK(Memory(size_t{9} << 10).data() != larger);
}

TEST_CASE("more than there is has no address") {
  CHECK(Memory(SIZE_MAX).data() == nullptr);
  CHECK(Memory(SIZE_MAX / 8).data() == nullptr);
  CHECK_THROWS_AS(Scratch(SIZE_MAX / 8), std::bad_alloc);
}
