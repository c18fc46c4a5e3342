#!/usr/bin/env python3
"""What `cmake --install` lays down works from another place than it was installed to, and holds no path of this machine.

installed_test.py BUILD_FOLDER CMAKE
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(__file__).resolve().parents[2]
BUILD, CMAKE = pathlib.Path(), ""
SCENARIO = "scenarios/examples/gpt2-large-rtx3090x8.yaml"
SMALL = "workload={model: gpt, layers: 2, hidden: 64, heads: 2, vocabulary: 256, sequence: 32}"


def install(command, **options):
    """Installs, and keeps the list that an installation by hand has left in the build folder."""
    listed = BUILD / "install_manifest.txt"
    before = listed.read_bytes() if listed.exists() else None
    run = subprocess.run(command, capture_output=True, text=True, **options)
    if before is not None:
        listed.write_bytes(before)
    elif listed.exists():
        listed.unlink()
    return run


class Installed(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="panpipe-installed-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        first = cls.folder / "first"
        run = install([CMAKE, "--install", BUILD, "--prefix", first])
        if run.returncode:
            raise RuntimeError(run.stderr)
        cls.prefix = cls.folder / "moved here"
        first.rename(cls.prefix)
        cls.program = cls.prefix / "bin" / "panpipe"
        # Nothing of this machine's settings: what is found is found from the program.
        cls.environment = {"PATH": "/usr/bin:/bin", "HOME": str(cls.folder), "LC_ALL": "C.UTF-8"}

    def run_bare(self, *command, **environment):
        env = {**self.environment, **environment}
        return subprocess.run(command, cwd=self.folder, env=env, capture_output=True, text=True)

    def panpipe(self, *arguments, **environment):
        return self.run_bare(self.program, *arguments, **environment)

    def answer(self, *arguments, **environment):
        run = self.panpipe(*arguments, **environment)
        self.assertEqual((run.returncode, run.stderr), (0, ""), arguments)
        return run.stdout

    def require(self, part):
        if not (self.prefix / "lib/panpipe" / part).exists():
            self.skipTest(f"this build has no {part}")

    def test_predictions_come_from_the_moved_prefix(self):
        document = json.loads(self.answer("estimate", SCENARIO, "--json"))
        self.assertGreater(document["metrics"]["step_time_s"], 0)
        files = list(document["context"]["hashes"])
        self.assertGreater(len(files), 2)  # the scenario, its cluster, the cluster's device
        for file in files:
            self.assertTrue(pathlib.Path(file).is_relative_to(self.prefix), file)
        # The name without the folder of the source tree is the same file.
        self.assertEqual(
            self.answer("estimate", SCENARIO.removeprefix("scenarios/")).splitlines()[1:],
            self.answer("estimate", SCENARIO).splitlines()[1:],
        )

    def test_the_module_that_simulates_is_found(self):
        self.require("panpipe_simgrid.so")
        self.assertIn("SimGrid", self.answer("simulate", SCENARIO))

    def test_the_executor_is_started_with_the_libtorch_that_is_found(self):
        self.require("panpipe-exec")
        built_with = dict(line.split(" ", 1) for line in (BUILD / "bin/panpipe-exec.libtorch").read_text().splitlines())
        options = "--steps 1 --transport local --device cpu --json"
        arguments = ["run", "scenarios/runs/gpt-small-cpu-x2.yaml", "--set", SMALL, *options.split()]
        run = self.panpipe(*arguments, "--no-progress", PANPIPE_LIBTORCH=built_with["folder"])
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertGreater(json.loads(run.stdout)["metrics"]["step_time_s"], 0)

        torch = self.folder / "another"
        (torch / "lib").mkdir(parents=True)
        (torch / "lib/libtorch_cpu.so").touch()
        (torch / "version.py").write_text("__version__ = '1.13.1'\n")
        refused = self.panpipe(*arguments, PANPIPE_LIBTORCH=str(torch))
        minor = ".".join(built_with["version"].split(".")[:2])
        self.assertEqual(refused.returncode, 3)
        self.assertEqual(
            refused.stderr,
            f"panpipe: this machine cannot: the executor was built with torch {built_with['version']}, and none of version {minor}.x was found\n"
            f"  looked at PANPIPE_LIBTORCH={torch}: torch 1.13.1\n"
            f"  help: pip install 'torch=={minor}.*' in an environment that is active when panpipe runs, or name the folder of such a torch package in PANPIPE_LIBTORCH\n",
        )

    def test_no_path_of_this_machine_is_inside(self):
        paths = [os.fsencode(path) for path in (SOURCE, BUILD, self.folder / "first")]
        files = [file for file in self.prefix.rglob("*") if file.is_file()]
        self.assertIn(self.prefix / "bin/panpipe", files)
        found = [(str(file.relative_to(self.prefix)), path) for file in files for path in paths if path in file.read_bytes()]
        self.assertEqual(found, [])
        self.assertEqual([file for file in self.prefix.rglob("*") if file.is_symlink()], [])

    def test_documents_and_tools_are_there(self):
        documents = self.prefix / "share/doc/panpipe"
        for name in ("README.md", "copyright", "docs/command-line.md", "docs/models/estimate.md"):
            self.assertTrue((documents / name).is_file(), name)
        for name in ("export-model", "make-tokens"):
            tool = self.prefix / "bin" / f"panpipe-{name}"
            run = subprocess.run([sys.executable, tool, "--help"], capture_output=True, text=True)
            self.assertIn(f"usage: panpipe-{name}", run.stdout)
            self.assertTrue(os.access(tool, os.X_OK))

    def verbs(self):
        return [line.split("\t")[0] for line in self.answer("completion", "words", "--", "").splitlines()]

    def test_every_verb_has_a_page_that_man_accepts(self):
        pages = sorted(file.name.split(".")[0] for file in (self.prefix / "share/man/man1").iterdir())
        self.assertIn("estimate", self.verbs())
        self.assertEqual(pages, sorted(["panpipe"] + [f"panpipe-{verb}" for verb in self.verbs()]))
        if not shutil.which("man"):
            self.skipTest("man is not installed")
        for file in (self.prefix / "share/man/man1").iterdir():
            run = self.run_bare("man", "--warnings", "-l", file, MANPAGER="cat", MANWIDTH="100")
            self.assertEqual((run.returncode, run.stderr), (0, ""), file.name)
            self.assertIn("NAME", run.stdout)
        page = self.run_bare("man", "-l", self.prefix / "share/man/man1/panpipe-estimate.1.gz", MANPAGER="cat")
        self.assertIn("--plan FILE", page.stdout)

    def bash(self, *words):
        """What bash offers for a command line, whose words readline has cut."""
        script = (
            "source \"$1/share/bash-completion/completions/panpipe\"; shift; COMP_WORDBREAKS=$' \\t\\n\"\\'><=;|&(:'\n"
            'COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)); _panpipe "$1"; printf "%s\\n" "${COMPREPLY[@]}"'
        )
        run = self.run_bare("bash", "-c", script, "bash", self.prefix, self.program, *words)
        self.assertEqual((run.returncode, run.stderr), (0, ""))
        return run.stdout.split("\n")[:-1]

    def test_bash_completes(self):
        self.assertEqual(self.bash("est"), ["estimate"])
        self.assertEqual(self.bash("estimate", "--pl"), ["--plan"])
        self.assertEqual(self.bash("run", "x.yaml", "--transport", ""), ["local", "gloo", "nccl"])
        self.assertEqual(self.bash("run", "x.yaml", "--transport", "g"), ["gloo"])
        self.assertEqual(self.bash("schedule", "zb-"), ["zb-h1", "zb-h2", "zb-v", "zb-auto", "zb-v-auto"])
        self.assertEqual(self.bash("estimate", "examples/gpt3"), ["examples/gpt3-175b-a100x64.yaml"])
        self.assertEqual(self.bash("import", "t"), ["torchtitan", "topology"])
        # = and : are words of their own to readline, and only what follows them is replaced.
        self.assertEqual(self.bash("estimate", "x.yaml", "--set", "clus"), ["cluster="])
        self.assertEqual(self.bash("estimate", "x.yaml", "--set", "cluster", "=", "rtx3090x8-no"), ["rtx3090x8-nobridge"])
        self.assertEqual(self.bash("sweep", "x.yaml", "--over", "schedule", "=", "gpipe,1f1b-"), ["gpipe,1f1b-v"])
        # Files of the current folder are found in addition to shipped ones.
        (self.folder / "exact.yaml").touch()
        self.addCleanup((self.folder / "exact.yaml").unlink)
        self.assertEqual(self.bash("estimate", "exa")[-1], "exact.yaml")
        self.assertEqual(self.bash("estimate", "exac"), ["exact.yaml"])
        self.assertEqual(self.bash("estimate", "--plan", "exac"), ["exact.yaml"])

    def test_zsh_and_fish_accept_their_scripts(self):
        scripts = {"zsh": "share/zsh/site-functions/_panpipe", "fish": "share/fish/vendor_completions.d/panpipe.fish"}
        for script in scripts.values():
            self.assertTrue((self.prefix / script).is_file(), script)
        present = [shell for shell in scripts if shutil.which(shell)]
        if not present:
            self.skipTest("neither zsh nor fish is installed")
        for shell in present:
            run = subprocess.run([shell, "-n", self.prefix / scripts[shell]], capture_output=True, text=True)
            self.assertEqual((run.returncode, run.stderr), (0, ""), shell)

    def test_another_project_links_the_cost_model(self):
        build = self.folder / "consumer"
        consumer = SOURCE / "tests/install/consumer"
        environment = {**os.environ, "CMAKE_PREFIX_PATH": str(self.prefix)}
        for step in (["-S", consumer, "-B", build, "-DCMAKE_BUILD_TYPE=Release"], ["--build", build]):
            made = subprocess.run([CMAKE, *step], env=environment, capture_output=True, text=True)
            self.assertEqual(made.returncode, 0, made.stdout + made.stderr)
        data = (build / "data").read_text()
        self.assertEqual(data, str(self.prefix / "share/panpipe"))
        run = self.run_bare(build / "consumer", SCENARIO, PANPIPE_DATA=data)
        self.assertEqual((run.returncode, run.stderr), (0, ""))
        self.assertEqual(float(run.stdout), json.loads(self.answer("estimate", SCENARIO, "--json"))["metrics"]["step_time_s"])


class MakeInstall(unittest.TestCase):
    """tools/install, which make install and make uninstall call."""

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="panpipe-make-install-"))
        self.addCleanup(shutil.rmtree, self.folder)

    def tool(self, *arguments, **environment):
        return install([SOURCE / "tools/install", *arguments], env={**os.environ, **environment})

    def entries(self, folder):
        return sorted(str(entry.relative_to(folder)) for entry in folder.rglob("*"))

    def test_what_is_installed_is_removed_and_nothing_else(self):
        prefix = self.folder / "prefix"
        (prefix / "share").mkdir(parents=True)  # a folder that was there stays, even when it is empty
        (prefix / "bin").mkdir()
        (prefix / "bin/other").write_text("of somebody else")
        before = self.entries(prefix)
        run = self.tool("--from", BUILD, prefix)
        self.assertEqual((run.returncode, run.stderr), (0, ""))
        self.assertEqual(run.stdout, f"installed: {prefix}/bin/panpipe; to remove it: make uninstall PREFIX={prefix}\n")
        laid_down = self.entries(prefix)
        self.assertTrue(
            set(laid_down) > {"bin/panpipe", "share/panpipe/clusters", "lib/panpipe/installed", "share/man/man1/panpipe.1.gz"}
        )

        # A newer release without some file: here an older one that had it.
        record = prefix / "lib/panpipe/installed"
        record.write_text(record.read_text() + "share/panpipe/gone/old.yaml\nshare/panpipe/gone/\n")
        (prefix / "share/panpipe/gone").mkdir()
        (prefix / "share/panpipe/gone/old.yaml").touch()
        (prefix / "share/panpipe/clusters/mine.yaml").touch()
        self.assertEqual(self.tool("--from", BUILD, prefix).returncode, 0)
        self.assertEqual(self.entries(prefix), sorted([*laid_down, "share/panpipe/clusters/mine.yaml"]))

        moved = self.folder / "moved"
        prefix.rename(moved)
        run = self.tool("--remove", moved)
        self.assertEqual((run.returncode, run.stdout), (0, f"removed from {moved}\n"))
        mine = ["share/panpipe", "share/panpipe/clusters", "share/panpipe/clusters/mine.yaml"]
        self.assertEqual(self.entries(moved), sorted(before + mine))

        run = self.tool("--remove", moved)
        self.assertEqual(
            (run.returncode, run.stderr), (2, f"install: nothing to remove: {moved}/lib/panpipe/installed is not there\n")
        )

    def test_a_staged_installation_stays_below_the_stage(self):
        stage = self.folder / "stage"
        self.assertEqual(self.tool("--from", BUILD, "/usr", DESTDIR=str(stage)).returncode, 0)
        self.assertTrue((stage / "usr/bin/panpipe").is_file())
        completion = "vendor-completions" if pathlib.Path("/etc/debian_version").exists() else "site-functions"
        self.assertTrue((stage / "usr/share/zsh" / completion / "_panpipe").is_file())
        self.assertEqual(self.tool("--remove", "/usr", DESTDIR=str(stage)).returncode, 0)
        self.assertEqual(self.entries(stage), ["usr"])

    def test_a_prefix_that_cannot_be_written_is_told(self):
        (self.folder / "file").touch()
        run = self.tool("--from", BUILD, self.folder / "file/prefix")
        self.assertEqual(
            (run.returncode, run.stderr),
            (3, f"install: {self.folder}/file/prefix cannot be written; become root, or choose another PREFIX\n"),
        )
        run = self.tool()
        self.assertEqual(
            (run.returncode, run.stderr),
            (2, "install: one prefix is expected: tools/install [--remove | --from FOLDER] PREFIX\n"),
        )


if __name__ == "__main__":
    BUILD, CMAKE = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2]
    unittest.main(argv=[sys.argv[0], "-v", *sys.argv[3:]])
