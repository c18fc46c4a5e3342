"""A function of the user's in a process of its own, where it may loop for ever, raise, or take all memory.

The child is a fork, so functions of a notebook work. It runs the function, writes one answer into a pipe and ends without the
interpreter's own ending: other threads of the parent, its buffers and its `atexit` are none of the child's.
"""

from __future__ import annotations

import contextlib
import gc
import io
import json
import linecache
import os
import resource
import signal
import sys
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection, Pipe
from types import FrameType, TracebackType
from typing import Any

_GRACE_S = 1.0  # for a child that got a signal to stop, before it is killed
_MOST_PRINTED = 1 << 16
_forking = threading.Lock()  # else another child of ours holds this one's pipe open


Place = Sequence[Any]  # file, line, function


class Fault(Exception):
    """What is wrong with what the function did: the answer in place of its result."""

    def __init__(self, message: str, remedy: str = "", places: Sequence[Place] = ()):
        super().__init__(message, remedy, places)
        self.message, self.remedy, self.places = message, remedy, places

    def at(self, place: "Place | None") -> "Fault":
        return Fault(self.message, self.remedy, [place] if place else [])


class _Late(BaseException):
    """The deadline, where the function is."""


def place_text(filename: str, line: int, function: str) -> str:
    source = linecache.getline(filename, line).strip()
    return f'  File "{filename}", line {line}, in {function}' + (f"\n    {source}" if source else "")


def place_in(iterator: Any) -> "Place | None":
    """Where a generator stands, in the innermost one that it yields from; None for what is none."""
    frame: FrameType | None = None
    while iterator is not None and getattr(iterator, "gi_frame", None) is not None:
        frame = iterator.gi_frame
        iterator = iterator.gi_yieldfrom
    return (frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name) if frame is not None else None


def _frames(trace: TracebackType | None) -> list[tuple[str, int, str]]:
    """Those of the user, without ours."""
    found = []
    while trace is not None:
        code = trace.tb_frame.f_code
        found.append((code.co_filename, trace.tb_lineno, code.co_name))
        trace = trace.tb_next
    ours = os.path.dirname(os.path.abspath(__file__)) + os.sep
    return [frame for frame in found if not os.path.abspath(frame[0]).startswith(ours)]


def _mib(size: int) -> str:
    return f"{size / 2**30:g} GiB" if size >= 2**30 else f"{size / 2**20:g} MiB"


def _address_space() -> int:
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")


def _limit_memory(more: int) -> None:
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    most = _address_space() + more
    resource.setrlimit(resource.RLIMIT_AS, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))


def _unlimit_memory() -> None:
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    resource.setrlimit(resource.RLIMIT_AS, (hard, hard))


def _late(signum: int, frame: FrameType | None) -> None:
    raise _Late


def _answer(work: Callable[[], Any], deadline_s: float, memory_bytes: int) -> dict[str, Any]:
    try:
        signal.signal(signal.SIGALRM, _late)
        signal.setitimer(signal.ITIMER_REAL, deadline_s)
        _limit_memory(memory_bytes)
        result = work()
        signal.setitimer(signal.ITIMER_REAL, 0)
        return {"result": result}
    except Fault as fault:
        return {"fault": fault.args}
    except BaseException as error:
        signal.setitimer(signal.ITIMER_REAL, 0)
        return {"fault": _fault_of(error, deadline_s, memory_bytes).args}
    finally:
        _unlimit_memory()


def _late_fault(deadline_s: float, places: Sequence[Place] = ()) -> Fault:
    return Fault(f"is not done after {deadline_s:g} s", "give it longer with deadline_s=", places)


def _fault_of(error: BaseException, deadline_s: float, memory_bytes: int) -> Fault:
    frames = _frames(error.__traceback__)
    traceback.clear_frames(error.__traceback__)  # they hold memory that the report needs
    _unlimit_memory()
    places = frames[-8:]
    if isinstance(error, _Late):
        return _late_fault(deadline_s, places)
    if isinstance(error, MemoryError):
        return Fault(f"takes more than {_mib(memory_bytes)} of memory", "give it more with memory_bytes=", places)
    what = "".join(traceback.format_exception_only(type(error), error)).strip()
    return Fault(f"raises {what}", "", places)


def _child(work: Callable[[], Any], pipe: Connection, deadline_s: float, memory_bytes: int) -> None:
    os.setpgid(0, 0)  # with children of its own it is killed as a group; Ctrl-C is the parent's
    gc.disable()  # finalizers of the parent's objects are the parent's
    printed = io.StringIO()
    sys.stdout = sys.stderr = printed
    answer = _answer(work, deadline_s, memory_bytes)
    answer["printed"] = printed.getvalue()[-_MOST_PRINTED:]
    pipe.send_bytes(json.dumps(answer).encode())


def _start(work: Callable[[], Any], deadline_s: float, memory_bytes: int) -> tuple[int, Connection]:
    with _forking, warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of a fork with threads: this child takes no lock of theirs
        reading, writing = Pipe(duplex=False)
        with writing:
            pid = os.fork()
            if pid == 0:
                try:
                    reading.close()
                    _child(work, writing, deadline_s, memory_bytes)
                finally:
                    os._exit(0)
        return pid, reading


def _end(pid: int, timeout_s: float = 0.0) -> int:
    """Kills what has not ended by itself until then; the wait status, 0 where the program lets nobody wait for its children."""
    try:
        return _ended(pid, timeout_s)
    except ChildProcessError:
        return 0


def _ended(pid: int, timeout_s: float) -> int:
    until = time.monotonic() + timeout_s
    while time.monotonic() < until:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            return status
        time.sleep(0.01)
    for kill in (os.killpg, os.kill):  # the group may not be there yet
        with contextlib.suppress(ProcessLookupError, PermissionError):
            kill(pid, signal.SIGKILL)
    return os.waitpid(pid, 0)[1]


def run_apart(work: Callable[[], Any], deadline_s: float, memory_bytes: int) -> Any:
    """What work() returns, as JSON has it. Fault: what it raised, or why it was stopped. What it prints is printed here."""
    pid, pipe = _start(work, deadline_s, memory_bytes)
    answer: dict[str, Any] | None = None
    late = dying = False
    try:
        late = not pipe.poll(deadline_s + _GRACE_S)
        if not late:
            answer = json.loads(pipe.recv_bytes())
    except (EOFError, OSError):
        dying = True
    finally:
        pipe.close()
        status = _end(pid, _GRACE_S if dying else 0.0)
    if late:
        raise _late_fault(deadline_s)
    if answer is None:
        code = os.waitstatus_to_exitcode(status)
        raise Fault(f"ends its process, with {signal.Signals(-code).name if code < 0 else f'exit code {code}'}")
    if answer["printed"]:
        print(answer["printed"], end="")
    if "fault" in answer:
        raise Fault(*answer["fault"])
    return answer["result"]
