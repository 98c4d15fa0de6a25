//! Safetensors files read as a GGUF file: one list of tensors, and their bytes.
//!
//! Hugging Face saves a model as one or several safetensors files. Code that loads models asks for a [`Gguf`] head and a file
//! that tensors are read from. Both formats store a matrix of 16-bit or 32-bit numbers as the same bytes. The head of the GGUF
//! file that a converter would write is therefore enough, and no byte has to be converted.

use super::super::safetensors::read_header;
use super::super::source::Source;
use super::{BlockFormat, Gguf, GgufParts, GgufTensor, GgufValue};
use crate::error::{Error, ErrorKind, Result};
use std::collections::BTreeMap;

impl Gguf {
    /// Reads the headers of safetensors files as one head with this metadata. `rename` returns the GGUF name of a tensor, or
    /// `None` for tensors that are not part of the model.
    ///
    /// # Errors
    /// Messages begin with the name of the file. `Format` if a file is damaged, or two tensors have one name. `Unsupported` for
    /// a tensor whose elements are not `F32`, `F16` or `BF16`.
    pub(crate) async fn of_safetensors<F: Source>(
        metadata: BTreeMap<String, GgufValue>,
        files: Vec<(String, F)>,
        rename: impl Fn(&str) -> Option<String>,
    ) -> Result<(Gguf, GgufParts<F>)> {
        let (mut tensors, mut parts) = (BTreeMap::new(), GgufParts::new());
        for (file_name, mut file) in files {
            let in_file = |error: Error| error.within(&file_name);
            let (header, length) = read_header(&mut file).await.map_err(in_file)?;
            let start = parts.push_named(&file_name, file, length.file);
            for (name, place) in header.checked(length.file - length.header).map_err(in_file)? {
                let Some(renamed) = rename(name) else { continue };
                let dtype = &header.tensors[name].dtype;
                let format = BlockFormat::from_name(dtype);
                let Some(format) =
                    format.filter(|format| format.block_len() == 1 && format.packed().is_some())
                else {
                    let must = "its elements must be F32, F16 or BF16";
                    let message = format!("load_safetensors: tensor {name:?}: {must}, got {dtype}");
                    return Err(in_file(Error::new(ErrorKind::Unsupported, message)));
                };
                let data = start + length.header;
                let bytes = data + place.start..data + place.end;
                let tensor = GgufTensor { shape: place.shape, format, bytes };
                if tensors.insert(renamed, tensor).is_some() {
                    let message = "load_safetensors: the names of tensors must differ, got";
                    return Err(in_file(Error::format(format!("{message} {name:?} twice"))));
                }
            }
        }
        Ok((Gguf { version: 3, metadata, tensors, data: 0 }, parts))
    }
}
