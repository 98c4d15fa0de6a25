//! Weights in several safetensors files, and their index `model.safetensors.index.json`, as Hugging Face writes it. The index
//! has the file of each tensor.

use super::header::LOAD;
use super::safetensors::{load_safetensors_from, Safetensors};
use crate::device::Device;
use crate::error::{Error, Result};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Seek};

/// The index of several safetensors files: the tensors of each file.
///
/// ```
/// # pollster::block_on(async {
/// # use std::collections::BTreeMap;
/// use std::io::Cursor;
/// use warpweft::{device::{Device, Preference}, io};
///
/// let device = Device::with(Preference::Cpu).await?;
/// let tensors = BTreeMap::from([("bias".to_string(), device.tensor(&[1.0f32, 2.0], &[2])?)]);
/// let file = io::save_safetensors(&tensors, &BTreeMap::new()).await?;
/// let index = br#"{"weight_map": {"bias": "model-00001-of-00001.safetensors"}}"#;
/// let index = io::SafetensorsIndex::read(index)?;
/// let loaded = index.load(&device, |name| {
///     assert_eq!(name, "model-00001-of-00001.safetensors");
///     Ok(Cursor::new(&file))
/// })?;
/// assert_eq!(loaded.tensors["bias"].read::<f32>().await?, [1.0, 2.0]);
/// # Ok::<(), warpweft::error::Error>(()) }).unwrap();
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SafetensorsIndex {
    /// The tensors of each file, by the file's name.
    pub files: BTreeMap<String, BTreeSet<String>>,
}

/// The JSON of an index.
#[derive(Deserialize)]
struct Written {
    weight_map: BTreeMap<String, String>,
}

impl SafetensorsIndex {
    /// Parses an index.
    ///
    /// # Errors
    /// `Format` if the index is damaged, or names a file outside of its own folder.
    pub fn read(json: &[u8]) -> Result<SafetensorsIndex> {
        let Written { weight_map } = serde_json::from_slice(json).map_err(|error| {
            let must = "the index must be JSON with `weight_map`, the file of each tensor";
            Error::format(format!("{LOAD}: {must}, got {error}"))
        })?;
        let mut files: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for (tensor, file) in weight_map {
            if file.is_empty() || file.contains(['/', '\\', ':']) || file.starts_with('.') {
                let must = "the index must name files that are beside it";
                return Err(Error::format(format!("{LOAD}: {must}, got {file:?} for {tensor:?}")));
            }
            files.entry(file).or_default().insert(tensor);
        }
        Ok(SafetensorsIndex { files })
    }

    /// Loads the tensors of all files. `open` opens a file by its name. Tensors that the index does not name are dropped.
    /// Notes of all files are merged. If two files have a different note of one name, the first is kept.
    ///
    /// # Errors
    /// The errors of `open` and of [`load_safetensors`](super::load_safetensors), with the file's name. `Format` if a file
    /// lacks a tensor that the index names.
    pub fn load<F: Read + Seek>(
        &self,
        device: &Device,
        mut open: impl FnMut(&str) -> Result<F>,
    ) -> Result<Safetensors> {
        let mut all = Safetensors::default();
        for (file, tensors) in &self.files {
            let loaded = load_safetensors_from(device, &mut open(file)?);
            let mut loaded = loaded.map_err(|error| error.within(&format!("{LOAD}: {file}")))?;
            for tensor in tensors {
                if let Some(found) = loaded.tensors.remove(tensor) {
                    all.tensors.insert(tensor.clone(), found);
                } else if let Some(skipped) = loaded.skipped.remove(tensor) {
                    all.skipped.insert(tensor.clone(), skipped);
                } else {
                    let must = format!("the file must have {tensor:?}, as the index says");
                    return Err(Error::format(format!("{LOAD}: {file}: {must}, got none")));
                }
            }
            for (name, note) in loaded.metadata {
                all.metadata.entry(name).or_insert(note);
            }
        }
        Ok(all)
    }
}
