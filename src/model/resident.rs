//! Weights that can be loaded again, after they were evicted or their device was lost.

use super::{Decoder, LanguageModel};
use crate::backend::{Pending, Shared};
use crate::device::{Device, Rank, Slot};
use crate::error::{Error, Result};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Context, Poll, Waker};

/// A function that loads a model on a device, any number of times.
trait Load: Fn(Device) -> Pending<Result<LanguageModel>> + Shared {}
impl<F: Fn(Device) -> Pending<Result<LanguageModel>> + Shared> Load for F {}

/// The weights of a model on a device.
#[derive(Clone)]
pub struct Resident {
    pub device: Device,
    pub decoder: Arc<dyn Decoder>,
}

/// The weights of a model, resident or evicted, and their device.
pub struct Residency {
    /// The device of the weights. Evicted weights are loaded on this device again.
    device: Mutex<Device>,
    /// The weights. They may be evicted unless a context or an adapter also holds them.
    weights: Arc<Slot<Resident>>,
    load: OnceLock<Box<dyn Load>>,
}

impl Residency {
    /// Holds weights that were just loaded. They cannot be evicted yet.
    pub fn new(resident: Resident) -> Residency {
        let device = Mutex::new(resident.device.clone());
        let weights = Slot::new(|resident: &Resident| Arc::strong_count(&resident.decoder) == 1);
        *weights.lock() = Some(resident);
        Residency { device, weights, load: OnceLock::new() }
    }

    /// Sets the function that loads the weights again. They may then be evicted.
    pub fn set_load(
        &self,
        load: impl Fn(Device) -> Pending<Result<LanguageModel>> + Shared + 'static,
    ) {
        if self.load.set(Box::new(load)).is_ok() {
            self.weights.register(&self.device(), Rank::Weights);
        }
    }

    /// Returns the device that the weights are on, or will be loaded on.
    pub fn device(&self) -> Device {
        self.locked_device().clone()
    }

    fn locked_device(&self) -> MutexGuard<'_, Device> {
        // No code panics while the lock is held.
        self.device.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the weights, and loads them again if they were evicted.
    pub async fn get(&self) -> Result<Resident> {
        let resident = self.weights.lock().clone();
        match resident {
            Some(resident) => Ok(resident),
            None => self.load(self.device()).await,
        }
    }

    /// Does [`Residency::get`] without waiting.
    ///
    /// # Errors
    /// `InvalidState` if the weights were evicted, and their files do not answer at once.
    pub fn get_now(&self) -> Result<Resident> {
        let mut get = Box::pin(self.get());
        match get.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(resident) => resident,
            Poll::Pending => Err(Error::state(
                "model: its weights must be in memory, got some that were evicted; await `ready` before",
            )),
        }
    }

    /// Whether the weights can be loaded again.
    pub fn can_load(&self) -> bool {
        self.load.get().is_some()
    }

    /// Loads the weights on a new device, unless they have already moved away from the lost one.
    pub async fn replace(&self, lost: &Device) -> Result<()> {
        if self.device().is_same(lost) {
            self.load(lost.reopen().await?).await?;
        }
        Ok(())
    }

    async fn load(&self, device: Device) -> Result<Resident> {
        let load = self.load.get().expect("only weights that can be loaded again are evicted");
        let loaded = load(device).await?.loaded.weights.get_now()?;
        let mut weights = self.weights.lock();
        let mut device = self.locked_device();
        if !device.is_same(&loaded.device) {
            *device = loaded.device.clone();
            self.weights.register(&device, Rank::Weights);
        }
        *weights = Some(loaded.clone());
        Ok(loaded)
    }
}
