// Checkpoints: resumed bit-equal on the same layout, whole on another, refused by name when torn or foreign; and what a run
// trains on.
#include <ATen/Functions.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <thread>

#include "costmodel/base/error.hpp"
#include "exec/engine/checkpoint/checkpoint.hpp"
#include "exec/engine/run/stop.hpp"
#include "exec/engine/training/training_run.hpp"
#include "tests/exec/training_fixture.hpp"

namespace panpipe::exec {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

const std::string kAdam =
    "optimizer: {name: adamw, learning_rate: 0.01}\ntraining: {clip_gradients: 1, warmup_steps: 2, decay: cosine, decay_steps: "
    "20}\n";

RunRequest with_checkpoints(const std::string& file, int steps, const std::string& directory, int every = 0) {
  RunRequest request = quiet(file, steps);
  request.checkpoint = directory;
  request.checkpoint_every = every;
  return request;
}

std::string step_folder(const std::string& directory, std::int64_t step) { return fmt::format("{}/step-{:06}", directory, step); }

std::string content(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

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
    EXPECT_EQ(read_manifest(step_folder(folder.file("parts"), 6)).position.updates,
              extra == "precision: fp16\n" ? read_manifest(step_folder(folder.file("whole"), 6)).position.updates : 6);
  }
}

// Loads a checkpoint on every rank of another layout and writes it again, without a step.
void rewrite(const std::string& scenario_file, const std::string& from, const std::string& directory) {
  const PreparedRun run(quiet(scenario_file, 1));
  const auto transports = make_local_transports(run.world_size());
  std::vector<std::thread> threads;
  for (const auto& transport : transports)
    threads.emplace_back([&] {
      const Manifest manifest = read_manifest(from);
      check_manifest(manifest, from, run);
      Trainer trainer(run, *transport, manifest.position);
      load_checkpoint(trainer, manifest, from);
      write_checkpoint(trainer, directory, 0);
    });
  for (std::thread& thread : threads) thread.join();
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

TEST(Checkpoint, KeepsTheNewest) {
  const Folder folder;
  const std::string file = folder.write("s.yaml", small_gpt(2, 1, 1, "training: {keep_checkpoints: 2}\n"));
  ASSERT_EQ(run_threads(file, with_checkpoints(file, 5, folder.file("c"), 1)).error(), "");
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder.file("c"))) names.push_back(entry.path().filename());
  EXPECT_THAT(names, testing::UnorderedElementsAre("step-000004", "step-000005"));
}

TEST(Checkpoint, AskedToStopItWritesOneAndSaysSo) {
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
  std::ofstream(folder + "/manifest.json") << manifest.dump();
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
      {"no JSON", [](const std::string& folder) { std::ofstream(folder + "/manifest.json") << "{"; },
       "manifest.json is not JSON"},
      {"other JSON", [](const std::string& folder) { std::ofstream(folder + "/manifest.json") << "{\"a\": 1}"; },
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
      if (error.rfind("lost: ", 0) == 0) error = outcome.error();  // the other rank was told first
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

// --- data ---

std::string tokens_file(const Folder& folder, int count, int vocabulary) {
  std::string bytes;
  for (int i = 0; i < count; ++i) {
    const int token = (i * i + 3 * i) % vocabulary;
    bytes += static_cast<char>(token & 255);
    bytes += static_cast<char>(token >> 8);
  }
  return folder.write("tokens.bin", bytes);
}

// The same samples as tensors: sample i is tokens 8 i .. 8 i + 7 and their successors.
void samples_file(const std::string& path, const std::string& tokens, std::int64_t samples) {
  const std::string bytes = content(tokens);
  const at::Tensor ids = at::empty({samples, 8}, at::kLong), labels = at::empty({samples, 8}, at::kInt);
  for (std::int64_t i = 0; i < samples * 8; ++i) {
    const auto token = [&](std::int64_t at) {
      return static_cast<unsigned char>(bytes[static_cast<std::size_t>(2 * at)]) +
             256 * static_cast<unsigned char>(bytes[static_cast<std::size_t>(2 * at + 1)]);
    };
    ids.data_ptr<std::int64_t>()[i] = token(i);
    labels.data_ptr<std::int32_t>()[i] = token(i + 1);
  }
  write_safetensors(path, {{"input_ids", ids}, {"labels", labels}});
}

TEST(Data, TokensAndTensorsGiveTheSameSamplesInOrder) {
  const Folder folder;
  const std::string tokens = tokens_file(folder, 8 * 11 + 1, 48);  // 11 samples: eight a step, so steps begin at 0, 8, 5
  samples_file(folder.file("d.safetensors"), tokens, 11);
  const std::string by_tokens = folder.write("t.yaml", small_gpt(2, 1, 4, "data: {tokens: tokens.bin}\n"));
  const std::string by_tensors = folder.write("s.yaml", small_gpt(2, 1, 4, "data: {tensors: d.safetensors}\n"));
  const std::string mesh = folder.write("m.yaml", small_gpt(2, 2, 2, "data: {tokens: tokens.bin}\n"));
  const Outcome one = run_threads(by_tokens, quiet(by_tokens, 4)), two = run_threads(by_tensors, quiet(by_tensors, 4));
  const Outcome shared = run_threads(mesh, quiet(mesh, 4));
  ASSERT_EQ(one.error() + two.error() + shared.error(), "");
  EXPECT_EQ(one.losses(), two.losses());
  for (std::size_t s = 0; s < 4; ++s) EXPECT_NEAR(shared.losses()[s], one.losses()[s], 1e-5);
}

struct WrongData {
  std::string name;
  std::string extra;
  std::function<void(const Folder&)> prepare;
  std::string message;
};

TEST(Data, WrongFilesAreRefused) {
  const auto write = [](const Folder& folder, std::vector<std::pair<std::string, at::Tensor>> tensors) {
    write_safetensors(folder.file("d.safetensors"), tensors);
  };
  const at::Tensor ids = at::zeros({4, 8}, at::kLong);
  const std::vector<WrongData> cases = {
      {"cut token", "tokens", [](const Folder& f) { f.write("d", std::string(51, 'x')); },
       "a file of 51 bytes does not hold 16-bit tokens: the last one is cut"},
      {"short tokens", "tokens", [](const Folder& f) { f.write("d", std::string(16, '\1')); },
       "the file holds 8 tokens; a sample and its labels take 9"},
      {"empty tokens", "tokens", [](const Folder& f) { f.write("d", ""); },
       "the file holds 0 tokens; a sample and its labels take 9"},
      {"beyond the vocabulary", "tokens",
       [](const Folder& f) {
         std::string bytes(40, '\0');
         bytes[22] = 48;
         f.write("d", bytes);
       },
       "token 11 has the id 48; the model's vocabulary ends at 47"},
      {"name", "tensors",
       [&](const Folder& f) {
         write(f, {{"input_ids", ids}, {"label", ids}});
       },
       "the file holds no tensor 'labels', which the model reads"},
      {"shape", "tensors",
       [&](const Folder& f) {
         write(f, {{"input_ids", at::zeros({4, 9}, at::kLong)}, {"labels", ids}});
       },
       "'input_ids' has shape (4, 9); the model wants (samples, 8)"},
      {"type", "tensors",
       [&](const Folder& f) {
         write(f, {{"input_ids", at::zeros({4, 8})}, {"labels", ids}});
       },
       "'input_ids' holds F32; the model reads I64"},
      {"unequal", "tensors",
       [&](const Folder& f) {
         write(f, {{"input_ids", ids}, {"labels", at::zeros({5, 8}, at::kLong)}});
       },
       "'input_ids' holds 4 samples, 'labels' 5"},
      {"few", "tensors",
       [&](const Folder& f) {
         write(f, {{"input_ids", ids.narrow(0, 0, 1)}, {"labels", ids.narrow(0, 0, 1)}});
       },
       "'input_ids' holds 1 samples, fewer than a microbatch of 2"},
      {"id", "tensors",
       [&](const Folder& f) {
         write(f, {{"input_ids", at::full({4, 8}, 48, at::kLong)}, {"labels", ids}});
       },
       "'input_ids' holds the id 48; the model's end at 47"},
      {"negative id", "tensors",
       [&](const Folder& f) {
         write(f, {{"input_ids", at::full({4, 8}, -1, at::kLong)}, {"labels", ids}});
       },
       "'input_ids' holds the id -1; the model's end at 47"},
  };
  for (const WrongData& wrong : cases) {
    SCOPED_TRACE(wrong.name);
    const Folder folder;
    const std::string name = wrong.extra == "tokens" ? "d" : "d.safetensors";
    wrong.prepare(folder);
    const std::string file = folder.write("s.yaml", small_gpt(1, 1, 1, fmt::format("data: {{{}: {}}}\n", wrong.extra, name)));
    EXPECT_THAT(run_threads(file, quiet(file, 1)).error(), testing::HasSubstr("error: " + wrong.message + "\n"));
  }
}

TEST(Data, TokensAreForModelsThatReadThem) {
  const Folder folder;
  tokens_file(folder, 100, 48);
  const auto error = [&](const std::string& workload) {
    std::string scenario = small_gpt(1, 1, 1, "data: {tokens: tokens.bin}\n");
    const auto at = scenario.find("{model"), end = scenario.find('}', at);
    scenario.replace(at, end - at + 1, workload);
    const std::string file = folder.write("s.yaml", scenario);
    return run_threads(file, quiet(file, 1)).error();
  };
  EXPECT_THAT(error("{model: bert, layers: 1, hidden: 16, heads: 2, sequence: 8, vocabulary: 48}"),
              testing::HasSubstr(
                  "error: the model also reads token_type_ids and next_sentence_label, which a file of tokens does not hold\n"));
}

TEST(Options, OfCheckpointsGoTogether) {
  const Folder folder;
  const std::string file = folder.write("s.yaml", small_gpt(1, 1, 1));
  RunRequest request = quiet(file, 1);
  request.checkpoint_every = 2;
  EXPECT_EQ(run_threads(file, request).error(), "--checkpoint-every says when, but not where: give --checkpoint DIR too");
  request = quiet(file, 1);
  request.resume = "auto";
  EXPECT_EQ(run_threads(file, request).error(), "--resume auto looks into the folder of checkpoints: give --checkpoint DIR too");
}

// --- safetensors ---

std::string safetensors(const std::string& header, const std::string& data) {
  std::string bytes(8, '\0');
  const std::uint64_t length = header.size();
  std::memcpy(bytes.data(), &length, 8);
  return bytes + header + data;
}

TEST(Safetensors, ComeBackAsTheyWere) {
  const Folder folder;
  const std::string path = folder.file("a.safetensors");
  const std::vector<std::pair<std::string, at::Tensor>> tensors = {{"x", at::arange(6, at::kFloat).reshape({2, 3})},
                                                                   {"empty", at::zeros({0, 4}, at::kHalf)},
                                                                   {"scalar", at::scalar_tensor(7, at::kLong)},
                                                                   {"b", at::ones({3}, at::kBFloat16)},
                                                                   {"flag", at::ones({3}, at::kBool)},
                                                                   {"t", at::arange(6, at::kDouble).reshape({2, 3}).t()}};
  const WrittenFile written = write_safetensors(path, tensors, {{"who", "a test"}});
  EXPECT_EQ(written.sha256, sha256_of_file(path));
  EXPECT_EQ(written.bytes, static_cast<std::int64_t>(fs::file_size(path)));
  const SafetensorsFile file(path);
  EXPECT_EQ(file.metadata().at("who"), "a test");
  for (const auto& [name, value] : tensors) {
    EXPECT_TRUE(at::equal(file.read(name), value)) << name;
    EXPECT_EQ(file.read(name).scalar_type(), value.scalar_type());
  }
  EXPECT_TRUE(at::equal(file.read_rows("x", 1, 1), tensors[0].second.narrow(0, 1, 1)));
}

TEST(Safetensors, BrokenFilesAreRefused) {
  const std::string f32 = R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})";
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"abc", "shorter than its first eight bytes"},
      {std::string(8, '\xff') + "{}", "a header of 18446744073709551615 bytes in a file of 10"},
      {safetensors("{", ""), "the header is not JSON"},
      {safetensors("[]", ""), "the header is not an object"},
      {safetensors(R"({"a":1,"a":2})", ""), "the header names 'a' twice"},
      {safetensors(R"({"a":{"dtype":"F32","shape":[1]}})", "1234"),
       "tensor 'a' does not have exactly dtype, shape and data_offsets"},
      {safetensors(R"({"a":{"dtype":"F8","shape":[1],"data_offsets":[0,1]}})", "1"),
       "tensor 'a' has the element type 'F8', which is not read here"},
      {safetensors(R"({"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})", "1234"),
       "tensor 'a' has a shape that is not of whole numbers"},
      {safetensors(R"({"a":{"dtype":"F32","shape":[4,4611686018427387904],"data_offsets":[0,4]}})", "1234"),
       "tensor 'a' is larger than the file"},
      {safetensors(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", "1234"),
       "tensor 'a' takes 8 bytes by its shape and 4 by its offsets"},
      {safetensors(f32, "123"), "tensor 'a' ends at byte 4, the data at 3"},
      {safetensors(f32, "12345"), "1 bytes after the last tensor"},
      {safetensors(R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}})",
                   "123"),
       "tensors overlap"},
      {safetensors(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})", "12"),
       "there are bytes between tensors that belong to none"},
      {safetensors(R"({"__metadata__":{"a":1}})", ""), "__metadata__ holds something other than text"},
  };
  for (const auto& [bytes, message] : cases) {
    const Folder folder;
    const std::string path = folder.write("x", bytes);
    try {
      SafetensorsFile file(path);
      ADD_FAILURE() << "accepted: " << message;
    } catch (const InputError& error) {
      EXPECT_EQ(error.diagnostics().front().message, path + ": not a whole safetensors file: " + message);
    }
  }
}

// --- real training ---

const char* const kLicences = "/usr/share/common-licenses";
const char* const kChildFolder = "PANPIPE_TEST_CHILD_FOLDER";

std::string licence_scenario() {
  std::string scenario = small_gpt(2, 2, 2,
                                   "optimizer: {name: adamw, learning_rate: 0.003, betas: [0.9, 0.98]}\n"
                                   "training: {clip_gradients: 1, warmup_steps: 20, decay: linear, decay_steps: 200}\n"
                                   "data: {tokens: licences.bin}\n");
  const auto at = scenario.find("{model"), end = scenario.find('}', at);
  scenario.replace(at, end - at + 1, "{model: gpt, layers: 2, hidden: 64, heads: 4, sequence: 32, vocabulary: 128}");
  scenario.replace(scenario.find("micro: 2"), 8, "micro: 8");
  return scenario;
}

constexpr int kLicenceSteps = 200;

RunRequest licence_request(const std::string& folder, const std::string& name) {
  RunRequest request = with_checkpoints(folder + "/s.yaml", kLicenceSteps, folder + "/" + name, 25);
  request.metrics = folder + "/" + name + ".jsonl";
  return request;
}

// Run by the test below in a process of its own, and killed there.
TEST(Licences, DISABLED_Child) {
  if (const char* folder = std::getenv(kChildFolder))
    run_threads(std::string(folder) + "/s.yaml", licence_request(folder, "killed"));
}

// A small GPT on the bytes of this machine's licence texts: it learns, is killed half-way, resumes and ends bit-equal.
TEST(Licences, LearnsAndSurvivesItsDeath) {
  if (!fs::exists(std::string(kLicences) + "/LGPL-2.1")) GTEST_SKIP() << "this machine has no licence texts";
  const Folder folder;
  const std::string root = fs::path(folder.file("x")).parent_path().string();
  const std::string make = fmt::format("python3 {}/tools/make_tokens.py -o {}/licences.bin {}/GPL-3 {}/LGPL-2.1 2>/dev/null",
                                       PANPIPE_SOURCE, root, kLicences, kLicences);
  ASSERT_EQ(std::system(make.c_str()), 0);
  const std::string file = folder.write("s.yaml", licence_scenario());
  const Outcome whole = run_threads(file, licence_request(root, "whole"));
  ASSERT_EQ(whole.error(), "");
  const std::vector<double> losses = whole.losses();
  EXPECT_NEAR(losses.front(), std::log(128.0), 0.2);
  double last = 0;
  for (std::size_t s = losses.size() - 10; s < losses.size(); ++s) last += losses[s] / 10;
  EXPECT_LT(last, 2.75) << "below the loss of guessing by frequency (3.2 nats)";

  const pid_t child = ::fork();
  if (child == 0) {
    ::setenv(kChildFolder, root.c_str(), 1);
    const int null = ::open("/dev/null", O_WRONLY);
    ::dup2(null, STDOUT_FILENO);
    ::execl("/proc/self/exe", "test", "--gtest_also_run_disabled_tests", "--gtest_filter=Licences.DISABLED_Child", nullptr);
    ::_exit(127);
  }
  while (content(folder.file("killed.jsonl")).find("\"step\":105,") == std::string::npos) {
    ASSERT_EQ(::waitpid(child, nullptr, WNOHANG), 0) << "the child ended by itself";
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  RunRequest request = licence_request(root, "killed");
  request.resume = "auto";
  const Outcome resumed = run_threads(file, request);
  ASSERT_EQ(resumed.error(), "");
  ASSERT_LT(resumed.losses().size(), losses.size() - 90) << "it went on from a checkpoint";
  EXPECT_EQ(resumed.losses(),
            std::vector<double>(losses.end() - static_cast<std::ptrdiff_t>(resumed.losses().size()), losses.end()));
  expect_bit_equal(tensors_of(step_folder(folder.file("killed"), kLicenceSteps)),
                   tensors_of(step_folder(folder.file("whole"), kLicenceSteps)));
}

}  // namespace
}  // namespace panpipe::exec
