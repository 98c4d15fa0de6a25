//! What JavaScript holds, by number: one slab per thread. 0 is no object; numbers of disposed objects are used again.

use crate::device::{Device, Plan};
use crate::error::{Error, Result};
use crate::tensor::{Batch, Program, Tensor};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

/// Something that JavaScript holds.
#[derive(Clone)]
pub enum Object {
    Device(Device),
    Tensor(Tensor),
    Program(Device, Rc<Program>),
    Plan(Device, Arc<Plan>),
}

impl Object {
    fn device(&self) -> &Device {
        match self {
            Object::Device(device) | Object::Program(device, _) | Object::Plan(device, _) => device,
            Object::Tensor(tensor) => tensor.device(),
        }
    }
}

struct Slab {
    entries: Vec<Option<Object>>,
    vacant: Vec<u32>,
}

thread_local! {
    static SLAB: RefCell<Slab> =
        const { RefCell::new(Slab { entries: Vec::new(), vacant: Vec::new() }) };
}

/// Keeps an object, and gives its number.
pub fn keep(object: Object) -> u32 {
    SLAB.with_borrow_mut(|slab| match slab.vacant.pop() {
        Some(at) => {
            slab.entries[at as usize] = Some(object);
            at + 1
        }
        None => {
            slab.entries.push(Some(object));
            slab.entries.len() as u32
        }
    })
}

/// Keeps the result of an operation, unless it carries an error: JavaScript throws at once.
pub fn keep_tensor(tensor: Tensor) -> Result<u32> {
    match tensor.error() {
        Some(error) => Err(error.clone()),
        None => Ok(keep(Object::Tensor(tensor))),
    }
}

fn get(handle: u32) -> Option<Object> {
    let at = (handle as usize).checked_sub(1)?;
    SLAB.with_borrow(|slab| slab.entries.get(at).cloned().flatten())
}

fn gone(what: &str, handle: u32) -> Error {
    Error::data(format!("warpweft: there is no {what} {handle}; it was disposed"))
}

/// The tensor with this number.
pub fn tensor(handle: u32) -> Result<Tensor> {
    match get(handle) {
        Some(Object::Tensor(tensor)) => Ok(tensor),
        _ => Err(gone("tensor", handle)),
    }
}

/// The tensors with these numbers; 0 stands for one that is left out.
pub fn operands(handles: &[u32]) -> Result<Vec<Option<Tensor>>> {
    let mut found = Vec::with_capacity(handles.len());
    for &handle in handles {
        found.push(if handle == 0 { None } else { Some(tensor(handle)?) });
    }
    Ok(found)
}

/// Keeps the results of an operation, and appends their numbers.
pub fn keep_tensors(tensors: &[Tensor], handles: &mut Vec<f64>) -> Result<()> {
    for tensor in tensors {
        handles.push(keep_tensor(tensor.clone())?.into());
    }
    Ok(())
}

/// The tensors with these numbers.
pub fn tensors(handles: &[u32]) -> Result<Vec<Tensor>> {
    let mut found = Vec::with_capacity(handles.len());
    for &handle in handles {
        found.push(tensor(handle)?);
    }
    Ok(found)
}

/// The device with this number.
pub fn device(handle: u32) -> Result<Device> {
    match get(handle) {
        Some(Object::Device(device)) => Ok(device),
        _ => Err(gone("device", handle)),
    }
}

/// Whether this is a device's number.
pub fn is_device(handle: u32) -> bool {
    let at = (handle as usize).wrapping_sub(1);
    SLAB.with_borrow(|slab| matches!(slab.entries.get(at), Some(Some(Object::Device(_)))))
}

/// The tensors with these numbers, to be submitted together on the device with that.
pub fn batch(on: u32, handles: &[u32]) -> Result<Batch> {
    let mut batch = device(on)?.batch();
    for tensor in tensors(handles)? {
        batch.add(&tensor)?;
    }
    Ok(batch)
}

/// The program with this number.
pub fn program(handle: u32) -> Result<(Device, Rc<Program>)> {
    match get(handle) {
        Some(Object::Program(device, program)) => Ok((device, program)),
        _ => Err(gone("program", handle)),
    }
}

/// The plan with this number, and the device it is for.
pub fn plan(handle: u32) -> Result<(Device, Arc<Plan>)> {
    match get(handle) {
        Some(Object::Plan(device, plan)) => Ok((device, plan)),
        _ => Err(gone("plan", handle)),
    }
}

/// Drops the object with this number, and with a device everything that lives on it.
pub fn drop_object(handle: u32) {
    let Some(found) = get(handle) else { return };
    let mut dropped = Vec::new();
    SLAB.with_borrow_mut(|slab| {
        let (range, owner) = match &found {
            Object::Device(device) => (0..slab.entries.len(), Some(device)),
            _ => (handle as usize - 1..handle as usize, None),
        };
        for at in range {
            let Some(object) = &slab.entries[at] else { continue };
            if owner.is_none_or(|owner| object.device().is_same(owner)) {
                dropped.push(slab.entries[at].take());
                slab.vacant.push(at as u32);
            }
        }
    });
    // Outside of the slab's borrow: what goes here gives its memory back to the device.
    drop(dropped);
}
