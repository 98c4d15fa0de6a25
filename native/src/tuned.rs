//! The store of tuned kernels, which keeps the fastest kernels of each device on disk.

use crate::backend::Info;
use crate::cache_folder::cache_folder;
use crate::device::{Device, KernelConfig};
use std::fs;
use std::io::Result;
use std::path::PathBuf;

/// The most lines of the file. The oldest ones are removed first.
const LINES: usize = 64;
/// The most bytes of a valid file.
const BYTES: u64 = 1 << 16;

/// A file with a line for each device. A line has the number of the kernels ([`KernelConfig::number`]) and the identity of
/// the device.
///
/// ```
/// use warpweft_native::{prelude::*, tuned::Store};
///
/// let store = Store { file: std::env::temp_dir().join("warpweft-example").join("kernels") };
/// let device = Device::with_blocking(Preference::Cpu)?;
/// store.store(device.info(), device.kernel_config()).expect("there is room");
/// assert_eq!(store.load(device.info()), Some(device.kernel_config()));
/// # Ok::<(), Error>(())
/// ```
pub struct Store {
    pub file: PathBuf,
}

impl Store {
    /// Returns the store that all programs share: `warpweft/kernels` in the system's cache folder, or `kernels` in the folder
    /// of `WARPWEFT_CACHE`. Returns `None` if that variable is empty, or the system has no cache folder.
    pub fn usual() -> Option<Store> {
        cache_folder().map(|folder| Store { file: folder.join("kernels") })
    }

    /// Reads the lines of the file. An unreadable file, or one of another kind, has no lines.
    fn lines(&self) -> Vec<String> {
        match fs::metadata(&self.file) {
            Ok(is) if is.is_file() && is.len() <= BYTES => {}
            _ => return Vec::new(),
        }
        let text = fs::read_to_string(&self.file).unwrap_or_default();
        text.lines().map(str::to_string).collect()
    }

    /// Returns the stored kernels of a device.
    pub fn load(&self, info: &Info) -> Option<KernelConfig> {
        let key = key(info);
        let number = |line: &String| {
            let (number, rest) = line.split_once('\t')?;
            (rest == key).then(|| number.parse().ok())?
        };
        KernelConfig::from_number(self.lines().iter().rev().find_map(number)?)
    }

    /// Stores the kernels of a device.
    ///
    /// # Errors
    /// The errors of the file system.
    pub fn store(&self, info: &Info, config: KernelConfig) -> Result<()> {
        let key = key(info);
        let mut kept = self.lines();
        kept.retain(|line| line.split_once('\t').is_some_and(|(_, rest)| rest != key));
        kept.push(format!("{}\t{key}", config.number()));
        let text = kept[kept.len().saturating_sub(LINES)..].join("\n") + "\n";
        if let Some(folder) = self.file.parent() {
            fs::create_dir_all(folder)?;
        }
        // The file is replaced as a whole, also if several programs write it.
        let written = self.file.with_extension(std::process::id().to_string());
        fs::write(&written, text)?;
        fs::rename(written, &self.file)
    }
}

/// Returns the identity of a device. Another driver or version of this crate may have other kernels.
fn key(info: &Info) -> String {
    let words = [env!("CARGO_PKG_VERSION"), info.backend, &info.vendor, &info.name, &info.driver];
    let plain = |word: &&str| word.replace(|c: char| c.is_control(), " ");
    words.iter().map(plain).collect::<Vec<String>>().join("\t")
}

/// Selects the stored kernels of a device.
pub(crate) fn remember(device: Device) -> Device {
    if let Some(config) = Store::usual().and_then(|store| store.load(device.info())) {
        // The device rejects kernels that need a feature which it no longer has. It then keeps the default kernels.
        let _ = device.set_kernel_config(config);
    }
    device
}
