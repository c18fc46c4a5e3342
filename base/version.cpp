#include "base/version.hpp"

namespace panpipe {

const char* const kVersion = PANPIPE_VERSION;

}  // namespace panpipe
