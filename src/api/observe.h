// Whether compilers that are called from outside verify after each pass: TRINE_VERIFY_EACH=1, as tests set it.
#pragma once

#include "compile/pass/pass.h"

namespace trine::api {

compile::PassObserver observer_from_environment();

}  // namespace trine::api
