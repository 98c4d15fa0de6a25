//! Which kernels were measured to be fastest on which device, kept on disk.

use crate::backend::Info;
use crate::device::{Device, KernelConfig};
use std::fs;
use std::io::Result;
use std::path::PathBuf;

/// Lines that are kept at most; the oldest go first.
const LINES: usize = 64;
/// More than so many lines ever take.
const BYTES: u64 = 1 << 16;

/// A file with a line for each device: the kernels' number ([`KernelConfig::number`]), and what the device is.
///
/// ```
/// use warpweft_native::{prelude::*, tuned::Store};
///
/// let store = Store { file: std::env::temp_dir().join("warpweft-example").join("kernels") };
/// let device = Device::with_sync(Preference::Cpu)?;
/// store.store(device.info(), device.kernel_config()).expect("there is room");
/// assert_eq!(store.load(device.info()), Some(device.kernel_config()));
/// # Ok::<(), Error>(())
/// ```
pub struct Store {
    pub file: PathBuf,
}

impl Store {
    /// The one that programs share: `warpweft/kernels` where the system keeps what can be made again, or `kernels` in the
    /// folder that `WARPWEFT_CACHE` names. None where that is empty, or the system has no such place.
    pub fn usual() -> Option<Store> {
        let folder = match std::env::var_os("WARPWEFT_CACHE") {
            Some(folder) => PathBuf::from(folder),
            None => dirs::cache_dir()?.join("warpweft"),
        };
        (!folder.as_os_str().is_empty()).then(|| Store { file: folder.join("kernels") })
    }

    /// The lines there are. What cannot be read, or is no file of this kind, has none.
    fn lines(&self) -> Vec<String> {
        match fs::metadata(&self.file) {
            Ok(is) if is.is_file() && is.len() <= BYTES => {}
            _ => return Vec::new(),
        }
        let text = fs::read_to_string(&self.file).unwrap_or_default();
        text.lines().map(str::to_string).collect()
    }

    /// What was measured on such a device before.
    pub fn load(&self, info: &Info) -> Option<KernelConfig> {
        let key = key(info);
        let number = |line: &String| {
            let (number, rest) = line.split_once('\t')?;
            (rest == key).then(|| number.parse().ok())?
        };
        KernelConfig::from_number(self.lines().iter().rev().find_map(number)?)
    }

    /// Keeps what was measured.
    ///
    /// # Errors
    /// What goes wrong with the file.
    pub fn store(&self, info: &Info, config: KernelConfig) -> Result<()> {
        let key = key(info);
        let mut kept = self.lines();
        kept.retain(|line| line.split_once('\t').is_some_and(|(_, rest)| rest != key));
        kept.push(format!("{}\t{key}", config.number()));
        let text = kept[kept.len().saturating_sub(LINES)..].join("\n") + "\n";
        if let Some(folder) = self.file.parent() {
            fs::create_dir_all(folder)?;
        }
        // Whole or not at all, also where several programs do it.
        let written = self.file.with_extension(std::process::id().to_string());
        fs::write(&written, text)?;
        fs::rename(written, &self.file)
    }
}

/// What a device is known by: another driver or another version of this crate may have other kernels.
fn key(info: &Info) -> String {
    let words = [env!("CARGO_PKG_VERSION"), info.backend, &info.vendor, &info.name, &info.driver];
    let plain = |word: &&str| word.replace(|c: char| c.is_control(), " ");
    words.iter().map(plain).collect::<Vec<String>>().join("\t")
}

/// The device, with the kernels that were measured on it before.
pub(crate) fn remember(device: Device) -> Device {
    if let Some(config) = Store::usual().and_then(|store| store.load(device.info())) {
        // Refused where the device has lost a feature since: then it is as new.
        let _ = device.set_kernel_config(config);
    }
    device
}
