//! Lowering of loop kernels to plans. Plans contain all decisions that do not depend on buffers.

pub mod formula;
mod instruction_list;
mod origins;
pub mod plan;
mod region;
mod registers;
mod split_dims;
mod steps;
mod superinstruction;
pub mod tiling;
pub mod walk;

use crate::error::Result;
use crate::kernel::{Counts, Program, Space};
use instruction_list::InstructionList;
use origins::origins;
use plan::LoopPlan;
use region::{regions, Region};
use registers::{assign, Assigned};
use split_dims::split;
pub use steps::moves;
use steps::{Maker, Orders};
use tiling::Tiling;

/// Lowers a kernel to one plan for each region. Returns an error for an invalid kernel.
pub fn kernel(space: &Space, program: &Program, counts: Counts) -> Result<Vec<LoopPlan>> {
    program.check(space, counts)?;
    let split = split(space, program);
    let (space, program) = split.as_ref().map_or((space, program), |(s, p)| (s, p));
    let plan = |(space, region)| lower(&space, &region, program, counts);
    regions(space, program).into_iter().map(plan).collect()
}

/// Lowers a map over `dims` to one plan.
pub fn map(dims: &[usize], program: &Program, counts: Counts) -> Result<LoopPlan> {
    let space = Space { dims: dims.to_vec(), outer: dims.len() };
    program.check(&space, counts)?;
    let split = split(&space, program);
    let (space, program) = split.as_ref().map_or((&space, program), |(s, p)| (s, p));
    lower(space, &Region::default(), program, counts)
}

fn lower(space: &Space, region: &Region, program: &Program, counts: Counts) -> Result<LoopPlan> {
    let (origins, without) = origins(program);
    let program = without.as_ref().unwrap_or(program);
    let list = InstructionList::new(space, program);
    let mut tiling = match list.per_element() {
        true => Tiling::rows(space, &list.loads(), &list.stores(), list.cost())?,
        false => Tiling::map(space, region, list.cost())?,
    };
    let orders = Orders::new(space, region, &tiling);
    let maker = Maker::new(program, &list, orders, counts, tiling.rows);
    if !maker.is_divided(tiling.rows, tiling.task) {
        tiling.task = tiling.rows;
    }
    let Assigned { uniform, uniforms, shared, body, registers } = assign(&list, tiling.whole);
    let body = maker.body(body)?;
    Ok(LoopPlan {
        uniform: maker.steps(&uniform)?,
        uniforms,
        shared,
        body,
        registers,
        width: tiling.row_block.max(tiling.row_block.saturating_mul(tiling.column_block)),
        identity: maker.identity(),
        home: maker.home,
        targets: maker.targets,
        origins,
        afters: maker.afters,
        tiling,
    })
}
