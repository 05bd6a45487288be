"""`python -m patchgrad` is the command `patchgrad`."""

from patchgrad.cli import main

raise SystemExit(main())
