//! A process to kill, and what it said.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use crate::roles::{FILE, ROLE};

pub(crate) struct Process {
    child: Child,
    out: BufReader<ChildStdout>,
}

impl Process {
    pub(crate) fn start(role: &str, file: &Path) -> Self {
        Self::start_by(Command::new(std::env::current_exe().unwrap()), role, file)
    }

    /// Starts it in a shell that runs `before` first.
    pub(crate) fn start_after(before: &str, role: &str, file: &Path) -> Self {
        let mut shell = Command::new("sh");
        shell.args(["-c", &format!("{before}; exec \"$0\" \"$@\"")]).arg(std::env::current_exe().unwrap());
        Self::start_by(shell, role, file)
    }

    fn start_by(mut command: Command, role: &str, file: &Path) -> Self {
        let mut child = command
            .args(["--exact", "roles::child", "--nocapture", "--test-threads=1"])
            .env(ROLE, role)
            .env(FILE, file)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        Self { child, out }
    }

    /// Lets it say so many lines, kills it, and answers all that it said.
    pub(crate) fn kill_after(mut self, lines: usize) -> Vec<String> {
        let mut said = Vec::new();
        for _ in 0..lines {
            let mut line = String::new();
            if self.out.read_line(&mut line).unwrap() == 0 {
                break;
            }
            said.push(line);
        }
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        let mut rest = String::new();
        self.out.read_to_string(&mut rest).unwrap();
        // A line without its end may have been cut by the kill.
        said.extend(rest.split_inclusive('\n').filter(|line| line.ends_with('\n')).map(str::to_owned));
        said.into_iter().map(|line| line.trim().to_owned()).collect()
    }

    /// Lets it end by itself, and answers all that it said.
    pub(crate) fn wait(self) -> Vec<String> {
        self.kill_after(usize::MAX)
    }

    /// Reads until it says a line that begins like this, and answers that line.
    pub(crate) fn read_until(&mut self, word: &str) -> String {
        let mut line = String::new();
        while !line.starts_with(word) {
            line.clear();
            assert_ne!(self.out.read_line(&mut line).unwrap(), 0, "it ended before it said {word}");
        }
        line
    }

    /// Kills it, as by `kill -9`.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }
}

/// A test that fails leaves nothing running.
impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
