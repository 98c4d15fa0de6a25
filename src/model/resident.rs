//! Weights that can be loaded again, after they were evicted or their device was lost.

use crate::backend::{Pending, Shared};
use crate::device::{Device, Evictable, Rank};
use crate::error::{Error, ErrorKind, Result};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Context, Poll, Waker};

/// A network with its weights on a device. Copies share the weights.
pub struct Resident<N: ?Sized> {
    pub device: Device,
    pub network: Arc<N>,
}

impl<N: ?Sized> Clone for Resident<N> {
    fn clone(&self) -> Resident<N> {
        Resident { device: self.device.clone(), network: self.network.clone() }
    }
}

/// A function that loads a network on a device, any number of times.
trait Load<N: ?Sized>: Fn(Device) -> Pending<Result<Resident<N>>> + Shared {}
impl<N: ?Sized, F: Fn(Device) -> Pending<Result<Resident<N>>> + Shared> Load<N> for F {}

/// The weights of a model, resident or evicted, and their device.
pub struct Residency<N: ?Sized> {
    /// The device of the weights. Evicted weights are loaded on this device again.
    device: Mutex<Device>,
    /// The weights. They may be evicted unless something else also holds them, such as a context or an adapter.
    weights: Arc<Evictable<Resident<N>>>,
    load: OnceLock<Box<dyn Load<N>>>,
}

impl<N: Shared + ?Sized + 'static> Residency<N> {
    /// Holds weights that were just loaded. They cannot be evicted yet.
    pub fn new(resident: Resident<N>) -> Residency<N> {
        let device = Mutex::new(resident.device.clone());
        let weights =
            Evictable::new(|resident: &Resident<N>| Arc::strong_count(&resident.network) == 1);
        *weights.lock() = Some(resident);
        Residency { device, weights, load: OnceLock::new() }
    }

    /// Sets the function that loads the weights again. They may then be evicted.
    pub fn set_load(
        &self,
        load: impl Fn(Device) -> Pending<Result<Resident<N>>> + Shared + 'static,
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
    pub async fn get(&self) -> Result<Resident<N>> {
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
    pub fn get_now(&self) -> Result<Resident<N>> {
        let mut get = Box::pin(self.get());
        match get.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(resident) => resident,
            Poll::Pending => Err(Error::state(
                "model: the weights of the model must be in memory, got evicted ones; await `ready` first",
            )),
        }
    }

    /// Whether the weights can be loaded again.
    pub fn can_load(&self) -> bool {
        self.load.get().is_some()
    }

    /// Loads the weights on a new device after an error of a lost one, unless they have already moved away from it.
    ///
    /// # Errors
    /// `DeviceLost` if no other device is available, or the weights could not be loaded on it.
    pub async fn replace(&self, lost: &Device, from: &Error) -> Result<()> {
        if !self.device().is_same(lost) {
            return Ok(());
        }
        let loaded = async { self.load(lost.reopen().await?).await };
        loaded.await.map(drop).map_err(|error| {
            let message = format!("{from}; the model could not be loaded again: {error}");
            Error::new(ErrorKind::DeviceLost, message)
        })
    }

    async fn load(&self, device: Device) -> Result<Resident<N>> {
        let load = self.load.get().expect("only weights that can be loaded again are evicted");
        let loaded = load(device).await?;
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
