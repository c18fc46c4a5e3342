#include "planner/auto/sweep.hpp"

#include <algorithm>
#include <limits>
#include <optional>
#include <thread>

#include "costmodel/base/error.hpp"
#include "costmodel/plan/model_costs.hpp"
#include "planner/auto/families.hpp"

namespace panpipe::planner {
namespace {

constexpr std::size_t kMostKept = 200'000;
constexpr double kInfinite = std::numeric_limits<double>::infinity();
std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

Ground ground_of(const Experiment& experiment) {
  const Scenario& scenario = experiment.scenario;
  const ModelCosts costs(experiment.model);
  Ground ground;
  using Semantics = TransferRules::Semantics;
  const Semantics semantics = scenario.transfers.semantics.value_or(
      scenario.framework.blocking_transfers && !costs.measured() ? Semantics::Blocking : Semantics::Asynchronous);
  ground.blocking = semantics != Semantics::Asynchronous;
  ground.count_collectives = !scenario.collectives_run_on && scenario.transfers.full_backward_sends ==
                                                                 TransferRules::FullBackwardSends::End;
  ground.overlap_gradients = scenario.overlap_gradients;
  ground.count_activations = scenario.memory_model == MemoryModelKind::Full;
  ground.allocator = costs.allocator_factor();
  ground.context = costs.framework_context().base();
  for (const Device& device : scenario.cluster.devices)
    ground.limit = std::max(
        ground.limit, static_cast<std::int64_t>(
                          static_cast<double>(scenario.cluster.types[at(device.type)].memory.base()) * scenario.usable));
  for (int p = 0; p <= scenario.cluster.size(); ++p) ground.jitter.push_back(costs.stage_jitter(p));
  return ground;
}

}  // namespace

void Tally::add(const Tally& other) {
  evaluated += other.evaluated;
  without_room += other.without_room;
  too_slow += other.too_slow;
  skipped_slow += other.skipped_slow;
  skipped_shape += other.skipped_shape;
  if (other.least_memory > 0 && (least_memory == 0 || other.least_memory < least_memory)) {
    least_memory = other.least_memory;
    least_memory_of = other.least_memory_of;
  }
  if (shape_reason.empty()) shape_reason = other.shape_reason;
}

Variant::Variant(Scenario scenario) : experiment(std::move(scenario)), sums(experiment) {}

Scenario variant_scenario(const Scenario& base, int tensor, int micro, bool sequence_parallel) {
  Scenario scenario = base;
  scenario.parallel.tensor = tensor;
  scenario.parallel.sequence_parallel = sequence_parallel;
  scenario.micro = micro;
  return scenario;
}

// One variant's configurations, over all degrees that are not its own.
class Sweep::Worker {
 public:
  Worker(Sweep& sweep, int tensor, int micro, bool sequence_parallel, bool whole, double incumbent)
      : sweep_(sweep), space_(sweep.space_), whole_(whole), incumbent_(incumbent), routes_(sweep.experiment_.scenario) {
    base_.tensor = tensor;
    base_.micro = micro;
    base_.sequence_parallel = sequence_parallel;
  }

  void run() {
    if (!make_variant()) return;
    for (auto p = space_.pipeline.rbegin(); p != space_.pipeline.rend(); ++p) {
      if (sweep_.options_.stopped() || std::int64_t{*p} * base_.tensor > space_.devices) continue;
      for (const int chunks : space_.chunks) run_layouts(*p, chunks);
    }
  }

  Tally tally;
  std::vector<Priced> found;

 private:
  bool make_variant() {
    try {
      variant_.emplace(variant_scenario(sweep_.experiment_.scenario, base_.tensor, base_.micro, base_.sequence_parallel));
      return true;
    } catch (const InputError& error) {
      tally.shape_reason = error.diagnostics().empty() ? error.what() : error.diagnostics().front().message;
      tally.skipped_shape = count_all();
      return false;
    }
  }

  // Configurations of this variant, had it been possible.
  std::int64_t count_all() const {
    std::int64_t count = 0;
    for (const int p : space_.pipeline)
      for (const int chunks : space_.chunks)
        for (const int d : space_.data)
          if (fits_devices(p, d))
            if (const auto m = static_cast<int>(microbatches_of(space_, base_.micro, d)); m > 0)
              count += static_cast<std::int64_t>(space_.recompute.size()) * families_of(p, chunks, m, nullptr) * repeats(p, d);
    return count;
  }

  bool fits_devices(int p, int d) const {
    const std::int64_t devices = std::int64_t{p} * d * base_.tensor;
    return whole_ ? devices == space_.devices : devices < space_.devices;
  }
  // ZeRO stages and numberings that make a difference.
  std::int64_t repeats(int p, int d) const {
    return static_cast<std::int64_t>(zeros_of(space_, d).size() * (p > 1 && d > 1 ? space_.orders.size() : 1));
  }

  // How many families there are for these sizes; of one shape, or of all.
  std::int64_t families_of(int p, int chunks, int m, const Shape* shape) const {
    return std::count_if(space_.families.begin(), space_.families.end(), [&](int f) {
      return exists(forms()[at(f)], p, chunks, m) && (shape == nullptr || forms()[at(f)].shape == *shape);
    });
  }

  bool exists(const FamilyForm& form, int p, int chunks, int m) const {
    if (variant_ && form.split && form.shape != Shape::Opaque && !variant_->sums.split_backward()) return false;
    const int own = form.shape == Shape::Line ? 1 : form.shape == Shape::Vee ? 2 : 0;
    if (own > 0 && chunks != own) return false;
    if (form.shape == Shape::Loop && chunks < 2) return false;
    if (form.shape == Shape::Loop && chunks > kMaxChunks) return false;
    if (p == 1 && space_.families.size() > 1 && form.name != "1f1b") return false;  // one rank: all orders are alike
    return form.exists(p, chunks, m);
  }

  void run_layouts(int p, int chunks) {
    const int stages = p * chunks;
    if (space_.stages > 0 ? stages != space_.stages : stages > variant_->sums.most_stages()) return;
    for (const Recompute mode : space_.recompute) {
      for (const Shape shape : {Shape::Line, Shape::Loop, Shape::Vee, Shape::Opaque}) {
        const bool used = std::any_of(space_.families.begin(), space_.families.end(),
                                      [&](int f) { return forms()[at(f)].shape == shape && exists(forms()[at(f)], p, chunks, 3 * p); });
        if (!used) continue;
        const Layout layout(variant_->sums.table(mode, stages), variant_->sums.tied(), p, chunks, shape);
        for (const int d : space_.data)
          if (fits_devices(p, d)) run_data(layout, mode, d);
      }
    }
  }

  void run_data(const Layout& layout, Recompute mode, int d) {
    const auto m = static_cast<int>(microbatches_of(space_, base_.micro, d));
    if (m <= 0) return;
    const int p = layout.ranks;
    if (m * variant_->sums.least_work(mode) / p * sweep_.ground_.jitter[at(p)] >= incumbent_) {
      tally.skipped_slow += families_of(p, layout.chunks, m, &layout.shape) * repeats(p, d);
      return;
    }
    base_.pipeline = p;
    base_.chunks = static_cast<std::int16_t>(layout.chunks);
    base_.data = d;
    base_.microbatches = m;
    base_.recompute = mode;
    variant_->experiment.scenario.parallel.data = d;  // what hand-overs share a node's way out with
    prepare_zeros(d);
    surroundings_.resize(space_.orders.size());
    const std::size_t orders = p > 1 && d > 1 ? space_.orders.size() : 1;
    for (std::size_t o = 0; o < orders; ++o) {
      base_.order = space_.orders[o];
      const auto& hops = routes_.chain(base_.place(1, 0, 0), p);
      const double tied = layout.tied.empty() ? 0 : tied_time(layout);
      surroundings_[o].prepare(layout, sweep_.ground_, hops, hand_overs(d), sweep_.reductions(base_), zeros_, tied);
    }
    for (const int f : space_.families) {
      const FamilyForm& form = forms()[at(f)];
      if (form.shape != layout.shape || !exists(form, p, layout.chunks, m)) continue;
      base_.family = static_cast<std::int16_t>(f);
      run_family(layout, form, mode, orders);
    }
  }

  void run_family(const Layout& layout, const FamilyForm& form, Recompute mode, std::size_t orders) {
    activation_peaks(layout, form, mode, base_.microbatches, peaks_);
    for (const int zero : zeros_of(space_, base_.data)) {
      base_.zero = static_cast<std::int8_t>(zero);
      const double memory = memory_peak(layout, sweep_.ground_, *zeros_[at(zero)], peaks_);
      for (std::size_t o = 0; o < orders; ++o) {
        base_.order = space_.orders[o];
        const double bound = surroundings_[o].bound(form, base_.microbatches, zeros_[at(zero)]->zero);
        ++tally.evaluated;
        if (memory > static_cast<double>(sweep_.ground_.limit)) {
          ++tally.without_room;
          if (tally.least_memory == 0 || memory < tally.least_memory) tally.least_memory = memory, tally.least_memory_of = base_;
        } else if (bound >= incumbent_) {
          ++tally.too_slow;
        } else {
          found.push_back({bound, memory, base_});
        }
      }
    }
  }

  void prepare_zeros(int d) {
    zeros_.fill(nullptr);
    for (const int zero : zeros_of(space_, d)) {
      auto& known = per_parameter_[{d, zero}];
      if (!known) known = std::make_unique<PerParameter>(per_parameter(variant_->experiment, zero, d));
      zeros_[at(zero)] = known.get();
    }
  }

  HandOvers& hand_overs(int d) { return hand_overs_.try_emplace(d, variant_->experiment.model, routes_).first->second; }

  double tied_time(const Layout& layout) {
    double least = kInfinite;
    for (const Layout::Tied& tied : layout.tied) {
      const std::vector<int> pair = {routes_.positions().device(base_.place(tied.first, 0, 0)),
                                     routes_.positions().device(base_.place(tied.last, 0, 0))};
      double& known = pair_times_.try_emplace(std::pair{pair[0], pair[1]}, -1).first->second;
      constexpr double kLarge = 64.0 * (1 << 30);  // the time of fewer bytes is no smaller a share of it
      if (known < 0)
        known = variant_->experiment.model.collective(CollectiveKind::AllReduce, Bytes(static_cast<std::int64_t>(kLarge)), pair)
                    .time.base() /
                kLarge;
      least = std::min(least, known);
    }
    return least;
  }

  Sweep& sweep_;
  const Space& space_;
  bool whole_;
  double incumbent_;
  RouteClasses routes_;
  Configuration base_;
  std::optional<Variant> variant_;
  std::array<const PerParameter*, 4> zeros_{};
  std::map<std::pair<int, int>, std::unique_ptr<PerParameter>> per_parameter_;
  std::map<int, HandOvers> hand_overs_;
  std::map<std::pair<int, int>, double> pair_times_;
  std::vector<Surroundings> surroundings_;
  std::vector<double> peaks_;
};

Sweep::Sweep(const Experiment& experiment, const Space& space, const SearchOptions& options)
    : experiment_(experiment), space_(space), options_(options), ground_(ground_of(experiment)), dropped_(kInfinite) {}

// Shared by all variants: the copies of a rank lie where they lie, whatever they exchange.
const Reductions& Sweep::reductions(const Configuration& c) {
  const bool data_next = c.order == AxisOrder::DataNext;
  const int stride = data_next ? c.tensor : c.tensor * c.pipeline, step = data_next ? c.tensor * c.data : c.tensor;
  const int ranks = data_next ? std::max(c.pipeline, space_.devices / step) : c.pipeline;
  const std::lock_guard guard(lock_);
  auto& known = reductions_[{stride, c.data, step}];
  if (!known)
    known = std::make_unique<Reductions>(experiment_.model, data_groups(c.data, stride, step, std::min(ranks, space_.devices / step),
                                                                        Positions(experiment_.scenario), experiment_.scenario.cluster));
  return *known;
}

void Sweep::run(int micro, bool whole, double incumbent) {
  std::vector<std::unique_ptr<Worker>> workers;
  for (const int t : space_.tensor)
    for (const bool sequence : space_.sequence_parallel)
      if (!sequence || t > 1 || space_.sequence_parallel.size() == 1)
        workers.push_back(std::make_unique<Worker>(*this, t, micro, sequence, whole, incumbent));
  std::atomic<std::size_t> next{0};
  std::exception_ptr failure;
  const auto work = [&] {
    for (std::size_t w = next++; w < workers.size(); w = next++) {
      try {
        workers[w]->run();
      } catch (...) {
        const std::lock_guard guard(lock_);
        if (!failure) failure = std::current_exception();
      }
    }
  };
  std::vector<std::thread> threads;
  for (int i = 1; i < std::min<int>(options_.threads, static_cast<int>(workers.size())); ++i) threads.emplace_back(work);
  work();
  for (std::thread& thread : threads) thread.join();
  if (failure) std::rethrow_exception(failure);
  for (const auto& worker : workers) {
    tally_.add(worker->tally);
    keep(worker->found);
  }
}

void Sweep::keep(std::vector<Priced>& found) {
  kept_.insert(kept_.end(), found.begin(), found.end());
  if (kept_.size() <= kMostKept) return;
  const auto last = kept_.begin() + static_cast<std::ptrdiff_t>(kMostKept);
  std::nth_element(kept_.begin(), last, kept_.end());
  dropped_ = std::min(dropped_, last->bound);
  kept_.erase(last, kept_.end());
}

std::vector<Priced> Sweep::take() {
  std::sort(kept_.begin(), kept_.end());
  return std::exchange(kept_, {});
}

}  // namespace panpipe::planner
