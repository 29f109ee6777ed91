"""The child process of the sandbox (``sandbox.py``): a separate script that imports nothing of the package.

It reads a job from standard input, gives up privileges, and runs the parts of the program one after the other with shared
global variables. It reports on its original standard output; the program itself sees the null device instead.
"""

import ctypes
import json
import os
import resource
import signal
import sys
from types import FrameType
from typing import Any

NEW_USER, NEW_IPC, NEW_PID, NEW_NET = 0x10000000, 0x08000000, 0x20000000, 0x40000000
PARENT_DEATH_SIGNAL = 1
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
REFUSED = (
    "socket.", "subprocess.", "pty.", "os.exec", "os.fork", "os.posix_spawn", "os.spawn", "os.system", "os.kill", "os.startfile",
    "signal.pthread_kill",
)  # fmt: skip
"""Prefixes of the audit events of networks, other processes and signals."""
PATHS = {
    "os.remove": 1, "os.rename": 2, "os.rmdir": 1, "os.mkdir": 1, "os.truncate": 1, "os.chmod": 1, "os.chown": 1, "os.link": 2,
    "os.symlink": 2, "os.utime": 1, "shutil.rmtree": 1, "shutil.move": 2,
}  # fmt: skip
"""Audit events that change files, and the number of their first arguments that are paths."""
SPARE_PROCESSES = 64


def main() -> None:
    """Run the job and report each part that ends without an error, or the exception of the first that does not."""
    job = json.loads(sys.stdin.buffer.read())
    report = os.dup(1)
    nowhere = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(nowhere, standard)
    processes = own_threads() + SPARE_PROCESSES
    isolated = isolate(job["seconds"])
    limit(job, processes)
    guard(os.path.realpath(os.getcwd()))

    def tell(**said: Any) -> None:
        os.write(report, (json.dumps({"key": job["key"], **said}) + "\n").encode())

    tell(isolated=isolated)
    namespace: dict[str, Any] = {"__name__": "__main__"}
    for index, part in enumerate(job["parts"]):
        try:
            exec(compile(part, f"<part {index}>", "exec", dont_inherit=True), namespace)
        except BaseException as error:
            tell(raised=type(error).__name__, message=str(error)[:500])
            os._exit(1)
        tell(done=index)
    os._exit(0)


def isolate(seconds: float) -> bool:
    """Enter new namespaces, without a network or other processes; return False if the kernel does not allow it."""
    libc = ctypes.CDLL(None, use_errno=True)
    if not sys.platform.startswith("linux") or libc.unshare(NEW_USER | NEW_NET | NEW_PID | NEW_IPC) != 0:
        return False
    wait_for_child()
    # This is the first process of the namespace: when it ends, so do all others, even those that left the process group.
    libc.prctl(PARENT_DEATH_SIGNAL, signal.SIGKILL)
    signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, seconds + 1)
    wait_for_child()
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    return True


def wait_for_child() -> None:
    """Fork: the child returns, the parent waits for the child's end and exits."""
    if child := os.fork():
        os.waitpid(child, 0)
        os._exit(0)


def end(signum: int, frame: FrameType | None) -> None:
    """Exit immediately."""
    os._exit(1)


def limit(job: dict[str, Any], processes: int) -> None:
    """Set the kernel's resource limits."""
    seconds = int(job["seconds"]) + 1
    wanted = {
        resource.RLIMIT_AS: job["memory"],
        resource.RLIMIT_CPU: seconds,
        resource.RLIMIT_FSIZE: job["file_size"],
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_NOFILE: 256,
        resource.RLIMIT_NPROC: processes,
    }
    for what, most in wanted.items():
        hard = resource.getrlimit(what)[1]
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(what, (most, most))


def own_threads() -> int:
    """Count the threads that this user runs: the kernel's limit of processes counts them all, of every program."""
    count, user = 0, os.getuid()
    for process in filter(str.isdigit, os.listdir("/proc") if os.path.isdir("/proc") else ()):
        try:
            if os.stat(f"/proc/{process}").st_uid == user:
                count += len(os.listdir(f"/proc/{process}/task"))
        except OSError:
            continue  # it has ended meanwhile
    return count


def guard(folder: str) -> None:
    """Refuse sockets, processes, signals and changes to files outside the folder, by an audit hook of Python."""

    def inside(path: Any) -> bool:
        if isinstance(path, int):
            return True
        real = os.path.realpath(os.fsdecode(path))
        return real == folder or real.startswith(folder + os.sep) or real == os.devnull

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open":
            path, _, flags = arguments
            if flags & WRITING and not inside(path):
                raise PermissionError(f"the sandbox does not let {path!r} be written")
        elif event in PATHS:
            if not all(inside(path) for path in arguments[: PATHS[event]]):
                raise PermissionError(f"the sandbox does not allow {event} of {arguments[0]!r}")
        elif event.startswith(REFUSED):
            raise PermissionError(f"the sandbox does not allow {event}")

    sys.addaudithook(hook)


if __name__ == "__main__":
    main()
