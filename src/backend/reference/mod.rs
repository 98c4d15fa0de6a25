//! The reference backend, which executes kernels element by element in the simplest way.
//!
//! All other backends are compared with it, and a new backend can follow it: `kernels.rs` defines each kernel, `program.rs`
//! each instruction, and `scalar.rs` each function. It is slow, so a device never chooses it automatically.
//!
//! It rejects violations of the kernels' contract that other machines cannot detect: a value from outside of a buffer that is
//! used, an element that is written twice, and a buffer that is written and also used for another purpose in one dispatch. The
//! outputs of a batch contain garbage before it runs. Sums are computed in `f64`, and rounded once.
//!
//! ```
//! use warpweft::backend::cpu::CpuBackend;
//! use warpweft::backend::reference::ReferenceBackend;
//! use warpweft::backend::Backend;
//! use warpweft::device::Device;
//!
//! # pollster::block_on(async {
//! let softmax = async |backend: Box<dyn Backend>| {
//!     let device = Device::from_backend(backend, None);
//!     let x = device.tensor::<f32>(&[0.0, 1.0, 2.0, 3.0], &[2, 2])?;
//!     x.softmax(-1)?.read::<f32>().await
//! };
//! let want = softmax(Box::new(ReferenceBackend::default())).await?;
//! let got = softmax(Box::new(CpuBackend::new())).await?;
//! assert!(want.iter().zip(&got).all(|(want, got)| (want - got).abs() < 1e-6));
//! # Ok::<(), warpweft::error::Error>(())
//! # }).unwrap();
//! ```

mod kernels;
mod program;
mod run;
mod scalar;

use crate::alloc::try_vec;
use crate::backend::{Backend, BufferId, Counters, DeviceKind, Info, Pending, ReadRange};
use crate::error::{Error, ErrorKind, Result};
use crate::kernel::{Dispatch, Kernel, KernelConfig, Limits, Plan, SlotStorage};
use run::Run;
use std::collections::HashMap;
use std::future::ready;
use std::sync::{Arc, Mutex, MutexGuard};

/// The reference backend, see the [module](self). Work is done when it is submitted.
pub struct ReferenceBackend {
    info: Info,
    limits: Limits,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    buffers: HashMap<BufferId, Vec<u8>>,
    /// The batches that ran. Another machine would have compiled their kernels.
    seen: Vec<Arc<Plan>>,
    counters: Counters,
}

/// The byte that fills memory that was never written. As `f32`, four of them are -1.7e38. As `f16`, two of them are NaN. As
/// integers, they are out of range of every index.
const GARBAGE: u8 = 0xfe;

impl Default for ReferenceBackend {
    fn default() -> ReferenceBackend {
        ReferenceBackend::new(ReferenceBackend::LIMITS)
    }
}

impl ReferenceBackend {
    /// The default limits of WebGPU: 8 storage buffers of at most 128 MiB.
    pub const LIMITS: Limits = Limits {
        buffers_per_kernel: 8,
        binding_bytes: 128 << 20,
        workgroups: 65_535,
        workgroup_size: 256,
        workgroup_bytes: 16 << 10,
        f16: true,
        subgroups: false,
        cooperative: false,
        sorts: false,
        packed: false,
        int8: false,
        timestamps: false,
        config: KernelConfig::GPU,
    };

    /// Creates a backend with these limits, for which batches are planned.
    pub fn new(limits: Limits) -> ReferenceBackend {
        let info = Info {
            backend: "reference",
            name: "reference".into(),
            vendor: String::new(),
            kind: DeviceKind::Cpu,
            driver: String::new(),
        };
        ReferenceBackend { info, limits, state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl Backend for ReferenceBackend {
    fn info(&self) -> &Info {
        &self.info
    }

    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn allocate(&self, bytes: u64) -> Result<BufferId> {
        let most = self.limits.binding_bytes;
        let count = usize::try_from(bytes).ok().filter(|_| bytes <= most);
        let count = count.ok_or_else(|| {
            let message =
                format!("reference: a buffer must have at most {most} bytes, got {bytes}");
            Error::new(ErrorKind::Limit, message)
        })?;
        let mut memory = try_vec("reference", count)?;
        memory.resize(count, GARBAGE);
        let mut state = self.state();
        state.counters.buffers += 1;
        state.counters.bytes += bytes;
        let id = BufferId(state.counters.buffers);
        state.buffers.insert(id, memory);
        Ok(id)
    }

    fn free(&self, buffer: BufferId) {
        let mut state = self.state();
        let freed = state.buffers.remove(&buffer);
        // A fault of the caller that no other check finds. During a panic, a second panic would hide the first.
        debug_assert!(freed.is_some() || std::thread::panicking(), "a buffer is freed once");
        state.counters.bytes -= freed.map_or(0, |freed| freed.len() as u64);
    }

    fn write(&self, buffer: BufferId, offset: u64, data: &[u8]) -> Result<()> {
        let mut state = self.state();
        let memory = state.buffers.get_mut(&buffer).ok_or_else(|| unknown(buffer))?;
        let place = range(offset, data.len() as u64).and_then(|range| memory.get_mut(range));
        place.ok_or_else(|| outside(buffer))?.copy_from_slice(data);
        Ok(())
    }

    fn compile(&self, batch: &Arc<Plan>) -> Pending<Result<()>> {
        self.state().compile(batch);
        Box::pin(ready(Ok(())))
    }

    fn run(&self, batch: &Arc<Plan>, buffers: &[BufferId], scalars: &[u32]) -> Result<()> {
        let mut state = self.state();
        state.counters.submits += 1;
        state.compile(batch);
        if batch.slots.len() != buffers.len() || batch.scalars > scalars.len() {
            return Err(Error::argument(
                "reference: buffers and numbers must be those of the batch, got others",
            ));
        }
        for (slot, buffer) in batch.slots.iter().zip(buffers) {
            let memory = state.buffers.get_mut(buffer).ok_or_else(|| unknown(*buffer))?;
            if (memory.len() as u64) < slot.bytes {
                return Err(outside(*buffer));
            }
            if !matches!(slot.storage, SlotStorage::Input(_)) {
                memory.fill(GARBAGE);
            }
        }
        for dispatch in &batch.dispatches {
            state.counters.dispatches += 1;
            self.dispatch(&mut state, dispatch, batch, buffers, scalars).map_err(|what| {
                let kind = dispatch.kernel.kind();
                Error::state(format!(
                    "reference: {kind} {} must be well formed, got {what}",
                    dispatch.label
                ))
            })?;
        }
        Ok(())
    }

    fn read_parts(&self, parts: Vec<ReadRange>) -> Pending<Result<()>> {
        let state = self.state();
        let taken = parts.into_iter().try_for_each(|ReadRange { buffer, offset, len, take }| {
            let memory = state.buffers.get(&buffer).ok_or_else(|| unknown(buffer))?;
            let place = range(offset, len).and_then(|range| memory.get(range));
            take(place.ok_or_else(|| outside(buffer))?)
        });
        Box::pin(ready(taken))
    }

    fn synchronize(&self) -> Pending<Result<()>> {
        Box::pin(ready(Ok(())))
    }

    fn release(&self, batch: &Arc<Plan>) {
        self.state().seen.retain(|seen| !Arc::ptr_eq(seen, batch));
    }

    fn counters(&self) -> Counters {
        self.state().counters
    }

    fn source(&self, _: &Kernel, _: KernelConfig) -> Option<String> {
        None
    }
}

impl State {
    fn compile(&mut self, batch: &Arc<Plan>) {
        if !self.seen.iter().any(|seen| Arc::ptr_eq(seen, batch)) {
            self.seen.push(batch.clone());
            self.counters.pipelines += batch.dispatches.len() as u64;
            self.counters.bind_groups += batch.dispatches.len() as u64;
        }
    }
}

impl ReferenceBackend {
    fn dispatch(
        &self,
        state: &mut State,
        dispatch: &Dispatch,
        batch: &Plan,
        buffers: &[BufferId],
        scalars: &[u32],
    ) -> std::result::Result<(), String> {
        let count = dispatch.inputs.len() + dispatch.outputs.len();
        if count > self.limits.buffers_per_kernel {
            return Err(format!("{count} buffers"));
        }
        let nowhere = || "a slot or number that does not exist".to_string();
        let place =
            |&slot: &usize| Some((batch.slots.get(slot)?.bytes as usize, *buffers.get(slot)?));
        let places = |slots: &[usize]| slots.iter().map(place).collect::<Option<Vec<_>>>();
        let inputs = places(&dispatch.inputs).ok_or_else(nowhere)?;
        let outputs = places(&dispatch.outputs).ok_or_else(nowhere)?;
        let params = dispatch.params.iter().map(|&param| scalars.get(param).copied());
        let params = params.collect::<Option<Vec<u32>>>().ok_or_else(nowhere)?;
        // A buffer that is written is removed meanwhile, so that no other use finds it.
        let mut written = Vec::new();
        for &(_, buffer) in &outputs {
            written.extend(state.buffers.remove(&buffer));
        }
        let find = |&(bytes, buffer): &(usize, BufferId)| state.buffers.get(&buffer)?.get(..bytes);
        let read = inputs.iter().map(find).collect::<Option<Vec<&[u8]>>>();
        let result = match read {
            Some(inputs) if written.len() == outputs.len() => {
                let mut run = Run::new(inputs, std::mem::take(&mut written), params);
                let result = kernels::run(&mut run, &dispatch.kernel);
                written = run.outputs;
                result
            }
            _ => Err("a buffer is written and used otherwise too".into()),
        };
        state.buffers.extend(outputs.iter().map(|output| output.1).zip(written));
        result
    }
}

fn range(offset: u64, len: u64) -> Option<std::ops::Range<usize>> {
    let end = usize::try_from(offset.checked_add(len)?).ok()?;
    Some(usize::try_from(offset).ok()?..end)
}

fn unknown(buffer: BufferId) -> Error {
    Error::state(format!("reference: the buffer must exist, got {}", buffer.0))
}

fn outside(buffer: BufferId) -> Error {
    Error::argument(format!(
        "reference: the range must be inside the buffer, got more in {}",
        buffer.0
    ))
}
