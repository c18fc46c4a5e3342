// ZeRO 2 and 3 on one rank: gradients are reduce-scattered behind every backward, and the rank keeps the sum of its part; it
// updates its part, and under ZeRO 2 the parts are gathered behind the update. Under ZeRO 3 only the part is kept of parameters
// too: those of a group are gathered before a pass needs them, ahead of its turn, and their memory is given back behind it.
//
// Parameters of a group are views of one piece of memory that goes and comes back (FSDP's way), so that what autograd saved of
// them is whole again when the backward wants it.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "exec/engine/mesh.hpp"
#include "exec/engine/parameters.hpp"
#include "exec/engine/shard_layout.hpp"
#include "exec/engine/stage/parameter_gate.hpp"
#include "exec/engine/transport/transport.hpp"
#include "schedule/action.hpp"

namespace panpipe::exec {

class ShardedParameters : public ParameterGate, public ParameterPlacement {
 public:
  // How far ahead parameters are asked for (the framework's keys of these names).
  struct Ahead {
    int prefetch = 1, in_flight = 2;
  };

  // References must outlive this. Every rank makes one at the same time, since groups are made.
  ShardedParameters(const OperatorGraph& graph, const Plan& plan, const StageLayout& layout, const ShardLayout& shards,
                    Transport& transport, Clock::duration deadline, Ahead ahead);
  ~ShardedParameters() override;
  ShardedParameters(const ShardedParameters&) = delete;
  ShardedParameters& operator=(const ShardedParameters&) = delete;

  bool place(int root, at::Tensor& value, at::Tensor& master) override;
  // Of this rank's part and of what is whole now; of the sums.
  std::int64_t parameter_bytes() const override;
  std::int64_t gradient_bytes() const override;
  // Behind the last place(): gradients of these are taken from autograd.
  void watch(const std::map<int, at::Tensor>& trained);
  void note_in(SpanLog& spans) { spans_ = &spans; }

  // Passes come in the same order in every step, and in every evaluation; what they open is asked for ahead from the second on.
  enum class Passes { Step, Evaluation };
  void begin(Passes passes);
  void open(int group) override;
  void close(int group, bool backward) override;
  void move_waits_to(std::vector<SpanLog::Interval>& waits) override;
  // Behind an entry of the rank's order.
  void after_action(const Action& action);
  // Behind the last one: the sums are whole then.
  void finish();

  // This rank's part of a parameter's gradient, flat, in the master's type; it may have no elements.
  const at::Tensor& gradient(int root) const { return pieces_.at(root).gradient; }
  // Is this rank in the one shard group that counts where each parameter must count once?
  bool counts() const { return place_.replica < members_; }
  std::size_t member() const { return member_; }
  // Of a parameter: what each member holds; none where it is not divided.
  std::vector<std::int64_t> lengths(int root) const { return shards_.pieces(place_.position, root); }
  // The elements of it that are this rank's.
  at::Tensor own_part(int root, const at::Tensor& whole) const;

  // The masters of this rank's part have new values.
  void updated();

 private:
  struct Flat {
    const FlatParameters* layout = nullptr;
    at::Tensor whole;             // its memory comes and goes under ZeRO 3
    at::Tensor own, master, sum;  // this rank's part: in the parameters' type, in the master's, of the gradients
    std::size_t placed = 0;       // parameters
    int users = 0;                // passes that need it, or will: asked for
    PendingPtr gathering;
    SpanLog::Moment asked;
    at::Tensor arrived;     // the gradients of a backward, whole
    std::set<int> missing;  // parameters whose gradient did not come yet in this backward
  };
  struct Piece {
    std::size_t flat = 0;
    std::int64_t first = 0, elements = 0;  // of the parameter
    at::Tensor gradient;
  };
  // Exchanges that are told as one.
  struct Telling {
    std::vector<SpanLog::Moment> starts, ends;
    std::int64_t bytes = 0;
  };
  struct Group {
    int stage = 0;
    std::vector<std::size_t> flats;
    std::vector<bool> tells;
    std::size_t started = 0;  // flats whose reduction was posted in this backward
  };
  struct Reduction {
    Flat* flat = nullptr;
    int stage = 0;
    at::Tensor whole, part;
    bool among_holders = false, tells = true;
    PendingPtr pending;
    SpanLog::Moment posted;
  };
  // Of parameters that other positions of the pipeline or other tensor-parallel ranks hold too.
  struct LateSum {
    panpipe::exec::Group group;
    std::vector<int> roots;
  };

  void make_groups(const OperatorGraph& graph, const Plan& plan, const StageLayout& layout);
  bool gathers() const { return shards_.zero >= 3; }
  void accumulated(int root, const at::Tensor& value);
  void ask(int group);
  void await(const Group& group);
  void reduce(Group& group, bool all);
  void post(Flat& flat, int stage, bool tells);
  void finish_first();
  void add_to(Telling& telling, std::int64_t bytes, const SpanLog::Moment& start, const Pending& pending) const;
  void tell(Telling& telling, ActionKind kind, int stage, const char* label);
  const FlatParameters::Entry& entry_of(int root) const;

  const ShardLayout& shards_;
  Transport& transport_;
  Clock::duration deadline_;
  MeshPlace place_;
  int members_;
  std::size_t member_;
  std::size_t ahead_;
  panpipe::exec::Group group_;                   // the shard group
  std::optional<panpipe::exec::Group> holders_;  // of this rank's part; none where it has the only one
  std::vector<LateSum> late_;
  std::vector<Flat> flats_;
  std::map<int, Group> groups_;                // by number
  std::map<int, Piece> pieces_;                // by root
  std::map<int, std::vector<int>> groups_of_;  // by root
  struct Hook;
  std::vector<at::Tensor> watched_;
  std::deque<Reduction> reductions_;
  std::map<Passes, std::vector<int>> courses_;  // the groups that were opened, in order
  Passes passes_ = Passes::Step;
  bool known_ = false;  // the course
  std::size_t turn_ = 0, asked_ = 0;
  SpanLog* spans_ = nullptr;
  std::vector<SpanLog::Interval> waits_;
  Telling scattered_, among_holders_;  // of reductions that are told with the next
};

}  // namespace panpipe::exec
