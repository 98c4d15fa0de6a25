//! GPUs through wgpu: Vulkan, Metal and DX12 natively, WebGPU in a browser.

mod adapters;
mod batch;
mod errors;
mod groups;
mod ledger;
mod memory;
mod pipelines;
mod transfer;
#[cfg(not(target_arch = "wasm32"))]
mod waiting;

pub use adapters::{adapters, is_available, open, Adapter, Choice, Power};
#[doc(hidden)]
pub use pipelines::fold;

use crate::backend::{Backend, BufferId, Counters, Info, Pending};
use crate::codegen::{self, Source};
use crate::error::{Error, Result};
use crate::kernel::{Batch, Kernel, Limits};
use batch::Prepared;
use errors::Gate;
use groups::Groups;
use ledger::{lock, Ticket};
use memory::{Buffers, Uniform};
use pipelines::Pipelines;
use std::collections::HashMap;
use std::future::ready;
use std::sync::{Arc, Mutex};
use transfer::Transfer;

/// An open GPU.
pub struct WgpuBackend {
    info: Info,
    limits: Limits,
    // In a browser nothing here is `Send`, and everything stays on its thread: `Arc` costs nothing
    // there.
    gate: Arc<Gate>,
    queue: wgpu::Queue,
    transfer: Transfer,
    /// Apart from the rest: while one thread compiles, others run. Locked before `state` where both
    /// are.
    pipelines: Mutex<Pipelines>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    buffers: Buffers,
    uniform: Uniform,
    groups: Groups,
    /// By the batch's address.
    batches: HashMap<usize, Prepared>,
    submits: u64,
    dispatches: u64,
}

impl WgpuBackend {
    fn new(info: Info, limits: Limits, gate: Gate, queue: wgpu::Queue) -> Result<WgpuBackend> {
        let gate = Arc::new(gate);
        #[cfg(not(target_arch = "wasm32"))]
        waiting::start(gate.clone(), queue.clone())?;
        let transfer = Transfer::new();
        let (pipelines, state) = (Mutex::default(), Mutex::default());
        Ok(WgpuBackend { info, limits, gate, queue, transfer, pipelines, state })
    }

    /// Loses the device: everything that is awaited, and every later call, answers `DeviceLost`.
    pub fn destroy(&self) {
        self.gate.device.destroy();
        self.gate.ledger.lose("it was destroyed");
    }

    /// As [`Backend::run`], with the text of each dispatch given: for tests of this backend.
    #[doc(hidden)]
    pub fn run_sources(
        &self,
        batch: &Arc<Batch>,
        sources: &[Source],
        buffers: &[BufferId],
        scalars: &[u32],
    ) -> Result<()> {
        self.run_text(batch, buffers, scalars, |number| sources[number].clone())
    }

    fn run_text(
        &self,
        batch: &Arc<Batch>,
        buffers: &[BufferId],
        scalars: &[u32],
        text: impl FnMut(usize) -> Source,
    ) -> Result<()> {
        let (gate, ledger) = (&self.gate, &self.gate.ledger);
        ledger.check("run")?;
        gate.ask_late(0);
        self.prepare(batch, text)?;
        let mut guard = lock(&self.state);
        let state = &mut *guard;
        let Some(prepared) = state.batches.get_mut(&address(batch)) else {
            return Err(Error::data("run: the batch was forgotten while it was run"));
        };
        let slots = Prepared::slots(batch, buffers, &state.buffers)?;
        if let Some(error) = prepared.broken() {
            // Not run at all: what it would have written means nothing, and reading it says so.
            ledger.store(ledger.tick(), error.clone());
            prepared.pass_on(buffers, &mut state.buffers, None);
            return Ok(());
        }
        let params = prepared.params(scalars)?;
        let (uniform, new) = state.uniform.write(gate, &self.queue, params)?;
        if new {
            state.groups.clear();
        }
        let dispatches = prepared.dispatches();
        if dispatches == 0 {
            return Ok(());
        }
        let trial = prepared.trial();
        gate.watch_for_read("run", trial.as_ref(), || {
            let commands = prepared.record(gate, &mut state.groups, uniform, buffers, &slots);
            self.queue.submit([commands]);
        });
        self.transfer.submitted();
        prepared.pass_on(buffers, &mut state.buffers, trial);
        state.groups.tick();
        state.submits += 1;
        state.dispatches += dispatches;
        Ok(())
    }

    /// Compiles a batch, unless that was done.
    fn prepare(&self, batch: &Arc<Batch>, text: impl FnMut(usize) -> Source) -> Result<()> {
        let known = || lock(&self.state).batches.contains_key(&address(batch));
        if known() {
            return Ok(());
        }
        let mut pipelines = lock(&self.pipelines);
        // Another thread may have done it meanwhile.
        if !known() {
            let made = Prepared::new(&self.gate, &self.limits, &mut pipelines, batch, text)?;
            let batches = &mut lock(&self.state).batches;
            batches.retain(|_, prepared| !prepared.dead());
            batches.insert(address(batch), made);
        }
        Ok(())
    }

    fn start_read(
        &self,
        buffer: BufferId,
        offset: u64,
        len: u64,
    ) -> Result<Pending<Result<Vec<u8>>>> {
        self.gate.ledger.check("read")?;
        let (source, doubts) = {
            let state = lock(&self.state);
            let memory = state.buffers.range("read", buffer, offset, len)?;
            (memory.buffer.clone(), memory.doubts().cloned().collect())
        };
        if len == 0 {
            let done = self.sync();
            return Ok(Box::pin(async move { done.await.map(|()| Vec::new()) }));
        }
        self.transfer.read(&self.gate, &self.queue, &source, offset..offset + len, doubts)
    }
}

impl Backend for WgpuBackend {
    fn info(&self) -> &Info {
        &self.info
    }

    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn allocate(&self, bytes: u64) -> Result<BufferId> {
        self.gate.ledger.check("allocate")?;
        lock(&self.state).buffers.allocate(&self.gate, &self.limits, bytes)
    }

    fn free(&self, buffer: BufferId) {
        let mut state = lock(&self.state);
        state.groups.forget(buffer);
        state.buffers.free(buffer);
    }

    fn write(&self, buffer: BufferId, offset: u64, data: &[u8]) -> Result<()> {
        self.gate.ledger.check("write")?;
        let len = data.len() as u64;
        let target = {
            let mut state = lock(&self.state);
            let target = state.buffers.range("write", buffer, offset, len)?.buffer.clone();
            if offset == 0 {
                // Written anew: what went wrong before does not matter any more.
                state.buffers.depend([buffer].into_iter(), &[]);
            }
            target
        };
        if data.is_empty() {
            return Ok(());
        }
        self.transfer.upload(&self.gate, &self.queue, &target, offset, data)
    }

    fn run(&self, batch: &Arc<Batch>, buffers: &[BufferId], scalars: &[u32]) -> Result<()> {
        // Layers of a model share their kernels: each text is written once.
        let mut written: HashMap<&Kernel, Source> = HashMap::new();
        self.run_text(batch, buffers, scalars, |number| {
            let kernel = &*batch.dispatches[number].kernel;
            written.entry(kernel).or_insert_with(|| codegen::wgsl(kernel)).clone()
        })
    }

    fn read(&self, buffer: BufferId, offset: u64, len: u64) -> Pending<Result<Vec<u8>>> {
        match self.start_read(buffer, offset, len) {
            Ok(pending) => pending,
            Err(error) => Box::pin(ready(Err(error))),
        }
    }

    fn sync(&self) -> Pending<Result<()>> {
        let gate = self.gate.clone();
        if let Err(error) = gate.ledger.check("sync") {
            return Box::pin(ready(Err(error)));
        }
        let ticket = Ticket::new(gate.ledger.tick(), None);
        let done = ticket.clone();
        self.queue.on_submitted_work_done(move || done.settle(true));
        self.transfer.submitted();
        gate.ledger.open(&ticket);
        Box::pin(async move { gate.finished(&ticket, "sync", &[]).await })
    }

    fn forget(&self, batch: &Arc<Batch>) {
        lock(&self.state).batches.remove(&address(batch));
    }

    fn counters(&self) -> Counters {
        let pipelines = lock(&self.pipelines).made;
        let state = lock(&self.state);
        Counters {
            pipelines,
            buffers: state.buffers.made,
            bytes: state.buffers.bytes,
            bind_groups: state.groups.made,
            submits: state.submits,
            dispatches: state.dispatches,
        }
    }

    fn source(&self, kernel: &Kernel) -> Option<String> {
        Some(codegen::wgsl(kernel).text)
    }
}

impl Drop for WgpuBackend {
    /// What is awaited still comes.
    fn drop(&mut self) {
        self.gate.ledger.close();
        // Otherwise the memory would stay until the next garbage collection.
        #[cfg(target_arch = "wasm32")]
        if !self.gate.ledger.awaited() {
            self.gate.device.destroy();
        }
    }
}

/// What a batch is known by.
fn address(batch: &Arc<Batch>) -> usize {
    Arc::as_ptr(batch) as usize
}
