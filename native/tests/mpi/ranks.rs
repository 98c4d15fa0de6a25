//! Runs of `mpirun`, whose ranks perform a task.

use std::env::current_exe;
use std::io::Read;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::{sleep, spawn, JoinHandle};
use std::time::{Duration, Instant};

/// The environment variable that tells a rank what to do.
pub const TASK: &str = "WARPWEFT_TEST_MPI";
/// The environment variable with the timeout of a world in seconds.
pub const TIMEOUT: &str = "WARPWEFT_WORLD_TIMEOUT";
/// The longest time of a run.
const MOST: Duration = Duration::from_secs(90);

/// One run at a time, because the tests measure how long ranks take to end.
static ONE: Mutex<()> = Mutex::new(());

/// The result of a run.
pub struct Run {
    /// The number of ranks.
    pub size: usize,
    /// The standard output and the errors of all ranks, and of `mpirun`.
    pub printed: String,
    pub status: ExitStatus,
    pub time: Duration,
}

impl Run {
    /// Returns the lines that a rank printed. `mpirun` puts a tag such as `[1,2]<stderr>:` before each piece of text. The
    /// second number is the rank.
    pub fn lines(&self, rank: usize) -> Vec<String> {
        let read = |stream: &str| {
            let tag = format!("{rank}]<{stream}>:");
            let pieces = self.printed.split("[1,").filter_map(|piece| piece.strip_prefix(&tag));
            pieces.collect::<String>()
        };
        let text = [read("stdout"), read("stderr")].join("\n");
        text.lines().map(String::from).collect()
    }

    /// Returns the rest of the only line of a rank that begins with `prefix`.
    pub fn line(&self, rank: usize, prefix: &str) -> String {
        let lines = self.lines(rank);
        let mut found = lines.iter().filter_map(|line| line.strip_prefix(prefix));
        match (found.next(), found.next()) {
            (Some(line), None) => line.to_string(),
            _ => panic!("rank {rank} must print one line with {prefix:?}:\n{}", self.printed),
        }
    }

    /// Checks that the task succeeded.
    pub fn succeeds(self) -> Run {
        assert!(self.status.success(), "{}: {}", self.status, self.printed);
        self
    }
}

/// Returns the program and the arguments of a rank.
pub fn child() -> Vec<String> {
    let this = current_exe().expect("a test knows where it is");
    let this = this.to_str().expect("a path in UTF-8").to_string();
    let arguments = ["--exact", "child", "--nocapture", "--test-threads=1"];
    std::iter::once(this).chain(arguments.map(String::from)).collect()
}

/// Returns the arguments of `mpirun` that each run has.
pub fn arguments(task: &str, timeout: f64) -> Vec<String> {
    let usual = ["--allow-run-as-root", "--oversubscribe", "--tag-output"].map(String::from);
    let task = ["-x".to_string(), format!("{TASK}={task}")];
    let timeout = ["-x".to_string(), format!("{TIMEOUT}={timeout}")];
    usual.into_iter().chain(task).chain(timeout).collect()
}

/// Starts a task on ranks of this machine, and waits for its end.
pub fn run(size: usize, task: &str, timeout: f64) -> Run {
    let mut command = Command::new("mpirun");
    command.args(arguments(task, timeout)).args(["-n", &size.to_string()]).args(child());
    let started = Started::start(command);
    started.end(size)
}

/// A run in progress. Dropping it ends its processes.
pub struct Started {
    _one: MutexGuard<'static, ()>,
    start: Instant,
    child: Child,
    outputs: Vec<JoinHandle<String>>,
}

fn read(mut from: impl Read + Send + 'static) -> JoinHandle<String> {
    spawn(move || {
        let mut bytes = Vec::new();
        from.read_to_end(&mut bytes).ok();
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

impl Started {
    /// Starts a program. It is the leader of a process group, which ends with the run.
    pub fn start(mut command: Command) -> Started {
        let one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        command.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
        command.env("RUST_BACKTRACE", "0");
        let start = Instant::now();
        let mut child = command.spawn().expect("mpirun is installed (npm run setup -- --only mpi)");
        let outputs = vec![
            read(child.stdout.take().expect("a pipe")),
            read(child.stderr.take().expect("a pipe")),
        ];
        Started { _one: one, start, child, outputs }
    }

    /// Waits for the end of a run of `size` ranks.
    pub fn end(self, size: usize) -> Run {
        let run = self.end_after(MOST);
        assert!(run.time < MOST, "the run must end within {MOST:?}:\n{}", run.printed);
        Run { size, ..run }
    }

    /// Waits for the end, and ends the run after this time.
    pub fn end_after(mut self, most: Duration) -> Run {
        let (mut is_late, now) = (false, Instant::now());
        let status = loop {
            match self.child.try_wait().expect("a child") {
                Some(status) => break status,
                None if now.elapsed() > most && !is_late => {
                    is_late = true;
                    self.kill();
                }
                None => sleep(Duration::from_millis(10)),
            }
        };
        let time = self.start.elapsed();
        let outputs = self.outputs.drain(..).map(|output| output.join().expect("read"));
        let printed = outputs.collect::<Vec<_>>().join("\n");
        Run { size: 0, printed, status, time }
    }

    fn kill(&mut self) {
        // SAFETY: the group consists of the processes of this run. It exists, because its leader was not waited for.
        unsafe { libc::kill(-(self.child.id() as libc::pid_t), libc::SIGKILL) };
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        if let Ok(None) = self.child.try_wait() {
            self.kill();
            self.child.wait().ok();
        }
    }
}
