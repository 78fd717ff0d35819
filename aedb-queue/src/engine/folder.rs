//! The name of a file, made as durable as its bytes: without a sync of its folder, a file that was synced may have no name
//! after a loss of power (fsync(2)).

use std::fs::File;
use std::io;
use std::path::Path;

/// Syncs the folder that a file is in. On systems other than Unix a folder cannot be opened, and need not be.
pub(super) fn sync_folder_of(file: &Path) -> io::Result<()> {
    if !cfg!(unix) {
        return Ok(());
    }
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(folder)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_folder_of_a_path_and_that_of_a_bare_name_are_synced_and_one_that_is_not_there_is_an_error() {
        let here = tempfile::tempdir().unwrap();
        assert!(sync_folder_of(&here.path().join("app.db")).is_ok());
        assert!(sync_folder_of(Path::new("app.db")).is_ok());
        assert_eq!(sync_folder_of(&here.path().join("no/app.db")).is_err(), cfg!(unix));
    }
}
