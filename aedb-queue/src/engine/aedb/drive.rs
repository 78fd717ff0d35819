//! The instance as what the engine's loop commits to.

use std::cell::RefCell;
use std::path::Path;
use std::sync::{Arc, PoisonError};

use tokio::sync::broadcast::error::RecvError;

use super::Aedb;
use super::commit::mark;
use super::view::{Look, Reads};
use crate::engine::{CommitError, Drive, Overlay, ProgressFn, Size, View};
use crate::error::{Error, ErrorKind, Result};

impl Drive for Aedb {
    fn is_shared(&self) -> bool {
        false
    }

    fn is_contended(&self) -> bool {
        true
    }

    fn fits(&self, size: Size) -> Result<()> {
        self.limits.fits(size)
    }

    fn on_change(&self, listener: Arc<dyn Fn() + Send + Sync>) {
        let (mut feed, sent) = (self.instance.subscribe_commits(), Arc::clone(&self.sent));
        self.runner.spawn(async move {
            // It may lag: a reason to look, never what was found.
            loop {
                let ours = match feed.recv().await {
                    Ok(delta) => {
                        let (mark, mut sent) =
                            (mark(&delta.mutations), sent.lock().unwrap_or_else(PoisonError::into_inner));
                        sent.iter().position(|ours| *ours == mark).and_then(|at| sent.remove(at)).is_some()
                    }
                    Err(RecvError::Lagged(_)) => false,
                    Err(RecvError::Closed) => return,
                };
                if !ours {
                    listener();
                }
            }
        });
    }

    fn write(&self, caller: Option<&str>, batch: &mut dyn FnMut(&dyn View) -> Overlay) -> Result<(), CommitError> {
        let mut number = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        *number += 1;
        let look = Look { aedb: self, reads: Some(RefCell::new(Reads::new())) };
        let overlay = batch(&look);
        let reads = look.reads.map(RefCell::into_inner).unwrap_or_default();
        if reads.len() > self.limits.assertions {
            let message = format!("the batch has read {} keys, and AEDB takes {}", reads.len(), self.limits.assertions);
            return Err(CommitError { kind: ErrorKind::TooLarge, message });
        }
        let _alone = self.gate.write().unwrap_or_else(PoisonError::into_inner);
        self.commit(caller, *number, reads, &overlay)
    }

    fn view(&self, read: &mut dyn FnMut(&dyn View) -> Result<()>) -> Result<()> {
        let _still = self.gate.read().unwrap_or_else(PoisonError::into_inner);
        read(&Look { aedb: self, reads: None })
    }

    fn backup(&self, _to: &Path, _progress: ProgressFn<'_>) -> Result<()> {
        Err(Error::invalid("inside of AEDB a backup is the instance's own: AedbInstance::backup_full"))
    }

    fn compact(&self, _progress: ProgressFn<'_>) -> Result<bool> {
        Err(Error::invalid("inside of AEDB space is given back by the instance's own checkpoints"))
    }
}
