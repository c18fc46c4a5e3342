// Memory that the caching allocator takes back.
#pragma once

namespace panpipe::stand_in {

// From now on memory that is given back is overwritten with NaNs, in the order of the stream that it was allocated for: what
// reads it later without that stream knowing (Tensor::record_stream) reads NaNs. Called when the allocator is in use; once.
void overwrite_freed_memory();

}  // namespace panpipe::stand_in
