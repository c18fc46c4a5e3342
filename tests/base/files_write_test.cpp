#include "base/files/files_write.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <future>

#include "base/error.hpp"
#include "base/files/files_read.hpp"
#include "base/files/input_registry.hpp"
#include "tests/fault.hpp"
#include "tests/temporary_folder.hpp"

namespace panpipe {
namespace {

namespace fs = std::filesystem;

class Outputs : public ::testing::Test {
 protected:
  std::string at(const std::string& name) const { return folder_ + "/" + name; }
  static std::string read(const std::string& path) { return test::read_file(path); }
  static void make(const std::string& path, const std::string& text) { test::write_file(path, text); }
  // Names in the folder, so that no other file is left behind.
  std::vector<std::string> names() const {
    std::vector<std::string> all;
    for (const auto& entry : fs::directory_iterator(folder_)) all.push_back(entry.path().filename());
    return all;
  }
  static mode_t type_of(const std::string& path) {
    struct stat found {};
    return lstat(path.c_str(), &found) == 0 ? found.st_mode & S_IFMT : 0;
  }

  const test::TemporaryFolder own_;
  const std::string folder_ = own_.path();
};

using ::testing::UnorderedElementsAre;

TEST_F(Outputs, AFileIsReplacedWholeAndNothingElseIsLeft) {
  make(at("f"), "long old text");
  write_file(at("f"), "new");
  EXPECT_EQ(read(at("f")), "new");
  EXPECT_THAT(names(), UnorderedElementsAre("f"));
}

TEST_F(Outputs, AFileThatIsNotFinishedIsNotThere) {
  make(at("f"), "old");
  {
    OutputFile file(at("f"));
    file.write("half", 4);
  }
  EXPECT_EQ(read(at("f")), "old");
  EXPECT_THAT(names(), UnorderedElementsAre("f"));
}

TEST_F(Outputs, FoldersAboveAFileAreMade) {
  write_file(at("deep/er/f"), "text");
  EXPECT_EQ(read(at("deep/er/f")), "text");
}

TEST_F(Outputs, ADeviceIsWrittenIntoAndStaysADevice) {
  const std::string null = at("null");
  if (mknod(null.c_str(), S_IFCHR | 0666, makedev(1, 3)) != 0)
    GTEST_SKIP() << "a device cannot be made here: " << std::strerror(errno);
  const int opened = open(null.c_str(), O_WRONLY | O_CLOEXEC);
  if (opened < 0) GTEST_SKIP() << "a device cannot be opened here: " << std::strerror(errno);
  close(opened);
  EXPECT_TRUE(is_written_into(null));
  write_file(null, "text");
  EXPECT_EQ(type_of(null), S_IFCHR);
  // A link to it, too.
  fs::create_symlink("null", at("link"));
  write_file(at("link"), "text");
  EXPECT_EQ(type_of(null), S_IFCHR);
  EXPECT_EQ(type_of(at("link")), S_IFLNK);
  EXPECT_THAT(names(), UnorderedElementsAre("null", "link"));
}

TEST_F(Outputs, AFifoIsWrittenIntoAndStaysOne) {
  ASSERT_EQ(mkfifo(at("fifo").c_str(), 0600), 0);
  auto reader = std::async(std::launch::async, [&] { return read(at("fifo")); });
  EXPECT_TRUE(is_written_into(at("fifo")));
  write_file(at("fifo"), "through the pipe");
  EXPECT_EQ(reader.get(), "through the pipe");
  EXPECT_EQ(type_of(at("fifo")), S_IFIFO);
  EXPECT_THAT(names(), UnorderedElementsAre("fifo"));
}

TEST_F(Outputs, ASymbolicLinkStaysAndItsTargetIsWritten) {
  fs::create_directory(at("there"));
  make(at("there/f"), "old");
  fs::create_symlink("there/f", at("link"));
  fs::create_symlink(at("link"), at("link to link"));
  EXPECT_FALSE(is_written_into(at("link to link")));
  write_file(at("link to link"), "new");
  EXPECT_EQ(read(at("there/f")), "new");
  EXPECT_EQ(type_of(at("link")), S_IFLNK);
  EXPECT_EQ(type_of(at("link to link")), S_IFLNK);
  EXPECT_EQ(type_of(at("there/f")), S_IFREG);
  // A link that points at nothing yet makes what it points at.
  fs::create_symlink("there/new", at("dangling"));
  write_file(at("dangling"), "made");
  EXPECT_EQ(read(at("there/new")), "made");
  EXPECT_EQ(type_of(at("dangling")), S_IFLNK);
}

TEST_F(Outputs, LinksInACircleAreAnError) {
  fs::create_symlink("b", at("a"));
  fs::create_symlink("a", at("b"));
  EXPECT_EQ(test::fault_of<MachineError>([&] { write_file(at("a"), "text", "choose another file with -o"); }),
            fmt::format("cannot write {}: Too many levels of symbolic links; choose another file with -o", at("a")));
}

TEST_F(Outputs, AnOpenFileIsWrittenIntoWhereItStands) {
  const int file = open(at("f").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  ASSERT_GE(file, 0);
  ASSERT_EQ(write(file, "first ", 6), 6);
  const std::string name = fmt::format("/proc/self/fd/{}", file);
  EXPECT_TRUE(is_written_into(name));
  write_file(name, "second");
  struct stat before {
  }, now{};
  ASSERT_EQ(fstat(file, &before), 0);
  ASSERT_EQ(stat(at("f").c_str(), &now), 0);
  EXPECT_EQ(before.st_ino, now.st_ino);
  close(file);
  EXPECT_EQ(read(at("f")), "first second");
}

TEST_F(Outputs, ASocketAndAFolderAreRefused) {
  const int file = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  ASSERT_GE(file, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  ASSERT_LT(at("s").size(), sizeof(address.sun_path));
  std::strcpy(address.sun_path, at("s").c_str());
  ASSERT_EQ(bind(file, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  close(file);
  for (const auto& call : {std::function<void()>([&] { write_file(at("s"), "text", "choose another file with -o"); }),
                           std::function<void()>([&] { check_outputs({at("s")}, "choose another file with -o"); })})
    EXPECT_EQ(test::fault_of(call),
              fmt::format("error: cannot write {}: it is a socket, not a file\n  help: choose another file with -o", at("s")));
  EXPECT_EQ(type_of(at("s")), S_IFSOCK);
  EXPECT_EQ(test::fault_of([&] { write_file(folder_, "text"); }),
            fmt::format("error: cannot write {}: it is a folder, not a file", folder_));
  EXPECT_EQ(test::fault_of([&] { write_file(at("new/"), "text"); }),
            fmt::format("error: cannot write '{}': this names no file", at("new/")));
  EXPECT_FALSE(fs::exists(at("new")));
}

TEST_F(Outputs, NoInputIsReplacedUnderAnyName) {
  make(at("in.yaml"), "mine");
  fs::create_symlink("in.yaml", at("link"));
  fs::create_hard_link(at("in.yaml"), at("hard"));
  fs::create_directory(at("sub"));
  const InputRegistry inputs;
  report_file_read(at("in.yaml"));
  for (const char* name : {"in.yaml", "sub/../in.yaml", "link", "hard"})
    EXPECT_EQ(test::fault_of([&] { write_file(at(name), "text", "choose another file with -o"); }),
              fmt::format("error: the output {} would replace the input {}\n  help: choose another file with -o", at(name),
                          at("in.yaml")));
  EXPECT_EQ(
      test::fault_of([&] {
        check_outputs(folder_, {"other", "in.yaml"}, "choose another folder with -o");
      }),
      fmt::format("error: the output {0} would replace the input {0}\n  help: choose another folder with -o", at("in.yaml")));
  EXPECT_EQ(read(at("in.yaml")), "mine");
  write_file(at("other.yaml"), "text");  // everything else may be written
  EXPECT_EQ(read(at("other.yaml")), "text");
}

TEST_F(Outputs, AFolderThatIsNotThereYetHidesNothing) {
  ASSERT_EQ(mkfifo(at("fifo").c_str(), 0600), 0);
  make(at("in"), "mine");
  const InputRegistry inputs;
  register_input(at("in"));
  EXPECT_TRUE(is_written_into(at("new/../fifo")));
  fs::create_symlink("new/../fifo", at("link"));
  EXPECT_TRUE(is_written_into(at("link")));
  EXPECT_EQ(test::fault_of([&] { check_outputs({at("new/../in")}); }),
            fmt::format("error: the output {} would replace the input {}", at("new/../in"), at("in")));
  EXPECT_EQ(test::fault_of([&] { write_file(at("new/../in"), "text"); }),
            fmt::format("error: the output {} would replace the input {}", at("new/../in"), at("in")));
  EXPECT_EQ(read(at("in")), "mine");
}

TEST_F(Outputs, WithoutACallThatKeepsItsInputsTheyMayBeReplaced) {
  make(at("f"), "old");
  {
    const InputRegistry inputs;
    register_input(at("f"));
  }
  register_input(at("f"));
  write_file(at("f"), "new");
  EXPECT_EQ(read(at("f")), "new");
}

TEST_F(Outputs, TwoOutputsOfOneCallAreTwoFiles) {
  EXPECT_EQ(test::fault_of([&] {
              check_outputs({at("f"), at("x/../f")}, "choose another file with -o");
            }),
            fmt::format("error: the outputs {} and {} are one file\n  help: choose another file with -o", at("f"), at("x/../f")));
  check_outputs({at("f"), at("g")});
}

TEST_F(Outputs, WhereNoFileCanBeMadeIsReportedBefore) {
  make(at("file"), "in the way");
  EXPECT_EQ(test::fault_of<MachineError>([&] { check_outputs({at("file/x")}, "choose another file with -o"); }),
            fmt::format("cannot write {}: Not a directory; choose another file with -o", at("file/x")));
  EXPECT_EQ(test::fault_of<MachineError>([&] { check_outputs(at("file"), {"x"}, "choose another folder with -o"); }),
            fmt::format("cannot make the folder {}: Not a directory; choose another folder with -o", at("file")));
  if (geteuid() == 0) return;  // may write everywhere
  fs::permissions(folder_, fs::perms::owner_read | fs::perms::owner_exec);
  EXPECT_EQ(test::fault_of<MachineError>([&] { check_outputs({at("deep/er")}); }),
            fmt::format("cannot write {}: Permission denied", at("deep/er")));
  fs::permissions(folder_, fs::perms::owner_all);
}

}  // namespace
}  // namespace panpipe
