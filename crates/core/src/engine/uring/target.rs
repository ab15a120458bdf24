//! An opened block device or regular file, and whether it can be used at all.
//!
//! Everything that can be known before the first I/O is found here and named with its cure. Consent to destroy
//! data is not asked here: that is the rig's task, before it opens a target.

#![deny(unsafe_code)]

use std::fs::{self, File, OpenOptions};
use std::io::{self, Seek, SeekFrom};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::{direct_alignment, file_system, logical_block_size, pattern};
use crate::error::TargetError;
use crate::units::Bytes;
use crate::workload::Stimulus;

/// A block device or regular file, opened for direct I/O to its first `range` bytes.
#[derive(Debug)]
pub struct Target {
    file: File,
    path: PathBuf,
    range: Bytes,
    logical_block: Bytes,
    checks_reads: bool,
}

impl Target {
    /// Open for reading and writing past the page cache. `exclusive` refuses a block device that is in use
    /// (mounted, swap, part of LVM or md) and keeps others from taking it; for a file it has no effect.
    pub fn open(path: &Path, range: Bytes, exclusive: bool) -> Result<Self, TargetError> {
        let kind = fs::metadata(path).map_err(|error| explain(path, &error))?.file_type();
        if kind.is_dir() {
            return Err(unusable(path, "this is a directory", "name a file in it, or a block device"));
        }
        if !kind.is_block_device() && !kind.is_file() {
            return Err(unusable(path, "neither a block device nor a regular file", "name one of these"));
        }
        let mut flags = libc::O_DIRECT;
        if exclusive && kind.is_block_device() {
            flags |= libc::O_EXCL;
        }
        // The standard library adds O_CLOEXEC.
        let file = OpenOptions::new().read(true).write(true).custom_flags(flags).open(path);
        let mut file = file.map_err(|error| explain(path, &error))?;
        let size = file.seek(SeekFrom::End(0)).map_err(|error| explain(path, &error))?;
        let logical_block = if kind.is_block_device() { logical_block_size(&file) } else { file_block(&file) };
        let logical_block = logical_block.map_err(|error| explain(path, &error))?;
        check_range(path, range.0, size, logical_block)?;
        let checks_reads = if kind.is_block_device() { device_checks(&file, 0) } else { file_checks(&file, 0) };
        Ok(Self { file, path: path.to_owned(), range, logical_block: Bytes(logical_block), checks_reads })
    }

    /// The smallest unit of I/O; every offset and size must be a multiple.
    pub fn logical_block(&self) -> Bytes {
        self.logical_block
    }

    /// The part in use, from the start.
    pub fn range(&self) -> Bytes {
        self.range
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether something between the device and the host's memory may compare what is read with a checksum. Yes where
    /// it cannot be told.
    pub fn checks_reads(&self) -> bool {
        self.checks_reads
    }

    /// Whether every block size, and the alignment if one is given, suits the device.
    pub fn check(&self, stimulus: &Stimulus) -> Result<(), TargetError> {
        let sizes = stimulus.block_sizes.iter().map(|share| ("block size", share.bytes));
        let alignment = stimulus.alignment_bytes.map(|bytes| ("alignment", bytes));
        let block = self.logical_block.0;
        match sizes.chain(alignment).find(|(_, bytes)| *bytes == 0 || !bytes.is_multiple_of(block)) {
            None => Ok(()),
            Some((what, bytes)) => {
                let problem = format!("{what} {bytes} bytes is not a multiple of the logical block of {block} bytes");
                let cure = format!("use multiples of {block}, or format the drive with a smaller logical block");
                Err(unusable(&self.path, problem, cure))
            }
        }
    }

    pub(super) fn fd(&self) -> RawFd {
        self.file.as_raw_fd()
    }

    /// An error at this target.
    pub(super) fn unusable(&self, problem: impl Into<String>, cure: impl Into<String>) -> TargetError {
        unusable(&self.path, problem, cure)
    }
}

fn unusable(path: &Path, problem: impl Into<String>, cure: impl Into<String>) -> TargetError {
    TargetError::Unusable { path: path.display().to_string(), problem: problem.into(), cure: cure.into() }
}

fn check_range(path: &Path, range: u64, size: u64, block: u64) -> Result<(), TargetError> {
    if range == 0 {
        return Err(unusable(path, "a range of 0 bytes", "ask for at least one logical block"));
    }
    if range > size {
        let problem = format!("a range of {range} bytes, but there are only {size}");
        return Err(unusable(path, problem, "ask for less, or enlarge the file"));
    }
    if range < block {
        let problem = format!("a range of {range} bytes is smaller than one logical block");
        return Err(unusable(path, problem, format!("ask for at least {block}")));
    }
    if !range.is_multiple_of(block) {
        let problem = format!("a range of {range} bytes is not a multiple of the logical block of {block} bytes");
        return Err(unusable(path, problem, format!("ask for {}", range - range % block)));
    }
    Ok(())
}

/// Numbers of ext2 to ext4, xfs, tmpfs and f2fs in statfs(2): file systems without checksums of data.
const UNCHECKED: [u64; 4] = [0xef53, 0x5846_5342, 0x0102_1994, 0xf2f5_2010];
/// Loop devices on files on loop devices: no more of them are followed.
const DEEPEST: u32 = 4;

fn file_checks(file: &File, depth: u32) -> bool {
    let (Ok(kind), Ok(status)) = (file_system(file), file.metadata()) else { return true };
    let no_device = libc::major(status.dev()) == 0;
    !UNCHECKED.contains(&kind) || (!no_device && numbered_device_checks(status.dev(), depth))
}

fn device_checks(file: &File, depth: u32) -> bool {
    file.metadata().map_or(true, |status| numbered_device_checks(status.rdev(), depth))
}

/// By what sysfs tells of the device (ABI/stable/sysfs-block): protection information, devices that it is made of (device
/// mapper, md), or the file of a loop device.
fn numbered_device_checks(number: u64, depth: u32) -> bool {
    let link = format!("/sys/dev/block/{}:{}", libc::major(number), libc::minor(number));
    let Ok(mut disk) = fs::canonicalize(link) else { return true };
    if disk.join("partition").exists() {
        disk.pop();
    }
    let says = |name: &str| fs::read_to_string(disk.join(name)).map(|text| text.trim().to_owned());
    let protected = says("integrity/format").is_ok_and(|format| format != "none");
    if protected && !says("integrity/read_verify").is_ok_and(|verify| verify == "0") {
        return true;
    }
    if fs::read_dir(disk.join("slaves")).is_ok_and(|mut parts| parts.next().is_some()) {
        return true;
    }
    match says("loop/backing_file") {
        Ok(_) if depth == DEEPEST => true,
        Ok(path) => File::open(path).map_or(true, |file| match file.metadata() {
            Ok(status) if status.file_type().is_block_device() => device_checks(&file, depth + 1),
            _ => file_checks(&file, depth + 1),
        }),
        Err(_) => false,
    }
}

/// The unit of direct I/O to a regular file. EINVAL: the filesystem has none.
fn file_block(file: &File) -> io::Result<u64> {
    match direct_alignment(file) {
        Some(0) => return Err(io::Error::from_raw_os_error(libc::EINVAL)),
        Some(alignment) => return Ok(u64::from(alignment).max(512)),
        None => {}
    }
    // The filesystem or kernel does not say, so try: a read that breaks the rule fails with EINVAL.
    let mut page = pattern::arena(4096)?;
    for bytes in [512, 4096] {
        match file.read_at(&mut page[..bytes], 0) {
            Ok(_) => return Ok(bytes as u64),
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::Error::from_raw_os_error(libc::EINVAL))
}

/// What went wrong while opening, and what to do.
fn explain(path: &Path, error: &io::Error) -> TargetError {
    let (problem, cure) = match error.raw_os_error() {
        Some(libc::ENOENT | libc::ENOTDIR) => ("there is no such file or device", "check the name"),
        Some(libc::EACCES | libc::EPERM) => {
            ("permission denied", "run as root, or join the group that may write to it (disk, for block devices)")
        }
        Some(libc::EBUSY) => {
            ("the device is in use", "unmount it, or take it out of swap, LVM or md; or choose another device")
        }
        Some(libc::EINVAL) => ("its filesystem does not support direct I/O", "put the file on ext4 or xfs"),
        Some(libc::EROFS) => ("it is read-only", "choose a device or filesystem that can be written to"),
        Some(libc::ENXIO | libc::ENODEV | libc::ENOMEDIUM) => ("there is no drive behind it", "check the connection"),
        _ => return unusable(path, error.to_string(), "check that the device works, for example in dmesg"),
    };
    unusable(path, problem, cure)
}
