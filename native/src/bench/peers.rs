//! What warpweft is held against: on the CPU the product of `gemm-f32` called directly, OpenBLAS by way of NumPy, and copying
//! memory; other programs that train.

use super::cases::Kind;
use crate::backend::DeviceKind;
use crate::error::{Error, Result};
use gemm_common::Parallelism;
use gemm_f32::gemm::f32::get_gemm_fn;
use rayon::prelude::*;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

/// Something to time beside a case.
pub trait Peer {
    /// What the table calls it.
    fn name(&self) -> &'static str;

    /// Does the same work once, and says how long it took.
    ///
    /// # Errors
    /// Where it is another program and that is gone.
    fn time(&mut self) -> Result<Duration>;
}

/// The peers of a case on the CPU; `numpy` is the child that has OpenBLAS, if there is one.
pub fn of<'a>(
    kind: &Kind,
    data: &'a [Vec<f32>],
    numpy: Option<&'a mut Program>,
) -> Result<Vec<Box<dyn Peer + 'a>>> {
    let mut peers: Vec<Box<dyn Peer + 'a>> = Vec::new();
    match *kind {
        Kind::Matmul { m, k, n, batch, turned } => {
            let out = vec![0.0; batch * m * n];
            peers.push(Box::new(Gemm { size: [m, k, n], batch, turned, data, out }));
            if let Some(numpy) = numpy {
                let _: [f64; 1] =
                    numpy.ask(&format!("new {batch} {m} {k} {n} {} {}", turned[0], turned[1]))?;
                peers.push(Box::new(Blas { numpy }));
            }
        }
        Kind::Conv { .. } | Kind::Attention { .. } | Kind::Mlp { .. } | Kind::Adds { .. } => {}
        _ => peers.push(Box::new(Copy::new(kind.bytes() / 8))),
    }
    Ok(peers)
}

/// The `gemm` crate's product of `f32`, called as the crate itself calls it.
struct Gemm<'a> {
    size: [usize; 3],
    batch: usize,
    turned: [bool; 2],
    data: &'a [Vec<f32>],
    out: Vec<f32>,
}

impl Peer for Gemm<'_> {
    fn name(&self) -> &'static str {
        "gemm"
    }

    fn time(&mut self) -> Result<Duration> {
        let start = Instant::now();
        let [m, k, n] = self.size;
        // Between columns, and between rows.
        let strides = |turned: bool, rows: usize, columns: usize| match turned {
            true => (rows as isize, 1),
            false => (1, columns as isize),
        };
        let (a, b) = (strides(self.turned[0], m, k), strides(self.turned[1], k, n));
        for (number, out) in self.out.chunks_exact_mut(m * n).enumerate() {
            let left = &self.data[0][number * m * k..(number + 1) * m * k];
            let right = &self.data[1][number * k * n..(number + 1) * k * n];
            // The kernels want columns of the result whose numbers lie side by side: the product of what is transposed.
            // SAFETY: the three slices hold m times k, k times n and m times n numbers, and the strides stay in them.
            unsafe {
                get_gemm_fn()(
                    n,
                    m,
                    k,
                    out.as_mut_ptr(),
                    n as isize,
                    1,
                    false,
                    right.as_ptr(),
                    b.1,
                    b.0,
                    left.as_ptr(),
                    a.1,
                    a.0,
                    0.0,
                    1.0,
                    false,
                    false,
                    false,
                    Parallelism::Rayon(0),
                );
            }
        }
        debug_assert_eq!(self.out.len(), self.batch * m * n);
        Ok(start.elapsed())
    }
}

/// `copy_from_slice`, a part a thread.
struct Copy {
    from: Vec<f32>,
    to: Vec<f32>,
}

impl Copy {
    fn new(count: usize) -> Copy {
        Copy { from: vec![1.0; count], to: vec![2.0; count] }
    }
}

impl Peer for Copy {
    fn name(&self) -> &'static str {
        "copy"
    }

    fn time(&mut self) -> Result<Duration> {
        let start = Instant::now();
        let part = self.from.len().div_ceil(rayon::current_num_threads()).max(1);
        let parts = self.to.par_chunks_mut(part).zip(self.from.par_chunks(part));
        parts.for_each(|(to, from)| to.copy_from_slice(from));
        Ok(start.elapsed())
    }
}

/// Another program that does work when asked to: to each line it answers with numbers, or with `-` if it cannot.
pub struct Program {
    pub name: String,
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
}

/// Multiplies by NumPy.
pub const NUMPY: &str = "
import sys, time
import numpy
for line in sys.stdin:
    words = line.split()
    took = 0.0
    if words[0] == 'new':
        batch, m, k, n = map(int, words[1:5])
        operand = lambda turned, rows, columns: (
            numpy.random.rand(batch, columns, rows).astype('f').swapaxes(1, 2) if turned == 'true'
            else numpy.random.rand(batch, rows, columns).astype('f'))
        a, b = operand(words[5], m, k), operand(words[6], k, n)
        out = numpy.zeros((batch, m, n), 'f')
    else:
        start = time.perf_counter()
        for i in range(batch):
            numpy.matmul(a[i], b[i], out=out[i])
        took = time.perf_counter() - start
    print(took, flush=True)
";

/// The command that runs a script, whose arguments may follow.
pub fn python(path: &str, script: &str) -> Command {
    let mut command = Command::new(path);
    command.args(["-c", script]);
    command
}

impl Program {
    /// Starts what is called `name`.
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn new(name: &str, mut command: Command) -> Result<Program> {
        let refuse = |got: &str| Error::data(format!("bench: {name} must start, got {got}"));
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        // Its threads look out for more work for 2^20 ticks of the processor, not 2^28: meanwhile others have their turns.
        command.env("OPENBLAS_THREAD_TIMEOUT", "20").env("OMP_WAIT_POLICY", "passive");
        let mut child = command.spawn().map_err(|error| refuse(&error.to_string()))?;
        let (to, from) = (child.stdin.take(), child.stdout.take());
        let (Some(to), Some(from)) = (to, from) else {
            return Err(refuse("no pipes"));
        };
        Ok(Program { name: name.into(), child, to, from: BufReader::new(from) })
    }

    /// Starts all peers that a command has on a kind of device: to `list KIND` it prints their names, and with `NAME KIND` it
    /// is one of them.
    ///
    /// # Errors
    /// If it cannot be started, or lists none.
    pub fn listed(command: impl Fn() -> Command, kind: DeviceKind) -> Result<Vec<Program>> {
        let program = command().get_program().to_string_lossy().into_owned();
        let refuse =
            |got: &str| Error::data(format!("bench: {program} must list its peers, got {got}"));
        let asked = command().args(["list", kind.name()]).stderr(Stdio::inherit()).output();
        let listed = asked.map_err(|error| refuse(&error.to_string()))?;
        let names = String::from_utf8_lossy(&listed.stdout);
        let start = |name: &str| {
            let mut command = command();
            command.args([name, kind.name()]);
            Program::new(name, command)
        };
        let peers = names.lines().map(start).collect::<Result<Vec<_>>>()?;
        if peers.is_empty() {
            return Err(refuse("none"));
        }
        Ok(peers)
    }

    /// Sends a line, and gives the numbers that come back.
    ///
    /// # Errors
    /// `Data` if others do, or none.
    pub fn ask<const N: usize>(&mut self, line: &str) -> Result<[f64; N]> {
        let mut answer = String::new();
        let sent = writeln!(self.to, "{line}").and_then(|()| self.from.read_line(&mut answer));
        let words = answer.split_whitespace().map(str::parse);
        let numbers = words.collect::<std::result::Result<Vec<f64>, _>>().ok();
        let numbers = numbers.filter(|_| sent.is_ok()).and_then(|numbers| numbers.try_into().ok());
        let answer = answer.trim();
        numbers.ok_or_else(|| {
            Error::data(format!(
                "bench: {} must answer `{line}` with numbers, got `{answer}`",
                self.name
            ))
        })
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // It may be gone already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// OpenBLAS.
struct Blas<'a> {
    numpy: &'a mut Program,
}

impl Peer for Blas<'_> {
    fn name(&self) -> &'static str {
        "NumPy"
    }

    fn time(&mut self) -> Result<Duration> {
        let [seconds] = self.numpy.ask("go")?;
        Ok(Duration::from_secs_f64(seconds))
    }
}
