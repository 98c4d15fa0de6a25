//! The cache of compiled kernels on disk. NVIDIA's driver takes 50 ms to compile a kernel, and a millisecond to load one.
//!
//! A file has a header, the PTX and the cubin. Its name is a hash of the PTX, the architecture and the version of the driver.
//! A file is used only if its header and PTX are equal to what is looked up, so that a collision of hashes is harmless, and if
//! the checksum of its cubin is right. All other files are ignored, and replaced when their kernel has been compiled.

use crate::cache_folder::cache_folder;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;
use std::{fs, process};

/// The most bytes of all files. The oldest ones are removed first.
const MAX_BYTES: u64 = 128 << 20;
/// The most bytes of one file.
const MAX_FILE_BYTES: u64 = 32 << 20;
/// The start of each file: its kind and the version of its format.
const MAGIC: &[u8; 16] = b"warpweft cubin 1";
/// The bytes of a number in the header.
const NUMBER: usize = 8;

/// A folder of compiled kernels for one kind of GPU and one driver.
pub struct KernelCache {
    folder: PathBuf,
    /// The compute capability, such as 90.
    architecture: u64,
    /// The version of the driver.
    driver: u64,
}

impl KernelCache {
    /// Returns the cache that all programs share, the folder `cuda` in that of other caches (`WARPWEFT_CACHE`). `None` if
    /// caches on disk are disabled.
    pub fn usual(architecture: u32, driver: u32) -> Option<KernelCache> {
        let folder = cache_folder()?.join("cuda");
        Some(KernelCache { folder, architecture: architecture.into(), driver: driver.into() })
    }

    /// Returns the file of a kernel.
    fn file(&self, ptx: &str) -> PathBuf {
        let name = hash(&(self.architecture, self.driver, ptx));
        self.folder.join(format!("{name:016x}.cubin"))
    }

    /// Returns what a file has before its cubin.
    fn head(&self, ptx: &str) -> Vec<u8> {
        let mut head = MAGIC.to_vec();
        for number in [self.architecture, self.driver, ptx.len() as u64] {
            head.extend_from_slice(&number.to_le_bytes());
        }
        head.extend_from_slice(ptx.as_bytes());
        head
    }

    /// Returns the cubin of a kernel, if it is stored and undamaged.
    pub fn load(&self, ptx: &str) -> Option<Vec<u8>> {
        let file = self.file(ptx);
        let about = fs::metadata(&file).ok()?;
        if !about.is_file() || about.len() > MAX_FILE_BYTES {
            return None;
        }
        let bytes = fs::read(&file).ok()?;
        let (checksum, cubin) = bytes.strip_prefix(&*self.head(ptx))?.split_at_checked(NUMBER)?;
        (checksum == hash(&cubin).to_le_bytes()).then(|| cubin.to_vec())
    }

    /// Stores the cubin of a kernel. Without the rights or the space to do so, nothing is stored.
    pub fn store(&self, ptx: &str, cubin: &[u8]) {
        let mut bytes = self.head(ptx);
        bytes.extend_from_slice(&hash(&cubin).to_le_bytes());
        bytes.extend_from_slice(cubin);
        if bytes.len() as u64 > MAX_FILE_BYTES || fs::create_dir_all(&self.folder).is_err() {
            return;
        }
        // The file is replaced as a whole, also if several programs or threads write it.
        static NUMBER_OF_FILES: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER_OF_FILES.fetch_add(1, Ordering::Relaxed);
        let written = self.folder.join(format!("{}-{number}.new", process::id()));
        let stored =
            fs::write(&written, &bytes).and_then(|()| fs::rename(&written, self.file(ptx)));
        if stored.is_err() {
            drop(fs::remove_file(&written));
        }
        bound(&self.folder, MAX_BYTES);
    }
}

/// Removes the oldest files of a folder, until the others have at most `most` bytes.
fn bound(folder: &Path, most: u64) {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut files: Vec<(SystemTime, u64, PathBuf)> = entries
        .filter_map(|entry| {
            let about = entry.metadata().ok().filter(|about| about.is_file())?;
            Some((about.modified().ok()?, about.len(), entry.path()))
        })
        .collect();
    let mut bytes: u64 = files.iter().map(|(_, bytes, _)| bytes).sum();
    if bytes <= most {
        return;
    }
    files.sort();
    for (_, len, file) in files {
        if bytes <= most {
            return;
        }
        // Another program may have removed it.
        drop(fs::remove_file(file));
        bytes -= len;
    }
}

/// Returns a hash. Another release of Rust may have another one, and then compiles again.
fn hash(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::{bound, KernelCache};
    use std::fs;
    use std::path::PathBuf;

    /// Returns an empty folder, which the test removes.
    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("warpweft-{name}-{}", std::process::id()));
        drop(fs::remove_dir_all(&folder));
        fs::create_dir_all(&folder).expect("a writable folder");
        folder
    }

    #[test]
    fn kernels_are_found_again_unless_something_differs() {
        let folder = folder("cubins");
        let cache =
            |architecture, driver| KernelCache { folder: folder.clone(), architecture, driver };
        let this = cache(90, 12_080);
        assert_eq!(this.load("ptx"), None);
        this.store("ptx", b"machine code");
        assert_eq!(this.load("ptx").as_deref(), Some(&b"machine code"[..]));
        for other in [cache(80, 12_080), cache(90, 13_000)] {
            assert_eq!(other.load("ptx"), None);
            // Files of others that have this name are ignored.
            fs::copy(this.file("ptx"), other.file("ptx")).expect("a copy");
            assert_eq!(other.load("ptx"), None);
        }
        fs::copy(this.file("ptx"), this.file("other")).expect("a copy");
        assert_eq!(this.load("other"), None);
        // Every damaged byte and every missing one is noticed.
        let whole = fs::read(this.file("ptx")).expect("the file");
        for at in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[at] ^= 1;
            fs::write(this.file("ptx"), &damaged).expect("written");
            assert_eq!(this.load("ptx"), None, "byte {at}");
            fs::write(this.file("ptx"), &whole[..at]).expect("written");
            assert_eq!(this.load("ptx"), None, "{at} bytes");
        }
        this.store("ptx", b"machine code");
        assert_eq!(fs::read(this.file("ptx")).expect("the file"), whole);
        fs::remove_dir_all(folder).expect("it is there");
    }

    #[test]
    fn the_oldest_files_are_removed() {
        let folder = folder("bound");
        for n in 0..5u64 {
            let file = fs::File::create(folder.join(n.to_string())).expect("a file");
            file.set_len(100).expect("room");
            let time = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1000 * (5 - n));
            file.set_modified(time).expect("a time");
        }
        bound(&folder, 250);
        let left = fs::read_dir(&folder).expect("a folder").flatten();
        let mut left: Vec<_> = left.map(|entry| entry.file_name()).collect();
        left.sort();
        assert_eq!(left, ["0", "1"]);
        fs::remove_dir_all(folder).expect("it is there");
    }
}
