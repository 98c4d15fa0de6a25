//! A case prepared on a device, with its inputs uploaded and its program compiled.

use super::cases::Kind;
use crate::device::Device;
use crate::dtype::DType;
use crate::error::Result;
use crate::tensor::{Program, Tensor};
use crate::TensorBlocking;

/// A case on a device, ready to run.
pub struct Ready {
    kind: Kind,
    device: Device,
    data: Vec<Vec<f32>>,
    inputs: Vec<Tensor>,
    program: Option<Program>,
}

impl Ready {
    /// Uploads the inputs, and compiles the program if the case has one.
    ///
    /// # Errors
    /// The errors of the operations.
    pub fn new(kind: &Kind, device: &Device, data: Vec<Vec<f32>>) -> Result<Ready> {
        let (shapes, mut inputs) = (kind.inputs(), Vec::new());
        for (data, input) in data.iter().zip(&shapes) {
            inputs.push(device.tensor(data, &input.shape)?);
        }
        let recorded = matches!(kind, Kind::Adds { .. } | Kind::Transfer { .. });
        let open = |i: &usize| !shapes[*i].weight;
        let given: Vec<usize> = (0..shapes.len()).filter(open).collect();
        let declared: Vec<(&[usize], DType)> =
            given.iter().map(|&i| (&shapes[i].shape[..], DType::F32)).collect();
        let build = |placeholders: &[Tensor]| {
            let mut all = inputs.clone();
            given.iter().zip(placeholders).for_each(|(&i, x)| all[i] = x.clone());
            Ok(vec![kind.record(&all)?])
        };
        let program = match recorded {
            true => None,
            false => Some(device.compile(&declared, build)?),
        };
        let kept = |(i, x): (usize, &Tensor)| given.contains(&i).then(|| x.clone());
        if program.is_some() {
            inputs = inputs.iter().enumerate().filter_map(kept).collect();
        }
        Ok(Ready { kind: kind.clone(), device: device.clone(), data, inputs, program })
    }

    /// Computes the case once. The result may still be in progress until it is read.
    ///
    /// # Errors
    /// The errors of the operations and the device.
    pub fn step(&self) -> Result<Tensor> {
        match (&self.program, &self.kind) {
            (Some(program), _) => {
                let inputs: Vec<&Tensor> = self.inputs.iter().collect();
                program.run(&inputs).map(|mut results| results.remove(0))
            }
            (None, Kind::Transfer { .. }) => {
                let x = self.device.tensor(&self.data[0], &self.kind.output())?;
                self.kind.record(&[x])
            }
            (None, _) => self.kind.record(&self.inputs),
        }
    }

    /// Waits for a result. Reads all of it for a transfer, and one number otherwise.
    ///
    /// # Errors
    /// The errors of the device.
    pub fn wait(&self, result: &Tensor) -> Result<()> {
        match self.kind {
            Kind::Transfer { .. } => result.read_blocking::<f32>().map(drop),
            _ => result.read_range_blocking::<f32>(0, 1).map(drop),
        }
    }
}
