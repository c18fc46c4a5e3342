// How often each function was called, printed at the end of the process (STAND_IN_COUNTS).
#pragma once

namespace panpipe::stand_in {

// One more of `what`, a text that lives as long as the process. Safe from every thread.
void count(const char* what);
// One more of `what`, which may stop the host until a device comes to it.
void count_host_wait(const char* what);

}  // namespace panpipe::stand_in
