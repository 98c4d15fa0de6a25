//! GGUF models in several files, as `llama-gguf-split` writes them: `model-00001-of-00003.gguf` and so on.
//!
//! Each part is a complete GGUF file. The first part has all metadata, and each part has some of the tensors.

use super::super::source::Source;
use super::Gguf;
use crate::error::{Error, Result};
use std::ops::Range;

/// Files that are read as if they were concatenated.
pub struct GgufParts<F> {
    parts: Vec<F>,
    /// The name of each file in error messages, or an empty text.
    names: Vec<String>,
    /// The offset of each file, and the end of the last one.
    starts: Vec<u64>,
}

impl<F> GgufParts<F> {
    /// Creates an empty list of files.
    pub(super) fn new() -> GgufParts<F> {
        GgufParts { parts: Vec::new(), names: Vec::new(), starts: vec![0] }
    }

    /// Appends a file of `length` bytes. Returns the offset of its first byte.
    pub(super) fn push(&mut self, file: F, length: u64) -> u64 {
        self.push_named("", file, length)
    }

    /// Appends a file as [`GgufParts::push`] does. Errors of reading the file name it.
    pub(super) fn push_named(&mut self, name: &str, file: F, length: u64) -> u64 {
        let start = self.starts[self.parts.len()];
        self.parts.push(file);
        self.names.push(name.to_string());
        self.starts.push(start.saturating_add(length));
        start
    }

    /// Returns the bytes of all files together.
    pub fn bytes(&self) -> u64 {
        self.starts[self.parts.len()]
    }

    /// Replaces each file by the reader that `wrap` returns for it.
    pub fn map<G>(self, wrap: impl FnMut(F) -> G) -> GgufParts<G> {
        let GgufParts { parts, names, starts } = self;
        GgufParts { parts: parts.into_iter().map(wrap).collect(), names, starts }
    }
}

impl Gguf {
    /// Reads the heads of a model's files, in order, as one head. The ranges of tensors count the bytes of all files
    /// together, which the second result reads.
    ///
    /// # Errors
    /// The errors of [`Gguf::read`], with the part. `Format` if the files are not all parts of one model, in order.
    ///
    /// ```no_run
    /// # async fn run() -> warpweft::error::Result<()> {
    /// use warpweft::io::Gguf;
    ///
    /// let open = |n| std::fs::File::open(format!("model-0000{n}-of-00002.gguf")).expect("a file");
    /// let (head, mut file) = Gguf::read_parts(vec![open(1), open(2)]).await?;
    /// let bytes = head.tensors["token_embd.weight"].read_from(&mut file).await?;
    /// # Ok(()) }
    /// ```
    pub async fn read_parts<F: Source>(parts: Vec<F>) -> Result<(Gguf, GgufParts<F>)> {
        let (mut file, count) = (GgufParts::new(), parts.len());
        let mut all: Option<Gguf> = None;
        for (n, mut part) in parts.into_iter().enumerate() {
            let about = |error: Error| match count {
                1 => error,
                _ => error.within(&format!("gguf, part {} of {count}", n + 1)),
            };
            let mut head = Gguf::read_from(&mut part).await.map_err(about)?;
            head.check_part(n, count).map_err(about)?;
            let length = part.length().await.map_err(about)?;
            let start = file.push(part, length);
            for tensor in head.tensors.values_mut() {
                tensor.bytes = start + tensor.bytes.start..start + tensor.bytes.end;
            }
            let Some(all) = &mut all else {
                all = Some(head);
                continue;
            };
            for (name, tensor) in head.tensors {
                if all.tensors.contains_key(&name) {
                    let message = "gguf: the names of tensors must differ, got";
                    return Err(about(Error::format(format!("{message} {name:?} twice"))));
                }
                all.tensors.insert(name, tensor);
            }
        }
        match all {
            Some(all) => Ok((all, file)),
            None => Err(Error::argument("gguf: there must be at least one part, got none")),
        }
    }

    /// Rejects a file that is not part `number`, counted from 0, of a model with `count` parts.
    fn check_part(&self, number: usize, count: usize) -> Result<()> {
        let fact = |name: &str| self.metadata.get(name).and_then(|value| value.as_u64());
        let (no, of) = (fact("split.no").unwrap_or(0), fact("split.count").unwrap_or(1));
        if of.max(1) == count as u64 && no == number as u64 {
            return Ok(());
        }
        let message = "gguf: the files must be all parts of one model, in order, got";
        Err(Error::format(format!(
            "{message} part {} of {of} as part {} of {count}",
            no + 1,
            number + 1
        )))
    }
}

impl<F: Source> Source for GgufParts<F> {
    async fn length(&mut self) -> Result<u64> {
        Ok(self.bytes())
    }

    async fn read_range(&mut self, range: Range<u64>) -> Result<Vec<u8>> {
        let part = self.starts.partition_point(|&start| start <= range.start) - 1;
        let Some(file) = self.parts.get_mut(part) else {
            let message = format!("the part must be inside the files, got offset {}", range.start);
            return Err(Error::format(message));
        };
        // A tensor is completely in one part.
        let start = self.starts[part];
        let read = file.read_range(range.start - start..range.end - start).await;
        read.map_err(|error| match &self.names[part][..] {
            "" => error,
            name => Error::new(error.kind(), format!("{name}: {}", error.message())),
        })
    }
}
