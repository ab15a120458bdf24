"""The volatile write cache (3.7): its state as the kernel has it, against the state asked for.

Limits: this version reads only; it switches no drive's cache. The kernel's word is what the drive reported when it
was attached, or what was written to sysfs since. A cache protected against power loss is often reported as none.
"""

from __future__ import annotations

from flashgauge.disclosure import Disclosure, Kind
from flashgauge.rig.base import Prepared
from flashgauge.rig.identify import BlockDevice, read_text


def state(device: BlockDevice) -> str | None:
    """ "write back" or "write through"; None when the kernel does not say."""
    return read_text(device.disk / "queue/write_cache")


def compare(found: str | None, asked: bool) -> Prepared:
    """The text for the report, and the disclosure when `found` is not what was asked (enabled: True)."""
    wanted = "enabled" if asked else "disabled"
    if found == "write back":
        text = "enabled (the kernel reports write back)"
        cure = "switch it off before the run (nvme set-feature -f 6 -V 0; hdparm -W 0; sdparm --clear WCE)"
        met = asked
    elif found == "write through":
        text = "disabled or absent (the kernel reports write through)"
        cure = "switch it on before the run (nvme set-feature -f 6 -V 1; hdparm -W 1; sdparm --set WCE)"
        met = not asked
    else:
        text = "not known (the kernel does not report it)"
        cure = "read it from the drive (nvme get-feature -f 6; hdparm -W; sdparm --get WCE) and name it in the report"
        met = False
    return Prepared(text, () if met else (_differs(text, wanted, cure),))


def of_file() -> Prepared:
    """A file's writes may stop in the cache of whatever its file system sits on."""
    text = "not known (the file system's device has its own)"
    return Prepared(text, (_differs(text, "set by the test", "run on the drive itself, not on a file"),))


def _differs(text: str, wanted: str, cure: str) -> Disclosure:
    return Disclosure(Kind.WRITE_CACHE_STATE, "3.7", f"write cache should be {wanted}, it is {text}", cure)
