//! `PackedTensor`: a low-bit matrix that products and lookups read without unpacking it first.

use crate::device::Device;
use crate::dtype::{FLOATS, INDICES};
use crate::error::{Error, ErrorKind, Result};
use crate::op::{Op, PackedArithmetic, PackedFormat, Routine};
use crate::shape::Shape;
use crate::tensor::{with_op_name, DType, Tensor};

/// The name in error messages.
const NAME: &str = "PackedTensor";

/// The most bytes of one tensor of rows.
const MAX_CHUNK_BYTES: u64 = 1 << 26;

/// A matrix whose rows are packed in a [`PackedFormat`], such as the weights of a language model.
///
/// Products decode blocks while they read them, so the matrix takes only the memory of its packed form. It is a constant
/// without a gradient. Gradients pass through its products to the other operand.
///
/// A large matrix is stored as several tensors of some rows each. Each of them fits into one binding of the device, which
/// is 128 MiB on many phones.
///
/// ```
/// # pollster::block_on(async {
/// # use warpweft::{device::{Device, Preference}, op::PackedFormat, tensor::PackedTensor};
/// let device = Device::with(Preference::Cpu).await?;
/// // Two rows of two `bf16`: 1 and 2, 3 and 4.
/// let words = [0x4000_3F80, 0x4080_4040];
/// let matrix = PackedTensor::new(&device, PackedFormat::BF16, [2, 2], &words)?;
/// let x = device.tensor(&[10.0f32, 1.0], &[2])?;
/// assert_eq!(matrix.linear(&x)?.read::<f32>().await?, [12.0, 34.0]);
/// let second = device.tensor(&[1], &[1])?;
/// assert_eq!(matrix.rows(&second)?.read::<f32>().await?, [3.0, 4.0]);
/// # Ok::<(), warpweft::error::Error>(()) }).unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct PackedTensor {
    format: PackedFormat,
    arithmetic: PackedArithmetic,
    shape: [usize; 2],
    /// Consecutive groups of rows.
    chunks: Vec<Tensor>,
}

impl PackedTensor {
    /// Creates a matrix of this shape from the words of its rows. [`PackedFormat::row_words`] is the number of words in a
    /// row, and [`op::packed`](crate::op::packed) documents their layout.
    ///
    /// # Errors
    /// `Shape` if the number of columns is 0 or not a multiple of the format's block, or if the number of words is wrong;
    /// `Memory`; `Limit` if a row does not fit into one binding of the device.
    pub fn new(
        device: &Device,
        format: PackedFormat,
        shape: [usize; 2],
        words: &[u32],
    ) -> Result<PackedTensor> {
        PackedTensor::filled(PackedBuilder::new(device, format, shape)?, words)
    }

    /// Creates a matrix like [`PackedTensor::new`], with at most `most` words in a tensor.
    #[doc(hidden)] // For tests.
    pub fn in_chunks(
        device: &Device,
        format: PackedFormat,
        shape: [usize; 2],
        words: &[u32],
        most: u64,
    ) -> Result<PackedTensor> {
        PackedTensor::filled(PackedBuilder::in_chunks(device, format, shape, most)?, words)
    }

    fn filled(mut matrix: PackedBuilder, words: &[u32]) -> Result<PackedTensor> {
        let [rows, columns] = matrix.shape;
        if rows.checked_mul(matrix.width) != Some(words.len()) {
            let (format, width, have) = (matrix.format, matrix.width, words.len());
            let must =
                format!("[{rows}, {columns}] in {format} must have {width} words for each row");
            return Err(Error::shape(format!("{NAME}: {must}, got {have} words")));
        }
        matrix.add(words)?;
        matrix.finish()
    }

    /// The numbers of rows and columns.
    pub fn shape(&self) -> [usize; 2] {
        self.shape
    }

    /// The format of the rows.
    pub fn format(&self) -> PackedFormat {
        self.format
    }

    /// Returns the same matrix with another arithmetic for its products. The default is exact.
    pub fn with_arithmetic(self, arithmetic: PackedArithmetic) -> PackedTensor {
        PackedTensor { arithmetic, ..self }
    }

    /// The number of bytes of all rows.
    pub fn bytes(&self) -> u64 {
        self.chunks.iter().map(|chunk| 4 * chunk.numel() as u64).sum()
    }

    /// The device that the matrix is on.
    pub fn device(&self) -> &Device {
        self.chunks[0].device()
    }

    /// Returns the product with the transposed matrix, `x [.., columns] -> [.., rows]`, like a linear layer without a
    /// bias. Sums are computed in `f32`. Gradients pass to `x`.
    ///
    /// # Errors
    /// `Shape` unless the last axis of `x` has one element for each column; `DType` unless `x` is a float.
    pub fn linear(&self, x: &Tensor) -> Result<Tensor> {
        let [rows, columns] = self.shape;
        let Some((&last, before)) = x.shape.split_last().filter(|(last, _)| **last == columns)
        else {
            let must = format!("the last axis of x must have the {columns} columns of the matrix");
            return Err(Error::wrong_shape("linear", &must, &x.shape));
        };
        if !x.dtype().is_float() {
            return Err(Error::wrong_dtype("linear", FLOATS, x.dtype()));
        }
        with_op_name("linear", || {
            let flat = match before.len() {
                1 => x.clone(),
                _ => x.reshape(&[before.iter().product(), last])?,
            };
            let format = self.format;
            let arithmetic = match self.device().limits().int8 {
                true => self.arithmetic,
                false => PackedArithmetic::Exact,
            };
            let mut parts = Vec::with_capacity(self.chunks.len());
            for chunk in &self.chunks {
                let product = Op::Routine(Routine::PackedMatmul { format, arithmetic });
                parts.push(flat.apply(product, &[chunk])?);
            }
            let product = match &parts[..] {
                [whole] => whole.clone(),
                _ => Tensor::concat(&parts, 1)?,
            };
            match before.len() {
                1 => Ok(product),
                _ => product.reshape(&[before, &[rows]].concat()),
            }
        })
    }

    /// Returns unpacked rows in `f32`, `index [..] -> [.., columns]`, like an embedding. An index outside the matrix
    /// gives the row that zero words decode to.
    ///
    /// # Errors
    /// `DType` unless the index is `i32` or `u32`.
    pub fn rows(&self, index: &Tensor) -> Result<Tensor> {
        if !matches!(index.dtype(), DType::I32 | DType::U32) {
            return Err(Error::wrong_dtype("rows", INDICES, index.dtype()));
        }
        with_op_name("rows", || {
            let flat = index.cast(DType::I32)?.reshape(&[index.numel()])?;
            let (mut found, mut first): (Option<Tensor>, usize) = (None, 0);
            for chunk in &self.chunks {
                // Rows of other groups give words of 0. As `u32`, no position counts from the end.
                let place = flat.sub(first as f64)?.bitcast(DType::U32)?;
                let here = chunk.index_select(0, &place)?;
                found = Some(match found {
                    None => here,
                    Some(others) => others.bitwise_or(&here)?,
                });
                first += chunk.shape[0];
            }
            let words = found.expect("there is at least one chunk");
            let rows = self.unpacked(&words)?;
            rows.reshape(&[&index.shape[..], &[self.shape[1]]].concat())
        })
    }

    /// Unpacks the whole matrix to `f32`.
    ///
    /// # Errors
    /// `Limit` if the result is too large.
    pub fn dequantize(&self) -> Result<Tensor> {
        let mut parts = Vec::with_capacity(self.chunks.len());
        for chunk in &self.chunks {
            parts.push(self.unpacked(chunk)?);
        }
        match &parts[..] {
            [whole] => Ok(whole.clone()),
            _ => with_op_name("dequantize", || Tensor::concat(&parts, 0)),
        }
    }

    fn unpacked(&self, words: &Tensor) -> Result<Tensor> {
        let routine = Routine::Unpack { format: self.format, columns: self.shape[1] };
        words.apply(Op::Routine(routine), &[])
    }
}

/// Builds a [`PackedTensor`] from rows that arrive in pieces. Each piece is uploaded at once, so the matrix is never in
/// memory twice.
///
/// ```
/// # pollster::block_on(async {
/// # use warpweft::{device::{Device, Preference}, op::PackedFormat, tensor::PackedBuilder};
/// let device = Device::with(Preference::Cpu).await?;
/// let mut matrix = PackedBuilder::new(&device, PackedFormat::BF16, [2, 2])?;
/// matrix.add(&[0x4000_3F80])?;
/// matrix.add(&[0x4080_4040])?;
/// assert_eq!(matrix.finish()?.shape(), [2, 2]);
/// # Ok::<(), warpweft::error::Error>(()) }).unwrap();
/// ```
pub struct PackedBuilder {
    device: Device,
    format: PackedFormat,
    shape: [usize; 2],
    /// The number of words in a row, and of rows in a group.
    width: usize,
    each: usize,
    /// The number of rows that were added.
    rows: usize,
    chunks: Vec<Tensor>,
}

impl PackedBuilder {
    /// Creates a builder for a matrix of this shape.
    ///
    /// # Errors
    /// `Shape` if the number of columns is 0 or not a multiple of the format's block; `Limit` if a row does not fit into
    /// one binding of the device or into a tensor.
    pub fn new(device: &Device, format: PackedFormat, shape: [usize; 2]) -> Result<PackedBuilder> {
        let (limits, columns) = (device.limits(), shape[1]);
        // The unpacked row must be a tensor. Its bytes then do not overflow.
        Shape::new(NAME, &[columns])?;
        let (words, binding) = (format.row_words(columns) as u64, limits.binding_bytes);
        // Devices that unpack rows by ordinary operations also need the unpacked row to fit into one binding.
        let row = if limits.packed { 4 * words } else { 4 * words.max(columns as u64) };
        if row > binding {
            let must = format!("a row must have at most {binding} bytes on this device");
            return Err(Error::new(ErrorKind::Limit, format!("{NAME}: {must}, got {row}")));
        }
        let most = (binding.min(MAX_CHUNK_BYTES).max(row) / row.max(1)).saturating_mul(words);
        PackedBuilder::in_chunks(device, format, shape, most)
    }

    fn in_chunks(
        device: &Device,
        format: PackedFormat,
        shape: [usize; 2],
        most: u64,
    ) -> Result<PackedBuilder> {
        let columns = shape[1];
        if columns == 0 || !columns.is_multiple_of(format.block_len()) {
            let block = format.block_len();
            let must = format!("the columns must be a multiple of {block} for {format}, and not 0");
            return Err(Error::shape(format!("{NAME}: {must}, got {columns}")));
        }
        let width = format.row_words(columns);
        if width as u64 > most {
            let message = format!("{NAME}: a row must have at most {most} words, got {width}");
            return Err(Error::new(ErrorKind::Limit, message));
        }
        let each = usize::try_from(most / width as u64).unwrap_or(usize::MAX);
        let device = device.clone();
        Ok(PackedBuilder { device, format, shape, width, each, rows: 0, chunks: Vec::new() })
    }

    /// Appends whole rows.
    ///
    /// # Errors
    /// `Shape` unless the words are whole rows, and no more rows than are missing; `Memory`.
    pub fn add(&mut self, mut words: &[u32]) -> Result<()> {
        let (width, missing) = (self.width, self.shape[0] - self.rows);
        if !words.len().is_multiple_of(width) || words.len() / width > missing {
            let (columns, format, have) = (self.shape[1], self.format, words.len());
            let must = format!("rows of {columns} in {format} must have {width} words");
            let message =
                format!("{NAME}: {must}, got {have} words where {missing} rows are missing");
            return Err(Error::shape(message));
        }
        while !words.is_empty() {
            let (chunk, row) = (self.rows / self.each, self.rows % self.each);
            if chunk == self.chunks.len() {
                self.chunk(self.each.min(self.shape[0] - self.rows))?;
            }
            let (now, later) = words.split_at(words.len().min((self.each - row) * width));
            let (node, offset) = (self.chunks[chunk].node()?, 4 * (row * width) as u64);
            self.device.fill(node, offset, bytemuck::cast_slice(now))?;
            self.rows += now.len() / width;
            words = later;
        }
        Ok(())
    }

    /// Reserves memory for the next group of rows.
    fn chunk(&mut self, rows: usize) -> Result<()> {
        let shape = Shape::new(NAME, &[rows, self.width])?;
        let node = self.device.reserve(shape, DType::U32)?;
        self.chunks.push(Tensor::adopt(&self.device, node));
        Ok(())
    }

    /// Returns the matrix.
    ///
    /// # Errors
    /// `Shape` if rows are missing; `Memory`.
    pub fn finish(mut self) -> Result<PackedTensor> {
        let PackedBuilder { format, shape, rows, .. } = self;
        if rows < shape[0] {
            let message = format!("{NAME}: all {} rows must be added, got {rows}", shape[0]);
            return Err(Error::shape(message));
        }
        if self.chunks.is_empty() {
            self.chunk(0)?;
        }
        Ok(PackedTensor { format, arithmetic: PackedArithmetic::Exact, shape, chunks: self.chunks })
    }
}
