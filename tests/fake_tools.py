#!/usr/bin/python3 -ISE
"""One program that stands in for nvme, hdparm and the sg_ tools, by the name it is called under.

It keeps a drive's state in state.json beside it and answers in the real tools' formats: nvme-cli 2.3, hdparm 9.65 and
sg3_utils 1.46, as recorded on QEMU's drives; sanitize, security and format progress, which QEMU does not have, as the
tools' sources print them. No drive was met for those.

    state["fail"]    {"nvme format": [exit code, "what it says on standard error"]}, looked for at the words' beginning
    state["hang"]    {"hdparm --security-erase": seconds}; None: until there is a file `released` beside it
    state["image"]   the file that an erase fills with state["fill"] (a byte); None erases nothing
    state["looks"]   how often a sanitize or format is still under way when it is asked for
"""

import json
import os
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
NAME = os.path.basename(sys.argv[0])
ARGUMENTS = sys.argv[1:]
TEXT = " ".join([NAME, *ARGUMENTS])


def load():
    with open(f"{HERE}/state.json") as file:
        return json.load(file)


def save():
    with open(f"{HERE}/state.new", "w") as file:
        json.dump(state, file)
    os.replace(f"{HERE}/state.new", f"{HERE}/state.json")


def option(name, default=None):
    return next((text.split("=", 1)[1] for text in ARGUMENTS if text.startswith(f"--{name}=")), default)


def erase():
    if state.get("image") is not None:
        with open(state["image"], "r+b") as image:
            image.write(bytes([state.get("fill", 0)]) * os.path.getsize(state["image"]))


def end(code, out=b"", err=""):
    save()
    sys.stdout.buffer.write(out if isinstance(out, bytes) else out.encode())
    sys.stderr.write(err)
    sys.stdout.flush()
    sys.exit(code)


def under_way():
    """Whether the drive still works, this time it is asked."""
    state["looks"] = state.get("looks", 0) - 1
    if state["looks"] < 0 and state.get("busy"):
        state["busy"] = False
        if state.get("ends_in") != "failure":
            erase()
    return bool(state.get("busy"))


def nvme():
    command = ARGUMENTS[0]
    if command == "version":
        end(0, "nvme version 2.3 (git 2.3)\nlibnvme version 1.3 (git 1.3)\n")
    if command == "id-ctrl":
        end(
            0,
            json.dumps({"sn": "FG0001  ", "oacs": 0x10A, "fna": 0, "sanicap": 0, "vwc": 7, "nn": 256, **state["ctrl"]}),
        )
    if command == "id-ns":
        end(0, json.dumps({"nsze": 131072, "flbas": 0, "dps": 0, "fpi": 0, **state.get("ns", {})}))
    if command == "list-ns":
        listed = state["namespaces"] + (state.get("elsewhere", []) if "--all" in ARGUMENTS else [])
        end(0, json.dumps({"nsid_list": [{"nsid": nsid} for nsid in listed]}))
    if command == "get-feature":
        value = state["cache"]
        text = f"0x{value:08x}" if value else "00000000"  # as printf's %#0.8x does
        end(0, f"get-feature:0x06 (Volatile Write Cache), Current value:{text}\n")
    if command == "set-feature":
        assert "--save" not in ARGUMENTS and option("feature-id") == "6"
        if state.get("obeys", True):
            state["cache"] = int(option("value"))
        end(0, f"set-feature:0x06 (Volatile Write Cache), value:{int(option('value')):#010x}, cdw12:00000000, save:0\n")
    if command == "format":
        assert "--force" in ARGUMENTS
        erase()
        state.setdefault("ns", {}).update(state.get("ns_after", {}))
        end(0, f"Success formatting namespace:{option('namespace-id')}\n")
    if command == "sanitize":
        state.update(busy=True, action=int(option("sanact")))
        end(0)
    if command == "sanitize-log":
        busy = under_way()
        status = 2 if busy else 3 if state.get("ends_in") == "failure" else 1 if state.get("action") else 0
        page = bytearray(512)
        page[0:2] = (0x8000 if busy else 0xFFFF).to_bytes(2, "little")
        page[2:4] = status.to_bytes(2, "little")
        page[4:8] = state.get("action", 0).to_bytes(4, "little")
        for at, seconds in zip((8, 12, 16), state.get("estimates", [0xFFFFFFFF] * 3), strict=True):
            page[at : at + 4] = seconds.to_bytes(4, "little")
        end(0, bytes(page))


def identify_words():
    words = [0] * 256
    words[0] = 0x0040
    words[59] = state.get("word59", 0)
    words[82] = 1 << 5 if state["cache"] is not None else 0
    words[85] = 1 << 5 if state["cache"] else 0
    words[89], words[90] = state.get("erase_times", [0, 0])
    words[128] = state.get("word128", 0) | (1 << 1 if state.get("password") else 0)
    words[128] |= 1 << 2 if state.get("locked") else 0
    return words


def hdparm():
    head = f"\n{ARGUMENTS[-1]}:\n"
    if ARGUMENTS == ["-V"]:
        end(0, "hdparm v9.65\n")
    if "--Istdout" in ARGUMENTS:
        words = identify_words()
        rows = [" ".join(f"{word:04x}" for word in words[at : at + 8]) for at in range(0, 256, 8)]
        end(0, head + "\n".join(rows) + "\n")
    if "-W" in ARGUMENTS:
        value = int(ARGUMENTS[ARGUMENTS.index("-W") + 1])
        if state.get("obeys", True):
            state["cache"] = value
        on = "on" if value else "off"
        end(0, f"{head} setting drive write-caching to {value} ({on})\n write-caching =  {value} ({on})\n")
    if "--sanitize-status" in ARGUMENTS:
        if not state.get("word59"):
            end(22, head, "SANITIZE feature set is not supported\n")
        if state.get("frozen_sanitize"):
            end(0, f"{head}Sanitize status:\n    State:    SD1 Sanitize Frozen\n")
        if under_way():
            end(
                0,
                f"{head}Sanitize status:\n"
                "    State:    SD2 Sanitize operation In Process\n    Progress: 0x7fff (49%)\n",
            )
        if state.get("ends_in") == "failure":
            # The command is aborted, and hdparm tells why: the reason, and the state.
            end(
                5,
                head,
                "SANITIZE failed: Input/output error\n    Last Sanitize Command completed unsuccessfully\n"
                "Drive in SD3 Sanitize Operation Failed state\n",
            )
        text = "SD0 Sanitize Idle\n    Last Sanitize Operation Completed Without Error"
        end(0, f"{head}Sanitize status:\n    State:    {text}\n")
    if "--sanitize-block-erase" in ARGUMENTS or "--sanitize-crypto-scramble" in ARGUMENTS:
        assert "--yes-i-know-what-i-am-doing" in ARGUMENTS
        state["busy"] = True
        end(0, f"{head}Issuing SANITIZE_BLOCK_ERASE command\nOperation started in background\n")
    issuing = ' Issuing {} command, password="{}", user=user\n'
    password = ARGUMENTS[-2]
    said = f'security_password: "{password}"\n{head}'
    broken = "SG_IO: bad/missing sense data, sb[]:  70 00 0b 00 00 00 00 0a 04 41 40 01 00 00 00 00\n"
    if "--security-set-pass" in ARGUMENTS:
        if state.get("refuses_password"):
            end(0, said + issuing.format("SECURITY_SET_PASS", password), broken)
        state["password"] = password
        end(0, said + issuing.format("SECURITY_SET_PASS", password))
    if "--security-erase" in ARGUMENTS or "--security-erase-enhanced" in ARGUMENTS:
        assert password == state["password"]
        if state.get("ends_in") == "failure":
            end(0, said + issuing.format("SECURITY_ERASE", password), broken)
        erase()
        state["password"] = None
        end(0, said + issuing.format("SECURITY_ERASE", password))
    if "--security-unlock" in ARGUMENTS:
        if password == state["password"]:
            state["locked"] = False
        end(0, said + issuing.format("SECURITY_UNLOCK", password), "" if password == state["password"] else broken)
    if "--security-disable" in ARGUMENTS:
        if state.get("locked"):  # ACS-4: aborted until it is unlocked
            end(0, said, broken)
        if state.get("disables_after", 0) > 0:
            state["disables_after"] -= 1
            end(0, said, broken)
        state["password"] = None
        end(0, said + issuing.format("SECURITY_DISABLE", password))


def sg_modes():
    if state["cache"] is None:
        end(
            5, b"", "invalid field in cdb (perhaps page control (PC) not supported)\nsg_modes failed: Illegal request\n"
        )
    page = [0x88, 0x12, (0x04 if state["cache"] else 0) | 0x10] + [0] * 17
    end(0, "".join(f"{byte:02x}\n" for byte in page))


def sg_wr_mode():
    page = [int(text, 16) for text in option("contents").split(",")]
    assert "--save" not in ARGUMENTS and page[0] == 8 and page[2] & 0x10 and len(page) == 20
    if state.get("obeys", True):
        state["cache"] = page[2] >> 2 & 1
    state["attentions"] = 1  # mode parameters changed: as scsi_debug did in QEMU
    end(0)


def sg_opcodes():
    takes = state.get("takes", {}).get(option("opcode"))
    if takes is None:
        end(9, b"", "Report supported operation codes: Illegal request, Invalid opcode\n")
    word = "supported [conforming to SCSI standard]" if takes else "not currently available"
    end(0, f"\n  Opcode=0x04\n  Command_name: Format Unit\n  Command is {word}\n")


def sg_requests():
    data = bytearray(252)
    data[0], data[7] = 0x70, 0x0A
    if under_way():
        data[2], data[12], data[13], data[15], data[16] = 2, 4, state["busy_code"], 0x80, 0x80
    elif state.get("ends_in") == "failure":
        data[2], data[12], data[13] = 3, 0x31, 3 if state.get("busy_code") == 0x1B else 1
    end(0, bytes(data))


def sg_sanitize():
    assert "--early" in ARGUMENTS and "--quick" in ARGUMENTS
    state.update(busy=True, busy_code=0x1B)
    end(0, "    SEAGATE   XS400ME70004      0003   peripheral_type: disk [0x0]\n")


def sg_format():
    assert ARGUMENTS.count("--format") == 3 and "--early" in ARGUMENTS and "--quick" in ARGUMENTS
    state.update(busy=True, busy_code=0x04)
    end(0, "\nFormat unit has started\n")


with open(f"{HERE}/calls.log", "a") as log:
    log.write(TEXT + "\n")
state = load()
if NAME in ("sg_modes", "sg_opcodes", "sg_wr_mode") and state.get("attentions", 0) > 0:
    state["attentions"] -= 1
    end(6, b"", "mode sense(10):\nFixed format, current; Sense key: Unit Attention\n")
for beginning, seconds in state.get("hang", {}).items():
    if beginning in TEXT:
        with open(f"{HERE}/hanging", "w") as mark:
            mark.write(str(os.getpid()))
        if seconds is None:
            while not os.path.exists(f"{HERE}/released"):
                time.sleep(0.02)
        else:
            time.sleep(seconds)
        state = load()
for beginning, (code, said) in state.get("fail", {}).items():
    if TEXT.startswith(beginning):
        end(code, b"", said)
if ARGUMENTS in (["-V"], ["--version"]) and NAME.startswith("sg_"):
    end(0, b"", f"{NAME}: version: 1.36 20210329\n")
globals()[NAME]()
end(1, b"", f"{TEXT}: the stand-in does not know this\n")
