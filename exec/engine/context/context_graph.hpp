// The graph of a context-parallel rank: its operators compute a part of the sequence; what it keeps is kept whole, as one process
// keeps it.
#pragma once

#include "exec/engine/slices/slice_graph.hpp"

namespace panpipe::exec {

// `part`: made for context_degree ranks; `whole`: the same model for one. Inputs and buffers that are cut along the sequence are
// in SliceGraph::cut; buffers have the whole's shape. InputError in words for what ranks with parts of a sequence cannot compute
// as one process does.
SliceGraph context_graph(const OperatorGraph& part, const OperatorGraph& whole);

}  // namespace panpipe::exec
