//! Units of measure as types, so that an LBA is never added to a time.
//!
//! `Lba` counts 512-byte sectors, as the kernel does, whatever the device's logical block size.

use serde::{Deserialize, Serialize};

/// Bytes per `Lba`.
pub const SECTOR: u64 = 512;

macro_rules! unit {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub u64);

        impl std::ops::Add for $name {
            type Output = Self;
            fn add(self, other: Self) -> Self {
                Self(self.0 + other.0)
            }
        }

        impl std::ops::Sub for $name {
            type Output = Self;
            fn sub(self, other: Self) -> Self {
                Self(self.0 - other.0)
            }
        }
    };
}

unit!(
    /// A 512-byte sector number on the device.
    Lba
);
unit!(
    /// A number of bytes.
    Bytes
);
unit!(
    /// Nanoseconds on the device's clock: monotonic for real devices, virtual for the simulated drive.
    Nanos
);

impl Lba {
    pub fn from_bytes(bytes: Bytes) -> Self {
        Self(bytes.0 / SECTOR)
    }

    /// Byte offset of the sector.
    pub fn to_bytes(self) -> Bytes {
        Bytes(self.0 * SECTOR)
    }
}

impl Nanos {
    pub const MAX: Self = Self(u64::MAX);

    /// Nanoseconds since `earlier`, 0 if it is later.
    pub fn since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}
