//! The peers that warpweft is compared with. On the CPU they are `gemm-f32` called directly, OpenBLAS through NumPy, and
//! copying of memory. Others are programs that train.

use super::cases::Kind;
use crate::backend::DeviceKind;
use crate::error::{Error, Result};
use gemm_common::Parallelism;
use gemm_f32::gemm::f32::get_gemm_fn;
use rayon::prelude::*;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

/// A competitor that is timed next to a case.
pub trait Peer {
    /// Returns the name in the table.
    fn name(&self) -> &'static str;

    /// Does the same work once, and returns the time.
    ///
    /// # Errors
    /// If the peer is another program that has ended.
    fn time(&mut self) -> Result<Duration>;
}

/// Returns the peers of a case on the CPU. `numpy` is the process with OpenBLAS, if it was started.
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

/// The `f32` product of the `gemm` crate, called as `gemm` calls it.
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
        // The strides between columns and between rows.
        let strides = |turned: bool, rows: usize, columns: usize| match turned {
            true => (rows as isize, 1),
            false => (1, columns as isize),
        };
        let (a, b) = (strides(self.turned[0], m, k), strides(self.turned[1], k, n));
        for (number, out) in self.out.chunks_exact_mut(m * n).enumerate() {
            let left = &self.data[0][number * m * k..(number + 1) * m * k];
            let right = &self.data[1][number * k * n..(number + 1) * k * n];
            // The kernels need results with contiguous columns, so this computes the product of the transposed matrices.
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

/// `copy_from_slice` on all threads, with a part for each.
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

/// Another program that works on request. It answers each line with numbers, or with `-` if it cannot.
pub struct Program {
    pub name: String,
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
}

/// Returns the peers that compute several products one after another, each with its own operands.
pub fn of_products<'a>(
    sizes: &[[usize; 3]],
    data: &'a [Vec<Vec<f32>>],
    numpy: Option<&'a mut Program>,
) -> Result<Vec<Box<dyn Peer + 'a>>> {
    let gemms = sizes.iter().zip(data).map(|(&size, data)| {
        let out = vec![0.0; size[0] * size[2]];
        Gemm { size, batch: 1, turned: [false; 2], data, out }
    });
    let mut peers: Vec<Box<dyn Peer + 'a>> = vec![Box::new(Gemms(gemms.collect()))];
    if let Some(numpy) = numpy {
        for (number, [m, k, n]) in sizes.iter().enumerate() {
            let word = if number == 0 { "new" } else { "add" };
            let _: [f64; 1] = numpy.ask(&format!("{word} 1 {m} {k} {n} false false"))?;
        }
        peers.push(Box::new(Blas { numpy }));
    }
    Ok(peers)
}

/// Several products of the `gemm` crate.
struct Gemms<'a>(Vec<Gemm<'a>>);

impl Peer for Gemms<'_> {
    fn name(&self) -> &'static str {
        "gemm"
    }

    fn time(&mut self) -> Result<Duration> {
        self.0.iter_mut().map(Gemm::time).sum()
    }
}

/// A script that multiplies with NumPy. `new` and `add` define products, and `go` computes all of them.
pub const NUMPY: &str = "
import sys, time
import numpy
for line in sys.stdin:
    words = line.split()
    took = 0.0
    if words[0] == 'new':
        products = []
    if words[0] != 'go':
        batch, m, k, n = map(int, words[1:5])
        operand = lambda turned, rows, columns: (
            numpy.random.rand(batch, columns, rows).astype('f').swapaxes(1, 2) if turned == 'true'
            else numpy.random.rand(batch, rows, columns).astype('f'))
        a, b = operand(words[5], m, k), operand(words[6], k, n)
        products.append((a, b, numpy.zeros((batch, m, n), 'f')))
    else:
        start = time.perf_counter()
        for a, b, out in products:
            for i in range(len(out)):
                numpy.matmul(a[i], b[i], out=out[i])
        took = time.perf_counter() - start
    print(took, flush=True)
";

/// Returns the command that runs a script. Arguments of the script can be added.
pub fn python(path: &str, script: &str) -> Command {
    let mut command = Command::new(path);
    command.args(["-c", script]);
    command
}

impl Program {
    /// Starts a program, which the table calls `name`.
    ///
    /// # Errors
    /// If the program cannot be started.
    pub fn new(name: &str, mut command: Command) -> Result<Program> {
        let refuse = |got: &str| Error::argument(format!("bench: {name} must start, got {got}"));
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        // Threads of OpenBLAS poll for more work for 2^20 processor ticks instead of 2^28, so that they do not disturb the
        // other peers.
        command.env("OPENBLAS_THREAD_TIMEOUT", "20").env("OMP_WAIT_POLICY", "passive");
        let mut child = command.spawn().map_err(|error| refuse(&error.to_string()))?;
        let (to, from) = (child.stdin.take(), child.stdout.take());
        let (Some(to), Some(from)) = (to, from) else {
            return Err(refuse("no pipes"));
        };
        Ok(Program { name: name.into(), child, to, from: BufReader::new(from) })
    }

    /// Starts all peers of a command for a kind of device. With the arguments `list KIND`, the command prints their names.
    /// With `NAME KIND`, it is one of them.
    ///
    /// # Errors
    /// If the command cannot be started, or lists no peers.
    pub fn listed(command: impl Fn() -> Command, kind: DeviceKind) -> Result<Vec<Program>> {
        let program = command().get_program().to_string_lossy().into_owned();
        let refuse =
            |got: &str| Error::format(format!("bench: {program} must list its peers, got {got}"));
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

    /// Sends a line, and returns the numbers of the answer.
    ///
    /// # Errors
    /// `Format` if the answer does not have `N` numbers.
    pub fn ask<const N: usize>(&mut self, line: &str) -> Result<[f64; N]> {
        let mut answer = String::new();
        let sent = writeln!(self.to, "{line}").and_then(|()| self.from.read_line(&mut answer));
        let words = answer.split_whitespace().map(str::parse);
        let numbers = words.collect::<std::result::Result<Vec<f64>, _>>().ok();
        let numbers = numbers.filter(|_| sent.is_ok()).and_then(|numbers| numbers.try_into().ok());
        let answer = answer.trim();
        numbers.ok_or_else(|| {
            Error::format(format!(
                "bench: {} must answer `{line}` with numbers, got `{answer}`",
                self.name
            ))
        })
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// OpenBLAS, called through NumPy.
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
