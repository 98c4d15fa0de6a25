//! Blocking functions for files of weights and arrays on disk. [`io`] has the functions for bytes.
//!
//! A saved file replaces the old one only when it is complete. Until then its bytes are in a file with the suffix `.part` in
//! the same folder, which is removed after an error.
//!
//! ```
//! use std::collections::BTreeMap;
//! use warpweft_native::{files, prelude::*};
//!
//! let device = Device::with_blocking(Preference::Cpu)?;
//! let weights = BTreeMap::from([("w".to_string(), device.ones(&[2, 3])?)]);
//! let path = std::env::temp_dir().join(format!("weights-{}.safetensors", std::process::id()));
//! files::save_safetensors(&path, &weights, &BTreeMap::new())?;
//! assert_eq!(files::load_safetensors(&device, &path)?.tensors["w"].shape(), [2, 3]);
//! # std::fs::remove_file(&path).unwrap();
//! # Ok::<(), Error>(())
//! ```

#[cfg(feature = "model")]
use crate::backend::Pending;
use crate::device::Device;
use crate::error::{Error, Result};
use crate::io::{self, Gguf, Safetensors, SafetensorsIndex};
#[cfg(feature = "model")]
use crate::model::{Embedder, LanguageModel, LoadOptions, ModelFiles};
use crate::nn::Module;
use crate::tensor::Tensor;
use crate::train::Trainer;
use pollster::block_on;
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
#[cfg(feature = "model")]
use std::future::ready;
use std::path::{Path, PathBuf};

/// Loads a safetensors file as [`io::load_safetensors`] does, or all files of an index, such as
/// `model.safetensors.index.json` ([`SafetensorsIndex`]). Tensors are read one after the other, so the whole file need not
/// fit into memory at once.
///
/// # Errors
/// As [`io::load_safetensors`]. `InvalidArgument` with the path if a file is missing, is a folder or cannot be read.
pub fn load_safetensors(device: &Device, path: impl AsRef<Path>) -> Result<Safetensors> {
    let (name, path) = ("load_safetensors", path.as_ref());
    let open = |path: &Path| {
        let file = File::open(path).map_err(|error| failed(name, path, &error))?;
        need_file(name, path).map(|()| file)
    };
    if !path.as_os_str().to_string_lossy().ends_with(".index.json") {
        let loaded = io::load_safetensors_from(device, &mut open(path)?);
        return loaded.map_err(|error| of_path(&error, path));
    }
    let index =
        SafetensorsIndex::read(&read(name, path)?).map_err(|error| of_path(&error, path))?;
    index.load(device, |file| open(&path.with_file_name(file)))
}

/// Reads the head of a language model's GGUF file and its other parts, as [`Gguf::read_parts`] does. Its tensors stay in the
/// file.
///
/// # Errors
/// As [`Gguf::read_parts`]. `InvalidArgument` with the path if the file is missing, is a folder or cannot be read.
pub fn read_gguf(path: impl AsRef<Path>) -> Result<Gguf> {
    let path = path.as_ref();
    match block_on(Gguf::read_parts(open_gguf(path)?)) {
        Ok((head, _)) => Ok(head),
        Err(error) => Err(of_path(&error, path)),
    }
}

/// Opens a GGUF file. If the file is the first part of several, such as `model-00001-of-00003.gguf`, all parts are opened.
///
/// ```no_run
/// use warpweft_native::model::{LanguageModel, LoadOptions};
/// use warpweft_native::{files, prelude::*};
///
/// let parts = files::open_gguf("model-00001-of-00003.gguf")?;
/// let model = LanguageModel::load_parts(&Device::new_blocking()?, parts, LoadOptions::default())?;
/// # Ok::<(), Error>(())
/// ```
///
/// # Errors
/// `InvalidArgument` with the path if a file is missing or is a folder.
pub fn open_gguf(path: impl AsRef<Path>) -> Result<Vec<File>> {
    let first = path.as_ref();
    let mut files = Vec::new();
    for path in parts(first) {
        let file = File::open(&path).map_err(|error| failed("gguf", &path, &error))?;
        need_file("gguf", &path)?;
        files.push(file);
    }
    Ok(files)
}

/// Returns the paths of all parts of a GGUF file, derived from the name of the first.
fn parts(first: &Path) -> Vec<PathBuf> {
    let all = || {
        let name = first.file_name()?.to_str()?;
        let (stem, count) = name.strip_suffix(".gguf")?.split_once("-00001-of-")?;
        let number = count.parse::<usize>().ok().filter(|_| count.len() == 5)?;
        let part = |n: usize| first.with_file_name(format!("{stem}-{n:05}-of-{count}.gguf"));
        (number > 0).then(|| (1..=number).map(part).collect())
    };
    all().unwrap_or_else(|| vec![first.to_path_buf()])
}

/// Opens a language model and reads the heads of its files. The path is a GGUF file with its other parts, or a folder with
/// `config.json` and safetensors files.
///
/// ```no_run
/// use warpweft_native::{files, prelude::*};
///
/// let files = files::open_model("SmolLM2-135M-Instruct")?;
/// println!("{} tokens", files.tokenizer()?.vocab_size());
/// # Ok::<(), Error>(())
/// ```
///
/// # Errors
/// As [`ModelFiles::gguf`] and [`ModelFiles::folder`]. `InvalidArgument` with the path if a file is missing or cannot be read.
#[cfg(feature = "model")]
pub fn open_model(path: impl AsRef<Path>) -> Result<ModelFiles<File>> {
    let path = path.as_ref();
    let files = match path.is_dir() {
        true => block_on(ModelFiles::folder(open_folder(path)?)),
        false => block_on(ModelFiles::gguf(open_gguf(path)?)),
    };
    files.map_err(|error| of_path(&error, path))
}

/// Opens the files in a folder that may belong to a model.
#[cfg(feature = "model")]
fn open_folder(folder: &Path) -> Result<Vec<(String, File)>> {
    let unreadable = |error: std::io::Error| failed("model", folder, &error);
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if name.ends_with(".safetensors") || ModelFiles::NAMES.contains(&name) {
            let file = File::open(&path).map_err(|error| failed("model", &path, &error))?;
            files.push((name.to_string(), file));
        }
    }
    Ok(files)
}

/// Loads a language model from a GGUF file with its other parts, or from a folder ([`open_model`]), as
/// [`LanguageModel::reloadable`] does. So the weights may be evicted if memory is short, and a generation continues after its
/// device was lost.
///
/// ```no_run
/// use warpweft_native::model::LoadOptions;
/// use warpweft_native::{files, prelude::*};
///
/// let device = Device::new_blocking()?;
/// let model = files::load_language_model(&device, "model.gguf", LoadOptions::default())?;
/// # Ok::<(), Error>(())
/// ```
///
/// # Errors
/// As [`open_model`] and [`LanguageModel::load_files`].
#[cfg(feature = "model")]
pub fn load_language_model(
    device: &Device,
    path: impl AsRef<Path>,
    options: LoadOptions,
) -> Result<LanguageModel> {
    let path = path.as_ref().to_owned();
    let load = move |device: Device| {
        let load = |files| block_on(LanguageModel::load_files(&device, files, options));
        let model =
            open_model(&path).and_then(|files| load(files).map_err(|error| of_path(&error, &path)));
        Box::pin(ready(model)) as Pending<_>
    };
    block_on(LanguageModel::reloadable(device, load))
}

/// Loads an embedder from a folder that sentence-transformers saved, as [`Embedder::reloadable`] does. So the weights may be
/// evicted if memory is short.
///
/// # Errors
/// As [`Embedder::load`]. `InvalidArgument` with the path if the path is not a folder, or a file cannot be read.
#[cfg(feature = "model")]
pub fn load_embedder(device: &Device, folder: impl AsRef<Path>) -> Result<Embedder> {
    let folder = folder.as_ref().to_owned();
    let load = move |device: Device| {
        let model = open_embedder(&folder)
            .and_then(|files| Embedder::load(&device, files))
            .map_err(|error| of_path(&error, &folder));
        Box::pin(ready(model)) as Pending<_>
    };
    block_on(Embedder::reloadable(device, load))
}

/// Opens the files of an embedder in a folder.
#[cfg(feature = "model")]
fn open_embedder(folder: &Path) -> Result<Vec<(String, File)>> {
    let unreadable = |error: std::io::Error| Error::argument(format!("embedder: {error}"));
    fs::read_dir(folder).map_err(unreadable)?;
    let paths = Embedder::FILES.map(|name| (name, folder.join(name)));
    let opened = paths
        .into_iter()
        .filter(|(_, path)| path.exists())
        .map(|(name, path)| Ok((name.to_string(), File::open(path).map_err(unreadable)?)));
    opened.collect()
}

/// Saves a file with [`io::save_safetensors`].
///
/// # Errors
/// As [`io::save_safetensors`]. `InvalidArgument` if the file cannot be written.
pub fn save_safetensors(
    path: impl AsRef<Path>,
    tensors: &BTreeMap<String, Tensor>,
    metadata: &BTreeMap<String, String>,
) -> Result<()> {
    write("save_safetensors", path.as_ref(), &block_on(io::save_safetensors(tensors, metadata))?)
}

/// Saves a checkpoint to a file with [`Trainer::save`]. The file is complete at any time: it is written next to its place, and
/// then moved there. With several ranks, every rank calls it, and rank 0 writes the file.
///
/// # Errors
/// As [`Trainer::save`]. `InvalidArgument` if the file cannot be written.
pub fn save_checkpoint<M: Module>(
    path: impl AsRef<Path>,
    trainer: &Trainer<M>,
    notes: &BTreeMap<String, String>,
) -> Result<()> {
    let file = block_on(trainer.save(notes))?;
    match trainer.rank() {
        0 => write("save_checkpoint", path.as_ref(), &file)
            .inspect_err(|error| trainer.fail(&error.to_string())),
        _ => Ok(()),
    }
}

/// Loads a checkpoint from a file with [`Trainer::load`]. Returns the notes.
///
/// # Errors
/// As [`Trainer::load`]. `InvalidArgument` with the path if the file is missing, is a folder or cannot be read.
pub fn load_checkpoint<M: Module>(
    path: impl AsRef<Path>,
    trainer: &mut Trainer<M>,
) -> Result<BTreeMap<String, String>> {
    let path = path.as_ref();
    let file =
        read("load_checkpoint", path).inspect_err(|error| trainer.fail(&error.to_string()))?;
    block_on(trainer.load(&file)).map_err(|error| of_path(&error, path))
}

/// Loads a file with [`io::load_npy`].
///
/// # Errors
/// As [`io::load_npy`]. `InvalidArgument` with the path if the file is missing, is a folder or cannot be read.
pub fn load_npy(device: &Device, path: impl AsRef<Path>) -> Result<Tensor> {
    let path = path.as_ref();
    io::load_npy(device, &read("load_npy", path)?).map_err(|error| of_path(&error, path))
}

/// Saves a file with [`io::save_npy`].
///
/// # Errors
/// As [`io::save_npy`]. `InvalidArgument` if the file cannot be written.
pub fn save_npy(path: impl AsRef<Path>, tensor: &Tensor) -> Result<()> {
    write("save_npy", path.as_ref(), &block_on(io::save_npy(tensor))?)
}

/// Loads a file with [`io::load_npz`].
///
/// # Errors
/// As [`io::load_npz`]. `InvalidArgument` with the path if the file is missing, is a folder or cannot be read.
pub fn load_npz(device: &Device, path: impl AsRef<Path>) -> Result<BTreeMap<String, Tensor>> {
    let path = path.as_ref();
    io::load_npz(device, &read("load_npz", path)?).map_err(|error| of_path(&error, path))
}

/// Saves a file with [`io::save_npz`].
///
/// # Errors
/// As [`io::save_npz`]. `InvalidArgument` if the file cannot be written.
pub fn save_npz(
    path: impl AsRef<Path>,
    arrays: &BTreeMap<String, Tensor>,
    compressed: bool,
) -> Result<()> {
    write("save_npz", path.as_ref(), &block_on(io::save_npz(arrays, compressed))?)
}

/// Adds the file's path to an error, after the operation's name.
fn of_path(error: &Error, path: &Path) -> Error {
    let (name, why) = error.message().split_once(": ").unwrap_or(("", error.message()));
    Error::new(error.kind(), format!("{name}: {}: {why}", path.display()))
}

/// Rejects a folder, whose bytes cannot be read.
fn need_file(name: &str, path: &Path) -> Result<()> {
    match path.is_dir() {
        true => Err(Error::argument(format!(
            "{name}: {}: the path must be a file, got a folder",
            path.display()
        ))),
        false => Ok(()),
    }
}

fn read(name: &str, path: &Path) -> Result<Vec<u8>> {
    need_file(name, path)?;
    fs::read(path).map_err(|error| failed(name, path, &error))
}

fn write(name: &str, path: &Path, bytes: &[u8]) -> Result<()> {
    replace(path, bytes).map_err(|error| failed(name, path, &error))
}

/// Replaces a file when its new bytes are on disk. After an error, the old file is unchanged.
fn replace(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    // A link stays a link, to the new file.
    let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf());
    let permissions = match fs::metadata(&target) {
        // A device or a pipe, such as `/dev/null`, must not become a file.
        Ok(old) if !old.is_file() => return fs::write(&target, bytes),
        Ok(old) => {
            // A file that must not be written must not be replaced either.
            OpenOptions::new().write(true).open(&target)?;
            Some(old.permissions())
        }
        Err(_) => None,
    };
    let mut part = target.as_os_str().to_owned();
    part.push(".part");
    let part = PathBuf::from(part);
    let complete = || {
        fs::write(&part, bytes)?;
        if let Some(permissions) = permissions {
            fs::set_permissions(&part, permissions)?;
        }
        fs::rename(&part, &target)
    };
    let replaced = complete();
    if replaced.is_err() {
        _ = fs::remove_file(&part);
    }
    replaced
}

fn failed(name: &str, path: &Path, error: &std::io::Error) -> Error {
    Error::argument(format!("{name}: {}: {error}", path.display()))
}
