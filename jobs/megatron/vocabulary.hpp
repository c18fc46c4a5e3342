// Tokens of the tokenizers that Megatron-LM's arguments name.
#pragma once

#include <optional>
#include <string>

#include "jobs/shell/arguments.hpp"

namespace panpipe::jobs {

struct KnownVocabulary {
  int tokens = 0;
  std::string origin;   // "--tokenizer-type Llama2Tokenizer"
  bool padded = false;  // the trainer adds nothing to it
};

// None: the tokenizer is not known, or its files decide.
std::optional<KnownVocabulary> known_vocabulary(Arguments& arguments);

}  // namespace panpipe::jobs
