// The graph of a context-parallel rank. Its operators compute a part of the sequence, but stored tensors are whole, as in one
// process.
#pragma once

#include "exec/engine/slices/slice_graph.hpp"

namespace panpipe::exec {

// `part`: built for context_degree ranks; `whole`: the same model for one. SliceGraph::cut lists the inputs and buffers divided
// along the sequence; buffers keep the whole's shape. Throws InputError for a loss that ranks with parts of a sequence
// cannot sum.
SliceGraph context_graph(const OperatorGraph& part, const OperatorGraph& whole);

}  // namespace panpipe::exec
