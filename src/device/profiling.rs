//! Profiling: records what the device does, and how long it takes.

use super::Device;
use crate::backend::Pending;
use crate::debug::{print, shows, Debug};
use crate::error::{Error, Result};
use crate::kernel::Plan;
use crate::profile::{Ceilings, Phase, Profile, Recorder};
use std::future::Future;
use std::sync::atomic::Ordering;
use std::sync::Arc;
use web_time::Instant;

/// A profile in progress.
pub(super) struct Profiling {
    pub recorder: Recorder,
    /// Whether a caller waits for the profile. Otherwise it is printed.
    asked: bool,
}

/// Guard of a requested profile. Dropping it stops profiling, also if the work failed.
struct Asked<'a>(&'a Device);

impl Drop for Asked<'_> {
    fn drop(&mut self) {
        self.0.stop_profile();
    }
}

impl Device {
    /// Runs `work`, and returns its value with a profile of the device: times by kernel on the device, and by phase on the
    /// host. The profile prints as a table, and converts to JSON and to a trace. The profile ends when all operations are
    /// done that `work` recorded and that are still held. Operations recorded earlier are computed first, and are not
    /// measured. Operations of other threads during that time are measured as well.
    ///
    /// On GPUs with timestamps each kernel runs in a separate pass while profiling, which is slower than many kernels in one
    /// pass.
    ///
    /// ```
    /// # pollster::block_on(async {
    /// # use warpweft::device::{Device, Preference};
    /// let device = Device::with(Preference::Cpu).await?;
    /// let x = device.ones(&[64, 64])?;
    /// let (y, profile) = device.profile(async { Ok(x.matmul(&x)?.relu()) }).await?;
    /// println!("{profile}");
    /// assert_eq!(profile.kernels()[0].work.flops, 64 * 64 * (2 * 64 + 1));
    /// std::fs::write(std::env::temp_dir().join("trace.json"), profile.to_chrome_trace()).ok();
    /// assert_eq!(y.read_range::<f32>(0, 1).await?, [64.0]);
    /// # Ok::<(), warpweft::error::Error>(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    /// The errors of the work; `InvalidState` if the device is already being profiled.
    pub async fn profile<T>(&self, work: impl Future<Output = Result<T>>) -> Result<(T, Profile)> {
        self.begin_profile().await?;
        let asked = Asked(self);
        let value = work.await?;
        let profile = self.end_profile().await?;
        drop(asked);
        Ok((value, profile))
    }

    /// Begins a profile for [`Device::profile`], after all earlier work is done.
    pub(crate) async fn begin_profile(&self) -> Result<()> {
        let twice = || {
            Error::state(
                "profile: the device must not be profiled twice at a time, got a second call",
            )
        };
        let asked = |device: &Device| device.state().profile.as_ref().is_some_and(|p| p.asked);
        if asked(self) {
            return Err(twice());
        }
        self.submit()?;
        self.synchronize().await?;
        if asked(self) {
            return Err(twice());
        }
        self.start_profile(true);
        Ok(())
    }

    /// Waits for all work, and returns the profile that [`Device::begin_profile`] began.
    pub(crate) async fn end_profile(&self) -> Result<Profile> {
        self.submit()?;
        self.synchronize().await?;
        let profile = self.finish_profile().await?;
        profile.ok_or_else(|| {
            Error::state("profile: the device must be profiled, got one that is not")
        })
    }

    fn start_profile(&self, asked: bool) {
        let mut state = self.state();
        let since = Instant::now();
        let clock = self.inner.backend.profile(Some(since));
        state.profile = Some(Profiling { recorder: Recorder::new(since, clock), asked });
        self.inner.profiling.store(true, Ordering::Relaxed);
    }

    /// Stops profiling and drops the profile.
    pub(crate) fn stop_profile(&self) {
        let mut state = self.state();
        if state.profile.take().is_some() {
            self.inner.profiling.store(false, Ordering::Relaxed);
            self.inner.backend.profile(None);
        }
    }

    /// Waits for the times of submitted work, and returns the profile. `None` if none is in progress.
    async fn finish_profile(&self) -> Result<Option<Profile>> {
        let end = Instant::now();
        let times = self.inner.backend.take_times().await;
        let (noted, ceilings) = {
            let mut state = self.state();
            (state.profile.take(), state.ceilings)
        };
        self.inner.profiling.store(false, Ordering::Relaxed);
        self.inner.backend.profile(None);
        let Some(Profiling { recorder, .. }) = noted else { return Ok(None) };
        Ok(Some(recorder.finish(end, self.info(), times?, ceilings)))
    }

    /// Whether the device is being profiled.
    pub(super) fn profiles(&self) -> bool {
        self.inner.profiling.load(Ordering::Relaxed)
    }

    /// Runs `work` and notes its time. `work` must not keep the state locked.
    pub(super) fn noting<T>(
        &self,
        phase: Phase,
        label: impl FnOnce() -> String,
        work: impl FnOnce() -> T,
    ) -> T {
        if !self.profiles() {
            return work();
        }
        let begun = Instant::now();
        let done = work();
        if let Some(Profiling { recorder, .. }) = &mut self.state().profile {
            recorder.spent(phase, begun, label);
        }
        done
    }

    /// Compiles a batch before it runs, so that both are timed separately. Starts a profile if times are to be printed.
    pub(super) fn compile_apart(&self, batch: &Arc<Plan>) {
        if shows(Debug::Time) && !self.profiles() {
            self.start_profile(false);
        }
        if !self.profiles() {
            return;
        }
        let backend = &*self.inner.backend;
        let (before, begun) = (backend.counters().pipelines, Instant::now());
        // An error of a kernel is reported when it runs.
        drop(backend.compile(batch));
        let made = backend.counters().pipelines - before;
        if let (1.., Some(Profiling { recorder, .. })) = (made, &mut self.state().profile) {
            recorder.spent(Phase::Compile, begun, || format!("compiling {made} kernels"));
        }
    }

    /// Waits for `work`, and notes the time of the wait.
    pub(super) fn noting_wait(
        &self,
        label: impl FnOnce() -> String,
        work: Pending<Result<()>>,
    ) -> Pending<Result<()>> {
        if !self.profiles() {
            return work;
        }
        let (begun, label, inner) = (Instant::now(), label(), Arc::downgrade(&self.inner));
        Box::pin(async move {
            let result = work.await;
            let Some(inner) = inner.upgrade() else { return result };
            let device = Device { inner };
            let mut prints = false;
            if let Some(Profiling { recorder, asked }) = &mut device.state().profile {
                recorder.spent(Phase::Wait, begun, || label);
                prints = !*asked && !recorder.is_idle();
            }
            if prints {
                if let Ok(Some(profile)) = device.finish_profile().await {
                    print(format_args!("{profile}"));
                }
            }
            result
        })
    }

    /// Returns the measured peak performance of the machine, if it was measured.
    pub(crate) fn ceilings(&self) -> Option<Ceilings> {
        self.state().ceilings
    }

    pub(crate) fn set_ceilings(&self, ceilings: Ceilings) {
        self.state().ceilings = Some(ceilings);
    }
}
