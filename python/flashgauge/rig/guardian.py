"""The process that puts a drive back when its run has ended: `python -m flashgauge.rig.guardian RECORD`.

Its standard input is a pipe whose other end the run has, and each command of it that changes the drive; the kernel
closes it when all of them have ended, also by kill -9. Exit code 0: all is put back; keeper.GONE: the drive is not
there. Otherwise the reason is on standard output. It stays in the record too.
"""

from __future__ import annotations

import contextlib
import errno
import signal
import sys
from pathlib import Path

from flashgauge.rig import keeper, records


def main(file: Path) -> int:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    with records.locked(file):
        if records.read_record(file) is None:  # Nothing to work by: the run must not change anything.
            return 1
        _say("ready")
        sys.stdin.buffer.read()
        try:
            keeper.put_back_file(file)
        except OSError as error:
            _say(str(error.strerror or error))
            return keeper.GONE if error.errno == errno.ENODEV else 1
    return 0


def _say(text: str) -> None:
    """To whoever still listens."""
    with contextlib.suppress(OSError):
        print(text, flush=True)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
