//! The state of the mock: communicators, their collectives, failures that are asked for, and the record of calls.

use mock_driver::out::Out;
use mock_driver::{cuMemcpyDtoHAsync_v2, cuMemcpyHtoDAsync_v2, cuStreamSynchronize};
use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

/// The result of a call that failed.
pub type Code = u32;

const CUDA_ERROR: Code = 1;
const INVALID_ARGUMENT: Code = 4;
const INVALID_USAGE: Code = 5;
const IN_PROGRESS: Code = 7;
/// The driver's code for work that is not done.
const NOT_READY: Code = 600;

/// NCCL's types of bytes and floats, and its sum.
const UINT8: u32 = 1;
const FLOAT32: u32 = 7;
const SUM: u32 = 0;

/// For how many queries of its state a call continues in the background.
const QUERIES: u32 = 2;

/// NCCL's unique id.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Id([u8; 128]);

/// NCCL's configuration, as in version 2.18.
#[repr(C)]
pub struct Config {
    size: usize,
    magic: u32,
    version: u32,
    blocking: i32,
    others: [i32; 3],
    net_name: usize,
    split_share: i32,
}

/// The arguments of a collective that must be the same on all ranks.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Call {
    pub name: &'static str,
    pub count: usize,
    pub of: u32,
    pub reduction: u32,
    pub root: i32,
}

/// The communicators of one id.
struct Group {
    size: usize,
    /// The handles of the ranks that have called, or 0.
    handles: Vec<usize>,
    operations: Vec<Operation>,
    finalized: usize,
}

/// A collective, and the values of the ranks that take part.
struct Operation {
    call: Call,
    inputs: Vec<Option<Vec<u8>>>,
    /// How many ranks have their results.
    taken: usize,
}

struct Communicator {
    id: Id,
    rank: usize,
    /// For how many queries the latest call continues.
    queries: u32,
    /// A collective that is not yet on the stream.
    queued: Option<Placed>,
    /// The number of a collective on the stream.
    running: Option<(usize, Placed)>,
    /// How many collectives were called.
    calls: usize,
    is_finalized: bool,
    failed: Option<Code>,
}

/// A collective of a rank, with its memory.
struct Placed {
    call: Call,
    input: Vec<u8>,
    to: u64,
    bytes: usize,
    stream: usize,
}

/// The state of the library.
pub struct Mock {
    record: Option<File>,
    communicators: HashMap<usize, Communicator>,
    groups: HashMap<Id, Group>,
    /// The number of calls so far by name and rank.
    calls: HashMap<(String, usize), usize>,
    /// The last handle.
    handle: usize,
}

/// Runs a call: counts and records it, and lets it fail if that is asked for.
pub fn call(
    name: &'static str,
    communicator: usize,
    run: impl FnOnce(&mut Mock) -> Result<Code, Code>,
) -> u32 {
    static MOCK: Mutex<Option<Mock>> = Mutex::new(None);
    let mut mock = MOCK.lock().unwrap_or_else(PoisonError::into_inner);
    let mock = mock.get_or_insert_with(Mock::new);
    let found = mock.communicators.get(&communicator).map(|found| found.rank);
    let result = match found {
        None if communicator != 0 => mock
            .violation(&format!("{name} of a communicator that does not exist"), INVALID_ARGUMENT),
        // The rank is an argument.
        None if name == "ncclCommInitRankConfig" => run(mock),
        rank => match mock.fault(name, rank.unwrap_or(0)) {
            None => run(mock),
            Some(code) => Err(code),
        },
    };
    let code = result.unwrap_or_else(|code| code);
    if name != "ncclCommGetAsyncError" && name != "cuStreamQuery" {
        mock.note(&format!("{name} {code}"));
    }
    code
}

/// Reads an environment variable, as words between colons.
fn words(name: &str) -> Option<Vec<String>> {
    let text = std::env::var(name).ok()?;
    Some(text.split(':').map(str::to_string).collect())
}

fn number(text: &str) -> usize {
    text.parse().unwrap_or_else(|_| panic!("{text} must be a number"))
}

fn width(of: u32) -> usize {
    if of == FLOAT32 {
        4
    } else {
        1
    }
}

impl Mock {
    fn new() -> Mock {
        let record = std::env::var_os("MOCK_NCCL_RECORD").map(|file| {
            let opened = OpenOptions::new().create(true).append(true).open(file);
            opened.expect("MOCK_NCCL_RECORD must be a file that can be written")
        });
        let (communicators, groups, calls) = Default::default();
        Mock { record, communicators, groups, calls, handle: 0x2000 }
    }

    /// Adds a line to the record.
    fn note(&mut self, line: &str) {
        if let Some(record) = &mut self.record {
            record.write_all(format!("{line}\n").as_bytes()).expect("the record can be written");
        }
    }

    fn violation<T>(&mut self, what: &str, code: Code) -> Result<T, Code> {
        self.note(&format!("violation: {what}"));
        Err(code)
    }

    /// Counts a call of a rank, and returns the code with which it fails, if that is asked for.
    fn fault(&mut self, name: &str, rank: usize) -> Option<Code> {
        let count = self.calls.entry((name.to_string(), rank)).or_default();
        *count += 1;
        let asked = words("MOCK_NCCL_FAIL")?;
        let [function, numbers @ ..] = &asked[..] else { return None };
        let numbers: Vec<usize> = numbers.iter().map(|text| number(text)).collect();
        let is_asked = name == function && rank == numbers[0] && *count >= numbers[1];
        is_asked.then_some(numbers[2] as Code)
    }

    fn hangs(name: &str) -> bool {
        std::env::var("MOCK_NCCL_HANG").is_ok_and(|asked| asked == name)
    }

    /// Writes a result.
    pub fn put<T>(to: &Out<T>, value: T) -> Result<Code, Code> {
        to.put(value).map_err(|_| INVALID_ARGUMENT).map(|()| 0)
    }

    pub fn version(&self) -> i32 {
        words("MOCK_NCCL_VERSION").map_or(21800, |words| number(&words[0]) as i32)
    }

    pub fn new_id(&mut self) -> Id {
        let number = self.groups.len() as u8 + 1;
        let id = Id(std::array::from_fn(|n| (n as u8).wrapping_mul(37) ^ number));
        let group = Group { size: 0, handles: Vec::new(), operations: Vec::new(), finalized: 0 };
        self.groups.insert(id, group);
        id
    }

    /// Creates the communicator of a rank.
    pub fn start(
        &mut self,
        to: &Out<usize>,
        id: &Id,
        [rank, size]: [i32; 2],
        config: &Out<Config>,
    ) -> Result<Code, Code> {
        let config = config.get().ok_or(INVALID_ARGUMENT)?;
        let is_valid = config.size == size_of::<Config>()
            && [config.magic, config.version] == [0xcafe_beef, 21800]
            && config.others == [i32::MIN; 3]
            && [config.net_name as i32, config.split_share] == [0, i32::MIN];
        if !is_valid || config.blocking != 0 {
            return self.violation("the configuration must not block", INVALID_ARGUMENT);
        }
        if size <= 0 || !(0..size).contains(&rank) {
            return self.violation(&format!("rank {rank} of {size}"), INVALID_ARGUMENT);
        }
        let (rank, size) = (rank as usize, size as usize);
        if let Some(code) = self.fault("ncclCommInitRankConfig", rank) {
            return Err(code);
        }
        self.handle += 16;
        let handle = self.handle;
        let Some(group) = self.groups.get_mut(id) else {
            return self.violation("the id must be from ncclGetUniqueId", INVALID_ARGUMENT);
        };
        if group.handles.is_empty() {
            (group.size, group.handles) = (size, vec![0; size]);
        }
        if group.size != size || group.handles[rank] != 0 {
            return self.violation(&format!("rank {rank} of {size} twice"), INVALID_USAGE);
        }
        group.handles[rank] = handle;
        let (queued, running) = (None, None);
        let created = Communicator {
            id: *id,
            rank,
            queries: QUERIES,
            queued,
            running,
            calls: 0,
            is_finalized: false,
            failed: None,
        };
        self.communicators.insert(handle, created);
        Mock::put(to, handle)?;
        Ok(IN_PROGRESS)
    }

    fn communicator(&mut self, handle: usize) -> Result<&mut Communicator, Code> {
        self.communicators.get_mut(&handle).ok_or(INVALID_ARGUMENT)
    }

    fn group(&mut self, handle: usize) -> Result<&mut Group, Code> {
        let id = self.communicator(handle)?.id;
        self.groups.get_mut(&id).ok_or(INVALID_ARGUMENT)
    }

    /// Returns the state of a communicator. When the latest call is done, its collective is on the stream.
    pub fn state(&mut self, handle: usize) -> Result<Code, Code> {
        let found = self.communicator(handle)?;
        if let Some(code) = found.failed {
            return Ok(code);
        }
        if let Some(asked) = words("MOCK_NCCL_ASYNC") {
            let numbers: Vec<usize> = asked.iter().map(|text| number(text)).collect();
            if found.rank == numbers[0] && found.calls >= numbers[1] {
                return Ok(numbers[2] as Code);
            }
        }
        if found.queries > 0 {
            found.queries -= 1;
            return Ok(IN_PROGRESS);
        }
        let (queued, is_finalized) = (found.queued.take(), found.is_finalized);
        let group = self.group(handle)?;
        let is_waiting =
            group.handles.contains(&0) || (is_finalized && group.finalized < group.size);
        let hangs = Mock::hangs("ncclCommInitRankConfig")
            || (is_finalized && Mock::hangs("ncclCommFinalize"));
        if is_waiting || hangs {
            return Ok(IN_PROGRESS);
        }
        match queued {
            Some(placed) => self.submit(handle, placed),
            None => Ok(0),
        }
    }

    /// Takes part in a collective.
    fn submit(&mut self, handle: usize, mut placed: Placed) -> Result<Code, Code> {
        let found = self.communicator(handle)?;
        let (rank, number) = (found.rank, found.calls - 1);
        let group = self.group(handle)?;
        let inputs = vec![None; group.size];
        if group.operations.len() == number {
            group.operations.push(Operation { call: placed.call, inputs, taken: 0 });
        }
        let operation = &mut group.operations[number];
        if operation.call != placed.call {
            let what = format!("rank {rank} calls {:?}, not {:?}", placed.call, operation.call);
            for handle in group.handles.clone() {
                if let Some(found) = self.communicators.get_mut(&handle) {
                    found.failed = Some(INVALID_USAGE);
                }
            }
            self.note(&format!("violation: {what}"));
            return Ok(INVALID_USAGE);
        }
        operation.inputs[rank] = Some(std::mem::take(&mut placed.input));
        self.communicator(handle)?.running = Some((number, placed));
        Ok(0)
    }

    /// Checks the arguments of a collective, and reads its values. They are sent once the communicator is ready.
    pub fn collective(
        &mut self,
        handle: usize,
        call: Call,
        [from, to]: [u64; 2],
        stream: usize,
    ) -> Result<Code, Code> {
        let size = self.group(handle)?.size;
        let found = self.communicator(handle)?;
        let rank = found.rank;
        if found.queries > 0
            || found.queued.is_some()
            || found.running.is_some()
            || found.is_finalized
        {
            return self.violation(
                &format!("{} before the earlier call is done", call.name),
                INVALID_USAGE,
            );
        }
        let is_reduction = ["ncclAllReduce", "ncclReduceScatter"].contains(&call.name);
        let of = if is_reduction { FLOAT32 } else { UINT8 };
        if call.of != of || call.reduction != SUM || !(0..size as i32).contains(&call.root) {
            return self.violation(&format!("the mock does not have {call:?}"), INVALID_ARGUMENT);
        }
        let part = call.count * width(call.of);
        let offset = (rank * part) as u64;
        // The bytes before and after, and where the places are if they overlap.
        let (sent, received, is_in_place) = match call.name {
            "ncclAllGather" => (part, size * part, from == to + offset),
            "ncclReduceScatter" => (size * part, part, to == from + offset),
            _ => (part, part, from == to),
        };
        let range = |start: u64, bytes: usize| start..start + bytes as u64;
        let overlap = |a: Range<u64>, b: Range<u64>| a.start < b.end && b.start < a.end;
        if overlap(range(from, sent), range(to, received)) && !is_in_place {
            let what = format!("{} of rank {rank} is in place at the wrong place", call.name);
            return self.violation(&what, INVALID_ARGUMENT);
        }
        // The driver checks the context, the stream and both ranges.
        let input = download(from, sent, stream)?;
        download(to, received, stream)?;
        let found = self.communicator(handle)?;
        found.queued = Some(Placed { call, input, to, bytes: received, stream });
        found.queries = QUERIES;
        found.calls += 1;
        Ok(IN_PROGRESS)
    }

    /// Returns 0 if the work of a stream is done. The work of a collective is done here, once all ranks take part.
    pub fn query(&mut self, stream: usize) -> Result<Code, Code> {
        let handle = self.communicators.iter().find_map(|(handle, found)| {
            let is_running =
                found.running.as_ref().is_some_and(|(_, placed)| placed.stream == stream);
            is_running.then_some(*handle)
        });
        if let Some(handle) = handle {
            let found = self.communicator(handle)?;
            let rank = found.rank;
            let Some((number, placed)) = found.running.take() else { return Err(NOT_READY) };
            let group = self.group(handle)?;
            let operation = &mut group.operations[number];
            let inputs = operation.inputs.iter().map(Option::as_deref);
            let inputs = inputs.collect::<Option<Vec<&[u8]>>>();
            let Some(inputs) = inputs.filter(|_| !Mock::hangs(placed.call.name)) else {
                self.communicator(handle)?.running = Some((number, placed));
                return Err(NOT_READY);
            };
            let mut output = output(&placed.call, &inputs, rank);
            assert_eq!(output.len(), placed.bytes, "the mock computes all results");
            operation.taken += 1;
            if operation.taken == group.size {
                operation.inputs.clear();
            }
            let bytes = output.len();
            let code = cuMemcpyHtoDAsync_v2(placed.to, output.as_mut_slice().into(), bytes, stream);
            if code != 0 {
                return Err(code);
            }
        }
        Ok(cuStreamSynchronize(stream))
    }

    pub fn finalize(&mut self, handle: usize) -> Result<Code, Code> {
        let found = self.communicator(handle)?;
        if found.is_finalized || found.running.is_some() || found.queued.is_some() {
            return self.violation("ncclCommFinalize before the work is done", INVALID_USAGE);
        }
        (found.is_finalized, found.queries) = (true, QUERIES);
        self.group(handle)?.finalized += 1;
        Ok(IN_PROGRESS)
    }

    pub fn destroy(&mut self, handle: usize) -> Result<Code, Code> {
        let found = self.communicator(handle)?;
        let is_finalized = found.is_finalized && found.queries == 0;
        let group = self.group(handle)?;
        if !is_finalized || group.finalized < group.size {
            return self
                .violation("ncclCommDestroy before ncclCommFinalize is done", INVALID_USAGE);
        }
        self.abort(handle)
    }

    pub fn abort(&mut self, handle: usize) -> Result<Code, Code> {
        self.communicators.remove(&handle);
        Ok(0)
    }
}

/// Reads device memory after the work of a stream.
fn download(from: u64, bytes: usize, stream: usize) -> Result<Vec<u8>, Code> {
    let mut data = vec![0; bytes];
    match cuMemcpyDtoHAsync_v2(data.as_mut_slice().into(), from, bytes, stream) {
        0 => Ok(data),
        _ => Err(CUDA_ERROR),
    }
}

/// Computes what a rank receives.
fn output(call: &Call, inputs: &[&[u8]], rank: usize) -> Vec<u8> {
    match call.name {
        "ncclBroadcast" => inputs[call.root as usize].to_vec(),
        "ncclAllGather" => inputs.concat(),
        "ncclAllReduce" => sum(inputs),
        _ => sum(inputs)[rank * call.count * 4..][..call.count * 4].to_vec(),
    }
}

fn sum(inputs: &[&[u8]]) -> Vec<u8> {
    let floats = |bytes: &[u8]| -> Vec<f32> {
        let chunks = bytes.as_chunks().0.iter();
        chunks.map(|bytes| f32::from_le_bytes(*bytes)).collect()
    };
    let mut sums = floats(inputs[0]);
    for input in &inputs[1..] {
        sums.iter_mut().zip(floats(input)).for_each(|(sum, value)| *sum += value);
    }
    sums.into_iter().flat_map(f32::to_le_bytes).collect()
}
