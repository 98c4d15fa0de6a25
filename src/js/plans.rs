//! What submissions are planned as, and for which kernels, in words.

use super::codes;
use super::objects::{self, keep, Object};
use crate::error::Result;

/// Keeps the plan of a device's last submission, of a program, or of tensors together; none where nothing was submitted.
pub fn plan(what: u32, of: u32, tensors: &[u32], answer: &mut Vec<f64>) -> Result<()> {
    let (device, plan) = match what {
        codes::ask::last_plan => {
            let device = objects::device(of)?;
            let Some(plan) = device.last_plan() else { return Ok(()) };
            (device, plan)
        }
        codes::ask::program_plan => {
            let (device, program) = objects::program(of)?;
            (device, program.plan().clone())
        }
        _ => (objects::device(of)?, objects::batch(of, tensors)?.plan()?),
    };
    answer.push(keep(Object::Plan(device, plan)).into());
    Ok(())
}

/// A plan in words.
pub fn words(what: u32, handle: u32, kernel: u32) -> Result<String> {
    if what == codes::words::variants {
        // The kernels that a device runs.
        return Ok(objects::device(handle)?.variants().to_string());
    }
    let (device, plan) = objects::plan(handle)?;
    if what == codes::words::source {
        // The text that a kernel of a plan is compiled from; nothing where there is none.
        return Ok(device.kernel_source(&plan, kernel as usize).unwrap_or_default());
    }
    // A plan, with 0 characters between: operations, buffers, bytes, its text, and a label for each kernel.
    let buffers = plan.temporaries.len() + plan.outputs.len();
    let (operations, bytes) = (plan.operations, plan.bytes_written());
    let mut words = format!("{operations}\0{buffers}\0{bytes}\0{plan}");
    for dispatch in &plan.dispatches {
        words += "\0";
        words += &dispatch.label;
    }
    Ok(words)
}
