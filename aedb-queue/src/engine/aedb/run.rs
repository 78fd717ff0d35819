//! Calls of AEDB's async interface from wherever the engine runs: its own thread, a caller's, a worker of any runtime.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Duration;

use tokio::runtime::{Handle, RuntimeFlavor};

/// Runs futures to their end on the calling thread, within AEDB's runtime.
pub(super) struct Runner(Handle);

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

impl Runner {
    pub(super) fn new(handle: Handle) -> Self {
        Self(handle)
    }

    /// Waits for a future. A worker of a multi-thread runtime hands its other work on first, so that AEDB's own goes on.
    pub(super) fn wait<T>(&self, future: impl Future<Output = T>) -> T {
        let here = Handle::try_current().map(|handle| handle.runtime_flavor());
        if matches!(here, Ok(RuntimeFlavor::MultiThread)) {
            return tokio::task::block_in_place(|| self.park(future));
        }
        self.park(future)
    }

    fn park<T>(&self, future: impl Future<Output = T>) -> T {
        let _within = self.0.enter();
        let (mut future, waker) = (pin!(future), Waker::from(Arc::new(Unpark(thread::current()))));
        loop {
            if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
                return output;
            }
            thread::park();
        }
    }

    pub(super) fn spawn(&self, future: impl Future<Output = ()> + Send + 'static) {
        drop(self.0.spawn(future));
    }

    pub(super) fn pause(&self, length: Duration) {
        thread::sleep(length);
    }
}

/// A number that nobody else has.
pub(super) fn drawn() -> u64 {
    RandomState::new().build_hasher().finish()
}
