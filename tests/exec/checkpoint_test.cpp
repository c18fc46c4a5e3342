// Checkpoints: resumed bit-equal on the same layout, whole on another, refused by name when torn or foreign.
#include <ATen/Functions.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/resource.h>

#include <functional>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/error.hpp"
#include "exec/engine/checkpoint/checkpoint.hpp"
#include "exec/engine/run/stop.hpp"
#include "exec/engine/training/training_run.hpp"
#include "exec/engine/transport/on_threads.hpp"
#include "tests/exec/training_fixture.hpp"
#include "tests/temporary_folder.hpp"

namespace panpipe::exec {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

const std::string kAdam =
    "optimizer: {name: adamw, learning_rate: 0.01}\n"
    "training: {clip_gradients: 1, warmup_steps: 2, decay: cosine, decay_steps: 20}\n";

TEST(Checkpoint, ResumesBitEqual) {
  for (const std::string extra : {"", "precision: fp16\n", "precision: bf16\n"}) {
    SCOPED_TRACE(extra);
    const Folder folder;
    std::string scenario = small_gpt(2, 2, 2, kAdam + extra);
    scenario.replace(scenario.find("data: 2}"), 8, "data: 2, zero: 1}");
    const std::string file = folder.write("s.yaml", scenario);
    const Outcome whole = run_threads(file, with_checkpoints(file, 6, folder.file("whole")));
    const Outcome first = run_threads(file, with_checkpoints(file, 3, folder.file("parts")));
    RunRequest request = with_checkpoints(file, 6, folder.file("parts"));
    request.resume = "auto";
    const Outcome second = run_threads(file, request);
    ASSERT_EQ(whole.error() + first.error() + second.error(), "");
    std::vector<double> losses = first.losses();
    for (const double loss : second.losses()) losses.push_back(loss);
    EXPECT_EQ(losses, whole.losses());
    expect_bit_equal(tensors_of(step_folder(folder.file("parts"), 6)), tensors_of(step_folder(folder.file("whole"), 6)));
    const Manifest parts = read_manifest(step_folder(folder.file("parts"), 6));
    EXPECT_EQ(parts.position.updates, read_manifest(step_folder(folder.file("whole"), 6)).position.updates);
    EXPECT_EQ(parts.position.samples, 6 * 2 * 2 * 2) << "steps x micro x microbatches x replicas";
  }
}

// Loads a checkpoint on every rank of another layout and writes it again, without a step.
void rewrite(const std::string& scenario_file, const std::string& from, const std::string& directory) {
  const PreparedRun run(quiet(scenario_file, 1));
  on_threads(make_local_transports(run.world_size()), [&](Transport& transport) {
    const Manifest manifest = read_manifest(from);
    check_manifest(manifest, from, run);
    Trainer trainer(run, transport, manifest.position);
    load_checkpoint(trainer, manifest, from);
    write_checkpoint(trainer, directory, 0, -1);
  });
}

TEST(Checkpoint, IsWholeOnAnyNumberOfRanks) {
  const Folder folder;
  const auto scenario = [&](int pipeline, int data) {
    return folder.write(fmt::format("{}x{}.yaml", pipeline, data), small_gpt(pipeline, data, 4 / data, kAdam));
  };
  const std::string one = scenario(1, 1);
  const Outcome whole = run_threads(one, quiet(one, 4));
  ASSERT_EQ(run_threads(one, with_checkpoints(one, 3, folder.file("c"))).error(), "");
  std::string last = step_folder(folder.file("c"), 3);
  const auto state = tensors_of(last);
  EXPECT_TRUE(state.count("transformer.wte.weight.exp_avg"));
  for (const auto& [pipeline, data] : {std::pair(2, 1), {4, 1}, {2, 2}, {1, 2}}) {
    SCOPED_TRACE(fmt::format("pipeline {} x data {}", pipeline, data));
    const std::string file = scenario(pipeline, data), next = folder.file(fmt::format("c{}{}", pipeline, data));
    rewrite(file, last, next);
    last = step_folder(next, 3);
    expect_bit_equal(tensors_of(last), state);
    RunRequest request = quiet(file, 4);
    request.resume = last;
    const Outcome resumed = run_threads(file, request);
    ASSERT_EQ(resumed.error(), "");
    ASSERT_EQ(resumed.losses().size(), 1u);
    EXPECT_NEAR(resumed.losses()[0], whole.losses()[3], 1e-6);
  }
}

std::vector<std::string> names_in(const std::string& directory) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(directory)) names.push_back(entry.path().filename());
  return names;
}

TEST(Checkpoint, KeepsTheNewest) {
  const Folder folder;
  const std::string file = folder.write("s.yaml", small_gpt(2, 1, 1, "training: {keep_checkpoints: 2}\n"));
  ASSERT_EQ(run_threads(file, with_checkpoints(file, 5, folder.file("c"), 1)).error(), "");
  EXPECT_THAT(names_in(folder.file("c")), testing::UnorderedElementsAre("step-000004", "step-000005"));
}

// Steps 7 and 8 of a run that was left; step 3 of another, from which training goes on with two steps: what is newer counts, not
// what has the higher number.
TEST(Checkpoint, AReturnToAnEarlierStepSetsTheLaterOnesAside) {
  const Folder folder;
  const std::string file = folder.write("s.yaml", small_gpt(2, 1, 1, "training: {keep_checkpoints: 2}\n"));
  ASSERT_EQ(run_threads(file, with_checkpoints(file, 8, folder.file("c"), 1)).error(), "");
  ASSERT_EQ(run_threads(file, with_checkpoints(file, 3, folder.file("first"))).error(), "");
  const auto left = tensors_of(step_folder(folder.file("c"), 8));
  RunRequest request = with_checkpoints(file, 5, folder.file("c"), 1);
  request.resume = step_folder(folder.file("first"), 3);
  ASSERT_EQ(run_threads(file, request).error(), "");
  EXPECT_THAT(names_in(folder.file("c")),
              testing::UnorderedElementsAre("step-000004", "step-000005", "step-000007.abandoned", "step-000008.abandoned"));
  expect_bit_equal(tensors_of(folder.file("c") + "/step-000008.abandoned"), left);
  request.resume = "auto";
  request.steps = 7;
  EXPECT_EQ(run_threads(file, request).losses().size(), 2u) << "steps 6 and 7, from step 5 and not from 8";
  EXPECT_THAT(names_in(folder.file("c")),
              testing::UnorderedElementsAre("step-000006", "step-000007", "step-000007.abandoned", "step-000008.abandoned"));
}

// The learning rate times the weight decay is 8e75: step 2, whose own loss is finite, makes every value infinite that is not 0.
TEST(Checkpoint, ParametersThatAreNoNumbersAreNotWritten) {
  for (const char* zero : {"", "zero: 1", "zero: 3"}) {
    SCOPED_TRACE(zero);
    const Folder folder;
    std::string good = small_gpt(1, 2, 1, "optimizer: {name: sgd, learning_rate: 0.1}\n");
    std::string bad = small_gpt(1, 2, 1, "optimizer: {name: sgd, learning_rate: 9.0e+37, weight_decay: 9.0e+37}\n");
    for (std::string* text : {&good, &bad})
      if (*zero != 0) text->replace(text->find("data: 2}"), 8, fmt::format("data: 2, {}}}", zero));
    const std::string file = folder.write("good.yaml", good), other = folder.write("bad.yaml", bad);
    ASSERT_EQ(run_threads(file, with_checkpoints(file, 1, folder.file("c"))).error(), "");
    RunRequest request = with_checkpoints(other, 2, folder.file("c"), 1);
    request.resume = "auto";
    const Outcome refused = run_threads(other, request);
    EXPECT_THAT(refused.error(),
                testing::MatchesRegex("rank [01]: step 2: the update made '.*' infinite or not a number; writing the "
                                      "checkpoint .*/step-000002 is refused, and earlier ones stay: .*"));
    EXPECT_THAT(names_in(folder.file("c")), testing::ElementsAre("step-000001"));
    request.scenario = file;
    EXPECT_EQ(run_threads(file, request).error(), "") << "and the run goes on from it";
  }
}

TEST(Checkpoint, AChangeThatIsAllowedIsReported) {
  const Folder folder;
  const std::string first = small_gpt(2, 1, 1, "seed: 1\n");
  const std::string file = folder.write("s.yaml", first);
  ASSERT_EQ(run_threads(file, with_checkpoints(file, 1, folder.file("c"))).error(), "");
  const Manifest manifest = read_manifest(step_folder(folder.file("c"), 1));
  const auto reported = [&](const std::string& extra) {
    return changes_since(manifest, PreparedRun(quiet(folder.write("other.yaml", small_gpt(2, 1, 1, extra)), 2)));
  };
  EXPECT_THAT(reported("seed: 1\n"), testing::IsEmpty());
  EXPECT_THAT(
      reported("seed: 2\nprecision: bf16-pure\n"),
      testing::ElementsAre("precision was fp32 when the checkpoint was written and is bf16-pure now: weights and the "
                           "optimizer's state are rounded to 2 bytes",
                           "seed was 1 when the checkpoint was written and is 2 now: dropout and synthetic data differ from "
                           "those of one uninterrupted run"));
}

TEST(Checkpoint, AskedToStopItWritesOneAndReportsIt) {
  const Folder folder;
  const std::string file = folder.write("s.yaml", small_gpt(2, 2, 1, kAdam));
  RunRequest request = with_checkpoints(file, 100000, folder.file("c"));
  request.metrics = folder.file("m");
  std::thread user([&] {
    while (content(request.metrics).find("\"step\":3") == std::string::npos)
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    request_stop();
  });
  const Outcome stopped = run_threads(file, request);
  user.join();
  clear_stop();
  const std::string folder_of = fs::directory_iterator(folder.file("c"))->path().string();
  const Manifest manifest = read_manifest(folder_of);
  EXPECT_GE(manifest.position.step, 3);
  for (const std::string& error : stopped.errors)
    EXPECT_EQ(error, fmt::format("stopped after step {} as asked; checkpoint: {}", manifest.position.step, folder_of));
  EXPECT_EQ(manifest.position.samples, manifest.position.step * 2 * 1 * 2) << "micro x microbatches x replicas a step";
}

// A disk that is full: here a limit on the size of files, which fails in the same place.
TEST(Checkpoint, FullDiskLeavesTheLastOneIntact) {
  const Folder folder;
  const std::string file = folder.write("s.yaml", small_gpt(2, 1, 1, kAdam));
  ASSERT_EQ(run_threads(file, with_checkpoints(file, 1, folder.file("c"))).error(), "");
  const auto before = tensors_of(step_folder(folder.file("c"), 1));
  RunRequest request = with_checkpoints(file, 3, folder.file("c"), 1);
  request.resume = "auto";
  ::signal(SIGXFSZ, SIG_IGN);
  rlimit old{};
  ::getrlimit(RLIMIT_FSIZE, &old);
  rlimit small = old;
  small.rlim_cur = 4096;
  ::setrlimit(RLIMIT_FSIZE, &small);
  const Outcome failed = run_threads(file, request);
  ::setrlimit(RLIMIT_FSIZE, &old);
  for (const std::string& error : failed.errors)
    EXPECT_EQ(error,
              fmt::format("rank 0: cannot write {}/.step-000002.part/model-0.safetensors: File too large", folder.file("c")));
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.file("c")), fs::directory_iterator()), 1);
  expect_bit_equal(tensors_of(step_folder(folder.file("c"), 1)), before);
  EXPECT_EQ(run_threads(file, request).error(), "") << "and the run goes on from it";
}

struct Refusal {
  std::string name;
  std::function<void(const std::string& folder)> damage;
  std::string message;  // after "checkpoint FOLDER: "
  std::string scenario = small_gpt(2, 1, 1, kAdam);
  int steps = 4;
};

void change_manifest(const std::string& folder, const std::function<void(json&)>& change) {
  json manifest = json::parse(content(folder + "/manifest.json"));
  change(manifest);
  test::write_file(folder + "/manifest.json", manifest.dump());
}

std::vector<Refusal> refusals() {
  const auto nothing = [](const std::string&) {};
  const auto manifest = [](std::function<void(json&)> change) {
    return [change](const std::string& folder) { change_manifest(folder, change); };
  };
  std::string wide = small_gpt(2, 1, 1, kAdam), deep = wide;
  wide.replace(wide.find("hidden: 16"), 10, "hidden: 32");
  deep.replace(deep.find("layers: 2"), 9, "layers: 3");
  return {
      {"no folder", [](const std::string& folder) { fs::remove_all(folder); }, "there is no such folder"},
      {"no manifest", [](const std::string& folder) { fs::remove(folder + "/manifest.json"); },
       "it has no manifest.json: it was never finished, or it is not a checkpoint"},
      {"no JSON", [](const std::string& folder) { test::write_file(folder + "/manifest.json", "{"); },
       "manifest.json:1:2: this is not JSON: unexpected end of input; expected string literal"},
      {"other JSON", [](const std::string& folder) { test::write_file(folder + "/manifest.json", "{\"a\": 1}"); },
       "manifest.json is not a checkpoint's"},
      {"newer", manifest([](json& m) { m["version"] = 2; }), "it has format 2; this version of panpipe reads format 1"},
      {"lacking", manifest([](json& m) { m.erase("position"); }), "manifest.json lacks a value or has one of another kind"},
      {"negative", manifest([](json& m) { m["position"]["step"] = -1; }), "manifest.json counts below zero"},
      {"outside", manifest([](json& m) { m["files"][0]["name"] = "../x"; }),
       "manifest.json names a file outside the folder, '../x'"},
      {"unlisted", manifest([](json& m) { m["tensors"]["transformer.ln_f.bias"] = "model-7.safetensors"; }),
       "manifest.json puts 'transformer.ln_f.bias' into 'model-7.safetensors', which it does not list"},
      {"missing file", [](const std::string& folder) { fs::remove(folder + "/model-1.safetensors"); },
       "model-1.safetensors is missing"},
      {"cut file", [](const std::string& folder) { fs::resize_file(folder + "/model-1.safetensors", 100); },
       "model-1.safetensors has 100 bytes, not the {} that were written"},
      {"another byte",
       [](const std::string& folder) {
         std::fstream file(folder + "/optimizer-0.safetensors", std::ios::in | std::ios::out | std::ios::binary);
         file.seekp(-1, std::ios::end);
         file.put('\x7f');
       },
       "optimizer-0.safetensors is not what was written: its hash differs"},
      {"a tensor less", manifest([](json& m) { m["tensors"].erase("transformer.ln_f.bias.exp_avg"); }),
       "it lacks transformer.ln_f.bias.exp_avg"},
      {"in the wrong file", manifest([](json& m) { m["tensors"]["transformer.ln_f.bias"] = "model-0.safetensors"; }),
       "model-0.safetensors does not hold transformer.ln_f.bias"},
      {"another shape", nothing, "it is of another model, gpt (this one is gpt); the names are the same, the shapes differ",
       wide},
      {"another depth", nothing,
       "it is of another model, gpt (this one is gpt); it lacks transformer.h.2.attn.c_attn.bias, "
       "transformer.h.2.attn.c_attn.weight, transformer.h.2.attn.c_proj.bias and 9 more",
       deep},
      {"another optimizer", nothing, "it holds the state of optimizer adamw; the scenario trains with sgd",
       small_gpt(2, 1, 1, "optimizer: sgd\n")},
      {"at the end already", nothing,
       "it is at step 2 already, and the run ends with step 2; --steps counts from the run's beginning",
       small_gpt(2, 1, 1, kAdam), 2},
  };
}

TEST(Checkpoint, RefusesWhatIsTornOrForeign) {
  for (const Refusal& refusal : refusals()) {
    SCOPED_TRACE(refusal.name);
    const Folder folder;
    const std::string file = folder.write("s.yaml", small_gpt(2, 1, 1, kAdam)), at = step_folder(folder.file("c"), 2);
    ASSERT_EQ(run_threads(file, with_checkpoints(file, 2, folder.file("c"))).error(), "");
    std::string message = refusal.message;
    if (const auto brace = message.find("{}"); brace != std::string::npos)
      message.replace(brace, 2, std::to_string(fs::file_size(at + "/model-1.safetensors")));
    refusal.damage(at);
    RunRequest request = quiet(folder.write("other.yaml", refusal.scenario), refusal.steps);
    request.resume = at;
    const Outcome outcome = run_threads(request.scenario, request);
    ASSERT_EQ(outcome.errors.size(), 2u);
    for (std::string error : outcome.errors) {
      if (error.rfind("lost: ", 0) == 0) error = outcome.error();  // the other rank got the report first
      if (error.rfind("rank ", 0) == 0) error = error.substr(error.find(": ") + 2);
      EXPECT_EQ(error, "checkpoint " + at + ": " + message);
    }
  }
}

TEST(Checkpoint, AutoTakesTheNewestWholeOne) {
  const Folder folder;
  const std::string file = folder.write("s.yaml", small_gpt(2, 1, 1, kAdam));
  RunRequest request = with_checkpoints(file, 3, folder.file("c"), 1);
  request.resume = "auto";
  const Outcome fresh = run_threads(file, request);
  EXPECT_EQ(fresh.losses().size(), 3u) << "nothing there: from the beginning";
  fs::remove(step_folder(folder.file("c"), 3) + "/manifest.json");
  fs::remove(step_folder(folder.file("c"), 2) + "/optimizer-1.safetensors");
  fs::create_directories(folder.file("c") + "/.step-000009.part");
  request.steps = 4;
  EXPECT_EQ(run_threads(file, request).losses().size(), 3u) << "steps 2 to 4, from step 1";
}

}  // namespace
}  // namespace panpipe::exec
