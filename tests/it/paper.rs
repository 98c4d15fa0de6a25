//! The plainest machine there can be: it runs kernels one coordinate at a time, and refuses what their contract
//! forbids: values from outside a buffer that are used, elements that nobody or two threads write, buffers both read
//! and written. With its limits it plans as a browser does, without any device.

mod kernels;
mod program;

use std::collections::HashMap;
use std::future::ready;
use std::sync::{Arc, Mutex};
use warpweft::backend::{Backend, BufferId, Counters, DeviceKind, Info, Part, Pending};
use warpweft::device::Device;
use warpweft::error::{Error, Result};
use warpweft::kernel::{Batch, Dispatch, Kernel, KernelConfig, Limits, Place, Slot};

/// What a browser promises without being asked: 8 storage buffers, 128 MiB each.
pub fn web_limits() -> Limits {
    Limits {
        buffers_per_kernel: 8,
        binding_bytes: 128 << 20,
        workgroups: 65_535,
        workgroup_size: 256,
        workgroup_bytes: 16 << 10,
        f16: true,
        subgroups: false,
        cooperative: false,
        timestamps: false,
        config: KernelConfig::GPU,
    }
}

/// A device on paper, with the limits of [`web_limits`].
pub fn device() -> Device {
    Device::from_backend(Box::new(Paper::new(web_limits())), None)
}

/// The machine.
pub struct Paper {
    info: Info,
    limits: Limits,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    buffers: HashMap<BufferId, Vec<u8>>,
    seen: Vec<Arc<Batch>>,
    counters: Counters,
}

impl State {
    fn compile(&mut self, batch: &Arc<Batch>) {
        if !self.seen.iter().any(|seen| Arc::ptr_eq(seen, batch)) {
            self.seen.push(batch.clone());
            self.counters.pipelines += batch.dispatches.len() as u64;
            self.counters.bind_groups += batch.dispatches.len() as u64;
        }
    }
}

/// What memory holds that nobody has written: as `f32` a NaN, as an integer far out of every range.
const GARBAGE: u8 = 0xfe;

impl Paper {
    pub fn new(limits: Limits) -> Paper {
        let info = Info {
            backend: "paper",
            name: "paper".into(),
            vendor: String::new(),
            kind: DeviceKind::Cpu,
            driver: String::new(),
        };
        Paper { info, limits, state: Mutex::default() }
    }
}

/// A kernel at work: its inputs, and its outputs with how often each byte was written.
pub struct Run<'a> {
    pub inputs: Vec<&'a [u8]>,
    pub outputs: Vec<Vec<u8>>,
    pub written: Vec<Vec<u8>>,
    pub params: Vec<u32>,
}

impl Backend for Paper {
    fn info(&self) -> &Info {
        &self.info
    }

    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn allocate(&self, bytes: u64) -> Result<BufferId> {
        let most = self.limits.binding_bytes;
        if bytes > most {
            let message = format!("paper: a buffer of {bytes} bytes, and {most} is the most");
            return Err(Error::data(message));
        }
        let mut state = self.state.lock().expect("no panic");
        state.counters.buffers += 1;
        state.counters.bytes += bytes;
        let id = BufferId(state.counters.buffers);
        state.buffers.insert(id, vec![GARBAGE; bytes as usize]);
        Ok(id)
    }

    fn free(&self, buffer: BufferId) {
        let mut state = self.state.lock().expect("no panic");
        let freed = state.buffers.remove(&buffer);
        // In the middle of a failure a second panic would hide the first.
        assert!(freed.is_some() || std::thread::panicking(), "a buffer is freed once");
        state.counters.bytes -= freed.map_or(0, |freed| freed.len() as u64);
    }

    fn write(&self, buffer: BufferId, offset: u64, data: &[u8]) -> Result<()> {
        let mut state = self.state.lock().expect("no panic");
        let to = state.buffers.get_mut(&buffer).expect("a buffer that is written is there");
        to[offset as usize..][..data.len()].copy_from_slice(data);
        Ok(())
    }

    fn compile(&self, batch: &Arc<Batch>) -> Pending<Result<()>> {
        self.state.lock().expect("no panic").compile(batch);
        Box::pin(ready(Ok(())))
    }

    fn run(&self, batch: &Arc<Batch>, buffers: &[BufferId], scalars: &[u32]) -> Result<()> {
        let mut state = self.state.lock().expect("no panic");
        state.counters.submits += 1;
        state.compile(batch);
        for (slot, buffer) in batch.slots.iter().zip(buffers) {
            if !matches!(slot.place, Place::Input(_)) {
                state.buffers.get_mut(buffer).expect("it is there").fill(GARBAGE);
            }
        }
        for dispatch in &batch.dispatches {
            state.counters.dispatches += 1;
            self.dispatch(&mut state, dispatch, batch, buffers, scalars)
                .map_err(|what| fault(dispatch, &what))?;
        }
        Ok(())
    }

    fn read_parts(&self, parts: Vec<Part>) -> Pending<Result<()>> {
        let state = self.state.lock().expect("no panic");
        let taken = parts.into_iter().try_for_each(|Part { buffer, offset, len, take }| {
            let from = &state.buffers[&buffer];
            take(&from[offset as usize..][..len as usize])
        });
        Box::pin(ready(taken))
    }

    fn sync(&self) -> Pending<Result<()>> {
        Box::pin(ready(Ok(())))
    }

    fn forget(&self, batch: &Arc<Batch>) {
        let mut state = self.state.lock().expect("no panic");
        state.seen.retain(|seen| !Arc::ptr_eq(seen, batch));
    }

    fn counters(&self) -> Counters {
        self.state.lock().expect("no panic").counters
    }

    fn source(&self, _: &Kernel, _: KernelConfig) -> Option<String> {
        None
    }
}

impl Paper {
    fn dispatch(
        &self,
        state: &mut State,
        dispatch: &Dispatch,
        batch: &Batch,
        buffers: &[BufferId],
        scalars: &[u32],
    ) -> std::result::Result<(), String> {
        let count = dispatch.inputs.len() + dispatch.outputs.len();
        if count > self.limits.buffers_per_kernel {
            return Err(format!("{count} buffers"));
        }
        for (i, output) in dispatch.outputs.iter().enumerate() {
            let others = dispatch.outputs[..i].iter().chain(&dispatch.inputs);
            if others.map(|&o| buffers[o]).any(|other| other == buffers[*output]) {
                return Err("a buffer is written and used otherwise too".into());
            }
        }
        let slot = |&s: &usize| -> (&Slot, BufferId) { (&batch.slots[s], buffers[s]) };
        let mut outputs = Vec::new();
        for (_, buffer) in dispatch.outputs.iter().map(slot) {
            outputs.push(state.buffers.remove(&buffer).ok_or("an output is not there")?);
        }
        let mut inputs = Vec::new();
        for (slot, buffer) in dispatch.inputs.iter().map(slot) {
            let bytes = state.buffers.get(&buffer).ok_or("an input is not there")?;
            inputs.push(bytes.get(..slot.bytes as usize).ok_or("an input's buffer is too small")?);
        }
        let mut run = Run {
            inputs,
            written: outputs.iter().map(|o| vec![0; o.len()]).collect(),
            outputs,
            params: dispatch.params.iter().map(|&p| scalars[p]).collect(),
        };
        let ran = kernels::run(&mut run, &dispatch.kernel);
        let Run { outputs, .. } = run;
        for ((_, buffer), bytes) in dispatch.outputs.iter().map(slot).zip(outputs) {
            state.buffers.insert(buffer, bytes);
        }
        ran
    }
}

fn fault(dispatch: &Dispatch, what: &str) -> Error {
    Error::data(format!("paper: {} {}: {what}", dispatch.kernel.kind(), dispatch.label))
}
