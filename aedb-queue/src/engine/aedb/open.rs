//! Opening an AEDB folder so that it can be opened again after its process was killed.
//!
//! AEDB 0.3.1 checks that the segments of its log follow one another by hash, and each process begins that chain anew. Behind a clean
//! end, or before its first checkpoint, a folder whose process is killed does not open any more. A checkpoint right after
//! opening, of which only the newest is kept, leaves nothing of the chain before it to be checked. What is killed before that
//! checkpoint has acknowledged nothing, and a note tells which segments it found: the others are put aside.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;

use aedb::AedbInstance;
use aedb::config::AedbConfig;
use aedb::error::AedbError;

use super::commit::told;
use crate::error::{Error, ErrorKind, Result};

/// The segments that were there when an opening began; gone when it is over.
const NOTE: &str = "aedb-queue.opening";
/// The end of the name of a segment that was put aside.
const ASIDE: &str = "unacknowledged";

/// Opens an AEDB folder, or creates it, so that it opens again after a crash of any process that opened it by this function.
///
/// `open` is one of AEDB's own functions: `AedbInstance::open_anonymous`, `open`, `open_secure` or `open_production`. The settings are
/// kept but for one: only the newest checkpoint is retained, as older ones make AEDB 0.3.1 check what it cannot. Call it within the
/// runtime that the instance is to live in. It takes as long as a checkpoint of all that the folder holds.
///
/// # Errors
///
/// [`ErrorKind::Corrupt`] if AEDB finds the folder damaged, [`ErrorKind::Unavailable`] if it cannot be read or written or is open elsewhere.
///
/// # Cancel safety
///
/// A dropped call leaves a folder that opens again.
pub async fn open_aedb(
    mut config: AedbConfig,
    folder: &Path,
    open: impl FnOnce(AedbConfig, &Path) -> std::result::Result<AedbInstance, AedbError>,
) -> Result<Arc<AedbInstance>> {
    config.checkpoint_retention_count = 1;
    fs::create_dir_all(folder).map_err(io)?;
    let note = folder.join(NOTE);
    let there = segments(folder)?;
    let listed = match fs::read_to_string(&note) {
        Ok(text) if text.ends_with("\n\n") => text.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect(),
        // A note without its end was cut: its opening had not begun.
        _ => there.clone(),
    };
    for late in there.difference(&listed) {
        fs::rename(folder.join(late), folder.join(format!("{late}.{ASIDE}"))).map_err(io)?;
    }
    let mut text: String = listed.iter().map(|name| format!("{name}\n")).collect();
    text.push_str("\n\n");
    let mut file = File::create(&note).map_err(io)?;
    file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).map_err(io)?;
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(io)?;

    let instance = open(config, folder).map_err(told)?;
    instance.checkpoint_now().await.map_err(told)?;
    fs::remove_file(&note).and_then(|()| File::open(folder)?.sync_all()).map_err(io)?;
    Ok(Arc::new(instance))
}

fn segments(folder: &Path) -> Result<BTreeSet<String>> {
    let mut found = BTreeSet::new();
    for entry in fs::read_dir(folder).map_err(io)? {
        let name = entry.map_err(io)?.file_name().to_string_lossy().into_owned();
        if name.starts_with("segment_") && name.ends_with(".aedbwal") {
            found.insert(name);
        }
    }
    Ok(found)
}

fn io(error: std::io::Error) -> Error {
    Error::new(ErrorKind::Unavailable, format!("the AEDB folder cannot be used: {error}")).caused_by(error)
}
