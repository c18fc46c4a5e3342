// ZeRO 2 and 3 on one rank. Gradients are reduce-scattered after every backward, and the rank keeps and updates only its part;
// under ZeRO 2 the parts are gathered after the update. Under ZeRO 3 the rank also keeps only its part of the parameters: those
// of a group are gathered ahead of the pass that needs them, and freed after it.
//
// Parameters of a group are views of one buffer whose memory is freed and allocated again (as in FSDP), so that tensors saved by
// autograd are whole again when the backward needs them.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "exec/engine/parameters.hpp"
#include "exec/engine/rank_groups.hpp"
#include "exec/engine/rank_site.hpp"
#include "exec/engine/shard_layout.hpp"
#include "exec/engine/stage/parameter_gate.hpp"
#include "exec/engine/training/gradient_hooks.hpp"
#include "schedule/action.hpp"

namespace panpipe::exec {

class ShardedParameters : public ParameterGate, public ParameterPlacement {
 public:
  // How far ahead parameters are requested (the framework's keys of these names).
  struct Ahead {
    int prefetch = 1, in_flight = 2;
  };

  // References must outlive the object. All ranks construct it at the same time, because groups are created. `shared_autograd`:
  // another rank's backward runs on the same thread as this one's, as on a GPU that threads of one process share.
  ShardedParameters(RankSite& site, const ShardLayout& shards, Ahead ahead, bool shared_autograd = false);

  bool place(int root, at::Tensor& value, at::Tensor& master) override;
  // Bytes of this rank's part and of the parameters that are whole now; bytes of the sums.
  std::int64_t parameter_bytes() const override;
  std::int64_t gradient_bytes() const override;
  // Call it after the last place(): takes the gradients of these parameters from autograd.
  void watch(const std::map<int, at::Tensor>& trained);

  // Passes come in the same order in every step, and in every evaluation. From the second one on, the parameters that they open
  // are requested ahead.
  enum class Passes { Step, Evaluation };
  void begin(Passes passes);
  void open(int group) override;
  void close(int group, bool backward) override;
  // Call it after an entry of the rank's order.
  void after_action(const Action& action);
  // Call it after the last one: the sums are complete then.
  void finish();

  // This rank's part of a parameter's gradient, flat, in the master's type; may have no elements.
  const at::Tensor& gradient(int root) const { return pieces_.at(root).gradient; }
  // True if this rank is in the shard group that counts where each parameter must count only once.
  bool counts() const { return site_.place.replica < members_; }
  std::size_t member() const { return member_; }
  const panpipe::exec::Group& shard_group() const { return group_; }
  // Number of the parameter's elements on each member; empty if it is not divided.
  std::vector<std::int64_t> lengths(int root) const { return shards_.pieces(site_.place.position, root); }
  // This rank's elements of it.
  at::Tensor own_part(int root, const at::Tensor& whole) const;

  // Call it when the masters of this rank's part have new values.
  void updated();

 private:
  struct Flat {
    const FlatParameters* layout = nullptr;
    at::Tensor whole;             // its memory is freed and allocated under ZeRO 3
    at::Tensor own, master, sum;  // this rank's part: in the parameters' type, in the master's, of the gradients
    std::size_t placed = 0;       // parameters
    int users = 0;                // passes that need it now, or have requested it
    PendingPtr gathering;
    SpanLog::Moment asked;
    at::Tensor arrived;     // whole gradients of a backward
    std::set<int> missing;  // parameters whose gradient has not arrived in this backward
  };
  struct Piece {
    std::size_t flat = 0;
    FlatParameters::Entry entry{};
    int group = 0;                         // the first that has it
    std::int64_t first = 0, elements = 0;  // of the parameter
    at::Tensor gradient{};
  };
  // Exchanges that are recorded as one.
  struct RecordedExchange {
    std::vector<SpanLog::Moment> starts, ends;
    std::int64_t bytes = 0;
  };
  struct Group {
    int stage = 0;
    std::vector<std::size_t> flats;
    std::vector<bool> records;
    std::size_t started = 0;  // flats whose reduction was posted in this backward
  };
  struct Reduction {
    Flat* flat = nullptr;
    int stage = 0;
    at::Tensor whole, part;
    bool among_holders = false, records = true;
    PendingPtr pending;
    SpanLog::Moment posted;
  };
  // Sum of parameters that other positions of the pipeline or other tensor-parallel ranks also hold.
  struct LateSum {
    panpipe::exec::Group group;
    std::vector<int> roots;
  };

  void make_own_groups();
  bool gathers() const { return shards_.zero >= 3; }
  void accumulated(int root, const at::Tensor& value);
  void ask(int group);
  void await(const Group& group);
  void reduce(Group& group, bool all);
  void post(Flat& flat, int stage, bool records);
  void finish_scatters(std::size_t most);
  void finish_first();
  void add_to(RecordedExchange& recorded, std::int64_t bytes, const SpanLog::Moment& start, const Pending& pending) const;
  void record(RecordedExchange& recorded, ActionKind kind, int stage, const char* label);

  RankSite& site_;
  const ShardLayout& shards_;
  int members_;
  std::size_t member_;
  std::size_t ahead_;
  bool waits_in_hooks_;
  panpipe::exec::Group group_;                   // the shard group
  std::optional<panpipe::exec::Group> holders_;  // of this rank's part; nullopt if it is the only one
  std::vector<LateSum> late_;
  std::vector<Flat> flats_;
  std::map<int, Group> groups_;  // by number
  std::map<int, Piece> pieces_;  // by root
  GradientHooks hooks_;
  std::deque<Reduction> reductions_;
  std::map<Passes, std::vector<int>> courses_;  // the opened groups, in order
  Passes passes_ = Passes::Step;
  bool known_ = false;  // the course is known
  std::size_t turn_ = 0, asked_ = 0;
  RecordedExchange scattered_, among_holders_;  // reductions that are recorded with the next one
};

}  // namespace panpipe::exec
