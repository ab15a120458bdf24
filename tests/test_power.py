"""Power meters: sensors of the kernel in a made-up tree, and a Quarch module by a stand-in for quarchpy.

The stand-in has the names and arguments of quarchpy 2.2 that are used, and writes a stream in its form. No module was
met.
"""

from __future__ import annotations

import re
import sys
import textwrap
import time
from pathlib import Path

import pytest

from conftest import Cli, one_line
from flashgauge._core import DeviceError, TargetError
from flashgauge.rig.identify import Roots
from flashgauge.rig.power import HwmonEnergy, HwmonPower, NotMeasured, check_source, power_source
from flashgauge.rig.quarch import EnergyOfStream, QuarchPower


def roots_with(root: Path, **sensors: dict[str, str]) -> Roots:
    """Sensors: hwmon0={"name": "ina226", "power1_input": "5000000"}."""
    for folder, files in sensors.items():
        (root / "sys/class/hwmon" / folder).mkdir(parents=True)
        for name, text in files.items():
            (root / "sys/class/hwmon" / folder / name).write_text(f"{text}\n")
    return Roots(root / "sys")


def test_none_is_not_measured() -> None:
    source = power_source("none")
    assert isinstance(source, NotMeasured)
    source.begin()
    assert source.energy_j() is None
    source.close()


def test_a_sensor_that_counts_energy(tmp_path: Path) -> None:
    roots = roots_with(tmp_path, hwmon3={"name": "amd_energy", "energy1_input": "5000000"})
    source = power_source("hwmon:amd_energy", roots)
    assert isinstance(source, HwmonEnergy)
    assert source.name == "hwmon amd_energy, energy1"
    source.begin()
    file = tmp_path / "sys/class/hwmon/hwmon3/energy1_input"
    file.write_text("7500000")
    assert source.energy_j() == 2.5
    file.write_text("1000000")  # began anew: at least this much more
    assert source.energy_j() == 3.5
    file.write_text("")
    assert source.energy_j() is None


def test_a_sensor_of_power_is_integrated(tmp_path: Path) -> None:
    file = tmp_path / "power1_input"
    now_s = 100.0
    source = HwmonPower("x", file, lambda: now_s)
    file.write_text("4000000")
    source.begin()
    total = 0.0
    for seconds, watts, before in ((0.5, 4, 4), (0.1, 8, 4), (2.0, 6, 8)):
        now_s += seconds
        file.write_text(f"{watts * 1000000}")
        total += seconds * (watts + before) / 2
        assert source.energy_j() == pytest.approx(total)


def test_which_channel_is_meant(tmp_path: Path) -> None:
    roots = roots_with(
        tmp_path,
        hwmon0={
            "name": "ina3221",
            "power1_average": "1",
            "power2_input": "2",
            "power2_label": "slot 2",
            "temp1_input": "9",
        },
        hwmon1={"name": "nvme", "temp1_input": "40000"},
        hwmon2={"name": "twin", "power1_input": "3"},
        hwmon10={"name": "twin", "power1_input": "4"},
    )
    assert power_source("hwmon:ina3221/power1", roots).name == "hwmon ina3221, power1"
    assert power_source("hwmon:hwmon0/slot 2", roots).name == "hwmon ina3221, slot 2"
    assert power_source("hwmon:hwmon10", roots).name == "hwmon twin, power1"
    for text, said in {
        "hwmon:ina3221": r"say which, as in hwmon:ina3221/power1: there are power1, power2 \(slot 2\)",
        "hwmon:ina3221/power9": "has no such power",
        "hwmon:nvme": "has no such power",
        "hwmon:twin": "several have that name: hwmon2, hwmon10",
        "hwmon:lost": "no such sensor; with power or energy there are: ina3221, twin",
    }.items():
        with pytest.raises(TargetError, match=said):
            check_source(text, False, roots)


@pytest.mark.parametrize("text", ["hwmon", "hwmon:", "quarch:", "watts:1", "", "none:x"])
def test_what_is_no_source(text: str) -> None:
    with pytest.raises(TargetError, match="write none, hwmon:NAME or quarch:ADDRESS"):
        check_source(text, False)


def test_a_simulated_drive_has_no_meter(cli: Cli) -> None:
    result = cli("run", "iops", "sim:sata-enterprise?capacity=1GB", "--power", "hwmon:x", "--out", "run")
    assert "a simulated drive draws no power from a meter" in one_line(result, 2)
    assert cli("run", "iops", "file:x?size=8MiB", "--power", "what", "--out", "run").returncode == 2
    assert "--power" in cli("run", "--help").stdout


# Quarch

HEADER = "Time uS,12V voltage mV,12V current mA,12V power mW,3V3 power uW\r\n"


def test_energy_of_a_stream_in_pieces() -> None:
    stream = EnergyOfStream()
    text = HEADER + "".join(f"{at},12000,500,{6000 + at // 1000},2000000\r\n" for at in range(0, 50_000, 10_000))
    # (8.00 + 8.01) / 2 W for 10 ms, then (8.01 + 8.02) / 2 and so on, to 40 ms.
    for cut in range(0, len(text), 7):
        assert stream.write(text[cut : cut + 7]) == len(text[cut : cut + 7])
    assert stream.problem is None
    assert stream.energy_j() == pytest.approx(0.04 * (8.00 + 8.04) / 2)


def test_the_sum_that_a_module_gives_is_not_counted_beside_its_parts() -> None:
    stream = EnergyOfStream()
    stream.write("Time mS,5V power mW,12V power mW,Tot power mW\r\n0,1000,2000,3000\r\n1000,1000,2000,3000\r\n")
    assert stream.energy_j() == pytest.approx(3.0)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("Time uS,12V voltage mV\r\n0,1\r\n", "a stream without power: its columns are Time uS, 12V voltage mV"),
        ("StripeNum, Trig, 5V_P\r\n0,0,1\r\n", "a stream without power"),
        (HEADER + "0,1,1,1,1\r\nWarning: Max file size exceeded\r\n9,1,1,1,1\r\n", "the stream ended: Warning: Max"),
    ],
)
def test_a_stream_that_cannot_be_used_gives_nothing(text: str, problem: str) -> None:
    stream = EnergyOfStream()
    stream.write(text)
    assert (stream.problem or "").startswith(problem)
    assert stream.energy_j() is None


STAND_IN = """
import threading
said, answers, running = [], {}, [False]

class Device:
    def __init__(self, target, ConType):
        if "nobody" in target:
            raise ConnectionError("no module at " + target)
        said.append(f"connect {target} {ConType}")

def get_quarch_device(connectionTarget, ConType="PY", timeout="5", qps_instance=None, qis_instance=None):
    return Device(connectionTarget, ConType)

class quarchPPM:
    def __init__(self, originObj, skipDefaultSyntheticChannels=False):
        self.stop = threading.Event()

    def send_command(self, command_string, is_response_expected=True):
        said.append(command_string)
        return answers.get(command_string, "Quarch Technology Ltd, QTL2312" if command_string == "hello?" else "OK")

    def start_stream(self, file_name="streamData.txt", file_max_mb=200000, stream_duration=None, release_on_data=False,
                     separator=",", in_memory_data=None, output_file_handle=None, use_gzip=None, gzip_compress_level=9):
        assert file_max_mb is None and stream_duration is None
        said.append("start_stream")
        def work():
            in_memory_data.write("Time uS,12V power mW\\n")
            at = 0
            while not self.stop.wait(0.01):
                in_memory_data.write(f"{at},5000\\r\\n")
                at += 10000
        self.thread = threading.Thread(target=work)
        self.thread.start()

    def stop_stream(self):
        said.append("stop_stream")
        self.stop.set()
        self.thread.join()

    def close_connection(self):
        said.append("close_connection")

def isQisRunning(port=9722):
    return running[0]

def startLocalQis(terminal=False, headless=False, args=None, timeout=20, host="127.0.0.1", **kwargs):
    said.append(f"startLocalQis headless={headless}")
    return object()

def closeQis(host="127.0.0.1", port=9722):
    said.append("closeQis")
"""


@pytest.fixture
def quarchpy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> object:
    package = tmp_path / "site/quarchpy"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "stand_in.py").write_text(textwrap.dedent(STAND_IN))
    for name in ("device", "qis"):
        (package / f"{name}.py").write_text("from quarchpy.stand_in import *\n")
    monkeypatch.syspath_prepend(str(package.parent))
    from importlib import import_module

    try:
        yield import_module("quarchpy.stand_in")
    finally:
        for name in [name for name in sys.modules if name.partition(".")[0] == "quarchpy"]:
            del sys.modules[name]


def test_a_quarch_module_from_the_beginning_to_the_end(quarchpy: object) -> None:
    check_source("quarch:TCP:192.168.1.20", False)
    source = power_source("quarch:TCP:192.168.1.20")
    assert source.name == "Quarch TCP:192.168.1.20 (Quarch Technology Ltd, QTL2312)"
    assert source.energy_j() is None
    source.begin()
    said: list[str] = quarchpy.said  # type: ignore[attr-defined]
    until_s = time.monotonic() + 30
    while (source.energy_j() or 0.0) < 0.25:  # 5 W, 50 ms
        assert time.monotonic() < until_s, "nothing comes"
        time.sleep(0.01)
    source.close()
    source.close()
    assert said == [
        "startLocalQis headless=True",
        "connect TCP:192.168.1.20 QIS",
        "hello?",
        "record:trigger:mode manual",
        "stream mode power enable",
        "stream mode header v3",
        "stream mode resample 10ms",
        "start_stream",
        "stop_stream",
        "close_connection",
        "closeQis",
    ]


def test_a_server_that_ran_before_goes_on(quarchpy: object) -> None:
    quarchpy.running[0] = True  # type: ignore[attr-defined]
    QuarchPower("quarch:USB:x", "USB:x").close()
    assert not {"closeQis", "startLocalQis headless=True"} & set(quarchpy.said)  # type: ignore[attr-defined]


def test_a_module_that_is_not_there_or_refuses(quarchpy: object) -> None:
    with pytest.raises(TargetError, match="no module at USB:nobody; see that the module is connected"):
        QuarchPower("quarch:USB:nobody", "USB:nobody")
    quarchpy.answers["stream mode power enable"] = "FAIL: no fixture"  # type: ignore[attr-defined]
    with pytest.raises(TargetError, match="answers 'stream mode power enable' with 'FAIL: no fixture'"):
        QuarchPower("quarch:USB:x", "USB:x")
    said: list[str] = quarchpy.said  # type: ignore[attr-defined]
    assert said.count("closeQis") == 2, "what was started is ended"


def test_a_stream_that_does_not_start(quarchpy: object) -> None:
    source = QuarchPower("quarch:USB:x", "USB:x")

    def refuse(**_: object) -> None:
        raise RuntimeError("busy")

    source._module.start_stream = refuse
    with pytest.raises(DeviceError, match="busy"):
        source.begin()
    source.close()


def test_without_quarchpy_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flashgauge.rig.quarch.find_spec", lambda name: None)
    with pytest.raises(TargetError, match=re.escape("pip install 'quarchpy>=2.2'")):
        check_source("quarch:USB:x", False)
