//! A server of a test's own, which it may stop, kill and start again.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;

/// A server in a temporary folder, with fsync on.
#[derive(Debug)]
pub(super) struct Own {
    folder: TempDir,
    bin: PathBuf,
    pub(super) port: u16,
}

/// PostgreSQL refuses to run as root.
fn command(program: &Path) -> Command {
    let is_root = std::env::var("USER").is_ok_and(|user| user == "root") || Path::new("/root").read_dir().is_ok();
    let mut command = if is_root {
        let mut command = Command::new("setpriv");
        command.args(["--reuid=postgres", "--regid=postgres", "--init-groups"]).arg(program);
        command
    } else {
        Command::new(program)
    };
    command.current_dir("/").stdout(Stdio::null()).stderr(Stdio::null());
    command
}

fn run(command: &mut Command) {
    let status = command.status().unwrap();
    assert!(status.success(), "{command:?}: {status}");
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

impl Own {
    /// A new one, which runs.
    pub(super) fn start() -> Self {
        let own = Self::empty();
        run(command(&own.bin.join("initdb")).arg("-D").arg(own.data()).args(["-U", "aedb", "-A", "trust"]));
        own.up();
        own
    }

    /// A standby of this one, which runs and follows it. This one commits when the standby has it, too.
    pub(super) fn standby(&self) -> Self {
        let other = Self::empty();
        let from = format!("host=127.0.0.1 port={} user=aedb application_name=standby", self.port);
        run(command(&other.bin.join("pg_basebackup"))
            .arg("-D")
            .arg(other.data())
            .args(["-R", "-X", "stream", "-d", &from]));
        other.up();
        other
    }

    fn empty() -> Self {
        let bin = std::env::var("AEDB_POSTGRES_BIN").unwrap_or_else(|_| {
            panic!("AEDB_POSTGRES_BIN names no folder with initdb and pg_ctl; tests/run finds it: source tests/postgres.sh && start_postgres")
        });
        let folder = tempfile::tempdir().unwrap();
        run(Command::new("chmod").arg("777").arg(folder.path()));
        Self { folder, bin: bin.into(), port: free_port() }
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    fn ctl(&self) -> Command {
        let mut command = command(&self.bin.join("pg_ctl"));
        command.arg("-D").arg(self.data()).args(["-w", "-t", "60"]);
        command
    }

    /// Starts it again.
    pub(super) fn up(&self) {
        let options = format!("-p {} -h 127.0.0.1 -k {} -c fsync=on", self.port, self.folder.path().display());
        let start =
            || self.ctl().arg("-l").arg(self.folder.path().join("log")).args(["-o", &options, "start"]).status();
        // What was left of one that was killed must have gone first.
        for _ in 0..50 {
            if start().unwrap().success() {
                return;
            }
            std::thread::sleep(Duration::from_millis(200));
        }
        panic!("a server does not start");
    }

    /// Stops it as an operator does who does not wait for its clients.
    pub(super) fn down(&self) {
        run(self.ctl().args(["-m", "fast", "stop"]));
    }

    /// Makes a standby a server of its own.
    pub(super) fn promote(&self) {
        run(self.ctl().arg("promote"));
    }

    /// Kills it, as a loss of power would end it.
    pub(super) fn kill(&self) {
        let pid = std::fs::read_to_string(self.data().join("postmaster.pid"));
        let pid = pid.unwrap_or_else(|_| {
            // Its folder is its own: ask as whoever may read it.
            let head = command(Path::new("head"))
                .arg("-n1")
                .arg(self.data().join("postmaster.pid"))
                .stdout(Stdio::piped())
                .output();
            String::from_utf8(head.unwrap().stdout).unwrap()
        });
        let pid = pid.lines().next().unwrap().trim().to_owned();
        run(Command::new("kill").args(["-9", &pid]));
    }

    /// Its address.
    pub(super) fn url(&self) -> String {
        url(self.port)
    }
}

/// The address of whatever listens on a port here.
pub(super) fn url(port: u16) -> String {
    format!("postgres://aedb@127.0.0.1:{port}/postgres")
}

impl Drop for Own {
    fn drop(&mut self) {
        let _ = self.ctl().args(["-m", "immediate", "stop"]).status();
        let _ = command(Path::new("rm")).arg("-rf").arg(self.data()).status();
    }
}
