#include "exec/engine/profile/link_profiler.hpp"

#include <ATen/Functions.h>
#include <time.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string_view>

#include "exec/engine/operator_program.hpp"
#include "exec/engine/profile/robust.hpp"
#include "exec/engine/profile/stopwatch.hpp"

namespace panpipe::exec {
namespace {

using nlohmann::json;

constexpr std::uint32_t kTag = 0xFFFFF000U;  // far from the tags of a step's messages
constexpr int kMostRanksForAllPairs = 8;

const std::vector<std::int64_t>& message_sizes() {
  static const std::vector<std::int64_t> sizes = {0, 1 << 10, 1 << 14, 1 << 16, 1 << 18, 1 << 20, 1 << 22, 1 << 24, 1 << 26};
  return sizes;
}

at::Tensor message(std::int64_t bytes, at::Device device) {
  return at::zeros({bytes / 4}, at::TensorOptions().dtype(at::kFloat).device(device));
}

// Fewer repetitions of what takes long: 64 MiB over a socket is some ten milliseconds.
int repetitions_for(std::int64_t bytes, int repetitions) {
  return std::max(5, bytes > (4 << 20) ? repetitions / 4 : repetitions);
}

void send(Transport& transport, const at::Tensor& value, int to) {
  transport.send(value, to, kTag)->wait(kPatience, "measuring messages");
}

void take(Transport& transport, std::int64_t bytes, int from, at::Device device) {
  transport.receive({{bytes / 4}, at::kFloat, device}, from, kTag)->wait(kPatience, "measuring messages");
  Stopwatch(device).wait();  // a device's transports return before the data are there
}

// Seconds that this rank has computed: the whole process, with the transport's threads, where a rank is one.
double computed_seconds(const Transport& transport) {
  timespec time{};
  clock_gettime(std::string_view(transport.name()) == "local" ? CLOCK_THREAD_CPUTIME_ID : CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

struct RoundTrips {
  std::vector<double> one_way, work;  // half of what a round trip takes, and of what this rank computes for it
};

// On the pair's first rank.
RoundTrips ping_pong(Transport& transport, int first, int second, std::int64_t bytes, int repetitions, at::Device device) {
  RoundTrips trips;
  const at::Tensor value = message(bytes, device);
  for (int i = -2; i < repetitions; ++i) {  // two to warm up
    if (transport.rank() != first) {
      take(transport, bytes, first, device);
      send(transport, value, first);
      continue;
    }
    const double computed = computed_seconds(transport);
    const auto start = Clock::now();
    send(transport, value, second);
    take(transport, bytes, second, device);
    const double seconds = seconds_since(start), work = computed_seconds(transport) - computed;
    if (i < 0) continue;
    trips.one_way.push_back(seconds / 2);
    trips.work.push_back(work / 2);
  }
  return trips;
}

std::vector<std::pair<int, int>> pairs(int ranks) {
  std::vector<std::pair<int, int>> all;
  for (int a = 0; a < ranks; ++a)
    for (int b = a + 1; b < ranks; ++b)
      if (ranks <= kMostRanksForAllPairs || b == a + 1) all.emplace_back(a, b);
  return all;
}

// [[size, seconds], ...] of the rank that measured, on every rank.
TransferTable shared_table(Transport& transport, const json& mine, int owner) {
  const auto all = transport.all_gather(mine.dump(), kPatience, "gathering what was measured");
  TransferTable table;
  for (const json& row : json::parse(all[static_cast<std::size_t>(owner)]))
    table.points.emplace_back(Bytes(row[0].get<std::int64_t>()), seconds(row[1].get<double>()));
  // A smaller message is not slower, and noise only adds.
  for (std::size_t i = table.points.size(); i-- > 1;)
    table.points[i - 1].second = std::min(table.points[i].second, table.points[i - 1].second);
  return table;
}

}  // namespace

MeasuredMessages measure_transfers(Transport& transport, int repetitions, at::Device device) {
  MeasuredMessages found;
  for (const auto& [first, second] : pairs(transport.size())) {
    transport.barrier(kPatience, "measuring messages");
    json times = json::array(), work = json::array();
    if (transport.rank() == first || transport.rank() == second) {
      for (const std::int64_t bytes : message_sizes()) {
        const RoundTrips trips = ping_pong(transport, first, second, bytes, repetitions_for(bytes, repetitions), device);
        times.push_back({bytes, robust(trips.one_way).median});
        work.push_back({bytes, robust(trips.work).median});
      }
    }
    const TransferTable table = shared_table(transport, times, first), computed = shared_table(transport, work, first);
    if (transport.rank() != 0) continue;
    found.transfers.push_back({transport.name(), first, second, table});
    found.transfers.push_back({transport.name(), second, first, table});
    if (device.is_cpu() && !found.work) found.work = ProfiledCollective{"message", 2, computed};
  }
  return found;
}

std::vector<ProfiledCollective> measure_collectives(Transport& transport, int repetitions, int members, at::Device device) {
  if (members < 2 || transport.size() % members != 0) return {};
  Group mine_group;
  for (int first = 0; first < transport.size(); first += members) {  // every rank makes every group
    std::vector<int> ranks(static_cast<std::size_t>(members));
    std::iota(ranks.begin(), ranks.end(), first);
    const Group group = transport.make_group(ranks);
    if (transport.rank() / members == first / members) mine_group = group;
  }
  json mine = json::array();
  for (const std::int64_t bytes : message_sizes()) {
    if (bytes == 0) continue;
    const at::Tensor value = message(bytes, device);
    std::vector<double> samples;
    for (int i = -2; i < repetitions_for(bytes, repetitions); ++i) {
      transport.barrier(kPatience, "measuring sums");
      const auto start = Clock::now();
      transport.all_reduce(value, mine_group)->wait(kPatience, "measuring sums");
      Stopwatch(device).wait();
      if (i >= 0) samples.push_back(seconds_since(start));
    }
    mine.push_back({bytes, robust(samples).median});
  }
  const TransferTable table = shared_table(transport, mine, 0);
  if (transport.rank() != 0) return {};
  return {{"all_reduce", members, table}};
}

double measure_memory_bandwidth(at::Device device) {
  constexpr std::int64_t kBytes = 128 << 20;  // larger than the last-level caches of most processors and GPUs
  const at::TensorOptions options = at::TensorOptions().dtype(at::kByte).device(device);
  const at::Tensor from = at::zeros({kBytes}, options), to = at::zeros({kBytes}, options);
  Stopwatch watch(device);
  std::vector<double> samples;
  for (int i = 0; i < 7; ++i) watch.time(samples, [&] { to.copy_(from); });
  watch.read();
  return 2.0 * static_cast<double>(kBytes) / robust(samples).median;
}

double measure_launch(at::Device device) {
  constexpr int kOperators = 500;
  OperatorGraph graph;
  Tensor scalar;
  scalar.dtype = DType::Float32;
  scalar.shape = {1};
  scalar.role = TensorRole::Parameter;
  graph.tensors.push_back(scalar);
  scalar.role = TensorRole::Activation;
  for (int i = 0; i < kOperators; ++i) {
    scalar.producer = i;
    graph.tensors.push_back(scalar);
    Operator op;
    op.target = "aten::mul.Tensor";
    op.arguments = {TensorRef{i}, TensorRef{0}};
    op.outputs = {i + 1};
    graph.operators.push_back(std::move(op));
  }
  graph.units.emplace_back();
  const OperatorProgram program(graph, 0, kOperators, {kOperators}, device);
  const at::Tensor value = at::ones({1}, at::TensorOptions().device(device)).requires_grad_(true);
  std::vector<double> samples;
  for (int i = 0; i < 9; ++i) {
    const auto start = Clock::now();
    program.run({value}, {});
    samples.push_back(seconds_since(start) / kOperators);  // the host's: a GPU is still at work
    Stopwatch(device).wait();
  }
  return robust(samples).median;
}

}  // namespace panpipe::exec
