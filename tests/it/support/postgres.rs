//! A separate PostgreSQL server that can be restarted under load.

use std::path::PathBuf;
use std::process::Command;

use tempfile::TempDir;

pub struct Cluster {
    folder: TempDir,
    bin: PathBuf,
    port: u16,
}

impl Cluster {
    /// Starts a server if PostgreSQL is installed (`scripts/test` installs it).
    pub fn start() -> Option<Self> {
        super::database::variable("TEST_PG_URL")?;
        let mut versions: Vec<PathBuf> = std::fs::read_dir("/usr/lib/postgresql")
            .ok()?
            .map(|entry| entry.unwrap().path().join("bin"))
            .collect();

        versions.sort();
        let cluster = Self {
            folder: tempfile::tempdir().unwrap(),
            bin: versions.pop()?,
            port: super::binary::free_address().port(),
        };

        let folder = cluster.folder.path();
        if is_root() {
            // PostgreSQL refuses to run as root.
            assert!(
                Command::new("chown")
                    .arg("nobody")
                    .arg(folder)
                    .status()
                    .unwrap()
                    .success()
            );
        }

        let data = cluster.data();
        cluster.run(
            "initdb",
            &[
                "-D",
                &data,
                "-U",
                "postgres",
                "-A",
                "trust",
                "-E",
                "UTF8",
                "--locale=C.UTF-8",
                "--no-sync",
            ],
        );

        cluster.control("start");
        cluster.run(
            "createdb",
            &[
                "-h",
                "127.0.0.1",
                "-p",
                &cluster.port.to_string(),
                "-U",
                "postgres",
                "test",
            ],
        );

        Some(cluster)
    }

    pub fn url(&self) -> String {
        format!("postgres://postgres@127.0.0.1:{}/test", self.port)
    }

    /// `fast` or `immediate`, which is a crash.
    pub fn stop(&self, mode: &str) {
        self.run("pg_ctl", &["-D", &self.data(), "-m", mode, "-w", "stop"]);
    }

    pub fn control(&self, command: &str) {
        let options = format!(
            "-p {} -h 127.0.0.1 -k {} -c fsync=off",
            self.port,
            self.folder.path().display()
        );

        let log = self.folder.path().join("log").display().to_string();
        self.run(
            "pg_ctl",
            &[
                "-D",
                &self.data(),
                "-l",
                &log,
                "-o",
                &options,
                "-w",
                command,
            ],
        );
    }

    fn data(&self) -> String {
        self.folder.path().join("data").display().to_string()
    }

    fn run(&self, program: &str, arguments: &[&str]) {
        let mut command = if is_root() {
            let mut command = Command::new("setpriv");
            command
                .args(["--reuid", "nobody", "--regid", "nogroup", "--clear-groups"])
                .arg(self.bin.join(program));
            command
        } else {
            Command::new(self.bin.join(program))
        };

        // The server inherits pg_ctl's stdout and would keep our pipe open.
        let log = std::fs::File::create(self.folder.path().join(format!("{program}.out"))).unwrap();
        let command = command
            .args(arguments)
            .current_dir("/tmp")
            .stdout(log.try_clone().unwrap())
            .stderr(log);

        assert!(
            command.status().unwrap().success(),
            "{program} {arguments:?}"
        );
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| self.stop("immediate")));
    }
}

fn is_root() -> bool {
    Command::new("id")
        .arg("-u")
        .output()
        .is_ok_and(|output| output.stdout == b"0\n")
}
