// The one main() of all doctest binaries; cases live in tests/<folder>/*.cpp.
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>
