"""What the backends on Linux are made of: system calls, files that may be hostile, processes, time, messages, programs.

All but `packages` and `answers` is standard library only and uses nothing from outside this folder: it runs where there is nothing else.
"""
