//! Loads whose index depends on a comparison or on data: slices, padding and gather.

use super::context::{Context, LowerError};
use super::index::broadcast;
use super::writer::ProgramWriter;
use crate::dtype::DType;
use crate::expr::Binary;
use crate::graph::TraceNode;
use crate::kernel::{Atom, Index, Inst, ValueId};
use crate::op::{Offset, PadAmount};

impl Context<'_> {
    /// Returns the start of a span, at most `latest`. A dynamic start is the next of `numbers`.
    pub fn span_start(
        &mut self,
        writer: &mut ProgramWriter,
        start: Offset,
        latest: usize,
        numbers: &mut &[usize],
    ) -> Result<Index, LowerError> {
        let (unit, node) = match (start, numbers.split_first()) {
            (Offset::Static(at), _) => return Ok(Index::constant(at as i64)),
            (Offset::Dynamic(unit), Some((&node, rest))) => {
                *numbers = rest;
                (unit, node)
            }
            (Offset::Dynamic(_), None) => unreachable!("each start that is data has its operand"),
        };
        let value = self.value(writer, node, &[])?;
        let number = writer.number(value, latest / unit.max(1));
        Ok(Index::constant(0).plus(&number, unit as i64))
    }

    /// Returns the operand inside its bounds, otherwise the fill value.
    pub fn padded_value(
        &mut self,
        writer: &mut ProgramWriter,
        traced: &TraceNode,
        margins: &[PadAmount],
        coords: &[Index],
    ) -> Result<ValueId, LowerError> {
        let (input, fill) = (traced.inputs[0], traced.inputs[1]);
        let from = self.trace.nodes[input].shape;
        let mut inside: Option<ValueId> = None;
        let (mut moved, mut numbers) = (Vec::with_capacity(coords.len()), &traced.inputs[2..]);
        for ((coord, margin), &extent) in coords.iter().zip(margins).zip(from.iter()) {
            let before = self.span_start(writer, margin.before, margin.more, &mut numbers)?;
            let coord = coord.plus(&before, -1);
            if margin.more > 0 {
                // Compared as unsigned numbers, an index before the start is too large as well.
                let value = writer.builder.index(&coord);
                let value = writer.builder.push(Inst::Cast(DType::U32, value));
                let extent = writer.builder.number(DType::U32, extent as f64);
                let here = writer.builder.push(Inst::Binary(Binary::Lt, value, extent));
                inside = Some(match inside {
                    Some(all) => writer.builder.push(Inst::Binary(Binary::And, all, here)),
                    None => here,
                });
            }
            moved.push(coord);
        }
        let Some(inside) = inside else { return self.value(writer, input, &moved) };
        let fill = self.value(writer, fill, &broadcast(coords, &self.trace.nodes[fill].shape))?;
        if from.numel() == 0 {
            return Ok(fill);
        }
        let value = self.value(writer, input, &moved)?;
        Ok(writer.builder.push(Inst::Select(inside, value, fill)))
    }

    /// Returns the coordinates in `node`, which pads its operand, of the operand's elements.
    pub fn padded_coords(
        &mut self,
        writer: &mut ProgramWriter,
        node: usize,
        margins: &[PadAmount],
        coords: &[Index],
    ) -> Result<Vec<Index>, LowerError> {
        let mut numbers = &self.trace.nodes[node].inputs[2..];
        let mut to = Vec::with_capacity(coords.len());
        for (coord, margin) in coords.iter().zip(margins) {
            let before = self.span_start(writer, margin.before, margin.more, &mut numbers)?;
            to.push(coord.plus(&before, 1));
        }
        Ok(to)
    }

    /// Returns the operand's elements at loaded positions, or 0 outside the operand.
    pub fn gathered_value(
        &mut self,
        writer: &mut ProgramWriter,
        traced: &TraceNode,
        (axis, paired): (usize, bool),
        coords: &[Index],
    ) -> Result<ValueId, LowerError> {
        let (input, indices) = (traced.inputs[0], traced.inputs[1]);
        let from = self.trace.nodes[input].shape;
        let first = if paired { 0 } else { axis };
        let last = first + self.trace.nodes[indices].shape.rank();
        let mut at = self.value(writer, indices, &coords[first..last])?;
        let unsigned = match writer.builder.dtype(at) {
            DType::U32 => at,
            _ => writer.builder.push(Inst::Cast(DType::U32, at)),
        };
        let extent = writer.builder.number(DType::U32, from[axis] as f64);
        let inside = writer.builder.push(Inst::Binary(Binary::Lt, unsigned, extent));
        if writer.builder.dtype(at) != DType::I32 {
            at = writer.builder.push(Inst::Cast(DType::I32, at));
        }
        let at = Index { offset: 0, terms: vec![(Atom::Value(at), 1)] };
        let moved = [&coords[..axis], &[at], &coords[last..]].concat();
        let value = if from.numel() == 0 { None } else { Some(self.value(writer, input, &moved)?) };
        let zero = writer.builder.number(traced.dtype, 0.0);
        Ok(value.map_or(zero, |v| writer.builder.push(Inst::Select(inside, v, zero))))
    }
}
