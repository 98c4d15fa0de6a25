//! Tests how files are saved: the old file is replaced only by a complete new one.
#![cfg(all(unix, feature = "io"))]

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::os::unix::fs::{symlink, FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use warpweft_native::files;
use warpweft_native::nn::{Generator, Layer, Linear, LossReduction, Module};
use warpweft_native::optim::{Optimizer, Sgd};
use warpweft_native::prelude::*;
use warpweft_native::train::{DataLoader, Dataset, Trainer};

/// A folder that is deleted when dropped.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("warpweft-{}-{name}", std::process::id()));
        fs::create_dir_all(&path).expect("a writable folder");
        Folder(path)
    }

    /// Returns the names of the files in the folder.
    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.0).expect("a folder");
        let name = |entry: std::io::Result<fs::DirEntry>| entry.expect("an entry").file_name();
        let mut names: Vec<String> =
            entries.map(|entry| name(entry).into_string().expect("a plain name")).collect();
        names.sort();
        names
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        _ = fs::remove_dir_all(&self.0);
    }
}

fn cpu() -> Device {
    Device::with_blocking(Preference::Cpu).expect("the CPU is there")
}

fn trainer(device: &Device, width: usize) -> Result<Trainer<Linear>> {
    let model = Linear::new(&Generator::new(device, 0), width, 1)?;
    let optimizer = Optimizer::new(Sgd::new(0.1), &model.parameters())?;
    let data = Dataset::new(&device.ones(&[4, width])?, &device.ones(&[4, 1])?)?;
    let forward =
        |model: &Linear, x: &Tensor, y: &Tensor| model.forward(x)?.mse_loss(y, LossReduction::Mean);
    Trainer::new(model, optimizer, DataLoader::new(&data, 4)?, forward)
}

/// Saves a tensor of `width` elements, or a model of as many inputs, to a file of each kind. Returns the results.
fn save(folder: &Path, width: usize) -> Vec<(PathBuf, Result<()>)> {
    let device = cpu();
    let x = device.ones(&[width]).expect("a tensor");
    let tensors = BTreeMap::from([("x".to_string(), x.clone())]);
    let notes = BTreeMap::new();
    let trainer = trainer(&device, width).expect("a trainer");
    let path = |name: &str| folder.join(name);
    let results = [
        ("x.npy", files::save_npy(path("x.npy"), &x)),
        ("x.npz", files::save_npz(path("x.npz"), &tensors, false)),
        ("x.safetensors", files::save_safetensors(path("x.safetensors"), &tensors, &notes)),
        ("x.checkpoint", files::save_checkpoint(path("x.checkpoint"), &trainer, &notes)),
    ];
    results.map(|(name, result)| (path(name), result)).into()
}

const NAMES: [&str; 4] = ["x.checkpoint", "x.npy", "x.npz", "x.safetensors"];
const CHILD: &str = "WARPWEFT_TEST_FULL_FOLDER";

/// Tests saving where files cannot be long, which fails in the middle of a file as on a full disk.
#[test]
fn a_save_that_fails_leaves_the_old_file_alone() {
    if let Some(folder) = std::env::var_os(CHILD) {
        for (path, result) in save(Path::new(&folder), 1 << 20) {
            let error = result.expect_err("the file is too long");
            assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
            let path = path.to_string_lossy();
            assert!(
                error.message().starts_with("save_") && error.message().contains(&*path),
                "{error}"
            );
        }
        return;
    }
    let folder = Folder::new("full");
    for (path, result) in save(&folder.0, 4) {
        result.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    }
    let before = NAMES.map(|name| fs::read(folder.0.join(name)).expect("it was saved"));
    assert_eq!(folder.names(), NAMES);
    let test = "a_save_that_fails_leaves_the_old_file_alone";
    // The limit is 64 KiB or 128 KiB, by the shell. Without the trap, a longer file ends the process.
    let script = format!("trap '' XFSZ; ulimit -f 128; exec \"$0\" --exact {test} --nocapture");
    let program = std::env::current_exe().expect("it runs");
    let child =
        Command::new("sh").args(["-c", &script]).arg(program).env(CHILD, &folder.0).output();
    let child = child.expect("there is a shell");
    let stdout = String::from_utf8_lossy(&child.stdout);
    let passed = child.status.success() && stdout.contains("1 passed");
    assert!(passed, "{stdout}{}", String::from_utf8_lossy(&child.stderr));
    assert_eq!(folder.names(), NAMES, "no part is left");
    let after = NAMES.map(|name| fs::read(folder.0.join(name)).expect("it is still there"));
    assert!(before == after, "the old files are unchanged");
}

#[test]
fn a_pipe_stays_a_pipe() {
    let folder = Folder::new("pipe");
    let pipe = folder.0.join("pipe");
    let made = Command::new("mkfifo").arg(&pipe).status().expect("mkfifo runs");
    assert!(made.success());
    let device = cpu();
    let x = device.ones(&[1000]).expect("a tensor");
    let trainer = trainer(&device, 3).expect("a trainer");
    let notes = BTreeMap::new();
    let read = || {
        let pipe = pipe.clone();
        std::thread::spawn(move || {
            let mut bytes = Vec::new();
            let mut file = fs::File::open(pipe).expect("a pipe");
            file.read_to_end(&mut bytes).expect("bytes");
            bytes.len()
        })
    };
    let reader = read();
    files::save_npy(&pipe, &x).expect("it is written");
    assert_eq!(reader.join().expect("it reads"), 128 + 4000);
    let reader = read();
    files::save_checkpoint(&pipe, &trainer, &notes).expect("it is written");
    assert!(reader.join().expect("it reads") > 100);
    assert!(fs::metadata(&pipe).expect("it is there").file_type().is_fifo());
    assert_eq!(folder.names(), ["pipe"]);
}

#[test]
fn a_replaced_file_keeps_its_link_and_permissions() {
    let folder = Folder::new("link");
    let (file, link) = (folder.0.join("file"), folder.0.join("link"));
    fs::write(&file, "old").expect("a writable file");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).expect("its owner");
    symlink("file", &link).expect("a link");
    let device = cpu();
    files::save_npy(&link, &device.ones(&[3]).expect("a tensor")).expect("it is written");
    assert!(fs::symlink_metadata(&link).expect("a link").is_symlink());
    assert_eq!(fs::metadata(&file).expect("a file").permissions().mode() & 0o777, 0o640);
    assert_eq!(files::load_npy(&device, &file).expect("a new file").shape(), [3]);
    assert_eq!(folder.names(), ["file", "link"]);
}

#[test]
fn a_folder_is_not_replaced() {
    let folder = Folder::new("folder");
    let inner = folder.0.join("inner");
    fs::create_dir(&inner).expect("a folder");
    let x = cpu().ones(&[3]).expect("a tensor");
    let error = files::save_npy(&inner, &x).expect_err("it is a folder");
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    assert!(inner.is_dir() && folder.names() == ["inner"]);
}
