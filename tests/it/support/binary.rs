//! The binary itself, as a user runs it: arguments, environment, exit code, signals.

use std::io::Read as _;
use std::net::SocketAddr;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// `memoir` without the environment of the test process, in its own folder.
pub struct Binary {
    pub folder: TempDir,
    environment: Vec<(String, String)>,
}

impl Binary {
    pub fn new() -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
            environment: Vec::new(),
        }
    }

    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_memoir"));
        command
            .args(arguments)
            .env_clear()
            .current_dir(self.folder.path());

        // Another process on this machine may use the default port.
        command.env("MEMOIR__SERVER__LISTEN", "127.0.0.1:0");
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());

        command
    }

    pub fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    /// Runs a command with its own stdout, and returns its exit code and what it wrote to stderr.
    pub fn run_printing_to(&self, arguments: &[&str], out: impl Into<Stdio>) -> Output {
        self.command(arguments).stdout(out).output().unwrap()
    }

    /// Starts the service on a free port and waits until it is ready.
    pub fn serve(&self) -> Running {
        let running = self.serve_or_die();
        assert!(running.ended().is_none(), "memoir ended: {}", self.log());
        running
    }

    /// Serves, but the service may die as soon as it claims a job.
    pub fn serve_or_die(&self) -> Running {
        let log = std::fs::File::create(self.folder.path().join("stderr.log")).unwrap();
        self.serve_logging_to(log)
    }

    /// Serves with its log sent elsewhere.
    pub fn serve_logging_to(&self, log: impl Into<Stdio>) -> Running {
        let address = free_address();
        let mut command = self.command(&[]);
        command.env("MEMOIR__SERVER__LISTEN", address.to_string());
        let child = command.stdout(Stdio::null()).stderr(log).spawn().unwrap();
        let running = Running {
            child: Mutex::new(child),
            address,
        };

        let began = Instant::now();
        while !self
            .run(&["healthcheck", "--address", &address.to_string()])
            .status
            .success()
        {
            if running.ended().is_some() {
                break;
            }

            assert!(
                began.elapsed() < Duration::from_secs(30),
                "memoir did not get ready: {}",
                self.log()
            );

            std::thread::sleep(Duration::from_millis(20));
        }

        running
    }

    /// Starts a command that runs until it is stopped.
    pub fn start(&self, arguments: &[&str]) -> Running {
        let log = std::fs::File::create(self.folder.path().join("stderr.log")).unwrap();
        let child = self
            .command(arguments)
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();

        Running {
            child: Mutex::new(child),
            address: free_address(),
        }
    }

    /// What the service wrote to stderr.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("stderr.log")).unwrap_or_default()
    }
}

/// A running service; killed when dropped.
pub struct Running {
    child: Mutex<Child>,
    pub address: SocketAddr,
}

impl Running {
    pub fn id(&self) -> u32 {
        self.child.lock().unwrap().id()
    }

    fn ended(&self) -> Option<ExitStatus> {
        self.child.lock().unwrap().try_wait().unwrap()
    }

    fn signal(&self, signal: &str) {
        assert!(
            Command::new("kill")
                .args(["-s", signal, &self.id().to_string()])
                .status()
                .unwrap()
                .success()
        );
    }

    /// Sends SIGTERM.
    pub fn terminate(&self) {
        self.signal("TERM");
    }

    /// Sends a signal by name and returns the exit code; none if a signal ended the process.
    pub fn signal_and_wait(&self, signal: &str) -> Option<i32> {
        self.signal(signal);
        self.wait()
    }

    /// Waits for the process to end and returns the exit code; none if a signal ended it.
    pub fn wait(&self) -> Option<i32> {
        let began = Instant::now();
        loop {
            if let Some(status) = self.ended() {
                return status.code();
            }

            assert!(
                began.elapsed() < Duration::from_secs(40),
                "memoir did not stop"
            );

            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let mut child = self.child.lock().unwrap();
        let _ = child.kill();
        let _ = child.wait();
    }
}

pub fn free_address() -> SocketAddr {
    std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
}

pub fn text(bytes: &[u8]) -> String {
    let mut text = String::new();
    let mut bytes = bytes;
    bytes.read_to_string(&mut text).unwrap();
    text
}

/// Runs a command on a database: whether it succeeded, its output, and its errors.
pub fn run_on(url: &str, command: &str, arguments: &[&str]) -> (bool, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_memoir"))
        .arg(command)
        .args(arguments)
        .env_clear()
        .env("DATABASE_URL", url)
        .env("MEMOIR__TELEMETRY__LOG_LEVEL", "error")
        .output()
        .unwrap();

    (
        output.status.success(),
        text(&output.stdout),
        text(&output.stderr),
    )
}
