// The one setting of passes; see observe.h.
#include "api/observe.h"

#include "api/machine.h"

namespace trine::api {

compile::PassObserver observer_from_environment() { return {.verify_each = getenv_or("TRINE_VERIFY_EACH") == "1"}; }

}  // namespace trine::api
