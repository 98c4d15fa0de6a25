//! Folders with a library that child processes load as NVIDIA's driver, and the record of the mock.

use std::env::{current_exe, var};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};

/// The name of the library.
const LIBRARY: &str = "libcuda.so.1";
/// The environment variable that tells a child process what to do.
pub const TASK: &str = "WARPWEFT_TEST_CUDA";

/// A folder with a library, a cache and a record. Dropping it removes the folder.
pub struct Library {
    pub folder: PathBuf,
    /// Environment variables of the child processes.
    variables: Vec<(String, String)>,
}

/// Returns the mock, which Cargo builds because this package depends on it.
pub fn mock() -> Vec<u8> {
    let this = current_exe().expect("a test knows where it is");
    let file = this.parent().expect("a folder").join("libmock_driver.so");
    fs::read(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

impl Library {
    /// Creates a folder with these bytes as library, or without a library.
    pub fn new(bytes: Option<&[u8]>) -> Library {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("warpweft-cuda-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        fs::create_dir_all(&folder).expect("a writable folder");
        if let Some(bytes) = bytes {
            fs::write(folder.join(LIBRARY), bytes).expect("written");
        }
        Library { folder, variables: Vec::new() }
    }

    /// Creates a folder with the mock.
    pub fn mock() -> Library {
        Library::new(Some(&mock()))
    }

    /// Sets an environment variable of the child processes.
    pub fn with(mut self, name: &str, value: &str) -> Library {
        self.variables.push((name.to_string(), value.to_string()));
        self
    }

    /// Runs a program that loads the library.
    fn run(&self, program: &Path, arguments: &[&str], task: &str) -> Output {
        let mut paths = vec![self.folder.clone()];
        if let Ok(others) = var("LD_LIBRARY_PATH") {
            paths.extend(std::env::split_paths(&others));
        }
        let mut command = Command::new(program);
        command.args(arguments).env("LD_LIBRARY_PATH", std::env::join_paths(paths).expect("paths"));
        command.env("MOCK_CUDA_RECORD", self.folder.join("record")).env(TASK, task);
        command.env("WARPWEFT_CACHE", self.cache()).env_remove("WARPWEFT_DEVICE");
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        command.output().expect("the program starts")
    }

    /// Runs `warpweft`, and returns what it prints.
    pub fn warpweft(&self, arguments: &[&str]) -> String {
        let output = self.run(Path::new(env!("CARGO_BIN_EXE_warpweft")), arguments, "");
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {error}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Runs a task in a child process. It must succeed without a violation of the rules of CUDA and without leaks. Returns
    /// the record.
    pub fn task(&self, task: &str) -> String {
        drop(fs::remove_file(self.folder.join("record")));
        let this = current_exe().expect("a test knows where it is");
        let arguments = ["--exact", "child", "--nocapture", "--test-threads=1"];
        let output = self.run(&this, &arguments, task);
        let record = fs::read_to_string(self.folder.join("record")).unwrap_or_default();
        let violations: Vec<&str> =
            record.lines().filter(|line| line.starts_with("violation")).collect();
        let printed = [output.stdout, output.stderr].concat();
        let printed = String::from_utf8_lossy(&printed);
        assert!(output.status.success(), "{task}: {violations:?}\n{printed}");
        assert!(violations.is_empty(), "{task}: {violations:?}");
        let is_released = record.ends_with("released all\ncuDevicePrimaryCtxRelease_v2 0\n");
        assert!(is_released || !record.contains("cuDevicePrimaryCtxRetain 0"), "{task}");
        record
    }

    /// Returns the folder of the cache.
    pub fn cache(&self) -> PathBuf {
        self.folder.join("cache")
    }
}

impl Drop for Library {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.folder));
    }
}

/// Returns how often a record has calls of a function.
pub fn count(record: &str, name: &str) -> usize {
    record.lines().filter(|line| line.split(' ').next() == Some(name)).count()
}
