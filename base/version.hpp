// The version of Panpipe, from the file VERSION.
#pragma once

namespace panpipe {

extern const char* const kVersion;

}  // namespace panpipe
