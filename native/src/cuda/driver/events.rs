//! Events: points in the work of a stream, which the host can wait for, and their times.

use super::context::{lock, Context};
use crate::error::Result;
use cudarc::driver::sys::{CUevent, CUevent_flags};
use std::ptr::null_mut;
use std::sync::{Arc, Mutex};

/// The most timestamps until they are taken. Later ones are not recorded.
const MAX_TIMESTAMPS: usize = 1 << 16;

/// An event.
pub struct Event {
    context: Arc<Context>,
    event: CUevent,
}

// SAFETY: the driver's handles may be used in all threads.
unsafe impl Send for Event {}
// SAFETY: see above.
unsafe impl Sync for Event {}

impl Event {
    fn new(context: &Arc<Context>, flags: u32) -> Result<Event> {
        let mut event = null_mut();
        // SAFETY: the pointer is valid.
        context.call("cuEventCreate", |api| unsafe { (api.cuEventCreate)(&mut event, flags) })?;
        Ok(Event { context: context.clone(), event })
    }

    /// Creates an event for waiting alone.
    ///
    /// # Errors
    /// `Memory` or `DeviceLost`.
    pub fn without_time(context: &Arc<Context>) -> Result<Event> {
        Event::new(context, CUevent_flags::CU_EVENT_DISABLE_TIMING as u32)
    }

    /// Moves the event to the end of the work submitted so far.
    ///
    /// # Errors
    /// `DeviceLost`.
    pub fn record(&self) -> Result<()> {
        let (event, stream) = (self.event, self.context.stream());
        // SAFETY: both are of this context.
        self.context.call("cuEventRecord", |api| unsafe { (api.cuEventRecord)(event, stream) })
    }

    /// Waits for the work before the event.
    ///
    /// # Errors
    /// `DeviceLost`, also because of that work.
    pub fn synchronize(&self) -> Result<()> {
        let event = self.event;
        // SAFETY: the event exists.
        self.context.call("cuEventSynchronize", |api| unsafe { (api.cuEventSynchronize)(event) })
    }

    /// Returns the nanoseconds from this event to a later one. Both have times and are done.
    fn nanoseconds_to(&self, later: &Event) -> Result<f64> {
        let (mut milliseconds, start, end) = (0.0f32, self.event, later.event);
        self.context.call("cuEventElapsedTime", |api| {
            // SAFETY: the pointer is valid, and the events are of this context.
            unsafe { (api.cuEventElapsedTime)(&mut milliseconds, start, end) }
        })?;
        Ok(f64::from(milliseconds.max(0.0)) * 1e6)
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        let event = self.event;
        // SAFETY: nothing else has the event. The driver keeps it until the work before it is done.
        drop(self.context.call("cuEventDestroy", |api| unsafe { (api.cuEventDestroy_v2)(event) }));
    }
}

/// The timestamps of a stream that were not taken yet.
#[derive(Default)]
pub struct Timestamps(Mutex<Vec<Event>>);

impl Timestamps {
    /// Records a timestamp after the work submitted so far, and returns its number. `None` if there are too many.
    ///
    /// # Errors
    /// `Memory` or `DeviceLost`.
    pub fn record(&self, context: &Arc<Context>) -> Result<Option<usize>> {
        let mut events = lock(&self.0);
        if events.len() == MAX_TIMESTAMPS {
            return Ok(None);
        }
        let event = Event::new(context, CUevent_flags::CU_EVENT_DEFAULT as u32)?;
        event.record()?;
        events.push(event);
        Ok(Some(events.len() - 1))
    }

    /// Waits for the timestamps, and returns them in nanoseconds from the first one.
    ///
    /// # Errors
    /// `DeviceLost`.
    pub fn take(&self) -> Result<Vec<u64>> {
        let events = std::mem::take(&mut *lock(&self.0));
        let Some(last) = events.last() else { return Ok(Vec::new()) };
        last.synchronize()?;
        let mut now = 0.0;
        let mut times = vec![0];
        for pair in events.windows(2) {
            // The driver rounds long times more than short ones, so the short ones are added up.
            now += pair[0].nanoseconds_to(&pair[1])?;
            times.push(now as u64);
        }
        Ok(times)
    }
}
