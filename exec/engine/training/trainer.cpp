#include "exec/engine/training/trainer.hpp"

#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <string_view>

#include "base/error.hpp"
#include "base/index.hpp"
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

std::uint64_t seed_of(const PreparedRun& run) { return static_cast<std::uint64_t>(run.experiment.scenario.seed); }

// Autograd has one thread for each GPU of a process.
bool shares_autograd(const Transport& transport, const RankDevice& device) {
  return device.is_gpu() && std::string_view(transport.name()) == "local" && transport.size() > gpu_count();
}

std::unique_ptr<ShardedParameters> sharded_parameters(const PreparedRun& run, RankSite& site, const RankDevice& device) {
  if (!run.shards) return nullptr;
  const Framework& framework = run.experiment.scenario.framework;
  return std::make_unique<ShardedParameters>(site, *run.shards,
                                             ShardedParameters::Ahead{framework.gather_prefetch, framework.gathers_in_flight},
                                             shares_autograd(site.transport, device));
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
      device_(run.request.device, transport.local_rank()),
      site_{run.graph(), run.plan, run.layout, transport, device_.device(), deadline_of(run.request)},
      data_(training_data(run, start.samples)),
      sharded_(sharded_parameters(run, site_, device_)),
      slots_(run.experiment.scenario.offload.parameters ? std::make_unique<WeightSlots>(site_) : nullptr),
      parameters_(run.graph(), run.layout, stages_of(run.plan, site_.place.position), seed_of(run),
                  is_mixed(run.experiment.scenario.precision), site_.device, device_of_position(run.plan, transport.rank()),
                  run.weights.get(), sharded_ ? static_cast<ParameterPlacement*>(sharded_.get()) : slots_.get()),
      gradients_(site_, parameters_, Gradients::kBucketBytes, sharded_.get(), slots_.get()),
      versions_(rolling_of(run.plan.schedule) == Rolling::Stale
                    ? std::make_unique<WeightVersions>(parameters_.trained(), parameters_.masters(), start.step)
                    : nullptr),
      scaler_(run.experiment.scenario.training, run.experiment.scenario.precision),
      at_(start),
      numbers_(rolling_of(run.plan.schedule) == Rolling::Validated && decides() ? std::make_unique<PostedNumbers>(transport)
                                                                                : nullptr),
      worker_(site_, parameters_, data_.training, worker_options(start)) {
  if (sharded_) sharded_->watch(parameters_.trained());
  set_float32_products(run.experiment.scenario.precision);
  for (std::size_t s = run.layout.stages.size(); s-- > 0;)
    for (const int tensor : run.layout.stages[s].parameters)
      first_here_[root_of(run.graph(), tensor)] = run.plan.schedule.stage_to_rank[s] == site_.place.position;
  make_optimizer();
  connect_ranks(site_);
}

WorkerOptions Trainer::worker_options(const TrainingPosition& start) {
  WorkerOptions options;
  options.seed = seed_of(run_);
  options.lengths = microbatch_lengths(run_.experiment, site_.plan);
  options.listed = listed_microbatches(run_.experiment.scenario, site_.plan);
  options.autocast = autocast_of(site_.graph, run_.experiment.scenario.precision);
  const std::int64_t micro = run_.experiment.scenario.degrees.micro;
  options.first_sample = start.samples / micro - start.step * site_.layout.microbatches * site_.plan.data;
  if (sharded_ && site_.plan.zero >= 3) options.gate = sharded_.get();
  options.versions = versions_.get();
  options.exchange = exchange_of(site_.plan.schedule, run_.experiment.scenario.schedule.options);
  if (slots_) options.around.push_back(slots_.get());
  options.around.push_back(&gradients_);
  options.finite_losses = !scaler_.dynamic();  // with dynamic scaling the step is skipped
  return options;
}

void Trainer::make_optimizer() {
  owner_ = site_.plan.zero == 1 ? dealt(gradients_, parameters_, site_.layout) : std::vector<int>(gradients_.roots().size(), -1);
  settings_ = parameter_numbers(site_.graph, run_.experiment.scenario);
  const Scenario& scenario = run_.experiment.scenario;
  if (steps_matrices(scenario.optimizer.name))
    matrices_ =
        std::make_unique<WholeMatrices>(site_, scenario.optimizer.tensor_mode == MatrixTensorMode::Blockwise, sharded_.get());
  std::vector<at::Tensor> masters;
  std::vector<ParameterNumbers> own;
  std::vector<MatrixParts> parts;
  for (std::size_t i = 0; i < owner_.size(); ++i) {
    if (owner_[i] >= 0 && owner_[i] != own_share(i)) continue;
    const int root = gradients_.roots()[i];
    // Who holds nothing of a matrix still gathers it with the others.
    if (sharded_ && gradients_.of(i).numel() == 0 && !settings_.at(root).matrix) continue;
    updated_.push_back(i);
    masters.push_back(parameters_.masters().at(root));
    own.push_back(settings_.at(root));
    parts.push_back(matrices_ && own.back().matrix ? matrices_->parts(root) : MatrixParts{});
  }
  std::optional<UncountedMemory> host;
  if (slots_) host.emplace();
  optimizer_ = std::make_unique<Optimizer>(scenario.optimizer, scenario.training, masters, own, parts);
}

int Trainer::own_share(std::size_t i) const {
  const Tensor& parameter = site_.graph.tensors[gradients_.roots()[i]];
  return member_of(site_.plan, among_replicas(parameter), site_.transport.rank()) %
         static_cast<int>(gradients_.shard_group(i)->ranks.size());
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
  gradients_.finish();
  update(run);
  if (drains) {
    const bool before = skipped_before_;
    update_stands();
    notes_.skipped |= std::exchange(skipped_before_, before);
  }
  StepResult result = worker_.end(run);
  ++at_.step;
  at_.samples += run_.samples_of_step();
  return result;
}

double Trainer::evaluate(std::int64_t steps) {
  double sum = 0;
  for (std::int64_t round = 0; round < steps; ++round) {
    if (sharded_) sharded_->begin(ShardedParameters::Passes::Evaluation);
    if (round > 0) site_.transport.barrier(site_.deadline, "the next batch of an evaluation");
    sum += worker_.evaluate(round, data_.validation);
  }
  return sum;
}

std::int64_t Trainer::evaluation_steps() const {
  if (!data_.validation) return 0;
  if (const int asked = run_.experiment.scenario.training.evaluate_steps; asked > 0) return asked;
  return std::max<std::int64_t>(1, data_.held_out / run_.samples_of_step());
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

// This rank's index among those that update a parameter's part under ZeRO 1, and that alone have its fp32 values; else the first.
int Trainer::owner_of(int root) const {
  const auto& roots = gradients_.roots();
  const auto slot = std::lower_bound(roots.begin(), roots.end(), root) - roots.begin();
  return slot == std::ssize(roots) || roots[slot] != root ? 0 : std::max(0, owner_[slot]);
}

NamedState Trainer::state_of(int root, const std::string& kind, at::Tensor value, std::size_t number) const {
  const Tensor& tensor = site_.graph.tensors[root];
  NamedState state{tensor.name + kind, std::move(value), first_here_.at(root), &tensor, static_cast<std::uint32_t>(number)};
  if (sharded_) state.lengths = sharded_->lengths(root);
  if (!state.lengths.empty()) {
    state.member = sharded_->member();
    state.writes = state.writes && sharded_->counts();
    return state;
  }
  state.ranks_of_rows = site_.layout.ranks_of_rows(root);
  const int replica = member_of(site_.plan, among_replicas(tensor), site_.transport.rank());
  state.writes = (state.writes || state.ranks_of_rows > 1) && replica == owner_of(root);
  return state;
}

std::vector<NamedState> Trainer::model_state() const {
  std::vector<NamedState> state;
  for (const auto& [root, master] : parameters_.masters()) state.push_back(state_of(root, "", master, panpipe::at(root)));
  for (const auto& [root, buffer] : parameters_.buffers())
    if (!is_of_the_rank(site_.graph.tensors[root]))
      state.push_back(state_of(root, "", buffer, site_.graph.tensors.size() + panpipe::at(root)));
  return state;
}

// Of divided parameters alike on all members, whether they hold a part or not.
std::vector<NamedState> Trainer::optimizer_state() const {
  std::vector<NamedState> state;
  constexpr std::size_t kMostKinds = 3;  // of state of one parameter
  for (std::size_t i = 0, u = 0; i < gradients_.roots().size(); ++i) {
    const int root = gradients_.roots()[i];
    const bool held = u < updated_.size() && updated_[u] == i;
    if (!held && !sharded_) continue;
    const std::vector<std::string> kinds = kinds_of(root);
    for (std::size_t kind = 0; kind < kinds.size(); ++kind)
      state.push_back(state_of(root, "." + kinds[kind], held ? optimizer_->state(kind, u) : parameters_.masters().at(root),
                               panpipe::at(root) * kMostKinds + kind));
    u += held;
  }
  if (!versions_) return state;
  for (const auto& [root, value] : versions_->older())
    state.push_back(state_of(root, ".before_update", value, panpipe::at(root) * kMostKinds + kMostKinds - 1));
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
