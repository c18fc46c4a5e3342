// Reads `run:`, the amount of training and its conditions (docs/run-costs.md).
#include <fmt/format.h>

#include "base/input/bound_key.hpp"
#include "base/input/run_scalars.hpp"
#include "base/text/quantity_text.hpp"
#include "base/text/run_quantity_text.hpp"
#include "costmodel/scenario/price_list.hpp"
#include "costmodel/scenario/read_parts.hpp"

namespace panpipe {

using namespace key_parts;

namespace {

// Meta's Llama 3 405B: 419 unexpected interruptions in 54 days on 16,384 H100 (arXiv 2407.21783, section 3.3.4):
// 16384 x 54 x 24 h / 419 = 50,677 h for a GPU with its part of all else that fails.
constexpr const char* kMtbf = "50677 h";
constexpr const char* kMtbfOrigin = "default: Llama 3, 419 unexpected interruptions in 54 days on 16,384 H100 (arXiv 2407.21783)";
// ByteDance's MegaScale: faults are found and diagnosed within 10 minutes on average (arXiv 2402.15627, section 6.3).
constexpr const char* kRestart = "10 min";
constexpr const char* kRestartOrigin = "default: MegaScale, found and diagnosed in less than 10 minutes (arXiv 2402.15627)";
// The convention of the Llama papers: GPU hours x TDP x PUE, with a PUE of 1.1 (arXiv 2302.13971, section 6).
constexpr double kShare = 1, kPue = 1.1;
constexpr const char* kPowerOrigin = "default: GPU hours x TDP x PUE 1.1, as of Llama (arXiv 2302.13971)";

using Counted = RunRequest::Counted;
using Checkpoint = RunRequest::Checkpoint;
using Failures = RunRequest::Failures;

const std::vector<BoundKey<Checkpoint>>& checkpoint_rows() {
  static const std::vector<BoundKey<Checkpoint>> rows = {
      bound(&Checkpoint::time, "time", "training stops for this long at each; or `bandwidth`", form::time(Sign::Positive)),
      bound(&Checkpoint::bandwidth, "bandwidth", "of the storage, all writers together"),
      bound(&Checkpoint::size, "size", "of a checkpoint", form::size(Sign::Positive), Otherwise{"weights and optimizer state"}),
      {declare("interval", "training time between checkpoints", form::time(Sign::Positive), Words{"optimal"},
               Otherwise{"the best for the failures"})}};
  return rows;
}

const std::vector<BoundKey<Failures>>& failure_rows() {
  using Part = RunRequest::FailingPart;
  static const std::vector<BoundKey<Failures>> rows = {
      {declare("mtbf", "mean time between the failures of one part (default: Llama 3)", form::time(Sign::Positive),
               Fallback{kMtbf})},
      bound(&Failures::part, {{"gpu", Part::Gpu}, {"node", Part::Node}}, "per", "the part that `mtbf` is stated of"),
      {declare("restart", "from a failure until training resumes (default: MegaScale)", form::time(), Fallback{kRestart})}};
  return rows;
}

void read_amount(MapReader& reader, RunRequest& run) {
  const Node* first = nullptr;
  for (const Counted counted : {Counted::Tokens, Counted::Samples, Counted::Steps}) {
    const Node* node = reader.find(std::string(name_of(counted)));
    if (node == nullptr) continue;
    if (first != nullptr) {
      reader.log().error(*node, fmt::format("{} and {} ({}) exclude each other", node->path, first->path, origin_of(*first)),
                         "keep one of the two", code::kConflict);
      return;
    }
    first = node;
    run.counted = counted;
    run.amount = read_count(*node, reader.log()).value_or(0);
  }
  if (first == nullptr && reader.node().kind == NodeKind::Map)
    reader.log().error(reader.node(), "a run says how much it trains",
                       "state tokens, samples or steps, as in 'run: {tokens: 300B}'");
}

// A number with a currency, which holds for every device; else the name of a list.
void read_prices(MapReader& reader, const std::optional<Cluster>& cluster, RunRequest& run) {
  const Node* node = reader.find("price");
  if (node == nullptr) return;
  ReadLog& log = reader.log();
  const bool number = node->kind == NodeKind::Scalar && !node->text.empty() &&
                      std::string_view("+-.0123456789").find(node->text.front()) != std::string_view::npos;
  if (number) {
    const std::optional<Money> price = read_money(*node, log);
    if (!price || !cluster) return;
    run.prices.assign(cluster->types.size(), price->amount);
    run.currency = price->currency;
    run.price_origin = money_text(price->amount, price->currency);
  } else if (const auto list = read_price_list(*node, log); list && cluster) {
    price_devices(*list, *node, *cluster, log, run);
  }
}

// An optional duration. Without it the fallback text is used, and recorded with its origin.
Duration duration_or(MapReader& reader, const std::string& key, Sign sign, const char* fallback, const char* origin) {
  if (reader.has(key)) return reader.duration(key, sign);
  reader.find(key);
  reader.log().resolved(fmt::format("{}.{}", reader.node().path, key), fallback, origin);
  return *parse_duration(fallback).value;
}

Checkpoint read_checkpoint(const Node& node, bool fails, ReadLog& log) {
  MapReader reader(node, log);
  Checkpoint checkpoint;
  read_keys(reader, checkpoint_rows(), checkpoint);
  const Node* interval = reader.find("interval");
  const bool best = interval == nullptr || interval->text == "optimal";
  if (!best) checkpoint.interval = reader.duration("interval", Sign::Positive);
  if (best && interval != nullptr) log.resolved(interval->path, "optimal", origin_of(*interval));
  if (best && interval == nullptr && fails) log.resolved(node.path + ".interval", "optimal", "default");
  reader.finish();
  if (node.kind != NodeKind::Map) return checkpoint;
  if (reader.has("time") == reader.has("bandwidth"))
    log.error(node, "a checkpoint states its time, or the bandwidth of its storage, and not both",
              "as in 'checkpoint: {time: 30 s}' or 'checkpoint: {bandwidth: 40 GB/s}'",
              reader.has("time") ? code::kConflict : code::kMissingKey);
  if (reader.has("time") && reader.has("size"))
    log.error(*node.find("size"), "the time of a checkpoint is stated: its size changes nothing", "leave one of the two out");
  if (best && !fails)
    log.error(node, "without failures no interval between checkpoints is the best",
              "state it, as in 'interval: 30 min', or state failures");
  return checkpoint;
}

Failures read_failures(const Node& node, ReadLog& log) {
  MapReader reader(node, log);
  Failures failures;
  failures.mtbf = duration_or(reader, "mtbf", Sign::Positive, kMtbf, kMtbfOrigin);
  read_key(reader, failure_rows(), "per", failures);
  if (reader.has("per") && !reader.has("mtbf"))
    log.error(*node.find("per"), "per says what mtbf is stated of, but mtbf is not stated", "state it, as in 'mtbf: 50000 h'");
  failures.restart = duration_or(reader, "restart", Sign::NonNegative, kRestart, kRestartOrigin);
  reader.finish();
  return failures;
}

// Power of a GPU of each type; nullopt if one has no published power.
std::optional<std::vector<Power>> published_power(const Cluster& cluster, const DeviceType** without) {
  std::vector<Power> power;
  for (const DeviceType& type : cluster.types) {
    if (type.tdp <= Power(0)) {
      *without = &type;
      return std::nullopt;
    }
    power.push_back(type.tdp);
  }
  return power;
}

RunRequest::PowerUse read_power_use(const Node& node, const Cluster& cluster, ReadLog& log) {
  MapReader reader(node, log);
  RunRequest::PowerUse use;
  const auto reported = [&](const char* key, const std::string& value) {
    log.resolved(fmt::format("{}.{}", node.path, key), value, kPowerOrigin);
  };
  use.share = kShare;
  use.pue = kPue;
  const DeviceType* without = nullptr;
  if (const Node* gpu = reader.find("gpu")) {
    use.gpu.assign(cluster.types.size(), read_power(*gpu, log).value_or(Power(0)));
  } else if (auto published = published_power(cluster, &without)) {
    use.gpu = std::move(*published);
  } else {
    log.error(node, fmt::format("no power is published for {}", display_name(*without)), "state it, as in 'gpu: 400 W'");
  }
  if (reader.find("share") != nullptr)
    use.share = reader.fraction("share");
  else
    reported("share", exact_fraction_text(use.share));
  if (const Node* of_node = reader.find("node"))
    use.node = read_power(*of_node, log).value_or(Power(0));
  else
    reported("node", exact_text(use.node));
  if (reader.find("pue") != nullptr)
    use.pue = reader.number("pue", Sign::Positive);
  else
    reported("pue", fmt::format("{}", use.pue));
  if (const Node* pue = node.find("pue"); pue != nullptr && use.pue < 1 && use.pue > 0)
    log.error(*pue, fmt::format("'{}' must be at least 1", pue->text),
              "the PUE is the power of the whole site over that of its computers");
  reader.finish();
  return use;
}

void read_energy(MapReader& reader, const std::optional<Cluster>& cluster, RunRequest& run) {
  const Node* power = reader.find("power");
  const Node* carbon = reader.find("carbon");
  if (carbon != nullptr) run.carbon = read_carbon_intensity(*carbon, reader.log());
  if (!cluster) return;
  const DeviceType* without = nullptr;
  if (power != nullptr)
    run.power = read_power_use(*power, *cluster, reader.log());
  else if (auto published = published_power(*cluster, &without))
    run.power = {std::move(*published), kShare, Power(0), kPue};
  else if (carbon != nullptr)
    reader.log().error(*carbon, fmt::format("carbon comes from energy, and no power is published for {}", display_name(*without)),
                       "state it, as in 'power: {gpu: 400 W}'");
}

}  // namespace

Key run_key() {
  const auto amount = [](const char* name, const char* example) {
    return declare(name, "how much is trained; one of the three", form::text(), Example{example});
  };
  return declare(
      "run", "how much is trained, prices, checkpoints, failures, power; the predicted step ignores it",
      Inside{amount("tokens", "300B"), amount("samples", "1M"), amount("steps", "10k"),
             declare("price", "of a device hour: an amount with its currency, or a list of prices", form::text(), form::shipped(),
                     Otherwise{"none"}, Example{"2.5 USD"}),
             declare("carbon", "carbon dioxide of the electricity", form::text(), Otherwise{"none"}, Example{"400 g/kWh"}),
             declare("checkpoint", "what checkpoints cost", Inside{declared(checkpoint_rows())}, Otherwise{"none"}),
             declare("failures", "how often parts fail", Inside{declared(failure_rows())}, Otherwise{"none"}),
             declare("power", "what the energy is computed from",
                     Inside{declare("gpu", "power of a GPU", form::text(), Otherwise{"the published power of the devices"},
                                    Example{"700 W"}),
                            declare("share", "share of it that is drawn while training", form::share(),
                                    Fallback{exact_fraction_text(kShare)}),
                            declare("node", "power of a node without its GPUs", form::text(), Fallback{exact_text(Power(0))},
                                    Example{"100 W"}),
                            declare("pue", "power of the whole site over that of its computers; at least 1",
                                    form::number(Sign::Positive), Fallback{fmt::format("{}", kPue)})})},
      Otherwise{"none"}, Page{"run-costs.md"}, InExports::Stated);
}

std::optional<RunRequest> read_run(MapReader& scenario, const std::optional<Cluster>& cluster) {
  const Node* node = scenario.find("run");
  if (node == nullptr) return std::nullopt;
  RunRequest run;
  MapReader reader(*node, scenario.log());
  read_amount(reader, run);
  read_prices(reader, cluster, run);
  const Node* failures = reader.find("failures");
  const Node* checkpoint = reader.find("checkpoint");
  if (failures != nullptr) run.failures = read_failures(*failures, scenario.log());
  if (checkpoint != nullptr) run.checkpoint = read_checkpoint(*checkpoint, failures != nullptr, scenario.log());
  if (failures != nullptr && checkpoint == nullptr)
    scenario.log().error(*failures, "a run that fails needs checkpoints to start again from",
                         "state them, as in 'checkpoint: {time: 30 s}' or 'checkpoint: {bandwidth: 40 GB/s}'");
  read_energy(reader, cluster, run);
  reader.finish();
  return run;
}

}  // namespace panpipe
