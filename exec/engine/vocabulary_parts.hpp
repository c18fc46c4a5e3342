// A vocabulary that is cut over the ranks of a pipeline (schedule/vocabulary.hpp): each rank's rows of embedding and head are
// parameters of their own, and its passes E, S, T, G and exchanges are run here.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "costmodel/workload/vocabulary_apart.hpp"
#include "exec/engine/around_actions.hpp"
#include "exec/engine/rank_site.hpp"
#include "exec/engine/stage/stage.hpp"
#include "exec/engine/stage/vocabulary_loss.hpp"
#include "schedule/vocabulary.hpp"

namespace panpipe::exec {

// Cuts embedding and head of a graph with its vocabulary apart: their shapes become those of a rank's rows, which are parameters
// of the rank's first stage. Throws InputError for what the executor cannot cut (a head with a bias).
void cut_vocabulary(OperatorGraph& graph, const Plan& plan, StageLayout& layout);

// The rows of a rank, from the whole parameter, with zeros where the vocabulary is padded.
at::Tensor rows_of_rank(const Tensor& parameter, const at::Tensor& whole, int rank, int ranks);

class VocabularyParts : public AroundActions {
 public:
  // Makes the group of this rank's pipeline; all ranks construct it at the same time. References must outlive the object.
  VocabularyParts(RankSite& site, const ParameterStore& parameters);

  // Run the exchanges that are due.
  void before_action(std::size_t index, bool evaluates) override;
  void after_action(std::size_t index, bool evaluates) override;
  // The graph's input that E, S or G reads; -1 for T.
  int input_of(ActionKind kind) const;
  // E, S, T or G. `input`: on the rank's device.
  void run(const Action& action, const at::Tensor& input, double loss_scale);
  void begin_step(bool evaluates = false);  // an evaluation has E, the forwards and S alone
  void finish();                            // waits for exchanges whose results other ranks read

  // Losses of microbatches since the last call, on the rank of the last stage; of an evaluation behind its finish().
  std::vector<std::pair<Action, at::Tensor>> take_losses() { return std::exchange(losses_, {}); }

  // Between the vocabulary's passes and those of the first and the last stage, like StageMessages: sets among `values`, of the
  // graph's `tensors`, what another stage would have sent; takes of them what it would have received. Nothing for other stages.
  void take_into(std::vector<at::Tensor>& values, const Action& action, const std::vector<int>& tensors, bool backward);
  void give(const std::vector<at::Tensor>& values, const Action& action, const std::vector<int>& tensors, bool backward);

 private:
  struct Exchange {
    at::Tensor value;
    PendingPtr pending;
    SpanLog::Moment started;
    bool produced = false, done = false;  // this rank's part is there; the whole has arrived
  };
  // Of a microbatch, from S to T.
  struct Head {
    at::Tensor labels, hidden, exponentials, statistics;  // exp(logit - largest of the part)
    at::Tensor product, label_rows;                       // one barrier: their parts of the gradient
    at::Tensor factor, weight;  // of each token: from the part's exponentials to the softmax; of its loss in the gradient
  };

  Exchange& exchange(VocabularyExchange kind, int microbatch);
  void produce(VocabularyExchange kind, int microbatch, at::Tensor value);
  void proceed(int blocking_below);
  void post(const VocabularyTurn& turn);
  at::Tensor wait_for(VocabularyExchange kind, int microbatch);
  at::Tensor take(VocabularyExchange kind, int microbatch);  // waits, and forgets the value
  void embed(int microbatch, const at::Tensor& ids);
  void head_forward(int microbatch, const at::Tensor& labels);
  void head_backward(int microbatch);
  void add_embedding_gradient(int microbatch, const at::Tensor& ids);
  VocabularyLoss whole_loss(int microbatch, const Head& head);
  void weigh(int microbatch, Head& head);
  at::Tensor gradient_of_part(const Head& head, const at::Tensor& of_softmax, const at::Tensor& of_labels) const;
  VocabularyPart part(const at::Tensor& ids) const { return {at::Tensor(), ids, first_row_, rows_}; }

  RankSite& site_;
  VocabularyTensors tensors_;
  int first_rank_, last_rank_;  // positions in the pipeline
  Group group_;
  VocabularyOrder order_;
  std::size_t next_ = 0;  // turn
  at::Tensor embedding_, head_;
  std::int64_t first_row_ = 0, rows_ = 0;  // of this rank; rows_ without padding
  TensorSpec hidden_, embedded_;           // of the last stage's result and of the first stage's input
  std::array<std::map<int, Exchange>, kVocabularyExchanges> exchanges_;
  std::map<int, Head> heads_;
  std::vector<VocabularyTurn> for_others_;  // under way, and not read by this rank
  double loss_scale_ = 1;
  bool evaluates_ = false;
  std::vector<std::pair<Action, at::Tensor>> losses_;
};

}  // namespace panpipe::exec
