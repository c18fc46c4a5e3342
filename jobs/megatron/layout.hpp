// Megatron-LM's --pipeline-model-parallel-layout: `E` embedding, `t` a layer, `m` a layer that predicts further tokens, `L` loss,
// `|` between stages in the order of the model, `x*n` and `(x)*n` repetition; commas and spaces are ignored.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace panpipe::jobs {

struct LayoutStage {
  bool embedding = false;
  int layers = 0;
  int predictors = 0;  // layers that predict further tokens
  bool loss = false;
};

struct MegatronLayout {
  std::vector<LayoutStage> stages;
  std::string problem, help;  // set if the text is not a layout: "holds 'x', which is not known"
  int layers() const;         // of all stages
};

MegatronLayout read_layout(std::string_view text);

}  // namespace panpipe::jobs
