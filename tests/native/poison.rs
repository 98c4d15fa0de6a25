//! Tests that uninitialized memory does not matter. Before a batch, every output buffer, and the padding after uploaded data,
//! is filled with bits that are a NaN of every float dtype and outside every index range.
//!
//! `WARPWEFT_POISON=1` does this for all cases of `suite`. Some groups always run this way.

use crate::shared::{Group, GROUPS};
use crate::suite::{self, Place};
use crate::wrapper::{Wrapped, Wrapper};
use pollster::block_on;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use warpweft::backend::cpu::CpuBackend;
use warpweft::backend::{Backend, BufferId};
use warpweft::device::Device;
use warpweft::error::Result;
use warpweft::kernel::{self, Plan};

/// A backend whose memory is poisoned.
pub struct Poisoned {
    inner: Box<dyn Backend>,
    sizes: Mutex<HashMap<BufferId, u64>>,
}

/// The number of bytes of poison that are written at once.
const PART: u64 = 1 << 20;

/// Returns this backend, poisoned if `WARPWEFT_POISON` is set.
pub fn as_asked(inner: Box<dyn Backend>) -> Box<dyn Backend> {
    match std::env::var("WARPWEFT_POISON").as_deref() {
        Ok("1") => Poisoned::machine(inner),
        Ok(other) => panic!("WARPWEFT_POISON={other}; it is 1, or not set"),
        Err(_) => inner,
    }
}

impl Poisoned {
    pub fn machine(inner: Box<dyn Backend>) -> Box<dyn Backend> {
        Box::new(Wrapped(Poisoned { inner, sizes: Mutex::default() }))
    }

    fn size(&self, buffer: BufferId) -> u64 {
        let sizes = self.sizes.lock().unwrap_or_else(PoisonError::into_inner);
        sizes.get(&buffer).copied().unwrap_or(0)
    }

    /// Fills a buffer from `start` on.
    fn poison(&self, buffer: BufferId, mut start: u64) -> Result<()> {
        let end = self.size(buffer);
        while start < end {
            let part = (end - start).min(PART);
            self.inner.write(buffer, start, &vec![0xff; part as usize])?;
            start += part;
        }
        Ok(())
    }
}

impl Wrapper for Poisoned {
    fn inner(&self) -> &dyn Backend {
        &*self.inner
    }
    fn allocate(&self, bytes: u64) -> Result<BufferId> {
        let buffer = self.inner.allocate(bytes)?;
        let mut sizes = self.sizes.lock().unwrap_or_else(PoisonError::into_inner);
        sizes.insert(buffer, bytes);
        Ok(buffer)
    }
    fn free(&self, buffer: BufferId) {
        self.sizes.lock().unwrap_or_else(PoisonError::into_inner).remove(&buffer);
        self.inner.free(buffer);
    }
    fn write(&self, buffer: BufferId, offset: u64, data: &[u8]) -> Result<()> {
        self.inner.write(buffer, offset, data)?;
        match offset {
            0 => self.poison(buffer, data.len() as u64),
            _ => Ok(()),
        }
    }
    fn run(&self, batch: &Arc<Plan>, buffers: &[BufferId], scalars: &[u32]) -> Result<()> {
        for (slot, &buffer) in batch.slots.iter().zip(buffers) {
            if !matches!(slot.storage, kernel::SlotStorage::Input(_)) {
                self.poison(buffer, 0)?;
            }
        }
        self.inner.run(batch, buffers, scalars)
    }
}

/// Groups with many kernels that are split, merged and reused.
const ALWAYS: [&str; 3] = ["fuzz", "reduce", "scan"];

fn groups_pass(place: Place) {
    for name in ALWAYS {
        let group: &Group = GROUPS.iter().find(|group| group.name == name).expect(name);
        let backend = match place.backend() {
            Ok(backend) => backend,
            Err(error) => return suite::absent(place, &format!("poisoned {ALWAYS:?}"), &error),
        };
        let device = Device::from_backend(Poisoned::machine(backend), None);
        let report = suite::run_cases(
            place,
            &device,
            &suite::sampled((group.cases)().cases, place.first()),
            name,
        );
        let failures = report.failures.join("\n  ");
        assert!(report.ran > 0 && failures.is_empty(), "{}, poisoned:\n  {failures}", place.name());
    }
}

#[test]
fn groups_pass_on_cpu() {
    groups_pass(Place::Cpu);
}

#[test]
fn groups_pass_on_wgpu() {
    groups_pass(Place::Wgpu);
}

#[test]
fn groups_pass_on_wgpu_without_barriers() {
    groups_pass(Place::Plain);
}

/// Tests that a poisoned backend reads poison from unwritten memory and after data, and that another backend reads the previous
/// contents.
#[test]
fn stale_memory_is_seen() {
    for place in [Place::Cpu, Place::Wgpu, Place::Plain] {
        for poisoned in [false, true] {
            let backend = match place.backend() {
                Ok(backend) if poisoned => Poisoned::machine(backend),
                Ok(backend) => backend,
                Err(error) => return suite::absent(place, "stale_memory_is_seen", &error),
            };
            let sum = reads_stale(&*backend).expect("the batch runs");
            assert!(sum.is_nan() == poisoned && (poisoned || sum == 6.0), "{place:?}: {sum}");
            let behind = behind_data(&*backend).expect("it can be read");
            assert!(behind.is_nan() == poisoned, "{place:?}: {behind}");
        }
    }
}

/// Returns twice a temporary that the batch does not write. Its previous value was 3.
fn reads_stale(backend: &dyn Backend) -> Result<f32> {
    let planner = Device::from_backend(Box::new(CpuBackend::new()), None);
    let x = planner.tensor(&[1.0f32; 64], &[64])?;
    let y = x.add(&x)?;
    let mut batch = planner.batch();
    let mut plan = (*batch.add(&y)?.plan()?).clone();
    for slot in &mut plan.slots {
        if matches!(slot.storage, kernel::SlotStorage::Input(_)) {
            slot.storage = kernel::SlotStorage::Temporary(0);
        }
    }
    let mut buffers = Vec::new();
    for _ in &plan.slots {
        let buffer = backend.allocate(256)?;
        backend.write(buffer, 0, &3.0f32.to_le_bytes().repeat(64))?;
        buffers.push(buffer);
    }
    backend.run(&Arc::new(plan.clone()), &buffers, &[])?;
    let output = |slot: &kernel::Slot| matches!(slot.storage, kernel::SlotStorage::Output(_));
    let output = plan.slots.iter().position(output).expect("there is one");
    first(backend, buffers[output], 0)
}

fn behind_data(backend: &dyn Backend) -> Result<f32> {
    let buffer = backend.allocate(256)?;
    backend.write(buffer, 0, &3.0f32.to_le_bytes().repeat(64))?;
    backend.write(buffer, 0, &2.0f32.to_le_bytes().repeat(4))?;
    first(backend, buffer, 16)
}

fn first(backend: &dyn Backend, buffer: BufferId, offset: u64) -> Result<f32> {
    let bytes = block_on(backend.read(buffer, offset, 4))?;
    Ok(f32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
}
