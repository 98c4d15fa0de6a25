//! The state of the mock: devices, contexts, failures that are asked for, and the record of calls.

use crate::codes::{
    is_sticky, Code, INVALID_CONTEXT, INVALID_DEVICE, INVALID_VALUE, NOT_INITIALIZED, NO_DEVICE,
};
use crate::work::Work;
use std::cell::RefCell;
use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::sync::{Mutex, PoisonError};

/// A failure that is asked for.
struct Fault {
    name: String,
    /// The numbers of the calls that fail, from 1.
    first: u64,
    last: u64,
    code: Code,
}

/// The state of the library.
pub struct Mock {
    record: Option<File>,
    faults: Vec<Fault>,
    /// The number of calls so far by name.
    calls: HashMap<&'static str, u64>,
    is_started: bool,
    /// How often each device's context is retained.
    retained: Vec<u64>,
    /// The code of all calls after the context was corrupted.
    sticky: Option<Code>,
    capability: i32,
    /// The newest architecture that the compiler knows.
    assembler: i32,
    has_pools: bool,
    pub work: Work,
}

thread_local! {
    /// The contexts that are current in the thread, the newest one last.
    static STACK: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
}

/// Calls `work` with the contexts of the thread.
pub fn stack<T>(work: impl FnOnce(&mut Vec<usize>) -> T) -> T {
    STACK.with(|stack| work(&mut stack.borrow_mut()))
}

/// The first handle of a context. The n-th device has the n-th handle after it.
const CONTEXT: usize = 0xc0de_0000;
const POOL: usize = 0x9001;

/// Runs a call: counts and records it, lets it fail if that is asked for, and checks that there is a context.
pub fn call(
    name: &'static str,
    needs_context: bool,
    run: impl FnOnce(&mut Mock) -> Result<(), Code>,
) -> u32 {
    static MOCK: Mutex<Option<Mock>> = Mutex::new(None);
    let mut mock = MOCK.lock().unwrap_or_else(PoisonError::into_inner);
    let mock = mock.get_or_insert_with(Mock::new);
    let count = mock.calls.entry(name).or_default();
    *count += 1;
    let number = *count;
    let mut faults = mock.faults.iter();
    let fault = faults.find(|it| it.name == name && (it.first..=it.last).contains(&number));
    let result = match fault.map(|fault| fault.code) {
        Some(code) => Err(code),
        None if !mock.is_started && name != "cuInit" && name != "cuDriverGetVersion" => {
            mock.violation(&format!("{name} before cuInit"), NOT_INITIALIZED)
        }
        None if needs_context && stack(|stack| stack.is_empty()) => {
            mock.violation(&format!("{name} without a current context"), INVALID_CONTEXT)
        }
        // The stack of contexts still works after a failure.
        None => match mock.sticky.filter(|_| needs_context && !name.starts_with("cuCtx")) {
            Some(code) => Err(code),
            None => run(mock),
        },
    };
    let code = result.err().unwrap_or_default();
    if is_sticky(code) && needs_context {
        mock.sticky = Some(code);
    }
    mock.note(&format!("{name} {code}"));
    code
}

/// Reads a number from an environment variable.
fn number<T: std::str::FromStr>(name: &str, usual: T) -> T {
    match std::env::var(name) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{name}={text}; it must be a number")),
        Err(_) => usual,
    }
}

fn faults() -> Vec<Fault> {
    let asked = std::env::var("MOCK_CUDA_FAIL").unwrap_or_default();
    let fault = |text: &str| {
        let mut words = text.split(':');
        let name = words.next()?.to_string();
        let mut number = || words.next()?.parse::<u64>().ok();
        let (first, code) = (number()?, number()? as Code);
        let last = number().map_or(u64::MAX, |count| first + count - 1);
        Some(Fault { name, first, last, code })
    };
    let texts = asked.split(',').filter(|text| !text.is_empty());
    texts.map(|text| fault(text).unwrap_or_else(|| panic!("MOCK_CUDA_FAIL: {text}"))).collect()
}

impl Mock {
    fn new() -> Mock {
        let record = std::env::var_os("MOCK_CUDA_RECORD").map(|file| {
            let opened = OpenOptions::new().create(true).append(true).open(file);
            opened.expect("MOCK_CUDA_RECORD must be a file that can be written")
        });
        Mock {
            record,
            faults: faults(),
            calls: HashMap::new(),
            is_started: false,
            retained: vec![0; number("MOCK_CUDA_DEVICES", 1)],
            sticky: None,
            capability: number("MOCK_CUDA_CAPABILITY", 90),
            assembler: number("MOCK_CUDA_ASSEMBLER", 121),
            has_pools: number("MOCK_CUDA_POOLS", 1) != 0,
            work: Work::new(number("MOCK_CUDA_MEMORY", 1 << 30)),
        }
    }

    /// Adds a line to the record.
    fn note(&mut self, line: &str) {
        if let Some(record) = &mut self.record {
            record.write_all(format!("{line}\n").as_bytes()).expect("the record can be written");
        }
    }

    /// Records a violation, and returns its code.
    pub fn violation<T>(&mut self, what: &str, code: Code) -> Result<T, Code> {
        self.note(&format!("violation: {what}"));
        Err(code)
    }

    pub fn init(&mut self, flags: u32) -> Result<(), Code> {
        if flags != 0 {
            return Err(INVALID_VALUE);
        }
        self.is_started = true;
        match self.retained.is_empty() {
            true => Err(NO_DEVICE),
            false => Ok(()),
        }
    }

    pub fn devices(&self) -> usize {
        self.retained.len()
    }

    /// Checks that a device exists.
    pub fn device(&mut self, device: i32) -> Result<usize, Code> {
        match usize::try_from(device).ok().filter(|n| *n < self.retained.len()) {
            Some(number) => Ok(number),
            None => self.violation(&format!("there is no device {device}"), INVALID_DEVICE),
        }
    }

    pub fn total_bytes(&self) -> usize {
        self.work.total_bytes()
    }

    pub fn attribute(&self, attribute: u32) -> Result<i32, Code> {
        match attribute {
            18 => Ok(0),
            75 => Ok(self.capability / 10),
            76 => Ok(self.capability % 10),
            115 => Ok(self.has_pools.into()),
            _ => Err(INVALID_VALUE),
        }
    }

    /// Returns the newest architecture that the compiler accepts, such as 90.
    pub fn newest_target(&self) -> i32 {
        self.capability.min(self.assembler)
    }

    pub fn pool(&mut self) -> Result<usize, Code> {
        match self.has_pools {
            true => Ok(POOL),
            false => self.violation("the device has no memory pools", INVALID_VALUE),
        }
    }

    pub fn is_pool(&mut self, pool: usize) -> Result<(), Code> {
        match pool == POOL && self.has_pools {
            true => Ok(()),
            false => self.violation("the pool must exist", INVALID_VALUE),
        }
    }

    pub fn retain(&mut self, device: i32) -> Result<usize, Code> {
        let number = self.device(device)?;
        self.retained[number] += 1;
        Ok(CONTEXT + number)
    }

    /// Checks that a context is retained.
    pub fn context(&mut self, context: usize) -> Result<(), Code> {
        let retained = context.checked_sub(CONTEXT).and_then(|n| self.retained.get(n));
        match retained.is_some_and(|count| *count > 0) {
            true => Ok(()),
            false => self.violation("the context must be retained", INVALID_CONTEXT),
        }
    }

    pub fn release(&mut self, device: i32) -> Result<(), Code> {
        let number = self.device(device)?;
        if self.retained[number] == 0 {
            return self.violation("a context is released twice", INVALID_CONTEXT);
        }
        self.retained[number] -= 1;
        if self.retained.iter().any(|count| *count > 0) {
            return Ok(());
        }
        if stack(|stack| !stack.is_empty()) {
            return self.violation("the context is released while it is current", INVALID_VALUE);
        }
        let left = self.work.left();
        // After a failure, the context frees everything.
        if self.sticky.take().is_none() && !left.is_empty() {
            return self.violation(&format!("leaks: {left}"), INVALID_VALUE);
        }
        let total = self.work.total_bytes();
        self.work = Work::new(total);
        self.note("released all");
        Ok(())
    }
}
