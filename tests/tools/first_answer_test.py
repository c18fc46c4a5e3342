#!/usr/bin/env python3
"""make demo answers early: what it builds, in which order it goes, and what it prints when LibTorch cannot be had.

    first_answer_test.py BUILD-FOLDER

The order is taken from a run of tools/demo in which setting up, building and the program itself are stand-ins that write down that
they were called. No network, nothing compiled."""

import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(sys.argv.pop(1)).resolve() if len(sys.argv) > 1 else None
TEST_PACKAGES = {"libgtest-dev", "libgmock-dev", "libbenchmark-dev"}

# Stand-ins. Each appends its name and arguments to the file `calls`.
SETUP = """#!/bin/bash
echo "setup $*" >>calls
case "$*" in
  *--check*) exit $(cat there) ;;
  *--libtorch*) echo $$ >pid; echo "setup: pip works"; 
    # Done when all that needs no LibTorch has run, three simulations, or when nobody else gets on.
    for turn in $(seq $(cat turns)); do [ $(grep -c "panpipe simulate" calls) -lt 3 ] || break; sleep 0.05; done
    echo "libtorch ends" >>calls; cat words; exit $(cat code) ;;
esac
"""
BUILDER = """#!/bin/bash
echo "build $*" >>calls
"""
PANPIPE = """#!/bin/bash
echo "panpipe $1 $2" >>calls
echo "step time 1 s"
"""


class Sandbox:
    """A source tree with tools/demo as it is and stand-ins for all that it calls."""

    def __init__(self, there=1, turns=0, code=0, words=""):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="panpipe-demo-"))
        for path, text in {
            "tools/setup": SETUP,
            "tools/build": BUILDER,
            "build/release/bin/panpipe": PANPIPE,
        }.items():
            file = self.folder / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
            file.chmod(0o755)
        shutil.copy(ROOT / "tools/demo", self.folder / "tools/demo")
        for name, value in {"there": there, "turns": turns, "code": code, "words": words, "calls": ""}.items():
            (self.folder / name).write_text(f"{value}\n" if name != "calls" else "")

    def start(self, **environment):
        return subprocess.Popen(
            [self.folder / "tools/demo"],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
            env={**os.environ, "PANPIPE_NO_TORCH": "", **environment},
        )

    def run(self, **environment):
        process = self.start(**environment)
        out, _ = process.communicate(timeout=60)
        return process.returncode, out

    def calls(self):
        return (self.folder / "calls").read_text().splitlines()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.folder, ignore_errors=True)


def output(*command, **environment):
    env = {**os.environ, **environment}
    return subprocess.run(command, capture_output=True, text=True, check=True, env=env).stdout


def setup_list(*arguments, **environment):
    return set(output(ROOT / "tools/setup", "--list", *arguments, **{"PANPIPE_NO_TORCH": "", **environment}).split())


class Demo(unittest.TestCase):
    def position(self, calls, start):
        found = [i for i, call in enumerate(calls) if call.startswith(start)]
        self.assertTrue(found, f"no call '{start}' in {calls}")
        return found[0]

    def test_first_prediction_does_not_wait_for_libtorch(self):
        # LibTorch is there only when what predicts has been shown; the executor is not begun before.
        with Sandbox(turns=600) as demo:
            code, out = demo.run()
            calls = demo.calls()
        self.assertEqual(code, 0, out)
        ends = self.position(calls, "libtorch ends")
        self.assertEqual(calls[0], "setup --packages --programs")
        self.assertLess(
            self.position(calls, "setup --libtorch --run-only"), self.position(calls, "build --without-executor panpipe")
        )
        self.assertLess(self.position(calls, "build --without-executor panpipe"), self.position(calls, "panpipe estimate"))
        for verb in ("estimate", "simulate"):
            self.assertLess(self.position(calls, f"panpipe {verb}"), ends)
        self.assertLess(ends, self.position(calls, "build panpipe-exec"))
        self.assertLess(self.position(calls, "build panpipe-exec"), self.position(calls, "panpipe profile"))
        self.assertRegex(out, r"demo: the first prediction, \d+:\d\d min after the start")
        # Nothing that it does not run: of the build only these.
        self.assertEqual(
            [call for call in calls if call.startswith("build")], ["build --without-executor panpipe", "build panpipe-exec"]
        )

    def test_libtorch_that_is_there_is_not_installed(self):
        with Sandbox(there=0) as demo:
            code, out = demo.run()
            calls = demo.calls()
        self.assertEqual(code, 0, out)
        self.assertEqual(
            [call for call in calls if call.startswith("setup")],
            ["setup --packages --programs", "setup --libtorch --run-only --check"],
        )
        self.assertEqual([call for call in calls if call.startswith("build")], ["build panpipe", "build panpipe-exec"])

    def test_libtorch_that_fails_ends_in_words_behind_what_could_be_shown(self):
        with Sandbox(code=3, words="setup: pip could not install torch==2.11.0; advice") as demo:
            code, out = demo.run()
            calls = demo.calls()
        self.assertEqual(code, 3, out)  # as tools/setup: this machine cannot
        self.assertIn("left out: LibTorch could not be installed, setup: pip could not install torch==2.11.0; advice", out)
        self.assertEqual(len([call for call in calls if call.startswith("panpipe simulate")]), 3)
        self.assertNotIn("build panpipe-exec", calls)
        self.assertFalse([call for call in calls if call.startswith("panpipe profile")])
        self.assertIn("panpipe report out/demo/gpt2-simulate", calls)

    def test_without_libtorch_on_request(self):
        with Sandbox() as demo:
            code, out = demo.run(PANPIPE_NO_TORCH="1")
            calls = demo.calls()
        self.assertEqual(code, 0, out)
        self.assertFalse([call for call in calls if "libtorch" in call])
        self.assertIn("left out on request (PANPIPE_NO_TORCH)", out)

    def test_interrupt_ends_the_installation_too(self):
        with Sandbox(turns=600) as demo:
            # The program takes its time, so that the installer is there.
            (demo.folder / "build/release/bin/panpipe").write_text('#!/bin/bash\necho "panpipe $1" >>calls\nsleep 30\n')
            process = demo.start()
            pid = demo.folder / "pid"
            until = time.monotonic() + 30
            while not (pid.exists() and pid.read_text().strip() and "panpipe estimate" in " ".join(demo.calls())):
                self.assertLess(time.monotonic(), until, demo.calls())
                time.sleep(0.02)
            installer = int(pid.read_text())
            os.killpg(process.pid, signal.SIGINT)  # as Ctrl-C: to the foreground group, where the installer is not
            process.communicate(timeout=30)
            self.assertEqual(process.returncode, 130)
            until = time.monotonic() + 30
            while pathlib.Path(f"/proc/{installer}/cmdline").exists() and pathlib.Path(f"/proc/{installer}/cmdline").read_bytes():
                self.assertLess(time.monotonic(), until, "the installer outlives the demo")
                time.sleep(0.02)

    def test_stages_are_listed(self):
        out = output(ROOT / "tools/demo", "--stages").split()
        stages = "packages libtorch program estimate simulate contention gpt3 executor loop selftest pictures"
        self.assertEqual(out, stages.split())


class Setup(unittest.TestCase):
    def test_programs_need_no_package_of_tests(self):
        self.assertEqual(setup_list() - setup_list("--programs"), TEST_PACKAGES)
        self.assertEqual(setup_list("--programs") - setup_list(), set())

    def test_no_torch_needs_no_virtual_environment(self):
        self.assertIn("python3-venv", setup_list())
        self.assertNotIn("python3-venv", setup_list(PANPIPE_NO_TORCH="1"))

    def test_what_runs_need_is_enough_for_the_demo_only(self):
        # A torch package without its CUDA libraries is all that --run-only wants, and not all that tests and GPUs want.
        with tempfile.TemporaryDirectory() as folder:
            tree = pathlib.Path(folder)
            shutil.copytree(ROOT / "tools", tree / "tools", ignore=shutil.ignore_patterns("__pycache__"))
            site = tree / ".venv/lib/python3.11/site-packages"
            for path in (
                "torch-2.11.0.dist-info/RECORD",
                "torch/lib/libtorch_cpu.so",
                "torch/lib/libc10.so",
                "torch/include/ATen/ATen.h",
                "nvidia/cu13/include/crt/host_config.h",
            ):
                (site / path).parent.mkdir(parents=True, exist_ok=True)
                (site / path).touch()
            version = site / "torch/include/torch/headeronly/version.h"
            version.parent.mkdir(parents=True)
            version.write_text("#define TORCH_VERSION_MAJOR 2\n#define TORCH_VERSION_MINOR 11\n#define TORCH_VERSION_PATCH 0\n")
            environment = {
                key: value for key, value in os.environ.items() if key not in ("VIRTUAL_ENV", "CONDA_PREFIX", "PANPIPE_LIBTORCH")
            }
            environment["PANPIPE_NO_TORCH"] = ""

            def missing(*arguments):
                return subprocess.run([tree / "tools/setup", "--libtorch", "--check", *arguments], env=environment).returncode

            self.assertEqual((missing(), missing("--run-only")), (0, 0))
            (site / "nvidia/cu13/include/crt/host_config.h").rename(
                site / "elsewhere"
            )  # without it the module for GPUs cannot be compiled
            self.assertEqual((missing(), missing("--run-only")), (1, 0))
            (site / "elsewhere").rename(site / "nvidia/cu13/include/crt/host_config.h")
            (tree / ".venv/without-cuda-libraries").touch()
            self.assertEqual((missing(), missing("--run-only")), (1, 0))
            (site / "torch-2.11.0.dist-info/RECORD").unlink()  # broken off
            self.assertEqual(missing("--run-only"), 1)

    def test_unknown_arguments_are_named(self):
        for tool, argument in (("setup", "--no-such"), ("build", "--no-such"), ("demo", "--no-such")):
            out = subprocess.run([ROOT / "tools" / tool, argument], capture_output=True, text=True)
            self.assertEqual(out.returncode, 2)
            self.assertIn(f"{tool}: unknown", out.stderr)
            self.assertIn("'--no-such'; known: --", out.stderr)


class Make(unittest.TestCase):
    def test_help_lists_every_command(self):
        text = (ROOT / "Makefile").read_text()
        commands = {name for line in re.findall(r"^\.PHONY:(.*)$", text, re.M) for name in line.split()}
        lines = output("make", "-s", "-C", ROOT, "help").splitlines()
        self.assertEqual({line.split()[0] for line in lines if not line.startswith("make")}, commands)

    def test_programs_are_built_without_tests(self):
        out = output("make", "-s", "-n", "-C", ROOT, "build", "PROGRAMS=1")
        self.assertIn("tools/setup --programs", out)
        self.assertIn("tools/build programs", out)


@unittest.skipUnless(BUILD and shutil.which("ninja") and (BUILD / "build.ninja").exists(), "not a build folder of ninja")
class Targets(unittest.TestCase):
    def objects(self, target):
        return set(re.findall(r" -o (\S+\.o)\b", output("ninja", "-C", BUILD, "-t", "commands", target)))

    def test_programs_contain_no_test_and_no_benchmark(self):
        programs = self.objects("programs")
        self.assertTrue(any(name.startswith("cli/") for name in programs))
        self.assertEqual({name for name in programs if name.split("/")[0] in ("tests", "bench")}, set())

    def test_the_first_prediction_needs_nothing_of_the_executor(self):
        self.assertEqual(
            {name for name in self.objects("panpipe") if name.startswith(("exec/engine/", "exec/CMakeFiles/"))}, set()
        )


if __name__ == "__main__":
    unittest.main(verbosity=2)
