// The graph of a language model whose vocabulary is cut over all ranks of a pipeline: the lookup of the word embedding is a unit
// of its own, the first one, and the head's product with its loss another, the last one. Stages hold the units between them; each
// rank holds and runs an equal part of these two (schedule/vocabulary.hpp).
#pragma once

#include "costmodel/workload/graph.hpp"

namespace panpipe {

// `graph`: of one tensor- and context-parallel rank; `ranks`: of the pipeline. Rows of the vocabulary are padded as
// padded_vocabulary() does for so many ranks: shapes of the two units are those of the whole, padded vocabulary; full_shape
// stays. Throws InputError, with the reason, for a graph in which the embedding is not looked up first or the loss is not the
// cross entropy of one product.
void set_vocabulary_apart(OperatorGraph& graph, int ranks);

// Tensors of a graph with its vocabulary apart.
struct VocabularyTensors {
  int ids = -1, labels = -1;           // inputs
  int embedding = -1, head = -1;       // parameters (rows, width); equal values if tied
  int bias = -1;                       // of the head; -1: none
  int embedded = -1, hidden = -1;      // what the first stage reads, what the last stage makes: (samples, tokens, width)
  std::int64_t words = 0, padded = 0;  // rows that stand for a word, and all of them
};
VocabularyTensors vocabulary_tensors(const OperatorGraph& graph);

}  // namespace panpipe
