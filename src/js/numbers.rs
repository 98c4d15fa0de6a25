//! Numbers from JavaScript, one after the other, each checked to be what the operation needs.

use crate::error::{Error, ErrorKind, Result};
use crate::tensor::DType;

/// The numbers passed to one operation.
pub struct Numbers<'a> {
    name: &'static str,
    rest: &'a [f64],
}

impl<'a> Numbers<'a> {
    /// The numbers passed to the operation called `name`.
    pub fn new(name: &'static str, numbers: &'a [f64]) -> Numbers<'a> {
        Numbers { name, rest: numbers }
    }

    /// Whether all were taken.
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// Any number.
    pub fn real(&mut self) -> Result<f64> {
        let (&first, rest) = self.rest.split_first().ok_or_else(|| self.short())?;
        self.rest = rest;
        Ok(first)
    }

    fn short(&self) -> Error {
        Error::data(format!("{}: an argument is missing", self.name))
    }

    /// A whole number from `low` to `high`.
    fn whole(&mut self, low: f64, high: f64) -> Result<f64> {
        let number = self.real()?;
        let name = self.name;
        if !(number.fract() == 0.0 && number >= low) {
            let message = format!("{name}: {number} is not a whole number of at least {low}");
            return Err(Error::shape(message));
        }
        if number > high {
            let message = format!("{name}: {number} is above {high}");
            return Err(Error::new(ErrorKind::Limit, message));
        }
        Ok(number)
    }

    /// An extent, a count or a position.
    pub fn size(&mut self) -> Result<usize> {
        Ok(self.whole(0.0, f64::from(u32::MAX))? as usize)
    }

    /// An axis or a position, counted from the end where it is negative.
    pub fn axis(&mut self) -> Result<isize> {
        Ok(self.integer()? as isize)
    }

    /// A whole number of either sign.
    pub fn integer(&mut self) -> Result<i32> {
        Ok(self.whole(f64::from(i32::MIN), f64::from(i32::MAX))? as i32)
    }

    /// The seed of random numbers.
    pub fn seed(&mut self) -> Result<u32> {
        Ok(self.whole(0.0, f64::from(u32::MAX))? as u32)
    }

    /// True unless it is 0.
    pub fn flag(&mut self) -> Result<bool> {
        Ok(self.real()? != 0.0)
    }

    /// An element type by number.
    pub fn dtype(&mut self) -> Result<DType> {
        const TYPES: [DType; 5] = [DType::F32, DType::F16, DType::I32, DType::U32, DType::Bool];
        let number = self.size()?;
        let known = TYPES.get(number).copied();
        known.ok_or_else(|| Error::data(format!("{}: no element type {number}", self.name)))
    }

    /// So many sizes.
    pub fn some_sizes(&mut self, count: usize) -> Result<Vec<usize>> {
        let mut sizes = Vec::new();
        for _ in 0..count.min(self.rest.len() + 1) {
            sizes.push(self.size()?);
        }
        Ok(sizes)
    }

    /// All that are left, as sizes.
    pub fn sizes(&mut self) -> Result<Vec<usize>> {
        self.some_sizes(self.rest.len())
    }

    /// All that are left, as axes.
    pub fn axes(&mut self) -> Result<Vec<isize>> {
        let mut axes = Vec::new();
        while !self.is_empty() {
            axes.push(self.axis()?);
        }
        Ok(axes)
    }
}

/// An element type's number.
pub fn dtype_code(dtype: DType) -> u32 {
    match dtype {
        DType::F32 => 0,
        DType::F16 => 1,
        DType::I32 => 2,
        DType::U32 => 3,
        DType::Bool => 4,
    }
}
