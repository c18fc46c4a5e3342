#!/usr/bin/env python3
"""tools/try-on: wrong arguments, each reason why no root can be made, and tries in a small root. Nothing is downloaded.

try_on_test.py
"""

import contextlib
import functools
import http.server
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile
import threading
import unittest

TOOL = pathlib.Path(__file__).resolve().parents[2] / "tools/try-on"
ROOT = os.geteuid() == 0
# What the tool calls before it makes a root.
NEEDED = ["debootstrap", "unshare", "setpriv", "chroot", "mount", "tar", "flock", "git", "wget", "apt-get", "apt-config"]
BASICS = ["bash", "env", "dirname", "id", "sed", "sh", "mkdir", "sort", "tail", "rm", "sleep", "gpgv", "dpkg", "true"]


def try_on(*arguments, **environment):
    return subprocess.run([TOOL, *arguments], capture_output=True, text=True, timeout=120, env={**os.environ, **environment})


class Arguments(unittest.TestCase):
    def refuses(self, arguments, message):
        done = try_on(*arguments)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (2, "", f"try-on: {message}\n"))

    def test_suite(self):
        self.refuses([], "which suite? Known: bookworm trixie forky")
        self.refuses(["trixy"], "unknown suite 'trixy'; known: bookworm trixie forky")

    def test_command_is_one_word(self):
        self.refuses(
            ["trixie", "make", "demo"], "one COMMAND is expected, 'demo' is left over; put quotes around the whole of it"
        )
        self.refuses(["trixie", "make demo", "--root-only"], "--root-only runs no COMMAND, but 'make demo' is given")

    def test_options(self):
        self.refuses(
            ["--fast", "trixie"], "unknown option '--fast'; known: --keep, --ccache DIR, --lend DIR, --root-only, --help"
        )
        self.refuses(["trixie", "--ccache"], "--ccache needs a folder")
        self.refuses(["trixie", "--lend"], "--lend needs a folder")
        self.refuses(["trixie", "--lend", "/no/such"], "--lend /no/such: there is no such folder")

    def test_help_is_the_head_of_the_file(self):
        done = try_on("--help")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("tools/try-on SUITE [COMMAND]", done.stdout)
        self.assertTrue(done.stdout.endswith("2 for wrong arguments.\n"), done.stdout[-80:])


class NoRoot(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def skips(self, done, reason):
        self.assertEqual(
            (done.returncode, done.stdout, done.stderr), (3, "", f"try-on: no root of trixie can be made here: {reason}\n")
        )

    def test_needs_root(self):
        if not ROOT:
            self.skips(try_on("trixie"), "it needs root")
            return
        os.chmod(self.folder, 0o755)  # the source tree may be closed to others
        (self.folder / "tools").mkdir()
        copy = shutil.copy(TOOL, self.folder / "tools/try-on")
        done = subprocess.run(
            ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", copy, "trixie"], capture_output=True, text=True
        )
        self.skips(done, "it needs root")

    @unittest.skipUnless(ROOT, "needs root")
    def test_names_the_tool_that_is_missing(self):
        for tool in BASICS + NEEDED[1:]:
            if shutil.which(tool):
                (self.folder / tool).symlink_to(shutil.which(tool))
        self.skips(try_on("trixie", PATH=str(self.folder)), "debootstrap is missing")

    def mirrored(self, sources, parts=""):
        """Runs the tool with apt's sources as given (one-line format; deb822)."""
        (self.folder / "sources.list").write_text(sources)
        (self.folder / "parts").mkdir()
        (self.folder / "parts/a.sources").write_text(parts)
        (self.folder / "apt.conf").write_text(
            f'Dir::Etc::sourcelist "{self.folder}/sources.list";\nDir::Etc::sourceparts "{self.folder}/parts";\n'
        )
        return try_on(
            "--root-only",
            "trixie",
            APT_CONFIG=str(self.folder / "apt.conf"),
            PANPIPE_ROOTS=str(self.folder / "roots"),
            no_proxy="127.0.0.1",
        )

    def can_make_roots(self):
        if not ROOT:
            self.skipTest("needs root")
        done = try_on("--root-only", "trixie", PANPIPE_ROOTS=str(self.folder / "no"), PANPIPE_MIRROR="file:///nowhere")
        self.assertEqual(done.returncode, 3)
        if "no mirror" not in done.stderr:
            self.skipTest(done.stderr.strip())

    @contextlib.contextmanager
    def server(self):
        """A mirror that has the suite's name and nothing in it."""
        (self.folder / "www/debian/dists/trixie").mkdir(parents=True)
        (self.folder / "www/debian/dists/trixie/Release").write_text("Suite: stable\n")

        class Quiet(http.server.SimpleHTTPRequestHandler):
            def log_message(self, *_):
                pass

        handler = functools.partial(Quiet, directory=self.folder / "www")
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            server.server_close()

    def test_no_mirror(self):
        self.can_make_roots()
        with self.server() as mirror:
            done = self.mirrored(f"deb {mirror}/elsewhere bookworm main\n")
        self.skips(done, "no mirror of apt's has it, or none answers (PANPIPE_MIRROR=URL names another)")

    def test_mirror_is_found_in_both_formats(self):
        """The mirror that has the suite is taken, though apt itself follows another suite; debootstrap then finds it empty."""
        self.can_make_roots()
        with self.server() as mirror:
            for sources, parts in [
                (f"deb [arch=amd64] {mirror}/debian bookworm main\n", ""),
                ("", f"Types: deb\nURIs: {mirror}/security {mirror}/debian/\nSuites: bookworm\nComponents: main\n"),
            ]:
                done = self.mirrored(sources, parts)
                shutil.rmtree(self.folder / "parts")
                self.assertEqual(done.returncode, 3, done.stderr)
                self.assertIn("try-on: no root of trixie can be made here: debootstrap failed, ", done.stderr)
                self.assertIn(f"{mirror}/debian/dists/trixie/", (self.folder / "roots/trixie.log").read_text())
                left = sorted(path.name for path in (self.folder / "roots").iterdir())
                self.assertEqual(left, ["trixie.lock", "trixie.log"])


@unittest.skipUnless(ROOT, "needs root")
class Try(unittest.TestCase):
    """Whole tries, in a root of a few of this machine's programs instead of a Debian suite."""

    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp())
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        root = cls.folder / "root"
        for name in ["dev", "proc", "sys", "root", "etc/apt/apt.conf.d", "etc/ssl/certs", "usr/local/share"]:
            (root / name).mkdir(parents=True)
        for tool in ["bash", "env", "sleep", "ls", "cat", "mount"]:
            program = pathlib.Path(shutil.which(tool)).resolve()
            linked = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout.split()
            for file in [str(program)] + [word for word in linked if word.startswith("/")]:
                place = root / ("bin/" + tool if file == str(program) else file[1:])
                place.parent.mkdir(parents=True, exist_ok=True)
                if not place.exists():
                    shutil.copy(file, place)
        cls.roots = cls.folder / "roots"
        cls.roots.mkdir()
        subprocess.run(["tar", "-C", root, "-cf", cls.roots / "forky.tar", "."], check=True)

    def run_it(self, *arguments):
        done = try_on("forky", *arguments, PANPIPE_ROOTS=str(self.roots), PANPIPE_UNSEEN="1", no_proxy="127.0.0.1")
        if "the kernel refuses" in done.stderr or done.stderr.endswith(" is missing\n"):  # this machine makes no roots
            self.skipTest(done.stderr.strip())
        return done

    def left(self):
        return sorted(path.name for path in self.roots.iterdir())

    def test_a_try(self):
        done = self.run_it("echo in $PWD, $HOME; echo unseen ${PANPIPE_UNSEEN-no}; [ -f VERSION ] && exit 7")
        lines = [re.sub("^ +[0-9]+ s  ", "", line) for line in done.stdout.splitlines()]
        self.assertEqual(done.returncode, 7, done.stderr)
        self.assertEqual(lines[:2], ["in /root/panpipe, /root", "unseen no"])
        self.assertRegex(done.stdout.splitlines()[0], r"^ +\d+ s  in ")
        self.assertRegex(lines[2], r"^try-on: forky: exit code 7 after \d+ s: echo in \$PWD")
        self.assertEqual(self.left(), ["forky.lock", "forky.tar"])

    def test_own_code_3_is_not_a_skip(self):
        done = self.run_it("exit 3")
        self.assertEqual(done.returncode, 1)
        self.assertIn("exit code 3 after", done.stdout)

    def test_devices_are_harmless_and_nothing_stays_mounted(self):
        done = self.run_it("ls /dev; echo word >/dev/null && cat /dev/null; mount")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertNotRegex(done.stdout, r"\b(sd|vd|nvme|loop|mem|kmsg)")
        self.assertNotIn(str(self.folder), pathlib.Path("/proc/mounts").read_text())

    def test_ccache_and_keep(self):
        done = self.run_it(
            "--keep", "--ccache", str(self.folder / "cache"), "echo kept >$CCACHE_DIR/object; echo here >/root/file"
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual((self.folder / "cache/object").read_text(), "kept\n")
        kept = self.roots / [name for name in self.left() if name.startswith("kept-forky-")][0]
        self.assertIn(f"try-on: the system is kept: chroot {kept}\n", done.stderr)
        self.assertEqual((kept / "root/file").read_text(), "here\n")
        shutil.rmtree(kept)

    def test_lent_folders(self):
        """Two folders are found at their places, a space in the name or not, and the command cannot write to them."""
        folders = [self.folder / "lent", self.folder / "lent too"]
        for folder in folders:
            folder.mkdir()
            (folder / "file").write_text(f"of {folder.name}\n")
        done = self.run_it(
            "--lend",
            str(folders[0]),
            "--lend",
            str(folders[1]),
            f"cat {folders[0]}/file '{folders[1]}/file'; echo spoilt >'{folders[1]}/file' || echo refused",
        )
        lines = [re.sub("^ +[0-9]+ s  ", "", line) for line in done.stdout.splitlines()]
        self.assertEqual(lines[:2], ["of lent", "of lent too"], done.stderr)
        self.assertEqual(lines[3], "refused")  # lines[2] is the shell's message
        self.assertEqual((folders[1] / "file").read_text(), "of lent too\n")
        self.assertEqual(self.left(), ["forky.lock", "forky.tar"])

    def test_a_killed_try_leaves_no_process(self):
        for kill in [signal.SIGTERM, signal.SIGKILL]:
            process = subprocess.Popen(
                [TOOL, "forky", "echo started; sleep 654321"],
                stdout=subprocess.PIPE,
                text=True,
                env={**os.environ, "PANPIPE_ROOTS": str(self.roots)},
            )
            line = process.stdout.readline()
            if not line:
                self.skipTest("the kernel refuses namespaces")
            self.assertIn("started", line)
            process.send_signal(kill)
            self.assertEqual(process.wait(timeout=60), 143 if kill == signal.SIGTERM else -kill)
            process.stdout.read()  # ends when the last process that could write has ended
            process.stdout.close()
            if kill == signal.SIGKILL:
                self.assertNotEqual(self.left(), ["forky.lock", "forky.tar"])  # nobody was there to remove the copy
                self.run_it("exit 0")  # the next try does
            self.assertEqual(self.left(), ["forky.lock", "forky.tar"])


if __name__ == "__main__":
    unittest.main()
