"""Programs that trick readers with links and names, ask the kernel for what it must refuse, or look for a network."""

from __future__ import annotations

from patchgrad.testing.attacks.attack import Attack, call, opens, python

TRICKS = (
    Attack(
        "a folder deeper than any path",
        (
            python("""
        import os
        for n in range(3000):
            try: os.mkdir("d"); os.chdir("d")
            except OSError: break
        print("HELD", n)
    """),
        ),
    ),
    Attack(
        "a tree of long names deeper than any path",
        (
            "n=$(printf 'n%.0s' $(seq 255)); for i in $(seq 60); do mkdir $n && cd $n && echo $i > f; done; pwd | wc -c",
            "cd /testbed; echo HELD",
        ),
    ),
    Attack(
        "names that are no text",
        ("touch $'\\xff\\xfe' $'new\\nline' -- -rf '*' ' ' \"'\"; mkdir -p $'\\x01'; ln -s $'\\xff' $'l\\xff'; echo HELD",),
    ),
    Attack("folders that nobody may read", ("mkdir -p a/b; echo x > a/b/c; chmod 000 a/b/c a/b a; echo HELD",)),
    Attack(
        "links that lead out",
        (
            "ln -s PATCHGRAD_CANARY a; ln -s ../../../../../../../..PATCHGRAD_CANARY b; ln -s /proc/self/root c; cat a b c/PATCHGRAD_CANARY 2>/dev/null | grep -q canary && echo BREACH; echo HELD",
        ),
    ),
    Attack("links in a ring, and a named pipe", ("ln -s loop loop; ln -s . self; mkfifo pipe; ln -s pipe file; echo HELD",)),
    Attack("devices", ("mknod d c 1 3 2>/dev/null && echo BREACH; mknod d b 8 0 2>/dev/null && echo BREACH; echo HELD",)),
    Attack(
        "programs that change the user",
        (
            "cp /usr/bin/id id; chmod 6755 id; ./id -u | grep -qx 0 && echo BREACH; for p in su sudo mount; do timeout 2 $p -c id </dev/null 2>/dev/null | grep -q 'uid=0' && echo BREACH; done; echo HELD",
        ),
    ),
    Attack(
        "marks of the file system underneath",
        (
            python("""
        import os
        os.makedirs("o", exist_ok=True); open("o/f", "w").close()
        for name in ("user.overlay.opaque", "user.overlay.redirect", "user.overlay.metacopy", "trusted.overlay.opaque"):
            for path in ("o", "o/f"):
                try: os.setxattr(path, name, b"y")
                except OSError: pass
        print("HELD")
    """),
        ),
    ),
    Attack(
        "files of the host",
        (
            "cat PATCHGRAD_CANARY /etc/shadow /root/.bash_history /home/*/.ssh/* 2>/dev/null | head -c 100 | grep -q . && echo BREACH; find /home /root /srv /mnt /media /var/lib /var/log -type f ! -name 'libpython*' 2>/dev/null | grep -q . && echo BREACH; echo HELD",
        ),
    ),
    Attack(
        "secrets in the environment",
        (
            "env | grep -qi 'secret\\|token\\|passw\\|api_key\\|PATCHGRAD_HOST' && echo BREACH; cat /proc/*/environ 2>/dev/null | tr '\\0' '\\n' | grep -qi 'PATCHGRAD_HOST' && echo BREACH; echo HELD",
        ),
    ),
    Attack(
        "the folders of other sandboxes",
        (
            "for f in /testbed /tmp /dev/shm /mnt /media /srv /proc/[0-9]*/cwd /proc/[0-9]*/root/tmp; do grep -rqs PATCHGRAD_OTHER $f/ && echo BREACH $f; done; echo HELD",
        ),
        30.0,
    ),
    Attack(
        "processes of other sandboxes",
        (
            "for p in /proc/[0-9]*; do tr '\\0' ' ' < $p/cmdline 2>/dev/null; done | grep -q 'sleep 98[7]65' && echo BREACH; pkill -f 'sleep 9876[5]' && echo BREACH; echo HELD",
        ),
    ),
    Attack(
        "write where everybody reads",
        (
            "for f in /x /dev/x /etc/x /usr/x /opt/python/x /run/cell/x /run/x /var/x /usr/bin/env /etc/hostname; do (echo x >> $f) 2>/dev/null && echo BREACH $f; done; echo HELD",
        ),
    ),
    Attack(
        "noise on the sandbox's own pipes",
        (
            "for i in 1 2 3; do head -c 60000 /dev/urandom | tr -d '\\n' > /run/cell/request; done 2>/dev/null; echo 1 > /run/cell/request; echo -5 > /run/cell/request; printf '9\\0007\\000/etc\\000' > /run/cell/status; head -c 60000 /dev/zero > /run/cell/go & sleep 0.2; true",
            "echo HELD",
        ),
        3.0,
        ("ok", "died", "timeout"),
    ),
    Attack(
        "the thief of commands",
        ("(while :; do cat /run/cell/go /run/cell/command; done) >/dev/null 2>&1 & sleep 0.2", "true", "echo HELD"),
        2.0,
        ("ok", "timeout", "died"),
    ),
)

KERNEL = (
    opens(
        "switches of the kernel",
        "/proc/sys/kernel/core_pattern",
        "/proc/sys/vm/drop_caches",
        "/proc/sysrq-trigger",
        "/proc/sys/kernel/hostname",
        "/proc/sys/fs/file-max",
        mode="w",
    ),
    opens(
        "memory of the machine", "/dev/mem", "/dev/kmem", "/dev/kmsg", "/proc/kcore", "/proc/kallsyms", "/dev/sda", "/dev/vda", mode="r+b"
    ),
    call("a lease on a program of all", 72, "os.open('/usr/bin/git', 0)", "1024", "1"),
    call("a lease on a file of all", 72, "os.open('/etc/passwd', 0)", "1024", "0"),
    call("a delegation of a folder of all", 72, "os.open('/usr/bin', 0)", "1040", "ctypes.create_string_buffer(16)"),
    call("notes of what others open", 72, "os.open('/usr/bin', 0)", "1026", "1"),
    call("a watch of what others open", 294, "0"),
    call("a watch of a whole file system", 300, "0x200", "0"),
    call("requests that all share", 206, "10", "ctypes.byref(ctypes.c_ulong())"),
    call("a pipe as large as all of a user's", 72, "os.pipe()[1]", "1031", "1 << 20"),
    call("a new user namespace", 272, "0x10000000"),
    call("a clone with new namespaces", 56, "0x10000000 | 17", "0", "0", "0", "0", allowed="result > 0"),
    call("a clone by the newer call", 435, "ctypes.create_string_buffer(88)", "88"),
    call("mount", 165, "b'none'", "b'/tmp'", "b'tmpfs'", "0", "0"),
    call("pivot_root", 155, "b'/tmp'", "b'/tmp'"),
    call("setns", 308, "os.open('/proc/self/ns/user', 0)", "0"),
    call("ptrace", 101, "16", "1", "0", "0"),
    call("memory of another process", 310, "1", "0", "0", "0", "0", "0", allowed="result >= 0 or ctypes.get_errno() == 14"),
    call("bpf", 321, "0", "ctypes.create_string_buffer(72)", "72"),
    call("io_uring", 425, "1", "ctypes.create_string_buffer(120)"),
    call("userfaultfd", 323, "0"),
    call("performance counters", 298, "ctypes.create_string_buffer(112)", "0", "-1", "-1", "0"),
    call("the kernel's keyring", 250, "0", "-3", "1"),
    call("shared memory of System V", 29, "0x1234", "4096", "0o1666"),
    call("message queues", 240, "b'queue'", "0o102", "0o600", "0"),
    call("load a module", 175, "b''", "0", "b''"),
    call("another kernel", 246, "0", "0", "0", "0"),
    call("the clock", 227, "0", "ctypes.create_string_buffer(16)"),
    call("the name of the machine", 170, "b'taken'", "5"),
    call("swap and quota", 167, "b'/tmp/swap'", "0"),
    call("the machine's log", 103, "3", "ctypes.create_string_buffer(64)", "64"),
    call(
        "a way around every path rule", 304, "-1", "ctypes.create_string_buffer(64)", "0", allowed="result >= 0 or ctypes.get_errno() == 9"
    ),
)

NETWORK = (
    Attack(
        "the network",
        (
            python("""
        import socket
        for family, address in ((socket.AF_INET, ("1.1.1.1", 53)), (socket.AF_INET6, ("2606:4700:4700::1111", 53))):
            for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
                try:
                    with socket.socket(family, kind) as out: out.settimeout(2); out.connect(address); out.send(b"x"); print("BREACH", address)
                except OSError as error: print("HELD", error)
    """),
        ),
    ),
    Attack(
        "a name from outside",
        (
            python("""
        import socket
        try: print("BREACH", socket.getaddrinfo("example.com", 80))
        except OSError as error: print("HELD", error)
    """),
        ),
        15.0,
    ),
    Attack(
        "servers of the host",
        (
            python("""
        import socket
        for port in (22, 80, 443, 631, 2375, 2376, 3306, 5432, 6379, 8000, 8080, 8888):
            try: socket.create_connection(("127.0.0.1", port), 0.3); print("BREACH", port)
            except OSError: pass
        for path in ("/var/run/docker.sock", "/run/podman/podman.sock", "/run/systemd/private", "/run/dbus/system_bus_socket", "\\0/tmp/.X11-unix/X0"):
            try: s = socket.socket(socket.AF_UNIX); s.connect(path); print("BREACH", path)
            except OSError: pass
        print("HELD")
    """),
        ),
    ),
    Attack(
        "sockets that leave the machine another way",
        (
            python("""
        import socket
        for family in (17, 38, 40, 16, 21, 29, 44):
            try: socket.socket(family, socket.SOCK_RAW if family == 17 else socket.SOCK_DGRAM); print("BREACH" if family != 16 else "HELD netlink", family)
            except OSError as error: print("HELD", family, error)
        try: socket.socket(socket.AF_INET, socket.SOCK_RAW, 1); print("BREACH raw")
        except OSError as error: print("HELD", error)
    """),
        ),
    ),
)
