// Where LibTorch is found when the executor starts. Folders with a version.py and an empty library stand for torch packages.
#include "exec/launch/libtorch.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <map>

#include "tests/temporary_folder.hpp"

namespace panpipe::exec {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;

class LibTorch : public testing::Test {
 protected:
  LibTorch() {
    fs::create_directories(base_ / "prefix/lib/panpipe");
    built_with("version 2.11.0\n");
  }

  void built_with(const std::string& text) const { test::write_file(base_ / "prefix/lib/panpipe/panpipe-exec.libtorch", text); }
  // A torch package, as the wheel lays it out.
  std::string torch(const std::string& folder, const std::string& version) const {
    test::write_file(base_ / folder / "version.py",
                     "from typing import Optional\n__all__ = ['__version__']\n__version__ = '" + version + "'\n");
    test::write_file(base_ / folder / "lib/libtorch_cpu.so", "");
    return (base_ / folder).string();
  }
  FoundLibTorch find(const std::map<std::string, std::string>& environment) const {
    const auto value = [&](const char* name) -> const char* {
      const auto entry = environment.find(name);
      return entry == environment.end() ? nullptr : entry->second.c_str();
    };
    return find_libtorch(value, {base_ / "prefix/lib/panpipe/panpipe-exec", base_ / "prefix"});
  }
  std::string at(const std::string& name) const { return (base_ / name).string(); }
  const test::TemporaryFolder folder_;
  const fs::path base_ = folder_.path();
};

TEST_F(LibTorch, TheNamedFolderComesFirstAndIsTheOnlyOneLookedAt) {
  const std::string named = torch("mine/torch", "2.11.1+cpu");
  torch("venv/lib/python3.11/site-packages/torch", "2.11.0");
  const FoundLibTorch found = find({{"PANPIPE_LIBTORCH", named}, {"VIRTUAL_ENV", at("venv")}});
  EXPECT_EQ(found.folder, named);
  EXPECT_EQ(found.version, "2.11.1+cpu");
  EXPECT_EQ(found.why, "PANPIPE_LIBTORCH=" + named);
  EXPECT_EQ(found.built_with, "2.11.0");
  EXPECT_THAT(found.looked, ElementsAre());

  // Of another minor version: refused, although the active environment has one that fits.
  const std::string newer = torch("newer/torch", "2.15.0");
  const FoundLibTorch refused = find({{"PANPIPE_LIBTORCH", newer}, {"VIRTUAL_ENV", at("venv")}});
  EXPECT_EQ(refused.folder, "");
  EXPECT_EQ(no_libtorch(refused),
            "the executor was built with torch 2.11.0, and none of version 2.11.x was found\n"
            "  looked at PANPIPE_LIBTORCH=" +
                newer +
                ": torch 2.15.0\n"
                "  help: pip install 'torch==2.11.*' in an environment that is active when panpipe runs, or name "
                "the folder of such a torch package in PANPIPE_LIBTORCH");
  EXPECT_THAT(find({{"PANPIPE_LIBTORCH", at("nowhere")}}).looked,
              ElementsAre("PANPIPE_LIBTORCH=" + at("nowhere") + ": no lib/libtorch_cpu.so in it"));
}

TEST_F(LibTorch, TheActiveEnvironmentComesBeforeWhatTheBuildWasMadeWith) {
  const std::string active = torch("conda/lib/python3.12/site-packages/torch", "2.11.0");
  const std::string own = torch("own/torch", "2.11.0");
  built_with("version 2.11.0\nfolder " + own + "\n");
  EXPECT_EQ(find({{"CONDA_PREFIX", at("conda")}}).folder, active);
  EXPECT_EQ(find({{"CONDA_PREFIX", at("conda")}}).why, "CONDA_PREFIX=" + at("conda"));
  EXPECT_EQ(find({}).folder, own);

  // An environment without torch, or with one that does not fit, is passed over; 2.1 is not 2.11.
  fs::create_directories(base_ / "bare/lib/python3.11/site-packages");
  torch("old/lib/python3.11/site-packages/torch", "2.1.2");
  const FoundLibTorch passed = find({{"VIRTUAL_ENV", at("bare")}, {"CONDA_PREFIX", at("old")}});
  EXPECT_EQ(passed.folder, own);
  EXPECT_EQ(passed.why, own + ", that this build was made with");
  EXPECT_THAT(passed.looked,
              ElementsAre("VIRTUAL_ENV=" + at("bare") + ": no torch in it", "CONDA_PREFIX=" + at("old") + ": torch 2.1.2"));
}

TEST_F(LibTorch, AnInstalledProgramLooksAroundItsPrefixThenAtPython) {
  // A python3 that answers as the real one would, whose package is the last resort.
  const std::string of_python = torch("python/torch", "2.11.0");
  test::write_file(base_ / "bin/python3", "#!/bin/sh\necho " + of_python + "\n");
  fs::permissions(base_ / "bin/python3", fs::perms::owner_all);
  const std::map<std::string, std::string> here = {{"HOME", at("home")}, {"PATH", at("empty") + ":" + at("bin")}};
  EXPECT_EQ(find(here).folder, of_python);
  EXPECT_EQ(find(here).why, at("bin/python3") + " of PATH");
  EXPECT_THAT(find(here).looked, ElementsAre(at("prefix/share/panpipe/venv") + ": no torch in it",
                                             at("home/.local/share/panpipe/venv") + ": no torch in it"));
  EXPECT_THAT(find({{"PATH", at("empty")}}).looked, ElementsAre(at("prefix/share/panpipe/venv") + ": no torch in it",
                                                                "python3 of PATH (there is none): no torch in it"));

  const std::string of_home = torch("home/.local/share/panpipe/venv/lib/python3.11/site-packages/torch", "2.11.0");
  EXPECT_EQ(find(here).folder, of_home);
  const std::string kept = torch("prefix/share/panpipe/venv/lib/python3.11/site-packages/torch", "2.11.0");
  EXPECT_EQ(find(here).folder, kept);
  const std::string environment = torch("prefix/lib/python3.11/site-packages/torch", "2.11.0");
  EXPECT_EQ(find(here).folder, environment);
}

TEST_F(LibTorch, AWheelTakesTheTorchNextToIt) {
  const std::string neighbour = torch("venv/lib/python3.11/site-packages/torch", "2.11.0");
  test::write_file(base_ / "venv/lib/python3.11/site-packages/panpipe/prefix/lib/panpipe/panpipe-exec.libtorch",
                   "version 2.11.0\n");
  const fs::path prefix = base_ / "venv/lib/python3.11/site-packages/panpipe/prefix";
  const FoundLibTorch found =
      find_libtorch([](const char*) { return static_cast<const char*>(nullptr); }, {prefix / "lib/panpipe/panpipe-exec", prefix});
  EXPECT_EQ(found.folder, neighbour);
}

TEST_F(LibTorch, AnArchiveOfLibTorchAloneReportsItsVersionToo) {
  test::write_file(base_ / "libtorch/build-version", "2.11.0+cpu\n");
  test::write_file(base_ / "libtorch/lib/libtorch_cpu.so", "");
  EXPECT_EQ(find({{"PANPIPE_LIBTORCH", at("libtorch")}}).version, "2.11.0+cpu");
}

TEST_F(LibTorch, WithoutAnExecutorAnyVersionIsReported) {
  const std::string any = torch("venv/lib/python3.11/site-packages/torch", "2.15.0");
  const std::string environment = at("venv");
  const auto active = [&](const char* name) { return std::string(name) == "VIRTUAL_ENV" ? environment.c_str() : nullptr; };
  const FoundLibTorch found = find_libtorch(active, {"", base_ / "prefix"});
  EXPECT_EQ(found.folder, any);
  EXPECT_EQ(found.built_with, "");
  EXPECT_EQ(no_libtorch({}),
            "no LibTorch was found\n  help: pip install 'torch==2.*' in an environment that is active when panpipe "
            "runs, or name the folder of such a torch package in PANPIPE_LIBTORCH");
}

}  // namespace
}  // namespace panpipe::exec
