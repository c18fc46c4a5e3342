// Memory that the caching allocator takes back.
#pragma once

namespace panpipe::stand_in {

// From now on memory that is given back is overwritten with NaNs, in the order of the stream that it was allocated for: what
// reads it later without that stream knowing (Tensor::record_stream) reads NaNs. With STAND_IN_OVERWRITE=reused memory is
// overwritten when it is given out again: then another stream may read it until the stream of its next owner, which a program may
// order by events of its own (as FSDP 2 does), comes to it. Called when the allocator is in use; once.
void overwrite_freed_memory();

}  // namespace panpipe::stand_in
