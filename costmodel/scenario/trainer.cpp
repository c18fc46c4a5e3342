#include "costmodel/scenario/trainer.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <iterator>
#include <utility>

#include "base/error.hpp"
#include "base/input/cached_document.hpp"
#include "base/input/declare.hpp"
#include "base/input/shipped.hpp"
#include "base/text/did_you_mean.hpp"
#include "base/text/json_writer.hpp"
#include "costmodel/degrees/axes.hpp"
#include "costmodel/scenario/hosted_text.hpp"
#include "costmodel/scenario/recompute_modes.hpp"

namespace panpipe {

using namespace key_parts;

namespace {

constexpr const char* kFolder = "trainers";

// "0.12.1" as {0, 12, 1}; nullopt if it is no such number.
std::optional<std::vector<int>> release_numbers(std::string_view text) {
  std::vector<int> numbers;
  const char* at = text.data();
  const char* end = at + text.size();
  for (;;) {
    int number = 0;
    const auto [stop, fault] = std::from_chars(at, end, number);
    if (fault != std::errc() || number < 0) return std::nullopt;
    numbers.push_back(number);
    if (stop == end) return numbers;
    if (*stop != '.') return std::nullopt;
    at = stop + 1;
  }
}

template <class Value>
bool holds(const std::vector<Value>& values, const Value& value) {
  return std::find(values.begin(), values.end(), value) != values.end();
}

// A trainer's file. It is shipped, so that faults in it are reported plainly.
class TrainerFile {
 public:
  TrainerFile(const std::string& name, std::string release)
      : root_(trainer_file(name)), top_(*root_, log_), release_(std::move(release)) {}

  Trainer read() {
    trainer_.release = release_;
    for (const char* heading : {"panpipe", "kind", "description"}) top_.find(heading);
    trainer_.name = top_.string("name");
    trainer_.title = top_.string("title");
    trainer_.newest = top_.string("newest", "");
    if (top_.has("aliases")) trainer_.aliases = words("aliases");
    each("frameworks", [&](MapReader& row) { read_framework(row); });
    each("software", [&](MapReader& row) { read_software(row); });
    each("runs", [&](MapReader& row) { read_feature(row); });
    each("cautions", [&](MapReader& row) { read_caution(row); });
    log_.throw_if_errors();
    return std::move(trainer_);
  }

 private:
  template <class Read>
  void each(const char* list, Read read) {
    const Node* rows = top_.find(list);
    if (rows == nullptr) return;
    for (const NodePtr& item : rows->items) {
      MapReader row(*item, log_);
      read(row);
      row.finish();
    }
  }

  std::vector<std::string> words(const Node& list) {
    std::vector<std::string> found;
    for (const NodePtr& item : list.items)
      if (auto word = read_string(*item, log_)) found.push_back(std::move(*word));
    return found;
  }
  std::vector<std::string> words(const char* key) { return words(*top_.find(key)); }

  std::vector<int> stages(const Node& list) {
    std::vector<int> found;
    for (const NodePtr& item : list.items)
      if (const auto stage = read_integer(*item, log_, 0)) found.push_back(*stage);
    return found;
  }

  // Whether the stated release lies at or behind `bound`; without a stated release it is the newest.
  bool reaches(const std::string& bound) const {
    return release_.empty() || *release_numbers(release_) >= release_numbers(bound).value_or(std::vector<int>{});
  }

  void read_framework(MapReader& row) {
    const std::string name = row.string("name"), until = row.string("until", "");
    row.find("source");
    if (trainer_.framework.empty() && (until.empty() || !reaches(until))) trainer_.framework = name;
  }

  // The first row that holds for the release; without a stated release the software is the newest.
  void read_software(MapReader& row) {
    const int year = row.integer("year", 1);
    const std::string since = row.string("since", "0"), until = row.string("until");
    row.find("source");
    if (trainer_.software == 0 && !release_.empty() && reaches(since) && !reaches(until)) trainer_.software = year;
  }

  void read_feature(MapReader& row) {
    row.require("source");
    const std::string until = row.string("until", "");
    const bool has = reaches(row.string("since", "0")) && (until.empty() || !reaches(until));
    const bool alone = row.boolean("without_pipeline", false);
    if (const Node* list = row.find("schedules"); list != nullptr) {
      if (!trainer_.schedules) trainer_.schedules.emplace();
      for (std::string& family : words(*list))
        if (has) trainer_.schedules->push_back(std::move(family));
    }
    if (const Node* list = row.find("zero"); list != nullptr && has && row.find("offload") == nullptr)
      for (const int stage : stages(*list)) {
        trainer_.zero.push_back(stage);
        if (!alone) trainer_.zero_with_pipeline.push_back(stage);
      }
    if (const Node* list = row.find("zero_in_groups"); list != nullptr && has)
      for (const int stage : stages(*list)) trainer_.zero_in_groups.push_back(stage);
    if (const Node* list = row.find("recompute"); list != nullptr && has)
      for (const NodePtr& item : list->items) read_mode(*item);
    if (const Node* list = row.find("recompute_operators"); list != nullptr && has) read_set(*list);
    if (const Node* list = row.find("offload"); list != nullptr && has) read_offload(*list, row);
    if (const Node* list = row.find("has"); list != nullptr)
      for (const NodePtr& item : list->items) read_trait(*item, has);
  }

  void read_set(const Node& list) {
    std::vector<RecomputedKind> set;
    for (const NodePtr& item : list.items)
      for (const auto& [word, kind] : recomputed_kinds())
        if (word == item->text) set.push_back(kind);
    if (set.size() != list.items.size()) log_.error(list, "not all of these are operators that can be recomputed");
    trainer_.recompute_sets.push_back(std::move(set));
  }

  void read_offload(const Node& list, MapReader& row) {
    TrainerOffload choice;
    for (const std::string& part : words(list)) {
      choice.state.optimizer |= part == "optimizer";
      choice.state.parameters |= part == "parameters";
      if (part != "optimizer" && part != "parameters")
        log_.error(list, fmt::format("'{}' is no state that a host can hold", part));
    }
    if (const Node* zero = row.require("zero"); zero != nullptr) choice.zero = stages(*zero);
    trainer_.offloads.push_back(std::move(choice));
  }

  void read_mode(const Node& item) {
    for (const auto& [word, mode] : recompute_modes())
      if (word == item.text) return trainer_.recompute.push_back(mode);
    log_.error(item, fmt::format("'{}' is no mode of recompute", item.text));
  }

  void read_trait(const Node& item, bool has) {
    const std::pair<std::string_view, bool*> traits[] = {{"tensor", &trainer_.tensor},
                                                         {"context", &trainer_.context},
                                                         {"expert", &trainer_.expert},
                                                         {"cuts-inside-layers", &trainer_.cuts_layers},
                                                         {"orders-from-files", &trainer_.orders_from_files},
                                                         {"replica-ranks-adjacent", &trainer_.replica_ranks_adjacent},
                                                         {"recompute-by-stage", &trainer_.recomputes_by_stage},
                                                         {"offload-activations", &trainer_.offloads_activations},
                                                         {"offload-blocks", &trainer_.offloads_blocks},
                                                         {"experts-need-sequence-parallel", &trainer_.experts_need_sequence},
                                                         {"mixed-precision-needs-sharded-data", &trainer_.mixed_needs_shards}};
    for (const auto& [word, trait] : traits)
      if (word == item.text) {
        *trait |= has;
        return;
      }
    log_.error(item, fmt::format("'{}' is nothing that a trainer has", item.text));
  }

  void read_caution(MapReader& row) {
    TrainerCaution caution{{}, row.string("says"), row.string("source")};
    for (const Axis& axis : kAxes)
      if (row.has(std::string(axis.key))) caution.at_least[std::string(axis.key)] = row.integer(std::string(axis.key), 1);
    if (reaches(row.string("since", "0"))) trainer_.cautions.push_back(std::move(caution));
  }

  std::shared_ptr<const Node> root_;
  ReadLog log_;
  MapReader top_;
  std::string release_;
  Trainer trainer_;
};

}  // namespace

std::shared_ptr<const Node> trainer_file(const std::string& name) { return cached_document(shipped_file(kFolder, name)); }

std::vector<std::string> trainer_names() { return shipped_names(kFolder); }

std::string trainer_name_of(const std::string& word) {
  const std::vector<std::string> names = trainer_names();
  if (holds(names, word)) return word;
  std::vector<std::string> words = names;
  for (const std::string& name : names)
    if (const Node* aliases = trainer_file(name)->find("aliases"))
      for (const NodePtr& alias : aliases->items) {
        if (alias->text == word) return name;
        words.push_back(alias->text);
      }
  const std::string nearest = suggestion(word, words);
  throw InputError(fmt::format("there is no trainer '{}'{}", word, nearest.empty() ? suggestion_or_list(word, names) : nearest),
                   "", code::kUnknownName);
}

Trainer load_trainer(const std::string& word, const std::string& release) {
  if (!release.empty() && !release_numbers(release))
    throw InputError(fmt::format("'{}' is no release", release), "numbers with points between them, as in 0.12",
                     code::kNotANumber);
  return TrainerFile(trainer_name_of(word), release).read();
}

const Trainer& trainer_of(const Scenario& scenario) {
  static const Trainer everything = [] {
    Trainer any;
    any.tensor = any.context = any.expert = any.cuts_layers = any.orders_from_files = any.replica_ranks_adjacent = true;
    any.recomputes_by_stage = any.offloads_activations = any.offloads_blocks = true;
    for (unsigned places = 0; places < 16; ++places) {  // every choice of four
      TrainerOffload& choice = any.offloads.emplace_back();
      choice.state.optimizer = (places & 1U) != 0, choice.state.parameters = (places & 2U) != 0;
      choice.state.streams = (places & 4U) != 0, choice.state.gradients = (places & 8U) != 0;
      choice.zero = choice.state.parameters ? std::vector<int>{3} : std::vector<int>{0, 1, 2, 3};
    }
    any.zero = any.zero_with_pipeline = any.zero_in_groups = {0, 1, 2, 3};
    any.recompute = {Recompute::None, Recompute::Selective, Recompute::Full};
    using Kind = RecomputedKind;
    any.recompute_sets = {{Kind::Norms, Kind::Elementwise}, {Kind::Norms, Kind::Elementwise, Kind::SecondProducts}};
    return any;
  }();
  return scenario.trainer ? *scenario.trainer : everything;
}

bool Trainer::runs_schedule(std::string_view family) const {
  if (!schedules) return true;
  return family.empty() ? orders_from_files : holds(*schedules, std::string(family));
}

Key trainer_key() {
  return declare("trainer",
                 "the program that trains: it decides what steps cost (`framework` refines it), what `plan` may choose, and "
                 "which words `export` writes",
                 form::shipped(),
                 Inside{declare("name", "the trainer", form::shipped(), kRequired),
                        declare("release", "its release, where that decides what can run", form::text(), Otherwise{"the newest"},
                                Example{"0.12"})},
                 Otherwise{"none"}, Page{"trainers.md"}, InExports::Apart);
}

std::shared_ptr<const Trainer> read_trainer(MapReader& scenario) {
  const Node* node = scenario.find("trainer");
  if (node == nullptr) return nullptr;
  std::string name, release;
  if (node->kind == NodeKind::Map) {
    MapReader map(*node, scenario.log());
    name = map.string("name");
    // A number too: 0.12 without quotes.
    if (const Node* stated = map.find("release")) release = stated->text;
    map.finish();
  } else if (const auto word = read_string(*node, scenario.log())) {
    name = *word;
  }
  if (name.empty()) return nullptr;
  try {
    return std::make_shared<const Trainer>(load_trainer(name, release));
  } catch (const InputError& error) {
    scenario.log().add_at(*node, error);
    return nullptr;
  }
}

void write_trainer(JsonWriter& out, const Trainer* trainer) {
  if (trainer == nullptr) return;
  if (trainer->release.empty())
    out.field("trainer", trainer->name);
  else
    out.object("trainer").field("name", trainer->name).field("release", trainer->release).end();
}

namespace {

std::string list_or_none(const std::vector<std::string>& names) {
  return names.empty() ? "it has no pipeline" : fmt::format("it has {}", fmt::join(names, ", "));
}

// One degree that the trainer does not have at all.
void check_degree(bool has, int degree, const char* key, const char* what, std::vector<TrainerObstacle>& found) {
  if (!has && degree > 1) found.push_back({key, what, fmt::format("use {} 1", key)});
}

void check_offload(const Trainer& trainer, const TrainedPlan& plan, std::vector<TrainerObstacle>& found) {
  if (plan.offloads_activations && !trainer.offloads_activations)
    found.push_back({"schedule.offload", "activations in the host's memory", "leave schedule.offload out"});
  const HostedState& hosted = plan.offload;
  if (hosted.streams_activations() && !trainer.offloads_blocks)
    found.push_back({hosted.blocks > 0 ? "offload.blocks" : "offload.block_inputs", "activations of blocks in the host's memory",
                     "leave it out"});
  if (!hosted.optimizer && !hosted.parameters && !hosted.gradients) return;
  const char* key = hosted.optimizer ? "offload.optimizer" : hosted.parameters ? "offload.parameters" : "offload.gradients";
  std::vector<int> zero;
  for (const TrainerOffload& choice : trainer.offloads)
    if (choice.allows(hosted)) zero.insert(zero.end(), choice.zero.begin(), choice.zero.end());
  if (zero.empty())
    found.push_back({key, hosted_text(hosted), fmt::format("leave {} out", key)});
  else if (plan.degrees.replicas() > 1 && !holds(zero, plan.degrees.zero))
    found.push_back({key, fmt::format("{} under ZeRO {}", hosted_text(hosted), plan.degrees.zero),
                     fmt::format("it has that under ZeRO {}", fmt::join(zero, ", "))});
}

}  // namespace

std::vector<TrainerObstacle> obstacles(const Trainer& trainer, const TrainedPlan& plan) {
  std::vector<TrainerObstacle> found;
  const Degrees& degrees = plan.degrees;
  if (degrees.pipeline > 1 && trainer.schedules && trainer.schedules->empty())
    found.push_back({"parallel.pipeline", "pipelines", "use parallel.pipeline 1"});
  else if (degrees.pipeline > 1 && !trainer.runs_schedule(plan.schedule))
    found.push_back({"schedule", plan.schedule.empty() ? "orders from a file" : fmt::format("the schedule {}", plan.schedule),
                     list_or_none(*trainer.schedules)});
  check_degree(trainer.tensor, degrees.tensor, "parallel.tensor", "tensor parallelism", found);
  check_degree(trainer.context, degrees.context, "parallel.context", "context parallelism", found);
  check_degree(trainer.expert, degrees.expert, "parallel.expert", "experts over several ranks", found);
  const std::vector<int>& zero = degrees.pipeline > 1 ? trainer.zero_with_pipeline : trainer.zero;
  // A stated 0 divides nothing, which every trainer can do.
  if (degrees.zero > 0 && !holds(zero, degrees.zero))
    found.push_back({"parallel.zero", fmt::format("ZeRO {}{}", degrees.zero, degrees.pipeline > 1 ? " with a pipeline" : ""),
                     fmt::format("it has {}", fmt::join(zero, ", "))});
  if (degrees.zero > 0 && degrees.shard_group() < degrees.replicas() && !holds(trainer.zero_in_groups, degrees.zero))
    found.push_back({"parallel.shard", fmt::format("ZeRO {} in groups smaller than all replicas", degrees.zero),
                     trainer.zero_in_groups.empty()
                         ? std::string("leave parallel.shard out")
                         : fmt::format("it has that under ZeRO {}", fmt::join(trainer.zero_in_groups, ", "))});
  const bool of_set =
      plan.recompute == Recompute::Selective && plan.scope.modules.empty() && holds(trainer.recompute_sets, plan.scope.operators);
  if (plan.recompute != Recompute::None && !of_set && !holds(trainer.recompute, plan.recompute))
    found.push_back({"recompute", fmt::format("{} recompute", name_of(plan.recompute)), "leave it open: recompute: auto"});
  if (plan.recompute_by_stage && !trainer.recomputes_by_stage)
    found.push_back({"recompute", "a number of recomputed blocks for each stage", "leave it open: recompute: auto"});
  check_offload(trainer, plan, found);
  if (!runs_in_precision(trainer, degrees, plan.precision))
    found.push_back({"precision", "mixed precision where parameters are not divided over data ranks",
                     "it trains in fp32 there: use parallel.data 2 or more, or precision: fp32"});
  return found;
}

bool runs_in_precision(const Trainer& trainer, const Degrees& degrees, Precision precision) {
  const bool divided = degrees.replicas() > 1, parallel = degrees.pipeline * degrees.tensor > 1;
  return divided || !parallel || !trainer.mixed_needs_shards || !is_mixed(precision);
}

std::vector<std::string> cautions(const Trainer& trainer, const Degrees& degrees) {
  std::vector<std::string> found;
  for (const TrainerCaution& caution : trainer.cautions) {
    const bool about = std::all_of(std::begin(kAxes), std::end(kAxes), [&](const Axis& axis) {
      const auto limit = caution.at_least.find(std::string(axis.key));
      return limit == caution.at_least.end() || axis.of(degrees) >= limit->second;
    });
    if (about) found.push_back(fmt::format("{}: {} ({})", trainer.full_title(), caution.says, caution.source));
  }
  return found;
}

std::string unknown_release(const Trainer& trainer) {
  const auto stated = release_numbers(trainer.release), newest = release_numbers(trainer.newest);
  if (!stated || !newest || *stated <= *newest) return "";
  // 0.3.1 is a release of 0.3.
  if (stated->size() > newest->size() && std::equal(newest->begin(), newest->end(), stated->begin())) return "";
  return fmt::format("release {} of {} is not known here: what can run is taken from {}", trainer.release, trainer.title,
                     trainer.newest);
}

}  // namespace panpipe
