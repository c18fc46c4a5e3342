#include "jobs/megatron/vocabulary.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "base/text/characters.hpp"

namespace panpipe::jobs {
namespace {

struct NamedTokens {
  std::string_view name;
  int tokens;
};

// Megatron-LM's classes whose files are always of one size: the vocabularies of GPT-2, BERT and Llama 2.
constexpr NamedTokens kTypes[] = {
    {"GPT2BPETokenizer", 50257}, {"Llama2Tokenizer", 32000}, {"BertWordPieceLowerCase", 30522}, {"BertWordPieceCase", 28996}};

// Pai-Megatron-Patch: the tokenizer's own tokens, to which --extra-vocab-size adds (128000 + 256 of Llama 3, 151643 + 293 of Qwen
// 2).
constexpr NamedTokens kPatchTypes[] = {{"LLamaTokenizer", 32000},   {"LLama2Tokenizer", 32000}, {"MistralTokenizer", 32000},
                                       {"LLama3Tokenizer", 128000}, {"Qwen2Tokenizer", 151643}, {"Qwen3Tokenizer", 151643},
                                       {"Qwen2VLTokenizer", 151643}};

// Parts of a model's name in --tokenizer-model or --tokenizer-name-or-path: models whose tokenizer has no more than their
// config.json.
constexpr NamedTokens kModels[] = {
    {"llama-3", 128256}, {"llama3", 128256}, {"llama-2", 32000}, {"llama2", 32000}, {"mixtral-8x7b", 32000}};

const NamedTokens* find_named(const NamedTokens* begin, const NamedTokens* end, const std::string& name) {
  const NamedTokens* found = std::find_if(begin, end, [&](const NamedTokens& known) { return known.name == name; });
  return found == end ? nullptr : found;
}

// The value, if it is known: a tokenizer that is not is no reason to ask.
std::string known_text(const Arguments& arguments, const char* option) {
  const ShellWord* word = arguments.word(option);
  return word == nullptr || (word->expands && word->pieces.size() < 2) ? "" : word->text;
}

}  // namespace

std::optional<KnownVocabulary> known_vocabulary(Arguments& arguments) {
  const std::string patch = known_text(arguments, "--patch-tokenizer-type");
  if (const NamedTokens* known = find_named(std::begin(kPatchTypes), std::end(kPatchTypes), patch)) {
    const int extra = arguments.integer("--extra-vocab-size", 0).value_or(0);
    return KnownVocabulary{known->tokens + extra, "--patch-tokenizer-type " + patch, true};
  }
  const std::string type = known_text(arguments, "--tokenizer-type");
  if (const NamedTokens* known = find_named(std::begin(kTypes), std::end(kTypes), type))
    return KnownVocabulary{known->tokens, "--tokenizer-type " + type};
  for (const char* option : {"--tokenizer-model", "--tokenizer-name-or-path"}) {
    const std::string name = lower_case(known_text(arguments, option));
    for (const NamedTokens& known : kModels)
      if (name.find(known.name) != std::string::npos) return KnownVocabulary{known.tokens, option};
  }
  return std::nullopt;
}

}  // namespace panpipe::jobs
