//! NumPy's `.npz` format, which is a ZIP archive of `.npy` files.

use super::elements::about;
use super::other::other_kind;
use super::{npy, zip};
use crate::device::Device;
use crate::error::{Error, Result};
use crate::tensor::Tensor;
use std::collections::BTreeMap;

const LOAD: &str = "load_npz";
const SAVE: &str = "save_npz";
/// The suffix of the names of arrays in the archive.
const ENDING: &str = ".npy";

/// Loads the arrays of an `.npz` file by name, as `numpy.savez` and `numpy.savez_compressed` write it. Types are converted as
/// in [`load_npy`](super::load_npy). Bytes before the archive are ignored.
///
/// # Errors
/// `Format` if the archive or an array is damaged, with the array's name. Otherwise as [`load_npy`](super::load_npy).
///
/// ```
/// # pollster::block_on(async {
/// # use std::collections::BTreeMap;
/// # use warpweft::{device::{Device, Preference}, io};
/// let device = Device::with(Preference::Cpu).await?;
/// let arrays = BTreeMap::from([("x".to_string(), device.tensor(&[3i32, 4], &[2])?)]);
/// let file = io::save_npz(&arrays, true).await?;
/// assert_eq!(io::load_npz(&device, &file)?["x"].read::<i32>().await?, [3, 4]);
/// # Ok::<(), warpweft::error::Error>(()) }).unwrap();
/// ```
pub fn load_npz(device: &Device, bytes: &[u8]) -> Result<BTreeMap<String, Tensor>> {
    let refuse = |got: String| {
        let got = other_kind(bytes).map_or(got, String::from);
        Error::format(format!("{LOAD}: the file must be a ZIP archive, got {got}"))
    };
    let mut arrays = BTreeMap::new();
    for member in zip::members(bytes).map_err(refuse)? {
        let Some(name) = member.name.strip_suffix(ENDING) else {
            let message = format!("{LOAD}: members must be {ENDING} files, got {:?}", member.name);
            return Err(Error::format(message));
        };
        let what = format!("{LOAD}: array {name:?}");
        let file = member.unpack(bytes).map_err(|error| about(&what, &error))?;
        let array = npy::array(device, &what, &file)?;
        if arrays.insert(name.to_string(), array).is_some() {
            return Err(Error::format(format!(
                "{LOAD}: names must be distinct, got {name:?} twice"
            )));
        }
    }
    Ok(arrays)
}

/// Saves tensors as an `.npz` file, deflated if `compressed`.
///
/// # Errors
/// `Limit` if the archive would have 4 GiB or more, or at least 65,535 arrays. `Memory`. Also as [`Tensor::read`].
///
/// ```
/// # pollster::block_on(async {
/// # use std::collections::BTreeMap;
/// # use warpweft::{device::{Device, Preference}, io};
/// let device = Device::with(Preference::Cpu).await?;
/// let arrays = BTreeMap::from([("x".to_string(), device.zeros(&[1000])?)]);
/// let (plain, packed) = (io::save_npz(&arrays, false).await?, io::save_npz(&arrays, true).await?);
/// assert!(packed.len() < plain.len() / 10);
/// # Ok::<(), warpweft::error::Error>(()) }).unwrap();
/// ```
pub async fn save_npz(arrays: &BTreeMap<String, Tensor>, compressed: bool) -> Result<Vec<u8>> {
    let mut archive = zip::Writer::default();
    for (name, tensor) in arrays {
        let file = npy::written(tensor).await.map_err(|error| about(SAVE, &error))?;
        let added = archive.add(&format!("{name}{ENDING}"), &file, compressed);
        added.map_err(|error| about(SAVE, &error))?;
    }
    archive.finish().map_err(|error| about(SAVE, &error))
}
