// doctest for our C++ tests. Include it last: from here on CHECK is doctest's, not base/result.h's.
#pragma once

#include "base/result.h"

#undef CHECK
#include <doctest/doctest.h>
