#include "costmodel/scenario/default_framework.hpp"

#include <string_view>

#include "costmodel/workload/models.hpp"

namespace panpipe {
namespace {

struct Choice {
  std::string_view kind;  // of the model
  std::string_view preset;
};

constexpr std::string_view kExported = "exported models";
constexpr std::string_view kConfigured = "models by config";

// The published GPT runs behind the calibrations are Megatron-LM's of 2021 and 2022, before fused attention was common; BERT, ViT
// and the U-Net have no better preset. Llama and its relatives came after fused attention. An exported model is a program of
// PyTorch's operators, one kernel each, and its graph shows where attention is fused.
constexpr std::string_view kOtherwise = "megatron";
constexpr Choice kChoices[] = {
    {"llama", "flash-attn"}, {"mllm", "flash-attn"}, {kConfigured, "flash-attn"}, {kExported, "eager-sdpa"}};

std::string_view kind_of(const WorkloadRequest& workload) {
  if (!workload.pt2_file.empty()) return kExported;
  if (workload.config) return kConfigured;
  const BuiltInModel* model = find_model(workload.model);
  return model != nullptr ? model->family->name : std::string_view();
}

}  // namespace

DefaultFramework default_framework(const WorkloadRequest& workload) {
  const std::string kind(kind_of(workload));
  const std::string origin = kind.empty() ? "default" : "default for " + kind;
  for (const Choice& choice : kChoices)
    if (choice.kind == kind) return {std::string(choice.preset), origin};
  return {std::string(kOtherwise), origin};
}

}  // namespace panpipe
