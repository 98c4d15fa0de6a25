//! Joining the ranks that a launcher such as `mpirun` started.

use crate::error::{Error, Result};
use std::env::{var, var_os};
use std::time::Duration;
use warpweft::distributed::World;

/// The environment variable with the timeout of a world in seconds.
const TIMEOUT: &str = "WARPWEFT_WORLD_TIMEOUT";

/// Options of [`WorldInit::init_with`].
#[derive(Clone, Debug)]
pub struct WorldOptions {
    /// The time after which a call that makes no progress returns an error. It must be longer than any rank computes between
    /// two calls. 300 seconds by default.
    pub timeout: Duration,
}

impl Default for WorldOptions {
    fn default() -> WorldOptions {
        WorldOptions { timeout: Duration::from_secs(300) }
    }
}

impl WorldOptions {
    /// Returns the default options, with the timeout in seconds from the environment variable `WARPWEFT_WORLD_TIMEOUT`.
    ///
    /// # Errors
    /// `InvalidArgument` if it is not a positive number.
    pub fn from_environment() -> Result<WorldOptions> {
        let Some(text) = var_os(TIMEOUT) else { return Ok(WorldOptions::default()) };
        let text = text.to_string_lossy();
        let seconds = text.trim().parse().ok().filter(|seconds| *seconds > 0.0);
        let timeout = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        let timeout = timeout.ok_or_else(|| {
            let must = "must be a positive number of seconds";
            Error::argument(format!("world: {TIMEOUT} {must}, got `{text}`"))
        })?;
        Ok(WorldOptions { timeout })
    }
}

/// Joins a [`World`].
///
/// ```
/// use warpweft_native::distributed::{World, WorldInit};
///
/// // `mpirun -n 4 program` starts four ranks. Without it, there is one.
/// let world = World::init()?;
/// println!("rank {} of {}", world.rank(), world.size());
/// # Ok::<(), warpweft_native::error::Error>(())
/// ```
pub trait WorldInit: Sized {
    /// Joins the ranks that `mpirun` started, with the [options of the environment](WorldOptions::from_environment). A program
    /// that was started without it is a world of one rank.
    ///
    /// Waits until all ranks call it, without a timeout. Drop the world before the program ends, so do not call
    /// `std::process::exit` while it exists. Dropping it waits until all ranks drop theirs.
    ///
    /// # Errors
    /// `InvalidArgument` if an environment variable has no valid value. `Unsupported` if this build has no feature `mpi`, but
    /// there are several ranks. `InvalidState` if MPI cannot be started, or if this process has already joined.
    fn init() -> Result<Self>;

    /// Same as [`init`](WorldInit::init), with these options instead of those of the environment.
    ///
    /// # Errors
    /// Same as [`init`](WorldInit::init).
    fn init_with(options: WorldOptions) -> Result<Self>;
}

impl WorldInit for World {
    fn init() -> Result<World> {
        World::init_with(WorldOptions::from_environment()?)
    }

    fn init_with(options: WorldOptions) -> Result<World> {
        if options.timeout.is_zero() {
            return Err(Error::argument("world: the timeout must be positive, got 0 s"));
        }
        match started()? {
            Some(ranks) => join(&ranks, options),
            None => Ok(World::single()),
        }
    }
}

/// Returns the number of ranks as a text, or `None` if there is one.
fn started() -> Result<Option<String>> {
    // Open MPI; MPICH, Intel MPI and Slurm.
    for name in ["OMPI_COMM_WORLD_SIZE", "PMI_SIZE"] {
        let Ok(text) = var(name) else { continue };
        let size: u32 = text.parse().ok().filter(|size| *size > 0).ok_or_else(|| {
            Error::argument(format!("world: {name} must be a number of ranks, got `{text}`"))
        })?;
        return Ok((size > 1).then(|| size.to_string()));
    }
    // This launcher does not set the number.
    Ok(var_os("PMIX_RANK").map(|_| "several".to_string()))
}

#[cfg(feature = "mpi")]
fn join(_: &str, options: WorldOptions) -> Result<World> {
    use super::mpi::Mpi;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::Arc;

    static HAS_JOINED: AtomicBool = AtomicBool::new(false);
    if HAS_JOINED.swap(true, Ordering::AcqRel) {
        let must = "a process must join its ranks once";
        return Err(Error::state(format!(
            "world: {must}, got a second time; clone the first world"
        )));
    }
    World::new(move || Ok(Arc::new(Mpi::open(options.timeout)?)))
}

#[cfg(not(feature = "mpi"))]
fn join(ranks: &str, _: WorldOptions) -> Result<World> {
    let must = format!("this build must have the feature `mpi` to join {ranks} ranks");
    let remedy = "build with `--features mpi`, or start the program without mpirun";
    let message = format!("world: {must}, got a build without it; {remedy}");
    Err(Error::new(crate::error::ErrorKind::Unsupported, message))
}
