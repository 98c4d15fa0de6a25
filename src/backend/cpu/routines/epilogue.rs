//! Epilogues: maps over the result of a routine.

use crate::backend::cpu::exec::inputs::Inputs;
use crate::backend::cpu::exec::memory::zeroed;
use crate::backend::cpu::exec::output::too_short;
use crate::backend::cpu::lower;
use crate::backend::cpu::lower::plan::LoopPlan;
use crate::backend::cpu::lower::tiling::count;
use crate::error::Result;
use crate::kernel::{Counts, Program};
use bytemuck::cast_slice_mut;

/// A prepared epilogue.
pub struct EpiloguePlan {
    program: LoopPlan,
    count: usize,
}

impl EpiloguePlan {
    /// Prepares an epilogue over the coordinates `dims`.
    pub fn new(program: &Program, dims: &[usize], counts: Counts) -> Result<EpiloguePlan> {
        let count = count(dims)?;
        let program = lower::map(dims, program, Counts { epilogue: true, ..counts })?;
        Ok(EpiloguePlan { program, count })
    }

    /// Calls `routine` with the memory for its row-major result, and then runs the epilogue. The memory has any content
    /// before.
    pub fn run(
        &self,
        inputs: &Inputs<'_>,
        outputs: &mut [&mut [u32]],
        routine: impl FnOnce(&mut [f32]) -> Result<()>,
    ) -> Result<()> {
        let mut outputs = self.program.placed(inputs, outputs)?;
        if let Some(home) = self.program.home {
            let output = &mut *outputs[home.output];
            let place = output.get_mut(home.offset..home.offset.saturating_add(self.count));
            let place = place.ok_or_else(too_short)?;
            routine(cast_slice_mut(place))?;
            if self.program.identity {
                return Ok(());
            }
            return self.program.run_placed(inputs, &mut outputs);
        }
        let mut words = zeroed(self.count)?;
        routine(cast_slice_mut(&mut words))?;
        let mut inputs = inputs.clone();
        inputs.buffers.push(&words);
        self.program.run_placed(&inputs, &mut outputs)
    }
}
