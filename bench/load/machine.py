"""Processes on their core, and what the kernel tells about them."""

import os
import pathlib
import signal
import socket
import subprocess
import time

PROXY_CORE = 0
LOAD_CORE = 1
MOST_FILES = 20000  # descriptors of one process, and less where the hard limit is lower


class Failed(Exception):
    """What the person at the keyboard has to know."""


class Running:
    """A process of ours: started on one core, with its output in a file, ended by its id."""

    def __init__(self, name, command, core, folder, stdin=subprocess.DEVNULL, stdout=None):
        self.name = name
        self.log = folder / f"{name}.log"
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                ["taskset", "-c", str(core), *map(str, command)], stdin=stdin, stdout=stdout or log, stderr=log,
                cwd=folder, start_new_session=True)
        self.pid = self.process.pid

    def check(self):
        if self.process.poll() is not None:
            raise Failed(f"{self.name} ended with {self.process.returncode}:\n{self.log.read_text()[-2000:]}")

    def stop(self, how=signal.SIGTERM):
        if self.process.poll() is None:
            self.process.send_signal(how)
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                for pid in tree(self.pid):
                    os.kill(pid, signal.SIGKILL)
                self.process.wait()

    def wait_for_port(self, port):
        for _ in range(400):
            self.check()
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                return
            except OSError:
                time.sleep(0.05)
        raise Failed(f"{self.name} does not listen on port {port}:\n{self.log.read_text()[-2000:]}")


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


def prefer(pid, nice=-15):
    """Before other work of this machine, where we may: of its session (each of ours has one) and of the process itself."""
    for process in tree(pid):
        try:
            pathlib.Path(f"/proc/{process}/autogroup").write_text(str(nice))
            os.setpriority(os.PRIO_PROCESS, process, nice)
        except OSError:
            return


def tree(pid):
    """The process and its descendants."""
    found = [pid]
    for task in pathlib.Path(f"/proc/{pid}/task").glob("*/children"):
        for child in task.read_text().split():
            found += tree(int(child))
    return found


def cpu_us(pid):
    """Microseconds on a core so far, user and system, of all threads of the process tree: the scheduler's own account, exact
    to the nanosecond where /proc/<pid>/stat counts ticks."""
    tasks = [task for process in tree(pid) for task in pathlib.Path(f"/proc/{process}/task").iterdir()]
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1000


def pss_kb(pid):
    """Memory of the process tree in user space, shared pages divided among those who share them."""
    total = 0
    for process in tree(pid):
        for line in pathlib.Path(f"/proc/{process}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                total += int(line.split()[1])
    return total


def rss_kb(pid):
    """Memory of the process tree that is in RAM; shared pages count for each who shares them. Less to ask for than pss_kb()."""
    return sum(int(pathlib.Path(f"/proc/{process}/statm").read_text().split()[1]) for process in tree(pid)) * os.sysconf("SC_PAGESIZE") // 1024


def descriptors(pid):
    return sum(len(os.listdir(f"/proc/{process}/fd")) for process in tree(pid))


def run(command, **how):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False, **how)
    if done.returncode != 0:
        raise Failed(f"{' '.join(map(str, command))}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.stdout
