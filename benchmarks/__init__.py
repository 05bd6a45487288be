"""What was measured and how to do it again, in folders by subject; `library/` has what the scripts share.

    python benchmarks/SUBJECT/NAME.py --help        one benchmark: what it measures, how, and its options
    python benchmarks/keep.py SUBJECT/NAME          runs it, keeps what it found in docs/benchmarks, writes docs/benchmarks.md anew

    sampling/       tokens that a policy draws, beside transformers and vLLM
    training/       steps of the trainer, beside TRL; common beginnings; what a longer stream costs
    memory/         what `patchgrad plan` says beside what a process holds
    accelerators/   all figures of one GPU
    sandboxes/      opening, commands, states, tests, beside SWE-ReX and mini-swe-agent
    tasks/          making tasks, beside swesmith
    journal/        keeping every turn; going on after a kill, in TRL
    faults/         known bugs, put into TRL and verl
    evaluation/     how often intervals hold the truth
    studies/        arms of a recipe; policies on real packages
    minutes/        whole runs by the clock, beside TRL and beside another commit
    regression/     is a run the same to the bit as one of another commit?

A script prints JSON last. A folder imports from itself and from `library/`, never from another one. Peers run in environments of their
own, below the cache; a script's `_trl`, `_peer` or `_peers` is what runs there.
"""
