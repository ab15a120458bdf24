//! A zram device of the test's own, and a filesystem on one. No other device is ever touched.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Duration;

use tempfile::TempDir;

/// Say it past the capture of the test's output, so that it shows for a test that passes, too.
pub fn say(text: String) {
    let mut terminal = std::io::stderr();
    terminal.write_all(format!("{text}\n").as_bytes()).unwrap();
}

/// Try for 5 s: a ring that was closed with I/O in flight lets go of its file only after that.
fn insist<E>(mut attempt: impl FnMut() -> Result<(), E>) -> Result<(), E> {
    for _ in 0..50 {
        if attempt().is_ok() {
            return Ok(());
        }
        thread::sleep(Duration::from_millis(100));
    }
    attempt()
}

/// A zram device of our own, gone again when dropped.
pub struct Zram {
    pub number: String,
}

impl Zram {
    pub fn new(bytes: u64) -> Result<Self, String> {
        let number = fs::read_to_string("/sys/class/zram-control/hot_add").map_err(|error| error.to_string())?;
        let zram = Self { number: number.trim().to_owned() };
        fs::write(format!("/sys/block/zram{}/disksize", zram.number), bytes.to_string())
            .map_err(|error| error.to_string())?;
        match zram.path().exists() {
            true => Ok(zram),
            false => Err(format!("{} does not appear", zram.path().display())),
        }
    }

    pub fn path(&self) -> PathBuf {
        PathBuf::from(format!("/dev/zram{}", self.number))
    }
}

impl Drop for Zram {
    fn drop(&mut self) {
        let removed = insist(|| fs::write("/sys/class/zram-control/hot_remove", &self.number));
        if let Err(error) = removed {
            say(format!("{} is left over: {error}", self.path().display()));
        }
    }
}

/// A mounted filesystem on a zram device; unmounted and thawed when dropped.
pub struct Mounted {
    pub directory: TempDir,
    _zram: Zram,
}

impl Mounted {
    pub fn new() -> Result<Self, String> {
        let zram = Zram::new(64 << 20)?;
        let directory = TempDir::new().map_err(|error| error.to_string())?;
        command("mkfs.ext4", &["-q".as_ref(), zram.path().as_ref()])?;
        command("mount", &[zram.path().as_ref(), directory.path()])?;
        Ok(Self { directory, _zram: zram })
    }

    pub fn freeze(&self, how: &str) {
        command("fsfreeze", &[how.as_ref(), self.directory.path()]).unwrap();
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = command("fsfreeze", &["--unfreeze".as_ref(), self.directory.path()]);
        if let Err(error) = insist(|| command("umount", &[self.directory.path()])) {
            say(format!("{} is still mounted: {error}", self.directory.path().display()));
        }
    }
}

fn command(program: &str, arguments: &[&Path]) -> Result<(), String> {
    let output = Command::new(program).args(arguments).output().map_err(|error| format!("{program}: {error}"))?;
    if output.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&output.stderr).into_owned()) }
}
