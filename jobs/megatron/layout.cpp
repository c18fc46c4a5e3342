#include "jobs/megatron/layout.hpp"

#include <fmt/format.h>

#include "jobs/bounds.hpp"
#include "jobs/repeats.hpp"

namespace panpipe::jobs {

int MegatronLayout::layers() const {
  int sum = 0;
  for (const LayoutStage& stage : stages) sum += stage.layers;
  return sum;
}

MegatronLayout read_layout(std::string_view text) {
  MegatronLayout layout;
  const Repeats parts = expand_repeats(text, "()", kMostRanks);
  layout.problem = parts.problem;
  layout.stages.emplace_back();
  for (const char c : parts.flat) {
    LayoutStage& stage = layout.stages.back();
    switch (c) {
      case '|':
        layout.stages.emplace_back();
        break;
      case 'E':
        stage.embedding = true;
        break;
      case 't':
        ++stage.layers;
        break;
      case 'm':
        ++stage.predictors;
        break;
      case 'L':
        stage.loss = true;
        break;
      case ',':
      case ' ':
        break;
      default:
        layout.problem = fmt::format("holds '{}', which is not known", c);
        layout.help = "known are E, t, L, m, '|', '*' and parentheses";
        return layout;
    }
  }
  return layout;
}

}  // namespace panpipe::jobs
