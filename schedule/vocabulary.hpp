// Vocabulary parallelism (Yeung et al., Balancing pipeline parallelism with vocabulary parallelism, arXiv 2411.05288): embedding
// and head are cut along the vocabulary over all ranks. Each rank runs four more passes for each microbatch, named after its
// first stage:
//   E  looks up its rows of the embedding; the ranks' sum goes to the first stage's forward;
//   S  multiplies the last stage's result, which all ranks receive, by its rows of the head, with a softmax of these columns;
//   T  makes the gradient of these rows;
//   G  adds the gradient of its rows of the embedding, after the first stage's backward.
// With one barrier S also makes its part of the result's gradient, and T may come at any time after it. With two barriers T makes
// that part, and the last stage's backward waits for T.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "schedule/schedule.hpp"

namespace panpipe {

// The families in which it may be cut.
std::span<const std::string_view> vocabulary_families();

// The options of every family that may cut the vocabulary, and their defaults.
const std::vector<std::pair<std::string_view, std::string_view>>& vocabulary_options();

// True if the options ask for `vocabulary: stages`. Throws InputError for another value than `stages` or `whole`, and for
// `vocabulary_barriers` without it.
bool cuts_vocabulary(const ScheduleOptions& options);

// The family's order with the passes of a vocabulary that is cut. `base`: the same sizes without them. Throws InputError, with
// the reason, for a family in which their places are not known, and for other barriers than 1 or 2.
Schedule with_vocabulary_passes(Schedule base, std::string_view family, const ScheduleOptions& options);

// The order of 1f1b that the authors' code makes (megatron/core/pipeline_parallel/vocab_parallel_schedule.py of
// sail-sg/VocabularyParallelism) for a backward of twice the forward's time.
Schedule vocabulary_1f1b(int ranks, int microbatches, int barriers);

// The exchanges over all ranks, one of each for every microbatch, in the order that breaks ties between those ready at one time.
enum class VocabularyExchange : std::uint8_t {
  Hidden,             // the last stage's result to all ranks
  Statistics,         // sums of each token: its largest logit, the sum of exponentials, the label's logit
  HiddenGradient,     // the sum of the ranks' parts of the last stage's gradient; with one barrier right behind the statistics
  EmbeddingGradient,  // the gradient of the first stage's input to all ranks
  Embedding,          // the sum of the ranks' rows
};
constexpr std::size_t kVocabularyExchanges = static_cast<std::size_t>(VocabularyExchange::Embedding) + 1;

// A pass at one end of an exchange: of every rank's share, or an F or a backward (B; I too) of the chain's first or last stage.
struct VocabularyEnd {
  enum class Of : std::uint8_t { Share, First, Last };
  ActionKind kind{};
  Of of{};

  int stage(const Schedule& schedule) const;  // -1: every rank's share
  bool is(const Schedule& schedule, const Action& action) const;
  // By microbatch: start of the first of these passes, end of the last one.
  std::vector<std::pair<double, double>> times(const Schedule& schedule, const ScheduleEvaluation& evaluation) const;
  bool is_on(const Schedule& schedule, int rank) const {
    return of == Of::Share || schedule.stage_to_rank[stage(schedule)] == rank;
  }
};
// The pass that makes a rank's part of an exchange, and the one that waits for it.
VocabularyEnd maker_of(VocabularyExchange exchange, int barriers);
VocabularyEnd reader_of(VocabularyExchange exchange);
// The pass of a share that an exchange serves, for its name in timelines.
ActionKind served_pass(VocabularyExchange exchange);

struct VocabularyTurn {
  VocabularyExchange exchange{};
  int microbatch = 0;
};

struct VocabularyOrder {
  std::vector<VocabularyTurn> turns;     // in which all ranks run the exchanges: as they become ready under plain costs
  std::vector<std::vector<int>> before;  // per rank and action of its row: turns that are ready when it starts
};
// The schedule must be legal.
VocabularyOrder vocabulary_order(const Schedule& schedule);

}  // namespace panpipe
