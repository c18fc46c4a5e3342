// Panpipe's version, from the file VERSION.
#pragma once

namespace panpipe {

extern const char* const kVersion;

}  // namespace panpipe
