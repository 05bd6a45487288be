"""Hostile shell programs that do not run dry: `program("trees", Draw("7/trees/12"))` is one of thousands.

A program is a few steps of different kinds, one of them of the family by whose name it goes, each written down as it is or in a wrapper,
such as in the background. Each step is bounded in count, time and size. After it the next command has to work, or the attempt is lost.
"""

from __future__ import annotations

from collections.abc import Mapping

from patchgrad.testing.attacks.attack import Attack, python
from patchgrad.testing.attacks.drawing import Draw

# Of each family the steps; @N is a digit, @M a number of megabytes, @W a word, @P a place and @O an odd name.
STEPS: Mapping[str, tuple[str, ...]] = {
    "holes": (
        "for i in $(seq @N); do truncate -s @MM @P/@W$i; done",
        "dd if=/dev/zero of=@P/@W bs=1 count=@N seek=@M000000 2>/dev/null",
        "truncate -s @MM @P/@W; cp --sparse=always @P/@W @P/@W2; cat @P/@W >> @P/@W2",
        "truncate -s @M000G @P/@W; truncate -s 9223372036854775807 @P/@W",
        "fallocate -l @MM @P/@W; fallocate -p -o 4096 -l @M000000 @P/@W",
        "truncate -s @MM .git/@W .git/objects/@W .git/index",
    ),
    "links": (
        "head -c @MM /dev/zero > @P/@W; for i in $(seq @N0); do ln @P/@W @P/@W$i; done",
        "ln .git/index @P/@W; ln .git/HEAD @P/@W2; echo x >> @P/@W2",
        "ln -s @P/@W @P/@W; ln -s . @P/@O; ln -s .. @P/@W2; ln -s / @P/@W3",
        "rm -rf shop; ln -s PATCHGRAD_CANARY shop; echo x > shop; echo x > PATCHGRAD_CANARY",
        "for i in $(seq @N00); do ln -s @W$((i + 1)) @W$i; done; ln -s @W1 @W$((@N00 + 1))",
        "ln -s /proc/self/fd @P/@W; ln -s /proc/self/root/testbed @P/@W2; ln -s /proc/1/root @P/@W3",
        "mv .git @P/@W.git; ln -s @P/@W.git .git",
    ),
    "trees": (
        "for i in $(seq @N0); do mkdir -p d/d/d/d && cd d/d/d/d || break; done; touch @W; cd /testbed",
        "n=$(printf '@W%.0s' $(seq 30)); mkdir -p @P/$n/$n/$n; touch @P/$n/$n/$n/$n",
        "mkdir @P/@W; for i in $(seq @N00); do : > @P/@W/$i; done; chmod @N00 @P/@W",
        "mkdir -p @W/a/b; mv @W @W2; mkdir @W; mv @W2 @W/a2; cd @W/a2/a/b; rm -rf /testbed/@W",
        "mkdir -p @P/@O/@O; echo x > @P/@O/@O/@O; chmod 0 @P/@O/@O @P/@O",
        "rm -rf /testbed/* /testbed/.[a-z]*; mkdir -p /testbed/@W",
        "find . -type d -exec touch {}/@O \\;; find . -type f -exec chmod 0@N00 {} +",
    ),
    "names": (
        "touch @P/@O @P/$'\\xff'@O @P/$'\\n'@O; mkdir -p @P/$'\\x01@W'; ln -s @P/@O @P/$'\\xfe'",
        "touch -- -@W --help '-rf *' '$(id)' '`id`' ';id' '|' '&' '%s%n' '~' '.. ' '...' ",
        "n=$(head -c 255 /dev/zero | tr '\\0' '@W'); touch @P/$n; mkdir @P/${n%@W}x",
        "touch @P/@W @P/w @P/$'@W\\u0301' @P/$'\\u202eW' @P/$'@W\\r' @P/$'@W\\t' @P/'a -> b' @P/'\"' @P/\\\\",
        "mkdir -p .git/$'\\xff' @P/.git/@O; touch .git/@O @P/.git/HEAD .gitmodules .gitattributes .gitignore",
    ),
    "processes": (
        "for i in $(seq @N0); do sleep 3@N & done 2>/dev/null; true",
        "f() { [ $((n++)) -lt @N0 ] && { sleep 5 & f; }; }; n=0; f 2>/dev/null",
        "(setsid sleep 3@N &); nohup sleep 3@N >/dev/null 2>&1 & disown",
        "trap '' TERM INT HUP QUIT CHLD; sleep @N & wait -n",
        "(for i in $(seq @N000); do (:) & done) 2>/dev/null & sleep 0.@N",
        "kill -STOP $$",
        "coproc @W { sleep 9; }; exec 5>&${@W[1]}",
        "yes > /dev/null & yes | yes | yes > /dev/null & sleep 0.@N",
        "python -c 'import os, time\nfor n in range(@N0): os.fork() or (time.sleep(2), os._exit(n))' & sleep 0.@N",
        "python -c 'import threading, time\nfor n in range(@N00): threading.Thread(target=time.sleep, args=(2,)).start()' 2>/dev/null & sleep 0.@N",
    ),
    "signals": (
        "kill -@N 1; kill -@N -1; true",
        "kill -1@N $$",
        "kill -@N $PPID; kill -@N 0",
        "(sleep 0.@N; kill -9 $$) & true",
        "for s in HUP INT TERM CHLD USR1 PIPE ALRM; do kill -$s 1 $PPID $$; done",
        "trap 'kill -9 $$' DEBUG; true",
        "trap 'sleep @N' EXIT ERR RETURN; false; exit @N",
        "pkill -STOP bash; pkill -CONT bash; pkill -@N python",
        "for p in /proc/[0-9]*; do kill -1@N ${p#/proc/}; done 2>/dev/null",
    ),
    "mounts": (
        "unshare -Urm@N true 2>/dev/null; unshare -Ur id -u 2>/dev/null | grep -qx 0 && echo BREACH",
        "mount -t tmpfs @W @P 2>/dev/null && echo BREACH; mount --bind / @P 2>/dev/null && echo BREACH; umount -l /testbed /tmp / 2>/dev/null && echo BREACH; true",
        "chroot @P true 2>/dev/null && echo BREACH; nsenter -t 1 -m true 2>/dev/null && echo BREACH; true",
        "mknod @P/@W c 1 @N 2>/dev/null && echo BREACH; mknod @P/@W p; true",
        "(echo @W > /proc/sys/kernel/hostname) 2>/dev/null && echo BREACH; (echo 1 > /proc/sys/vm/drop_caches) 2>/dev/null && echo BREACH; true",
        "for p in /proc/1/mem /proc/1/root/PATCHGRAD_CANARY PATCHGRAD_CANARY; do (echo x >> $p) 2>/dev/null && echo BREACH $p; done; true",
        "echo 1000 > /proc/self/oom_score_adj; echo -1000 > /proc/1/oom_score_adj; renice -n 19 1; ionice -c 1 -p 1; true",
        "for f in /usr/@W /etc/@W /opt/@W /run/@W /dev/@W /@W; do (echo x > $f) 2>/dev/null && echo BREACH $f; done; true",
    ),
    "sockets": (
        python("import socket\nfor n in range(@N0):\n    s = socket.socket(socket.AF_UNIX); s.bind('@P/@W%d' % n)"),
        python(
            "import socket\nkept = [socket.socketpair() for n in range(@N0)]\nfor a, b in kept:\n    a.setblocking(False)\n    try:\n        while a.send(bytes(65536)): pass\n    except OSError: pass\nimport time; time.sleep(1)"
        ),
        python(
            "import socket, time\ns = socket.socket(socket.AF_UNIX); s.bind('\\0@W'); s.listen()\nl = socket.create_server(('127.0.0.1', 800@N)); time.sleep(0.@N)"
        )
        + " &",
        "(echo x > /dev/tcp/1.1.1.1/53) 2>/dev/null && echo BREACH; (echo x > /dev/udp/127.0.0.1/53) 2>/dev/null; true",
        "mkfifo @P/@W; cat @P/@W & cat < @P/@W > @P/@W2 & (sleep 0.@N; echo x > @P/@W) & true",
        "for f in /run/cell/*; do (timeout 0.@N cat $f; head -c @N00 /dev/urandom > $f) 2>/dev/null & done; sleep 0.@N",
    ),
    "jobs": (
        "(for i in $(seq 3000); do echo x > @P/@W; rm -f @P/@W; mkdir @P/@W; rmdir @P/@W; ln -s / @P/@W; rm @P/@W; done) 2>/dev/null & true",
        "(yes | head -c 100M > @P/@W) & sleep 0.@N",
        "(for i in $(seq 3000); do mv shop @W; ln -s /etc shop; rm shop; mv @W shop; done) 2>/dev/null & true",
        "(for i in $(seq 30); do git add -A; git commit -qm @W; git gc -q; done) >/dev/null 2>&1 & sleep 0.@N",
        "(for i in $(seq 3000); do chmod 0 @P/* .git; chmod 755 @P/* .git; done) 2>/dev/null & true",
        "(sleep 0.@N; rm -rf /testbed/.git; truncate -s @MM /testbed/@W) & true",
        "(sleep 0.@N; for i in $(seq @N0); do truncate -s @MM /testbed/@W$i; done) & true",
    ),
    "programs": (
        "mkdir -p @P/@W; for p in git ls cat tar find sh bash python env cp; do printf '#!/bin/sh\\nexec sleep @N' > @P/@W/$p; chmod +x @P/@W/$p; done; PATH=@P/@W:$PATH",
        "export PATH= BASH_ENV=@P/@W LD_PRELOAD=/@P/@W.so PYTHONHOME=/@W PYTHONSTARTUP=@W IFS=@O HOME=/@W TMPDIR=/@W",
        "git() { false; }; cd() { :; }; echo() { printf @W; }; command() { false; }; test() { false; }; export -f git cd echo command test",
        "alias echo=false cd=true; shopt -s expand_aliases; enable -n cd pwd printf read eval; hash -p /bin/false git",
        "printf 'exit @N\\n' > ~/.bashrc; printf 'kill $$\\n' > ~/.profile; git config --global alias.status '!false'; git config --global core.fsmonitor 'sleep @N'",
        "set -e; set -u; set -f; set -C; false",
        "set -n",
        "readonly PATH PWD OLDPWD HOME IFS BASHOPTS PROMPT_COMMAND; PROMPT_COMMAND='exit @N'; PS4='$(kill $$)'; set -x",
        "exec @N>&1 1>/dev/null 2>&1",
        "exec 0</dev/zero; cat > /dev/null",
        "shopt -s extdebug; trap 'false' DEBUG; trap 'echo @W' EXIT",
    ),
    "disks": (
        "head -c 100M /dev/zero > @P/@W; echo x > @P/@W2",
        "for i in $(seq @N00); do head -c 200K /dev/urandom > @P/@W$i || break; done 2>/dev/null",
        "head -c 100M /dev/zero > /dev/shm/@W; head -c 100M /dev/zero > /tmp/@W; cp /tmp/@W @P/@W",
        "i=0; while [ $((i++)) -lt 5000 ] && : > @P/@W$i; do :; done 2>/dev/null",
        "git init -q @P/@W 2>/dev/null; head -c @M0M /dev/urandom > @P/@W/x; git -C @P/@W add -A; head -c 60M /dev/zero > @P/@W2",
        "ulimit -f @N; head -c @MM /dev/zero > @P/@W",
    ),
    "unreadable": (
        "chmod 0 /testbed; cd /; cd /testbed",
        "echo x > @P/@W; chmod 0 @P/@W @P/*; umask 777; echo y > @P/@W2; mkdir @P/@W3",
        "chmod -R a-rwx /testbed/* .git",
        "mkdir @P/@W; cd @P/@W; rmdir ../@W; echo x > @W; pwd",
        "rm -rf /testbed; mkdir /testbed; echo @W > /testbed/@W",
        "mv /testbed/.git /tmp/@W; mv /testbed/* /tmp; cd /tmp",
        "chmod 1777 .; chmod 4755 @P/*; chmod g+s @P; touch -d @99999999999 @P/@W; touch -d @-99999999 @P/@W2",
        "python -c \"import os; os.setxattr('@P', 'user.overlay.opaque', b'y'); os.setxattr('README.md', 'user.@W', bytes(4000))\" 2>/dev/null; true",
    ),
    "git": (
        "head -c @N000 /dev/urandom > .git/index; head -c @N0 /dev/urandom > .git/HEAD",
        "touch .git/index.lock .git/HEAD.lock .git/config.lock; echo /@W > .git/objects/info/alternates",
        "printf '[core]\\n\\tworktree = /@W\\n\\tbare = true\\n[include]\\n\\tpath = /proc/self/environ\\n' >> .git/config",
        "rm -rf .git/objects .git/refs; mkdir .git/HEAD2; echo 'ref: refs/heads/@O' > .git/HEAD",
        "git init -q @P/@W; echo x > @P/@W/y; git -C @P/@W add -A; git add -A; git commit -qm @W",
        "printf '* filter=@W diff=@W merge=@W\\n' > .gitattributes; git config filter.@W.clean 'sleep @N'; git config filter.@W.smudge false; git config diff.external 'kill $PPID'",
        "for h in pre-commit post-checkout post-index-change reference-transaction; do printf '#!/bin/sh\\nkill -9 $PPID' > .git/hooks/$h; chmod +x .git/hooks/$h; done",
        "rm -rf .git; echo 'gitdir: /testbed/@P/@W' > .git",
        "git update-index --assume-unchanged README.md; git config core.fsmonitor 'sleep @N'; git config core.untrackedCache true; git sparse-checkout set @W",
        "git checkout -q --orphan @W; git rm -rfq . ; git commit -q --allow-empty -m @W; git reflog expire --expire=now --all",
    ),
    "limits": (
        "ulimit -n @N; ls; git status",
        "ulimit -u @N; ls | cat",
        "ulimit -v 20000; python -c 'x = bytearray(@M000000)'",
        "ulimit -t 1; while :; do :; done",
        'for i in $(seq 10 @N00); do eval "exec $i</dev/null" || break; done 2>/dev/null',
        "exec 0<&- ; read -r x; cat",
        "python -c 'x = [bytearray(b\"x\") * (60 << 20) for n in range(@N)]' & python -c 'x = bytearray(b\"x\") * (@M << 20)' & wait",
        "python -c 'import mmap, time; b = mmap.mmap(-1, @M << 20)\nfor at in range(0, len(b), 4096): b[at] = 1\ntime.sleep(@N)' & sleep 0.@N",
    ),
    "shell": (
        "yes @W | head -c @M000000",
        "head -c @N0000 /dev/urandom; printf '\\0\\033c\\033]0;@W\\007\\r'",
        "echo '@W",
        "cat <<@W\nO",
        "if true; then (",
        "sleep 30",
        "read -r x; cat; select x in a b; do :; done",
        "exit @N",
        "exec python -c 'print(1)'",
        "return @N; break @N; continue @N; logout",
        "printf '@N\\0@W\\0/etc\\0' >&2; printf '\\n__turn @N\\n'; eval 'eval \"eval echo $RANDOM\"'",
    ),
}
_WRAPPERS = (
    "{}",
    "{}",
    "{}",
    "{{ {}\n}} & sleep 0.1",
    "( {}\n)",
    "cd /tmp; {}",
    "trap '' TERM HUP; {}",
    "for i in 1 2; do {}\ndone",
    "{{ {}\n}} | cat",
)
_PLACES = (".", "shop", "tests", "/tmp", "/dev/shm", ".git", "tests/../shop")
_ODD = ("'a b'", "'*'", "$'n\\nl'", "$'\\xff\\xfe'", "-x", "é", "'\"'", "$'\\x7f'", "'#'", "'a;b'")


def program(family: str, draw: Draw) -> Attack:
    """A program of one to four steps, the last of this family."""
    families = [*(draw.pick(list(STEPS)) for _ in range(draw.number(0, 3))), family]
    steps = [_step(draw, one) for one in families]
    return Attack(" after ".join(reversed(families)), (*steps, "echo HELD"), 2.0, ("ok", "timeout", "died", "out of memory"), spoils=True)


def _step(draw: Draw, family: str) -> str:
    """One command, its letters replaced."""
    text = draw.pick(STEPS[family])
    chosen = {"N": str(draw.number(1, 9)), "M": str(draw.number(1, 40)), "P": draw.pick(_PLACES), "O": draw.pick(_ODD), "W": draw.word()}
    for letter, value in chosen.items():
        text = text.replace(f"@{letter}", value)
    return draw.pick(_WRAPPERS).format(text)
