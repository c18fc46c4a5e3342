#include "costmodel/workload/language_model.hpp"

#include "costmodel/workload/model_config.hpp"

namespace panpipe {

std::optional<LanguageModel> language_model_of(const WorkloadRequest& request) {
  if (request.config != nullptr) {
    if (request.config->build != build_language_model) return std::nullopt;
    LanguageModel model{request.config->type, request.config->dimensions};
    model.dimensions.dropout = request.dropout;
    return model;
  }
  const BuiltInModel* known = request.model.empty() ? nullptr : find_model(request.model);
  if (known == nullptr || known->family->build != build_language_model) return std::nullopt;
  return LanguageModel{known->family->name == "gpt" ? "gpt2" : "llama", resolve(*known, request)};
}

}  // namespace panpipe
