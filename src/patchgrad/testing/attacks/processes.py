"""Programs that make too many processes, or do not let themselves be ended; and programs that hoard."""

from __future__ import annotations

from patchgrad.testing.attacks.attack import Attack, opens, python

PROCESSES = (
    Attack(
        "fork bomb in the shell",
        (
            "n=0; f() { [ $((n++)) -lt 400 ] && { sleep 20 & f; }; }; f 2>/dev/null; true",
            "[ $(ps -e | wc -l) -gt 200 ] && echo BREACH; echo HELD",
        ),
        3.0,  # by then a shell that may not fork waits, ever longer, to try again
        ends=("ok", "timeout", "died", "out of memory"),
    ),
    Attack(
        "fork bomb in Python",
        (
            python("""
                import os, time
                for n in range(2000):
                    try:
                        if os.fork() == 0: time.sleep(5); os._exit(0)
                    except OSError as error: print("HELD" if n < 200 else "BREACH", n, error); break
                else: print("BREACH", n)
            """),
        ),
    ),
    Attack(
        "threads without end",
        (
            python("""
                import threading, time
                n = 0
                try:
                    for n in range(3000): threading.Thread(target=time.sleep, args=(3,), daemon=True).start()
                    print("BREACH", n)
                except (RuntimeError, MemoryError) as error: print("HELD" if n < 1500 else "BREACH", n, error, flush=True)
                import os; os._exit(0)
            """),
        ),
    ),
    Attack(
        "daemons that outlive their command",
        (
            "(setsid sleep 321 &) ; setsid sh -c 'trap \"\" TERM HUP INT; sleep 321 & sleep 321' & sleep 321",
            "ps -e | grep -q sleep && echo BREACH; echo HELD",
        ),
        seconds=1.0,
        ends=("ok",),
    ),
    Attack("a command that ignores signals", ("trap '' TERM INT HUP QUIT; while :; do sleep 1; done",), 1.0, ("timeout",)),
    Attack("a command that never ends", ("while :; do :; done",), 1.0, ("timeout",)),
    Attack("a command that waits for input", ("read -r line; cat; echo HELD",)),
    Attack("kill everybody", ("kill -9 -1; echo HELD",), ends=("ok", "died")),
    Attack("kill the shell", ("kill -9 $$",), ends=("died",)),
    Attack("replace the shell", ("exec true",), ends=("died",)),
    Attack("close what the shell speaks through", ("exec 0<&- 1<&- 2<&-; exit", "echo HELD")),
    Attack(
        "take the shell's words away",
        (
            "eval() { echo BREACH; }; printf() { :; }; read() { :; }; builtin() { :; }; continue() { :; }; trap 'echo' DEBUG; set -e; set -f; false",
            "command true",
            "echo HELD",
        ),
        2.0,
        ("ok", "died", "timeout"),
    ),
    Attack(
        "make the shell's variables read-only",
        ("readonly __turn __code __command IFS PWD; true", "true", "echo HELD"),
        2.0,
        ("ok", "died", "timeout"),
    ),
    Attack(
        "speak through a descriptor that was left open",
        (
            "for fd in /proc/$$/fd/*; do [ -S $fd ] && echo BREACH $fd; done; true",
            python("""
                import os, stat
                kept = []
                for name in os.listdir("/proc/self/fd"):
                    try: kept += [name] if stat.S_ISSOCK(os.fstat(int(name)).st_mode) else []
                    except OSError: pass
                print("BREACH" if kept else "HELD", kept)
            """),
        ),
    ),
    Attack("leave quotes open", ("echo 'abc", 'echo "', "cat <<X", "echo HELD")),
    Attack(
        "end or stop process 1",
        (
            "kill -9 1; kill -STOP 1; kill -SEGV 1; kill -USR1 1; kill -TERM 1; sleep 0.2; kill -0 1 && [ $(ps -o stat= -p 1 | cut -c1) = T ] && echo BREACH; echo HELD",
        ),
    ),
    Attack(
        "slow process 1 down",
        (
            python("""
                import os
                was = os.getpriority(os.PRIO_PROCESS, 1)
                for which, who in ((os.PRIO_PROCESS, 1), (os.PRIO_USER, 0)):
                    try: os.setpriority(which, who, 19)
                    except OSError: pass
                try: os.sched_setaffinity(1, {0}); print("BREACH affinity")
                except OSError: pass
                try: import resource; resource.prlimit(1, resource.RLIMIT_NOFILE, (3, 3)); print("BREACH limits")
                except OSError: pass
                print("HELD" if os.getpriority(os.PRIO_PROCESS, 1) == was else "BREACH priority")
            """),
        ),
    ),
    opens("read process 1", "/proc/1/mem", "/proc/1/environ", "/proc/1/maps", "/proc/1/fd/0", "/proc/1/root/etc/hostname", mode="rb"),
    Attack(
        "a flood of zombies and signals",
        (
            python("""
                import os, signal
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                made = 0
                for n in range(300):
                    try:
                        pid = os.fork()
                    except OSError: break
                    if pid == 0: os._exit(0)
                    made += 1
                for n in range(1000):
                    try: os.kill(1, signal.SIGCHLD)
                    except OSError: break
                print("HELD" if made < 250 else "BREACH", made)
            """),
        ),
    ),
    Attack(
        "real-time priority and locked memory",
        (
            python("""
                import ctypes, os
                try: os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(50)); print("BREACH scheduler")
                except OSError: pass
                try: os.nice(-10); print("BREACH nice")
                except OSError: pass
                libc = ctypes.CDLL(None); size = 128 << 20; libc.mmap.restype = ctypes.c_void_p
                print("BREACH lock" if libc.mlockall(3) == 0 and libc.mmap(None, ctypes.c_size_t(size), 3, 34, -1, 0) != ctypes.c_void_p(-1).value else "HELD")
            """),
        ),
        ends=("ok", "died", "out of memory"),
    ),
)

HOARDING = (
    Attack(
        "one process hoards memory",
        (
            python("""
        try: x = bytearray(2 << 30); print("BREACH")
        except MemoryError: print("HELD")
    """),
        ),
        ends=("ok", "died", "out of memory"),
    ),
    Attack(
        "many processes hoard memory",
        (
            python("""
            import os, time
            for n in range(24):
                try:
                    if os.fork() == 0: x = bytearray(b"x") * (60 << 20); time.sleep(6); os._exit(0)
                except OSError: break
            time.sleep(4); print("BREACH")
        """),
        ),
        ends=("died", "out of memory"),
    ),
    Attack(
        "many processes hoard shared memory",
        (
            python("""
            import mmap, os, time
            for n in range(24):
                try:
                    if os.fork() == 0:
                        block = mmap.mmap(-1, 60 << 20)
                        for at in range(0, 60 << 20, 4096): block[at] = 1
                        time.sleep(6); os._exit(0)
                except OSError: break
            time.sleep(4); print("BREACH")
        """),
        ),
        ends=("died", "out of memory"),
    ),
    Attack(
        "many processes hoard memory behind a thread that has ended",
        (
            python("""
            import ctypes, os, threading, time
            said, say = os.pipe()
            def hoard():
                while open(f"/proc/{os.getpid()}/stat").read().rpartition(")")[2].split()[0] != "Z": time.sleep(0.01)
                block = bytearray(b"x") * (60 << 20); os.write(say, b"x"); time.sleep(6)
            for n in range(24):
                try:
                    if os.fork() == 0: threading.Thread(target=hoard).start(); ctypes.CDLL(None).syscall(60, 0)
                except OSError: break
            for n in range(12): os.read(said, 1)
            time.sleep(2); print("BREACH")
        """),
        ),
        ends=("died", "out of memory"),
        machine="x86_64",
    ),
    Attack(
        "memory in files without a name",
        (
            python("""
            import os
            held, files = 0, []
            try:
                for n in range(48):
                    files.append(os.memfd_create(str(n)))
                    for part in range(32): held += os.write(files[-1], bytes(1 << 20))
            except (OSError, MemoryError) as error: print(error)
            print("BREACH" if held > 1 << 30 else "HELD", held >> 20)
        """),
        ),
        ends=("ok", "died", "out of memory"),
    ),
    Attack(
        "fill the disk",
        (
            "for i in $(seq 40); do head -c 10000000 /dev/zero > f$i || break; done 2>&1 | grep -q 'No space' && echo HELD; [ $(du -sm . | cut -f1) -gt 300 ] && echo BREACH; rm -f f*",
        ),
    ),
    Attack(
        "fill /tmp",
        (
            "for i in $(seq 40); do head -c 10000000 /dev/zero > /tmp/f$i || break; done 2>&1 | grep -q 'No space' && echo HELD; rm -f /tmp/f*",
        ),
    ),
    Attack(
        "fill shared memory",
        (
            "for i in $(seq 40); do head -c 10000000 /dev/zero > /dev/shm/f$i || break; done 2>&1 | grep -q 'No space' && echo HELD; rm -f /dev/shm/f*",
        ),
    ),
    Attack(
        "use up the inodes",
        (
            python("""
            import os
            try:
                for n in range(300_000): os.close(os.open(f"/tmp/{n}", os.O_CREAT | os.O_WRONLY))
                print("BREACH", n)
            except OSError as error: print("HELD", n, error)
        """),
        ),
        seconds=20.0,
    ),
    Attack("a file of a terabyte", ("truncate -s 1T big 2>/dev/null && head -c 1 big >/dev/null && echo BREACH; rm -f big; echo HELD",)),
    Attack("output without end", ("yes",), 1.0, ("timeout",)),
    Attack("a line without end", ("head -c 30000000 /dev/zero | tr '\\0' x; echo; echo HELD",), 20.0),
    Attack("noise that is no text", ("head -c 3000000 /dev/urandom; echo; echo HELD",), 20.0),
    Attack(
        "open files without end",
        (
            python("""
        import os
        try:
            for n in range(100_000): os.open("/dev/null", os.O_RDONLY)
            print("BREACH", n)
        except OSError as error: print("HELD", n, error)
    """),
        ),
    ),
    Attack(
        "terminals without end",
        (
            python("""
        import os
        n = 0
        try:
            while n < 500: os.open("/dev/ptmx", os.O_RDWR | os.O_NOCTTY); n += 1
        except OSError as error: print(error)
        print("HELD" if n < 100 else "BREACH", n)
    """),
        ),
    ),
    Attack(
        "timers without end",
        (
            python("""
        import ctypes, struct
        n, libc = 0, ctypes.CDLL(None)
        while n < 5000 and libc.syscall(222, 1, bytes(8) + struct.pack("ii", 0, 1) + bytes(48), ctypes.byref(ctypes.c_int())) == 0: n += 1
        print("HELD" if n < 2000 else "BREACH", n)
    """),
        ),
        machine="x86_64",
    ),
    Attack(
        "signals without end",
        (
            python("""
        import ctypes, os, signal, struct
        n, libc = 0, ctypes.CDLL(None)
        signal.pthread_sigmask(signal.SIG_BLOCK, {40})
        while n < 5000 and libc.syscall(129, os.getpid(), 40, struct.pack("iii", 40, 0, -1).ljust(128, bytes(1))) == 0: n += 1
        print("HELD" if n < 2000 else "BREACH", n)
    """),
        ),
        machine="x86_64",
    ),
    Attack(
        "sockets full of memory",
        (
            python("""
        import os, socket, time
        for _ in range(3): os.fork()
        keep = []
        try:
            for n in range(490):
                a, b = socket.socketpair(); keep += [a, b]; a.setblocking(False)
                a.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
                try:
                    while True: a.send(bytes(30000))
                except BlockingIOError: pass
        except OSError as error: print(error)
        print("HELD")
    """),
        ),
        ends=("ok", "died", "out of memory", "timeout", "lost"),
    ),
    Attack(
        "pipes full of memory",
        (
            python("""
        import fcntl, os
        held = 0
        try:
            for n in range(4000):
                reader, writer = os.pipe(); fcntl.fcntl(writer, 1031, 1 << 20); os.set_blocking(writer, False)
                held += os.write(writer, bytes(1 << 20))
        except OSError as error: print(error)
        print("BREACH" if held > 1 << 30 else "HELD", held >> 20)
    """),
        ),
        ends=("ok", "died", "out of memory"),
    ),
)
