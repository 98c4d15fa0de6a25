//! The work of a device: memory, modules, events, and streams, whose work is done when the host waits.

use crate::codes::{
    Code, ILLEGAL_ADDRESS, INVALID_HANDLE, INVALID_IMAGE, INVALID_PTX, INVALID_VALUE, NOT_FOUND,
    NOT_READY, OUT_OF_MEMORY,
};
use crate::mock::Mock;
use crate::out::{read, write, Bytes, Out};
use ptx_interpreter::{Argument, Launch, Memory, Module};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

/// The start of a cubin of the mock. The length of its PTX and the PTX follow.
const MAGIC: &[u8; 8] = b"MOCKCUBN";
/// The bytes that memory has before anything is written. As floats they are NaN.
const UNDEFINED: u8 = 0xff;
/// The flag of events without times.
const DISABLE_TIMING: u32 = 2;
/// The most dynamic shared memory of a launch without an attribute, in bytes.
const DYNAMIC_SHARED: usize = 48 << 10;

/// The objects of a device.
pub struct Work {
    total_bytes: usize,
    /// The last handle.
    handle: usize,
    memory: Memory,
    buffers: BTreeMap<u64, Buffer>,
    pinned: BTreeMap<usize, Vec<u8>>,
    modules: HashMap<usize, Arc<Module>>,
    functions: HashMap<usize, Function>,
    links: HashMap<usize, Link>,
    events: HashMap<usize, Event>,
    streams: HashMap<usize, VecDeque<Operation>>,
    /// The number of finished operations, which is the time in microseconds.
    time: u64,
}

struct Buffer {
    bytes: usize,
    is_pooled: bool,
    /// Whether the work that frees it was submitted.
    is_freed: bool,
}

#[derive(Clone)]
struct Function {
    module: usize,
    name: String,
    dynamic_shared: usize,
}

struct Link {
    /// The address and the bytes of the log for errors.
    log: Option<(usize, usize)>,
    text: Option<String>,
    cubin: Vec<u8>,
}

struct Event {
    flags: u32,
    /// The stream where it was recorded.
    stream: Option<usize>,
    /// Whether its operation is not done.
    is_pending: bool,
    time: u64,
}

enum Operation {
    /// A copy from pinned memory, with the hash of its bytes when it was submitted.
    Upload {
        to: u64,
        from: usize,
        bytes: usize,
        hash: u64,
    },
    Write {
        to: u64,
        data: Vec<u8>,
    },
    Download {
        to: usize,
        from: u64,
        bytes: usize,
    },
    Launch {
        module: usize,
        name: String,
        launch: Box<Launch>,
        arguments: Vec<Argument>,
    },
    Free(u64),
    Record(usize),
}

fn hash(bytes: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    bytes.hash(&mut hasher);
    hasher.finish()
}

impl Work {
    pub fn new(total_bytes: usize) -> Work {
        Work {
            total_bytes,
            handle: 0x1000,
            memory: Memory::new(),
            buffers: BTreeMap::new(),
            pinned: BTreeMap::new(),
            modules: HashMap::new(),
            functions: HashMap::new(),
            links: HashMap::new(),
            events: HashMap::new(),
            streams: HashMap::new(),
            time: 0,
        }
    }

    pub fn total_bytes(&self) -> usize {
        self.total_bytes
    }

    /// Names the objects that were not freed. Empty if there is none.
    pub fn left(&self) -> String {
        let counts = [
            (self.buffers.len(), "buffers"),
            (self.pinned.len(), "pinned"),
            (self.modules.len(), "modules"),
            (self.links.len(), "links"),
            (self.events.len(), "events"),
            (self.streams.len(), "streams"),
        ];
        let left = counts.iter().filter(|(count, _)| *count > 0);
        left.map(|(count, name)| format!("{count} {name}")).collect::<Vec<String>>().join(", ")
    }

    fn new_handle(&mut self) -> usize {
        self.handle += 16;
        self.handle
    }

    /// Whether waiting work matches.
    fn waits(&self, matches: impl Fn(&Operation) -> bool) -> bool {
        self.streams.values().flatten().any(matches)
    }
}

impl Mock {
    // Streams and events.

    pub fn create_stream(&mut self, _flags: u32) -> Result<usize, Code> {
        let stream = self.work.new_handle();
        self.work.streams.insert(stream, VecDeque::new());
        Ok(stream)
    }

    pub fn is_stream(&mut self, stream: usize) -> Result<(), Code> {
        match self.work.streams.contains_key(&stream) {
            true => Ok(()),
            false => self.violation("the stream must exist", INVALID_HANDLE),
        }
    }

    pub fn destroy_stream(&mut self, stream: usize) -> Result<(), Code> {
        self.synchronize(stream)?;
        self.work.streams.remove(&stream);
        Ok(())
    }

    pub fn synchronize(&mut self, stream: usize) -> Result<(), Code> {
        self.is_stream(stream)?;
        while let Some(next) = self.work.streams.get_mut(&stream).and_then(VecDeque::pop_front) {
            self.execute(next)?;
        }
        Ok(())
    }

    pub fn create_event(&mut self, flags: u32) -> usize {
        let event = self.work.new_handle();
        let created = Event { flags, stream: None, is_pending: false, time: 0 };
        self.work.events.insert(event, created);
        event
    }

    fn event(&mut self, event: usize) -> Result<&mut Event, Code> {
        if !self.work.events.contains_key(&event) {
            return self.violation("the event must exist", INVALID_HANDLE);
        }
        self.work.events.get_mut(&event).ok_or(INVALID_HANDLE)
    }

    pub fn destroy_event(&mut self, event: usize) -> Result<(), Code> {
        self.event(event)?;
        self.work.events.remove(&event);
        Ok(())
    }

    pub fn record_event(&mut self, event: usize, stream: usize) -> Result<(), Code> {
        self.is_stream(stream)?;
        let recorded = self.event(event)?;
        (recorded.stream, recorded.is_pending) = (Some(stream), true);
        // Only the last record counts.
        for queue in self.work.streams.values_mut() {
            queue.retain(|it| !matches!(it, Operation::Record(other) if *other == event));
        }
        self.submit(stream, Operation::Record(event))
    }

    pub fn synchronize_event(&mut self, event: usize) -> Result<(), Code> {
        while self.event(event)?.is_pending {
            let stream = self.event(event)?.stream.unwrap_or_default();
            let next = self.work.streams.get_mut(&stream).and_then(VecDeque::pop_front);
            match next {
                Some(next) => self.execute(next)?,
                None => return self.violation("a waiting event has no stream", INVALID_HANDLE),
            }
        }
        Ok(())
    }

    pub fn elapsed(&mut self, start: usize, end: usize) -> Result<f32, Code> {
        let mut times = [0; 2];
        for (event, time) in [start, end].into_iter().zip(&mut times) {
            let found = self.event(event)?;
            let (flags, is_pending) = (found.flags, found.is_pending || found.stream.is_none());
            *time = found.time;
            if flags & DISABLE_TIMING != 0 {
                return self.violation("an event without times is timed", INVALID_HANDLE);
            }
            if is_pending {
                return self.violation("an event is timed before it is done", NOT_READY);
            }
        }
        match times[0] <= times[1] {
            true => Ok((times[1] - times[0]) as f32 * 1e-3),
            false => self.violation("events are timed in the wrong order", INVALID_VALUE),
        }
    }

    // Memory.

    pub fn allocate(&mut self, bytes: usize, is_pooled: bool) -> Result<u64, Code> {
        if bytes == 0 {
            return self.violation("an allocation has no bytes", INVALID_VALUE);
        }
        if is_pooled {
            self.pool()?;
        }
        let used: usize = self.work.buffers.values().map(|buffer| buffer.bytes).sum();
        if bytes > self.work.total_bytes - used.min(self.work.total_bytes) {
            return Err(OUT_OF_MEMORY);
        }
        let address = self.work.memory.alloc_bytes(&vec![UNDEFINED; bytes]);
        self.work.buffers.insert(address, Buffer { bytes, is_pooled, is_freed: false });
        Ok(address)
    }

    /// Frees memory, after the work of a stream or at once.
    pub fn free(&mut self, address: u64, stream: Option<usize>) -> Result<(), Code> {
        match self.work.buffers.get_mut(&address).filter(|buffer| !buffer.is_freed) {
            Some(buffer) if buffer.is_pooled == stream.is_some() => buffer.is_freed = true,
            Some(_) => return self.violation("memory is freed in the other way", INVALID_VALUE),
            None => {
                let what = format!("freed memory must be allocated, got {address:#x}");
                return self.violation(&what, INVALID_VALUE);
            }
        }
        if let Some(stream) = stream {
            return self.submit(stream, Operation::Free(address));
        }
        let streams: Vec<usize> = self.work.streams.keys().copied().collect();
        streams.into_iter().try_for_each(|stream| self.synchronize(stream))?;
        self.execute(Operation::Free(address))
    }

    /// Checks that a range of device memory is in one allocation that is not freed.
    fn is_allocated(&mut self, address: u64, bytes: u64) -> Result<(), Code> {
        let below = self.work.buffers.range(..=address).next_back();
        let is_in = below.is_some_and(|(start, buffer)| {
            let end = address.checked_add(bytes);
            !buffer.is_freed && end.is_some_and(|end| end <= start + buffer.bytes as u64)
        });
        match is_in {
            true => Ok(()),
            false => {
                let what = format!("{bytes} bytes at {address:#x} must be allocated");
                self.violation(&what, INVALID_VALUE)
            }
        }
    }

    pub fn pin(&mut self, bytes: usize) -> Result<usize, Code> {
        let mut memory = vec![UNDEFINED; bytes];
        let address = memory.as_mut_ptr() as usize;
        self.work.pinned.insert(address, memory);
        Ok(address)
    }

    pub fn unpin(&mut self, address: usize) -> Result<(), Code> {
        let Some(len) = self.work.pinned.get(&address).map(Vec::len) else {
            return self.violation("freed pinned memory must be allocated", INVALID_VALUE);
        };
        let range = address..address + len;
        let uses = |it: &Operation| match it {
            Operation::Upload { from, .. } => range.contains(from),
            Operation::Download { to, .. } => range.contains(to),
            _ => false,
        };
        if self.work.waits(uses) {
            return self.violation("pinned memory is freed before its copies", INVALID_VALUE);
        }
        self.work.pinned.remove(&address);
        Ok(())
    }

    fn is_pinned(&self, address: usize, bytes: usize) -> bool {
        let below = self.work.pinned.range(..=address).next_back();
        below.is_some_and(|(start, memory)| address + bytes <= start + memory.len())
    }

    pub fn upload(
        &mut self,
        to: u64,
        from: Bytes,
        bytes: usize,
        stream: usize,
    ) -> Result<(), Code> {
        self.is_allocated(to, bytes as u64)?;
        let data = from.read(bytes)?;
        match self.is_pinned(from.address(), bytes) {
            true => {
                let (from, hash) = (from.address(), hash(&data));
                self.submit(stream, Operation::Upload { to, from, bytes, hash })
            }
            false => self.submit(stream, Operation::Write { to, data }),
        }
    }

    pub fn download(
        &mut self,
        to: Bytes,
        from: u64,
        bytes: usize,
        stream: usize,
    ) -> Result<(), Code> {
        self.is_allocated(from, bytes as u64)?;
        let to = to.address();
        let is_pinned = self.is_pinned(to, bytes);
        if is_pinned {
            // A host that reads before it waits gets these.
            write(to, &vec![UNDEFINED; bytes])?;
        }
        self.submit(stream, Operation::Download { to, from, bytes })?;
        if is_pinned {
            Ok(())
        } else {
            self.synchronize(stream)
        }
    }

    // Kernels.

    pub fn create_link(&mut self, options: &[(u32, usize)]) -> usize {
        let option = |number| options.iter().find(|it| it.0 == number).map(|it| it.1);
        // CU_JIT_ERROR_LOG_BUFFER and its size.
        let log = option(5).zip(option(6));
        let handle = self.work.new_handle();
        self.work.links.insert(handle, Link { log, text: None, cubin: Vec::new() });
        handle
    }

    fn link(&mut self, link: usize) -> Result<&mut Link, Code> {
        if !self.work.links.contains_key(&link) {
            return self.violation("the link must exist", INVALID_HANDLE);
        }
        self.work.links.get_mut(&link).ok_or(INVALID_HANDLE)
    }

    pub fn add_to_link(&mut self, link: usize, kind: u32, data: Vec<u8>) -> Result<(), Code> {
        let text = data.strip_suffix(&[0]).map(|text| String::from_utf8_lossy(text).into_owned());
        // CU_JIT_INPUT_PTX.
        let Some(text) = text.filter(|_| kind == 1) else {
            return self.violation("PTX must end with a zero", INVALID_VALUE);
        };
        let log = self.link(link)?.log;
        let problem = match Module::parse(&text) {
            Err(error) => Some(error.to_string()),
            Ok(module) => {
                let target = module.target().0.trim_start_matches("sm_").parse::<i32>();
                let newest = self.newest_target();
                let is_newer = target.is_ok_and(|target| target > newest);
                is_newer.then(|| format!("the target must be at most sm_{newest}"))
            }
        };
        if let Some(problem) = problem {
            if let Some((address, len)) = log {
                let kept = problem.len().min(len.saturating_sub(1));
                write(address, &[&problem.as_bytes()[..kept], &[0]].concat())?;
            }
            return Err(INVALID_PTX);
        }
        self.link(link)?.text = Some(text);
        Ok(())
    }

    /// Returns the address and the length of the cubin.
    pub fn complete_link(&mut self, link: usize) -> Result<(usize, usize), Code> {
        let linked = self.link(link)?;
        let text = linked.text.take().ok_or(INVALID_VALUE)?;
        let len = (text.len() as u64).to_le_bytes();
        linked.cubin = [&MAGIC[..], &len, text.as_bytes()].concat();
        Ok((linked.cubin.as_mut_ptr() as usize, linked.cubin.len()))
    }

    pub fn destroy_link(&mut self, link: usize) -> Result<(), Code> {
        self.link(link)?;
        self.work.links.remove(&link);
        Ok(())
    }

    pub fn load_module(&mut self, image: Bytes) -> Result<usize, Code> {
        let head = image.read(16)?;
        let (magic, len) = head.split_at(8);
        if magic != MAGIC {
            return Err(INVALID_IMAGE);
        }
        let len = u64::from_le_bytes(len.try_into().map_err(|_| INVALID_IMAGE)?) as usize;
        let text = image.read(16 + len)?.split_off(16);
        let text = String::from_utf8(text).map_err(|_| INVALID_IMAGE)?;
        let module = Arc::new(Module::parse(&text).map_err(|_| INVALID_IMAGE)?);
        let handle = self.work.new_handle();
        self.work.modules.insert(handle, module);
        Ok(handle)
    }

    fn module(&mut self, module: usize) -> Result<Arc<Module>, Code> {
        match self.work.modules.get(&module) {
            Some(found) => Ok(found.clone()),
            None => self.violation("the module must be loaded", INVALID_HANDLE),
        }
    }

    pub fn unload_module(&mut self, module: usize) -> Result<(), Code> {
        self.module(module)?;
        if self.work.waits(|it| matches!(it, Operation::Launch { module: it, .. } if *it == module))
        {
            return self.violation("a module is unloaded before its launches", INVALID_HANDLE);
        }
        self.work.modules.remove(&module);
        self.work.functions.retain(|_, function| function.module != module);
        Ok(())
    }

    pub fn function(&mut self, module: usize, name: &str) -> Result<usize, Code> {
        let found = self.module(module)?.entries().contains(&name);
        let function = Function { module, name: name.to_string(), dynamic_shared: DYNAMIC_SHARED };
        let handle = self.work.new_handle();
        self.work.functions.insert(handle, function);
        if found {
            Ok(handle)
        } else {
            Err(NOT_FOUND)
        }
    }

    pub fn set_attribute(
        &mut self,
        function: usize,
        attribute: u32,
        value: i32,
    ) -> Result<(), Code> {
        // CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES.
        match self.work.functions.get_mut(&function).filter(|_| attribute == 8 && value >= 0) {
            Some(function) => {
                function.dynamic_shared = value as usize;
                Ok(())
            }
            None => self.violation("an attribute needs a function", INVALID_VALUE),
        }
    }

    pub fn launch(
        &mut self,
        function: usize,
        [grid, block]: [[u32; 3]; 2],
        shared: usize,
        stream: usize,
        parameters: &Out<Out<u64>>,
    ) -> Result<(), Code> {
        let Some(Function { module, name, dynamic_shared }) =
            self.work.functions.get(&function).cloned()
        else {
            return self.violation("the function of a launch must be loaded", INVALID_HANDLE);
        };
        if shared > dynamic_shared {
            return self.violation("a launch must not exceed its shared memory", INVALID_VALUE);
        }
        let sizes = self.module(module)?.parameter_sizes(&name).ok_or(NOT_FOUND)?;
        let value = |n| parameters.at(n)?.get();
        let values = (0..sizes.len()).map(value).collect::<Option<Vec<u64>>>();
        let values = values.ok_or(INVALID_VALUE)?;
        let mut arguments = Vec::new();
        for pair in values.chunks(2) {
            let &[address, bytes] = pair else {
                return self.violation("parameters must be pairs", INVALID_VALUE);
            };
            self.is_allocated(address, bytes)?;
            arguments.extend([Argument::Pointer(address), Argument::U64(bytes)]);
        }
        // All invocations of a WGSL shader may write one value to one place.
        let launch = Launch::new(grid, block)
            .with_shared(shared)
            .with(|options| options.allow_equal_writes = true);
        let launch = Box::new(launch);
        self.submit(stream, Operation::Launch { module, name, launch, arguments })
    }

    fn submit(&mut self, stream: usize, operation: Operation) -> Result<(), Code> {
        self.is_stream(stream)?;
        if let Some(queue) = self.work.streams.get_mut(&stream) {
            queue.push_back(operation);
        }
        Ok(())
    }

    /// Does an operation.
    fn execute(&mut self, operation: Operation) -> Result<(), Code> {
        self.work.time += 1;
        let time = self.work.time;
        let done = match operation {
            Operation::Upload { to, from, bytes, hash: before } => {
                let data = read(from, bytes)?;
                if hash(&data) != before {
                    return self.violation("pinned memory changes before its copy", INVALID_VALUE);
                }
                self.work.memory.write(to, &data)
            }
            Operation::Write { to, data } => self.work.memory.write(to, &data),
            Operation::Download { to, from, bytes } => match self.work.memory.read(from, bytes) {
                Ok(data) => return write(to, &data),
                Err(error) => Err(error),
            },
            Operation::Launch { module, name, launch, arguments } => {
                let module = self.module(module)?;
                module.run(&name, &launch, &mut self.work.memory, &arguments).map(drop)
            }
            Operation::Free(address) => {
                self.work.memory.free(address);
                self.work.buffers.remove(&address);
                Ok(())
            }
            Operation::Record(event) => {
                if let Some(event) = self.work.events.get_mut(&event) {
                    (event.is_pending, event.time) = (false, time);
                }
                Ok(())
            }
        };
        match done {
            Ok(()) => Ok(()),
            Err(error) => self.violation(&error.to_string(), ILLEGAL_ADDRESS),
        }
    }
}
