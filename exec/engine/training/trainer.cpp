#include "exec/engine/training/trainer.hpp"

#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string_view>

#include "base/error.hpp"
#include "costmodel/cost/matrix_optimizer.hpp"
#include "exec/engine/connect_ranks.hpp"
#include "exec/engine/run/deadline.hpp"
#include "exec/engine/stage/autocast_region.hpp"
#include "exec/engine/stage/float32_products.hpp"
#include "exec/engine/tensor_parallel_shards.hpp"
#include "exec/engine/training/training_data.hpp"
#include "schedule/rolling.hpp"

namespace panpipe::exec {
namespace {

std::vector<int> stages_of(const Plan& plan, int position) {
  std::vector<int> stages;
  for (int s = 0; s < plan.schedule.stages; ++s)
    if (plan.schedule.stage_to_rank[s] == position) stages.push_back(s);
  return stages;
}

std::uint64_t seed_of(const PreparedRun& run) { return static_cast<std::uint64_t>(run.experiment.scenario.seed); }

// Autograd has one thread for each GPU of a process.
bool shares_autograd(const Transport& transport, const RankDevice& device) {
  return device.is_gpu() && std::string_view(transport.name()) == "local" && transport.size() > gpu_count();
}

std::unique_ptr<ShardedParameters> sharded_parameters(const PreparedRun& run, Transport& transport, const RankDevice& device,
                                                      Clock::duration deadline) {
  if (!run.shards) return nullptr;
  const Framework& framework = run.experiment.scenario.framework;
  return std::make_unique<ShardedParameters>(run.graph(), run.plan, run.layout, *run.shards, transport, deadline,
                                             ShardedParameters::Ahead{framework.gather_prefetch, framework.gathers_in_flight},
                                             shares_autograd(transport, device));
}

std::unique_ptr<WeightSlots> weight_slots(const PreparedRun& run, int position, int rank, at::Device device) {
  if (!run.experiment.scenario.offload.parameters) return nullptr;
  return std::make_unique<WeightSlots>(run.graph(), run.plan, run.layout, position, device, rank);
}

ParameterPlacement* placement_of(ShardedParameters* sharded, WeightSlots* slots) {
  if (sharded != nullptr) return sharded;
  return slots;
}

// Parameters dealt to those over which ZeRO divides them so that all keep about as much optimizer state: the largest first, to
// whom has least. -1 where a rank is the only one.
std::vector<int> dealt(const Gradients& gradients, const SeededParameters& parameters, const StageLayout& layout) {
  const auto elements = [&](std::size_t i) { return parameters.masters().at(gradients.roots()[i]).numel(); };
  std::vector<std::size_t> order(gradients.roots().size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  // Rows of a vocabulary come first, so that all ranks of a replica's pipeline deal them alike.
  const auto first = [&](std::size_t i) { return std::pair(layout.vocabulary.count(gradients.roots()[i]), elements(i)); };
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return first(a) > first(b); });
  std::vector<int> owner(order.size(), -1);
  std::map<int, std::vector<std::int64_t>> loads;  // by group
  for (const std::size_t i : order) {
    const std::optional<Group>& replicas = gradients.shard_group(i);
    if (!replicas) continue;
    std::vector<std::int64_t>& load = loads.try_emplace(replicas->id, replicas->ranks.size(), 0).first->second;
    const auto least = std::min_element(load.begin(), load.end());
    *least += elements(i);
    owner[i] = static_cast<int>(least - load.begin());
  }
  return owner;
}

}  // namespace

Trainer::Trainer(const PreparedRun& run, Transport& transport, const TrainingPosition& start)
    : run_(run),
      transport_(transport),
      device_(run.request.device, transport.local_rank()),
      deadline_(deadline_of(run.request)),
      place_(place_of(run.plan, transport.rank())),
      data_(training_data(run, start.samples)),
      sharded_(sharded_parameters(run, transport, device_, deadline_)),
      slots_(weight_slots(run, place_.position, transport.rank(), device_.device())),
      parameters_(run.graph(), run.layout, stages_of(run.plan, place_.position), seed_of(run),
                  is_mixed(run.experiment.scenario.precision), device_.device(), device_of_position(run.plan, transport.rank()),
                  run.weights.get(), placement_of(sharded_.get(), slots_.get())),
      gradients_(run.graph(), run.plan, run.layout, parameters_, transport, deadline_, Gradients::kBucketBytes, sharded_.get(),
                 slots_.get()),
      versions_(rolling_of(run.plan.schedule) == Rolling::Stale
                    ? std::make_unique<WeightVersions>(parameters_.trained(), parameters_.masters(), start.step)
                    : nullptr),
      scaler_(run.experiment.scenario.training, run.experiment.scenario.precision),
      at_(start),
      numbers_(rolling_of(run.plan.schedule) == Rolling::Validated && decides() ? std::make_unique<PostedNumbers>(transport)
                                                                                : nullptr),
      worker_(run.graph(), run.plan, run.layout, place_.position, place_.replica, parameters_, data_.training, transport,
              worker_options(start)) {
  if (sharded_) {
    sharded_->watch(parameters_.trained());
    sharded_->note_in(worker_.spans());
  }
  if (slots_) slots_->note_in(worker_.spans());
  set_float32_products(run.experiment.scenario.precision);
  make_optimizer();
  connect_ranks(run.plan, run.layout, transport, device_.device(), deadline_);
}

WorkerOptions Trainer::worker_options(const TrainingPosition& start) {
  WorkerOptions options;
  options.seed = seed_of(run_);
  options.device = device_.device();
  options.deadline = deadline_;
  options.lengths = microbatch_lengths(run_.experiment, run_.plan);
  options.listed = listed_microbatches(run_.experiment.scenario, run_.plan);
  options.autocast = autocast_of(run_.graph(), run_.experiment.scenario.precision);
  const std::int64_t micro = run_.experiment.scenario.degrees.micro;
  options.first_sample = start.samples / micro - start.step * run_.layout.microbatches * run_.plan.data;
  if (sharded_ && run_.plan.zero >= 3) options.gate = sharded_.get();
  options.versions = versions_.get();
  options.exchange = exchange_of(run_.plan.schedule, run_.experiment.scenario.schedule.options);
  if (slots_) options.around.push_back(slots_.get());
  options.around.push_back(&gradients_);
  options.finite_losses = !scaler_.dynamic();  // with dynamic scaling the step is skipped
  return options;
}

void Trainer::make_optimizer() {
  owner_ = run_.plan.zero == 1 ? dealt(gradients_, parameters_, run_.layout) : std::vector<int>(gradients_.roots().size(), -1);
  const std::map<int, ParameterNumbers> numbers = parameter_numbers(run_.graph(), run_.experiment.scenario);
  const Scenario& scenario = run_.experiment.scenario;
  if (steps_matrices(scenario.optimizer.name))
    matrices_ =
        std::make_unique<WholeMatrices>(run_.graph(), run_.plan, scenario.optimizer.tensor_mode == MatrixTensorMode::Blockwise,
                                        transport_, deadline_, sharded_.get());
  std::vector<at::Tensor> masters;
  std::vector<ParameterNumbers> own;
  std::vector<MatrixParts> parts;
  for (std::size_t i = 0; i < owner_.size(); ++i) {
    if (owner_[i] >= 0 && owner_[i] != own_share(i)) continue;
    const int root = gradients_.roots()[i];
    // Who holds nothing of a matrix still gathers it with the others.
    if (sharded_ && gradients_.of(i).numel() == 0 && !numbers.at(root).matrix) continue;
    updated_.push_back(i);
    masters.push_back(parameters_.masters().at(root));
    own.push_back(numbers.at(root));
    parts.push_back(matrices_ && own.back().matrix ? matrices_->parts(root) : MatrixParts{});
  }
  std::optional<UncountedMemory> host;
  if (slots_) host.emplace();
  optimizer_ = std::make_unique<GroupedOptimizer>(scenario.optimizer, scenario.training, masters, own, parts);
}

int Trainer::replica_of(int root) const {
  return member_of(run_.plan, among_replicas(run_.graph().tensors[root]), transport_.rank());
}

int Trainer::own_share(std::size_t i) const {
  return replica_of(gradients_.roots()[i]) % static_cast<int>(gradients_.shard_group(i)->ranks.size());
}

double Trainer::counted_squared_norm() const {
  std::vector<at::Tensor> counted;
  for (std::size_t i = 0; i < gradients_.roots().size(); ++i)
    if (gradients_.counts(i)) counted.push_back(gradients_.of(i));
  return squared_norm(counted);
}

StepResult Trainer::step(std::int64_t step_index, bool drains) {
  at_.step = step_index;
  if (!numbers_) begin_step();  // else when the last update stands: until then its gradients are kept
  StepRun run = worker_.begin(step_index, drains);
  if (numbers_) {
    if (unchecked_) worker_.run_ahead(run);
    if (!update_stands()) worker_.forget_forwards(run);
    begin_step();
  }
  worker_.run(run);
  gradients_.finish(worker_.spans());
  update(run);
  if (drains) {
    const bool before = skipped_before_;
    update_stands();
    notes_.skipped |= std::exchange(skipped_before_, before);
  }
  StepResult result = worker_.end(run);
  ++at_.step;
  at_.samples += static_cast<std::int64_t>(run_.experiment.scenario.degrees.micro) * run_.layout.microbatches * run_.plan.data;
  return result;
}

double Trainer::evaluate(std::int64_t steps) {
  double sum = 0;
  for (std::int64_t round = 0; round < steps; ++round) {
    if (sharded_) sharded_->begin(ShardedParameters::Passes::Evaluation);
    if (round > 0) transport_.barrier(deadline_, "the next batch of an evaluation");
    sum += worker_.evaluate(round, data_.validation);
  }
  return sum;
}

std::int64_t Trainer::evaluation_steps() const {
  if (!data_.validation) return 0;
  if (const int asked = run_.experiment.scenario.training.evaluate_steps; asked > 0) return asked;
  const std::int64_t batch = std::int64_t{run_.experiment.scenario.degrees.micro} * run_.layout.microbatches * run_.plan.data;
  return std::max<std::int64_t>(1, data_.held_out / batch);
}

std::optional<double> Trainer::epoch() const {
  if (data_.samples == 0) return std::nullopt;
  return static_cast<double>(at_.samples) / static_cast<double>(data_.samples);
}

TrainingPosition Trainer::position() const {
  TrainingPosition position = at_;
  position.loss_scale = scaler_.scale();
  position.good_steps = scaler_.good_steps();
  return position;
}

// By how many ranks of a pipeline the parameter's rows are shared.
int Trainer::ranks_of_rows(int root) const {
  const auto cut = run_.layout.vocabulary.find(root);
  return cut == run_.layout.vocabulary.end() ? 1 : cut->second;
}

std::vector<NamedState> Trainer::model_state() const {
  std::vector<NamedState> state;
  std::map<int, bool> first;  // does the first of the positions that use it stand here?
  for (std::size_t s = run_.layout.stages.size(); s-- > 0;)
    for (const int tensor : run_.layout.stages[s].parameters)
      first[root_of(run_.graph(), tensor)] = run_.plan.schedule.stage_to_rank[s] == place_.position;
  for (const auto& [root, master] : parameters_.masters()) {
    const Tensor& parameter = run_.graph().tensors[root];
    if (sharded_ && !sharded_->lengths(root).empty()) {
      state.push_back(state_of(root, parameter.name, master, first.at(root), static_cast<std::uint32_t>(root)));
      continue;
    }
    // Under ZeRO 1 only the replica that updates a parameter has its fp32 values.
    const auto slot = std::find(gradients_.roots().begin(), gradients_.roots().end(), root) - gradients_.roots().begin();
    const int owner = slot == std::ssize(owner_) ? 0 : std::max(0, owner_[slot]);
    state.push_back({parameter.name, master, (first.at(root) || ranks_of_rows(root) > 1) && replica_of(root) == owner, &parameter,
                     static_cast<std::uint32_t>(root)});
    state.back().ranks_of_rows = ranks_of_rows(root);
  }
  for (const auto& [root, buffer] : parameters_.buffers()) {
    const Tensor& tensor = run_.graph().tensors[root];
    const auto number = static_cast<std::uint32_t>(run_.graph().tensors.size()) + static_cast<std::uint32_t>(root);
    if (!is_of_the_rank(tensor)) state.push_back({tensor.name, buffer, first.at(root) && replica_of(root) == 0, &tensor, number});
  }
  return state;
}

// This rank's part of a divided parameter. `first`: is this the position that writes it?
NamedState Trainer::state_of(int root, std::string name, at::Tensor value, bool first, std::uint32_t number) const {
  return {std::move(name), std::move(value),        first && sharded_->counts(), &run_.graph().tensors[root],
          number,          sharded_->lengths(root), sharded_->member()};
}

std::vector<NamedState> Trainer::optimizer_state() const {
  std::vector<NamedState> state;
  constexpr std::size_t kMostKinds = 3;  // of state of one parameter
  const std::map<int, std::vector<int>> holders = holders_of(run_.graph(), run_.layout, run_.plan);
  if (sharded_) {  // alike on all members, whether they hold a part or not
    const std::map<int, ParameterNumbers> numbers = parameter_numbers(run_.graph(), run_.experiment.scenario);
    for (std::size_t i = 0, u = 0; i < gradients_.roots().size(); ++i) {
      const int root = gradients_.roots()[i];
      const std::vector<std::string> kinds = state_names(run_.experiment.scenario.optimizer, numbers.at(root));
      const bool held = u < updated_.size() && updated_[u] == i;
      for (std::size_t kind = 0; kind < kinds.size(); ++kind)
        state.push_back(state_of(root, run_.graph().tensors[root].name + "." + kinds[kind],
                                 held ? optimizer_->state(kind, u) : parameters_.masters().at(root),
                                 holders.at(root).front() == place_.position,
                                 static_cast<std::uint32_t>(static_cast<std::size_t>(root) * kMostKinds + kind)));
      u += held;
    }
    return state;
  }
  for (std::size_t u = 0; u < updated_.size(); ++u) {
    const int root = gradients_.roots()[updated_[u]];
    const Tensor& parameter = run_.graph().tensors[root];
    const bool here = holders.at(root).front() == place_.position || ranks_of_rows(root) > 1;
    const bool writes = here && replica_of(root) == std::max(0, owner_[updated_[u]]);
    const std::vector<std::string> kinds = optimizer_->state_names(u);
    for (std::size_t kind = 0; kind < kinds.size(); ++kind) {
      state.push_back({parameter.name + "." + kinds[kind], optimizer_->state(kind, u), writes, &parameter,
                       static_cast<std::uint32_t>(static_cast<std::size_t>(root) * kMostKinds + kind)});
      state.back().ranks_of_rows = ranks_of_rows(root);
    }
  }
  if (!versions_) return state;
  for (const auto& [root, value] : versions_->older()) {
    const Tensor& parameter = run_.graph().tensors[root];
    const bool writes = holders.at(root).front() == place_.position && replica_of(root) == 0;
    state.push_back({parameter.name + ".before_update", value, writes, &parameter,
                     static_cast<std::uint32_t>(static_cast<std::size_t>(root) * kMostKinds + kMostKinds - 1)});
  }
  return state;
}

void Trainer::state_loaded(const TrainingPosition& position) {
  const at::NoGradGuard no_graph;
  at_ = position;
  scaler_.restore(position.loss_scale, position.good_steps);
  optimizer_->set_updates(position.updates);
  if (sharded_) return sharded_->updated();
  if (slots_) return slots_->updated();
  for (const auto& [root, value] : parameters_.trained()) {
    const at::Tensor& master = parameters_.masters().at(root);
    if (value.scalar_type() != master.scalar_type()) value.detach().copy_(master);
  }
}

}  // namespace panpipe::exec
